"""The operator as a process next to a test cluster, with exactly the rights of its ClusterRole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.folders import new_folder
from tests.support.kube import KubeCluster
from tests.support.places import ROOT
from tests.support.servers import Server
from tests.support.supervise import Process

ROLE = ROOT / "examples" / "operator" / "rbac.yaml"
RESTART_ROLE = ROOT / "examples" / "operator" / "rbac-apache-restart.yaml"
STREAMS = "kafkastream.dev/v1alpha1/kafkastreams"
SUBSCRIPTIONS = "kafkastream.dev/v1alpha1/kafkastreamsubscriptions"
CONFIG_MAPS = "v1/configmaps"


def rules(role: Path = ROLE) -> list[dict[str, Any]]:
    """Return the rules of the role in the first object of a file."""
    found: list[dict[str, Any]] = next(yaml.safe_load_all(role.read_text()))["rules"]
    return found


class OperatorProcess(Server):
    """The operator for one namespace of a test cluster, or with "" for all; then no other operator may run there."""

    def __init__(
        self,
        cluster: KubeCluster,
        namespace: str,
        arguments: Sequence[str] = (),
        through: Callable[[Path], Path] = lambda kubeconfig: kubeconfig,
        *,
        may_restart: bool = False,
    ) -> None:
        """Prepare the operator, without starting it.

        Args:
            through: turns a kubeconfig into one that reaches the API server another way, such as through a proxy.
            may_restart: whether it has the right that restarts of Apache's applications need.
        """
        self._rules = rules() + (rules(RESTART_ROLE) if may_restart else [])
        self.name = "operator"
        self.folder = new_folder("kube", self.name)
        self._cluster, self._namespace, self._arguments, self._through = cluster, namespace, arguments, through
        self._process = Process("The operator", self.folder / "operator.log")
        self._kubeconfig: Path | None = None

    def start(self) -> Self:
        """Start the process. It serves as soon as it has listed everything."""
        if self._kubeconfig is None:
            self._cluster.install_crds(ROOT / "crds")
            account = f"kafkastream-operator-{self.folder.name}"
            own = self._cluster.service_account(self._namespace or "default", account, cluster_rules=self._rules)
            self._kubeconfig = self._through(own)
        command = [sys.executable, "-m", "kafkastream_operator", "--kubeconfig", str(self._kubeconfig)]
        command += [*(["--namespace", self._namespace] if self._namespace else []), *self._arguments]
        environment = self._cluster.environment(self._kubeconfig)
        environment["PYTHONPATH"] = f"{ROOT / 'operator'}:{ROOT / 'spark_app'}"
        self._process.launch(command, environment)
        return self

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the operator."""
        assert self._kubeconfig is not None
        return self._kubeconfig

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.running

    def stop(self) -> None:
        """Stop the process in order."""
        self._process.stop()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()

    def log(self) -> str:
        """Return the log so far."""
        return self._process.log.read_text()

    def _end(self) -> None:
        self.kill()

    def _called(self) -> str:
        return "the operator"
