"""The control plane of the demo: a real API server, our operator, Kubeflow's, and a node that runs drivers.

All of it belongs to the run. What it says is read as a user would with kubectl: the subscription, the stream, and the
document that the operator has rendered.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from demo.git import Git
from demo.settings import APPLICATION, STREAM, Settings
from tests.support.kube import APPLICATIONS, ApiUnreachableError, KubeCluster, KubeError, LocalNode, SparkOperator
from tests.support.kube.app_container import command
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS, OperatorProcess
from tests.support.resources import condition

NOT_SEEN = "the operator has not seen the stream yet"
_LOOK_S = 0.5
# A restart of the demo takes far less than the operator's usual pause between two; what is lost is seen sooner, too.
_QUICK = ("--between-restarts", "2s", "--confirm", "60s")


class ControlPlane:
    """Its processes, and what it says of the stream `orders`.

    Attributes:
        confirmed: {revision: `Restart`, `Reload` or `Adopt`} of the roll-outs that were seen confirmed.
        document: {cluster: `Active` or `Draining`} of the document as rendered last.
        revision: of that document, `<lineage>/<counter>`.
        waits: what the stream's `SafeToDecommission` says; empty when nobody waits for anything.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        """Nothing runs yet; `folder` is the run's."""
        self._settings, self._folder = settings, folder
        self._cluster = KubeCluster("cluster")
        self._namespace = ""
        self._operator: OperatorProcess | None = None
        self._spark_operator: SparkOperator | None = None
        self._node: LocalNode | None = None
        self._git: Git | None = None
        self._looked = 0.0
        self.confirmed: dict[str, str] = {}
        self.document: dict[str, str] = {}
        self.revision = ""
        self.waits = ""
        self._rolled_out: Mapping[str, Any] = {}

    def open(self, say: Callable[[str], None]) -> None:
        """Start all, with what is to be in place before the first `kubectl apply`."""
        self._cluster.start()
        self._namespace = self._cluster.new_namespace("shop")
        say("the API server is up")
        self._spark_operator = SparkOperator(self._cluster, self._namespace).start()
        self._node = LocalNode(self._cluster, self._namespace, command).start()
        say("Kubeflow's spark-operator is up; its spark-submit makes a pod, which a process of this machine runs")
        self._operator = OperatorProcess(self._cluster, self._namespace, _QUICK).start()
        say("the operator of KafkaStreams is started")

    def write_manifests(self, servers: Mapping[str, str]) -> None:
        """Fill in the manifests. `servers` are bootstrap servers by cluster."""
        values = {
            **servers,
            "update_strategy": self._settings.update_strategy,
            "spark_version": importlib.metadata.version("pyspark"),
            "data": str(self._folder / "data"),
        }
        (self._folder / "data").mkdir()
        self._git = Git(self._folder / "git", self._cluster, self._namespace, values)

    @property
    def git(self) -> Git:
        """The users' folder, once it is written."""
        assert self._git is not None
        return self._git

    @property
    def node(self) -> LocalNode:
        """Who runs the drivers, once it is open."""
        assert self._node is not None
        return self._node

    def look(self) -> None:
        """Read what the control plane says, now and then."""
        if self._git is None or time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        api = self._cluster.api
        # What the operator writes first is read last: who sees a document sees at least what led to it.
        stream = api.find(STREAMS, STREAM, self._namespace) or {}
        subscription = api.find(SUBSCRIPTIONS, APPLICATION, self._namespace) or {}
        document = api.find(CONFIG_MAPS, f"{APPLICATION}-kafkastreams", self._namespace)
        self.revision, self.document = rendered(document)
        self.waits = waiting_for(stream)
        self._rolled_out = condition(subscription, "RolledOut")
        rollout = (subscription.get("status") or {}).get("rollout") or {}
        if rollout.get("phase") == "Confirmed":
            self.confirmed.setdefault(rollout["token"], rollout["method"])

    def says(self) -> str:
        """The operator's last word on the roll-out and on what drains."""
        return f"{self._rolled_out.get('message', 'nothing')}; {self.waits or 'nothing drains'}"

    def life(self) -> str:
        """What Kubeflow's operator says of the application."""
        found = self._cluster.api.find(APPLICATIONS, APPLICATION, self._namespace) or {}
        return str(found.get("status", {}).get("applicationState", {}).get("state", ""))

    def close(self, *, keep_logs: bool) -> None:
        """Leave nothing behind; with `keep_logs` the logs in the run's folder."""
        parts = [self._node, self._spark_operator, self._operator, self._cluster]
        for part in parts:
            if part is None:
                continue
            with contextlib.suppress(ApiUnreachableError, KubeError):
                part.close(keep_logs=keep_logs)
            if keep_logs:
                shutil.move(part.folder, self._folder / "logs" / part.name)


def rendered(config_map: Mapping[str, Any] | None) -> tuple[str, dict[str, str]]:
    """The revision of a rendered document, and {cluster: `Active` or `Draining`}; both empty if there is none."""
    if config_map is None:
        return "", {}
    document = json.loads(config_map["data"]["streams.json"])
    clusters = [each for stream in document["streams"].values() for each in stream["clusters"].items()]
    states = {name: content.get("state", "Active") for name, content in clusters}
    return f"{document['lineage']}/{document['revision']}", states


def waiting_for(stream: Mapping[str, Any]) -> str:
    """Why what a stream no longer names must not be shut down yet; "" if it may."""
    found = condition(stream, "SafeToDecommission")
    if (stream.get("status") or {}).get("observedGeneration") != stream.get("metadata", {}).get("generation"):
        return NOT_SEEN
    return "" if found.get("status") == "True" else str(found.get("message", NOT_SEEN))
