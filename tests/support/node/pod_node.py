"""A node that runs pods in containers, as processes of the box: containerd, kubelet, kube-proxy, scheduler and CoreDNS.

The box has to be there (`box.py`): the paths, the addresses and the rules that these programs use are private to it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.support.folders import new_folder
from tests.support.go import executable
from tests.support.kube import KubeCluster, KubeError
from tests.support.kube.api import Json
from tests.support.kube.commands import run
from tests.support.kube_programs import COREDNS, NODE_KUBEBOX
from tests.support.node.box import ADDRESS, inside, own_box
from tests.support.node.preflight import plugin_folder
from tests.support.node.settings import containerd_toml, corefile, kubelet_yaml, network_json, proxy_yaml
from tests.support.servers import Server
from tests.support.supervise import Process, last_lines
from tests.support.waiting import wait_until

NAME = "node-1"
_NODES = "v1/nodes"
_NAMESPACE = "k8s.io"


class PodNode(Server):
    """The node of a cluster that was made with `node_address=ADDRESS`.

    Attributes:
        folder: the logs of the node's programs; in `pods`, those of all containers.
        data: the folder of the box, on the machine's disk, in which pods may have volumes.
    """

    def __init__(self, cluster: KubeCluster) -> None:
        """Prepare a node, without starting it. Raises `KubeError` outside of a box."""
        data, plugins = inside(), plugin_folder()
        if data is None or plugins is None:
            raise KubeError("A node that runs pods needs a box and network plugins: `make e2e` checks for both.")
        self.name, self.folder, self.data = "pod-node", new_folder("kube", "pod-node"), data
        self._cluster, self._plugins = cluster, plugins
        self._containerd, self._kubelet, self._proxy, self._scheduler, self._dns = self._processes = [
            Process(f"{name} of the node", self.folder / f"{name}.log")
            for name in ("containerd", "kubelet", "kube-proxy", "kube-scheduler", "coredns")
        ]

    def start(self, images: Iterable[Path]) -> Self:
        """Start everything, with these archives of images, and wait until pods can run. Raises `KubeError`."""
        self._start_containerd()
        for image in images:
            self.ctr("images", "import", "--all-platforms", str(image))
        self._start_kubelet()
        self._start_proxy()
        self._start_scheduler()
        self._start_dns()
        self._cluster.api.wait(_NODES, NAME, until=_is_ready, timeout=90)
        self.check()
        return self

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own client, and return its output. Raises `KubeError`."""
        return run("ctr", "--namespace", _NAMESPACE, *arguments)

    def images(self) -> list[str]:
        """Return the names of the images that the node has."""
        return self.ctr("images", "list", "--quiet").split()

    def process(self, pod: Json) -> int:
        """Return the first process of a pod's first container. Raises `KeyError` when the container does not run."""
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        processes = dict(line.split()[:2] for line in self.ctr("tasks", "list").splitlines()[1:])
        return int(processes[container])

    def log(self, pod: Json) -> Path:
        """Return the log of a pod's first container, as the kubelet writes it; it is not restarted."""
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        return self.folder / "pods" / folder / str(container) / "0.log"

    def check(self) -> None:
        """Raise `KubeError` when a program of the node has ended."""
        for process in self._processes:
            if not process.running:
                raise KubeError(f"{process.log.stem} has ended; its log: {process.log}\n{last_lines(process.log)}")

    def _start_containerd(self) -> None:
        (self.data / "network").mkdir(exist_ok=True)
        (self.data / "network" / "pods.conflist").write_text(network_json())
        config = self._write("containerd.toml", containerd_toml(self.data, self._plugins))
        self._containerd.launch(["containerd", "--config", str(config)])
        wait_until(
            self._containerd_answers,
            "containerd",
            failed=lambda: None if self._containerd.running else last_lines(self._containerd.log),
            error=KubeError,
        )

    def _containerd_answers(self) -> bool:
        command = ["ctr", "--connect-timeout", "1s", "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _start_kubelet(self) -> None:
        certificate = self._cluster.authority.issue(self.data / "kubelet.pem", NAME)
        authority, logs = self._cluster.authority.certificate_file, self.folder / "pods"
        content = kubelet_yaml(self.data, logs, ADDRESS, own_box().name, authority=authority, certificate=certificate)
        config = self._write("kubelet.yaml", content)
        user = self._cluster.component(f"system:node:{NAME}", "system:nodes")
        self._launch(
            self._kubelet,
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={user}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
            f"--root-dir={self.data / 'kubelet'}",
            f"--cert-dir={self.data / 'kubelet-certificates'}",
        )

    def _start_proxy(self) -> None:
        config = self._write("kube-proxy.yaml", proxy_yaml(self._cluster.component("system:kube-proxy"), NAME))
        self._launch(self._proxy, "kube-proxy", f"--config={config}")

    def _start_scheduler(self) -> None:
        user = self._cluster.component("system:kube-scheduler")
        self._launch(
            self._scheduler, "kube-scheduler", f"--kubeconfig={user}", "--leader-elect=false", "--secure-port=0"
        )

    def _start_dns(self) -> None:
        config = self._write("Corefile", corefile(self._cluster.kubeconfig, ADDRESS))
        self._dns.launch([str(executable(COREDNS)), "-conf", str(config)])

    def _launch(self, process: Process, *arguments: str) -> None:
        process.launch([str(executable(NODE_KUBEBOX)), *arguments])

    def _write(self, name: str, content: str) -> Path:
        path = self.data / name
        path.write_text(content)
        return path

    def _end(self) -> None:
        # The containers go with the box.
        for process in reversed(self._processes):
            process.kill()

    def _called(self) -> str:
        return "the node"


def _is_ready(node: Json | None) -> bool:
    if node is None:
        return False
    ready = {entry["type"]: entry["status"] for entry in node.get("status", {}).get("conditions", [])}.get("Ready")
    return ready == "True" and not node["spec"].get("taints")
