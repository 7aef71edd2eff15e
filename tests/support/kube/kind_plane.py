"""The same control plane as a `kind` cluster, on a machine with Docker and kind.

Its containers outlive a process that is killed, so a name says whose it is, and the next start removes those
of processes that are gone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.support.kube.api import Api
from tests.support.kube.commands import run
from tests.support.kube.errors import KubeError
from tests.support.kube.kubeconfig import Kubeconfig, read_own
from tests.support.waiting import wait_until

_PREFIX = "dynamic-kafka-test-"
_CHOICE = "DYNAMIC_KAFKA_CLUSTER"
_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_DISABLED_MANIFEST = "/kube-apiserver.yaml"


def kind_is_usable() -> bool:
    """Whether clusters are to be kind's: Docker and kind work, unless `DYNAMIC_KAFKA_CLUSTER` (local, kind) says."""
    choice = os.environ.get(_CHOICE)
    if choice not in (None, "", "local", "kind"):
        raise KubeError(f"{_CHOICE} is {choice!r}: it has to be `local` or `kind`, or not set.")
    if choice:
        return choice == "kind"
    return all(shutil.which(tool) for tool in ("docker", "kind")) and _works("docker", "info")


class KindPlane:
    """A cluster of one node in a container.

    Attributes:
        admin: the configuration of its administrator, which kind wrote into our folder. Known when started.
    """

    admin: Kubeconfig

    def __init__(self, folder: Path) -> None:
        """Nothing runs yet."""
        self._folder = folder
        self._name = f"{_PREFIX}{os.getpid()}-{folder.name}"
        self._file = folder / "data" / "kind.kubeconfig"
        self._file.parent.mkdir(mode=0o700)
        self._started = False

    def start(self) -> None:
        """Create it and wait until its API server is ready."""
        if self._started:
            return
        self._remove_left_overs()
        # kind would otherwise add a context to the user's own configuration.
        self._kind("create", "cluster", "--kubeconfig", str(self._file), "--wait", "60s")
        self._started = True
        self.admin = read_own(self._file, self._folder)
        if self.admin.context != f"kind-{self._name}":
            raise KubeError(f"{self._file} is of {self.admin.context}, and not of kind-{self._name}.")

    def start_api_server(self) -> None:
        """Let the node start it again, and wait until it is ready."""
        self._on_node(f"[ ! -e {_DISABLED_MANIFEST} ] || mv {_DISABLED_MANIFEST} {_MANIFEST}")
        wait_until(Api(self.admin).ready, "a ready API server", error=KubeError)

    def stop_api_server(self) -> None:
        """kill -9, and keep the node from starting it again."""
        self._on_node(f"mv {_MANIFEST} {_DISABLED_MANIFEST}; pkill -9 kube-apiserver")
        wait_until(lambda: not Api(self.admin).ready(), "the end of the API server", error=KubeError)

    def pause_api_server(self) -> None:
        """SIGSTOP: connections stay open and nobody answers."""
        self._on_node("pkill -STOP kube-apiserver")

    def resume_api_server(self) -> None:
        """End a pause."""
        self._on_node("pkill -CONT kube-apiserver")

    def pids(self) -> list[int]:
        """None of ours: they are Docker's."""
        return []

    def close(self) -> None:
        """Delete it; what its components said goes to the folder first."""
        if self._started:
            with suppress(KubeError):
                self._kind("export", "logs", str(self._folder / "logs"))
            self._kind("delete", "cluster", "--kubeconfig", str(self._file))
            self._started = False

    def _remove_left_overs(self) -> None:
        for name in run("kind", "get", "clusters").split():
            owner = re.match(rf"{_PREFIX}(\d+)-", name)
            if owner and not Path(f"/proc/{owner[1]}").exists():
                run("kind", "delete", "cluster", "--name", name, "--kubeconfig", str(self._file))

    def _kind(self, *arguments: str) -> None:
        run("kind", *arguments, "--name", self._name)

    def _on_node(self, script: str) -> None:
        run("docker", "exec", f"{self._name}-control-plane", "sh", "-c", script)


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
