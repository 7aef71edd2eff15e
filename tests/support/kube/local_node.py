"""A substitute for scheduler, kubelet and container runtime: it runs the pods of a namespace as local processes.

A pod is one process: Pending → Running → Succeeded or Failed. Deleting the pod sends SIGTERM, and SIGKILL after the
grace period. Only then is the pod gone, so two pods of one name never run at once. Images are not run: the test names
the command for each. While the API server is away, the processes go on, as on a real node.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.support.folders import new_folder
from tests.support.kube.api import Json
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.errors import ApiError, ApiUnreachableError, KubeError
from tests.support.kube.pods import PODS, set_phase
from tests.support.kube.registration import Registration
from tests.support.kube.spark_submit import SCHEDULER
from tests.support.kube.volumes import Volumes
from tests.support.servers import Server
from tests.support.supervise import kill_session, spawn
from tests.support.waiting import wait_until

POD_FOLDER = "POD_FOLDER"

_LOOK_SECONDS = 0.1

Command = Callable[[Json], Sequence[str] | None]


@dataclass
class _Running:
    """A pod that was taken up."""

    pod: Json
    process: subprocess.Popen[bytes]
    volumes: Volumes
    folder: Path
    kill_at: float | None = None
    reported: bool = field(default=False)


class LocalNode(Server):
    """A node for the pods of one namespace with the scheduler `local-node`, such as drivers of the stub spark-submit.

    The environment of a process has the variables of its container, the address of the API server, and `POD_FOLDER`.
    In that folder, `volumes/<volume>/` has the content of the volume's ConfigMap or Secret, kept up to date as by a
    kubelet (`volumes.py`), and `serviceaccount/` the files of /var/run/secrets/kubernetes.io/serviceaccount.

    Attributes:
        name: how messages and its folder call it; also the node's name in the cluster.
        folder: a log of each process, named after its pod.
        started: the pods that were given a process, as they were then, in that order.
    """

    def __init__(self, cluster: KubeCluster, namespace: str, command: Command) -> None:
        """Nothing runs yet.

        Args:
            command: the process for a pod; with None the pod is left to the test, and asked about again.
        """
        self.name = f"local-node-{namespace}"
        self.folder = new_folder("kube", self.name)
        self._cluster = cluster
        self._namespace = namespace
        self._command = command
        self._registration = Registration(cluster.api, self.name)
        self.started: list[Json] = []
        self._running: dict[str, _Running] = {}
        self._logs: dict[str, list[Path]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._error: BaseException | None = None

    def start(self) -> Self:
        """Take pods up from now on."""
        self._registration.enter()
        self._thread.start()
        return self

    def pid(self, pod: str) -> int:
        """Return the process of the pod of that name. Raises `KeyError` when it has none."""
        return self._alive(pod).process.pid

    def kill(self, pod: str) -> int:
        """kill -9 to all processes of the pod of that name, as when its memory is used up; how many there were.

        Raises `KeyError` when it has none.
        """
        return self._kill(self._alive(pod))

    def output(self, pod: str) -> str:
        """Return the output of all pods of that name, in the order of their starts."""
        return "".join(log.read_text(errors="replace") for log in self._logs.get(pod, []))

    def wait_for_output(self, pod: str, text: str, timeout: float = 30.0) -> None:
        """Return as soon as the output for `pod` contains `text`. Raises `KubeError` in the end."""
        wait_until(
            lambda: text in self.output(pod), f"{text!r} in the output of {pod}", timeout_s=timeout, error=KubeError
        )

    def close(self, *, keep_logs: bool = False) -> None:
        """Kill all processes and delete the folder, unless with `keep_logs`. Raises what went wrong meanwhile."""
        super().close(keep_logs=keep_logs)
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for running in self._running.values():
            self._kill(running)
            with suppress(ApiError, ApiUnreachableError):  # nobody else would confirm that it has ended
                self._confirm_end(running.pod)
        with suppress(ApiError, ApiUnreachableError):
            self._registration.leave()

    def _work(self) -> None:
        try:
            while not self._ended.wait(_LOOK_SECONDS):
                try:
                    self._registration.beat()
                    self._look()
                except ApiUnreachableError:
                    continue
                except ApiError as error:
                    # The pod is gone or another one, or the API server is not quite there: look again.
                    if error.status not in (404, 409) and not error.passes:
                        raise
        except BaseException as error:
            self._error = error

    def _look(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self._cluster.api.list(PODS, self._namespace)}
        for uid in self._running.keys() - pods.keys():  # deleted by force
            self._kill(self._running.pop(uid))
        for uid, pod in pods.items():
            if uid in self._running:
                self._follow(self._running[uid], pod)
            elif pod["spec"].get("schedulerName") != SCHEDULER or _is_over(pod):
                continue
            elif "deletionTimestamp" not in pod["metadata"]:
                self._take_up(pod)
            elif pod["spec"].get("nodeName") == self.name:  # while it still waited for its volumes
                self._confirm_end(pod)

    def _take_up(self, pod: Json) -> None:
        command = self._command(pod)
        if command is None:
            return
        metadata = pod["metadata"]
        if "nodeName" not in pod["spec"]:
            self._bind(pod)
        name = metadata["name"]
        folder = self.folder / "data" / f"{name}.{metadata['uid']}"
        folder.mkdir(parents=True, exist_ok=True)
        volumes = Volumes(self._cluster.api, pod, folder)
        if not volumes.mount():  # as a kubelet waits for them
            return
        logs = self._logs.setdefault(name, [])
        log = self.folder / f"{name}-{len(logs) + 1}.log"
        process = spawn(command, log, self._environment(pod, folder))
        logs.append(log)
        self._running[metadata["uid"]] = _Running(pod, process, volumes, folder)
        self.started.append(pod)

    def _bind(self, pod: Json) -> None:
        """Bind the pod to this node: the API server then keeps a deleted pod until the node confirms its end."""
        metadata = pod["metadata"]
        address = f"/api/v1/namespaces/{self._namespace}/pods/{metadata['name']}/binding"
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        identity = {"name": metadata["name"], "uid": metadata["uid"]}
        self._cluster.api.request("POST", address, {"metadata": identity, "target": target})

    def _follow(self, running: _Running, pod: Json) -> None:
        code = running.process.poll()
        deleted = "deletionTimestamp" in pod["metadata"]
        if code is None:
            if deleted:
                self._terminate(running, pod)
            elif not running.reported:
                set_phase(self._cluster.api, pod, "Running")
                running.reported = True
            running.volumes.refresh(pod)
        elif not _is_over(pod):
            self._kill(running)  # a container ends with its first process
            code = code if code >= 0 else 128 - code  # as a container runtime reports a signal
            set_phase(self._cluster.api, pod, "Failed" if code else "Succeeded", exit_code=code)
        elif deleted:
            self._confirm_end(pod)
            del self._running[pod["metadata"]["uid"]]

    def _terminate(self, running: _Running, pod: Json) -> None:
        if running.kill_at is None:
            running.kill_at = time.monotonic() + pod["metadata"].get("deletionGracePeriodSeconds", 0)
            running.process.send_signal(signal.SIGTERM)
        elif time.monotonic() > running.kill_at:
            self._kill(running)

    def _alive(self, pod: str) -> _Running:
        for running in list(self._running.values()):
            if running.pod["metadata"]["name"] == pod and running.process.poll() is None:
                return running
        raise KeyError(f"{self.name} runs no pod {pod}; its logs: {self.folder}")

    def _kill(self, running: _Running) -> int:
        # The session alone would miss the application's JVM, which has a session of its own.
        return kill_session(running.process, marked=f"{POD_FOLDER}={running.folder}\0")

    def _confirm_end(self, pod: Json) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._cluster.api.delete(PODS, name, self._namespace, **options)

    def _environment(self, pod: Json, folder: Path) -> dict[str, str]:
        server = urlsplit(self._cluster.api.config.server)
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME") if name in os.environ}
        container = {
            entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0].get("env", []) if "value" in entry
        }
        return {
            **inherited,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            **container,
            POD_FOLDER: str(folder),
        }


def _is_over(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
