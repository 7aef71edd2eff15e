"""The operator as a process beside a test cluster, with the rights that its ClusterRole gives it and no others."""

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
    """What the operator may do, by the first object of a file."""
    found: list[dict[str, Any]] = next(yaml.safe_load_all(role.read_text()))["rules"]
    return found


class OperatorProcess(Server):
    """The operator, for one namespace of a test cluster, or with "" for all: then no other may be there."""

    def __init__(
        self,
        cluster: KubeCluster,
        namespace: str,
        arguments: Sequence[str] = (),
        through: Callable[[Path], Path] = lambda kubeconfig: kubeconfig,
        *,
        may_restart: bool = False,
    ) -> None:
        """Nothing runs yet.

        Args:
            through: makes a configuration of another way to the API server of the one that it has.
            may_restart: with the right that restarts of Apache's applications need.
        """
        self._rules = rules() + (rules(RESTART_ROLE) if may_restart else [])
        self.name = "operator"
        self.folder = new_folder("kube", self.name)
        self._cluster, self._namespace, self._arguments, self._through = cluster, namespace, arguments, through
        self._process = Process("The operator", self.folder / "operator.log")
        self._kubeconfig: Path | None = None

    def start(self) -> Self:
        """Start it. It serves as soon as it has listed everything."""
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
        """Its own configuration."""
        assert self._kubeconfig is not None
        return self._kubeconfig

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process.running

    def stop(self) -> None:
        """Stop in order."""
        self._process.stop()

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def log(self) -> str:
        """What it has logged."""
        return self._process.log.read_text()

    def _end(self) -> None:
        self.kill()

    def _called(self) -> str:
        return "the operator"
