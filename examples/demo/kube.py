"""The control plane of the demo: a real API server, our operator, Kubeflow's operator, and a node that runs drivers.

Each run starts its own. The demo reads the subscription, the stream and the rendered document, as a user would with
kubectl.
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

_LOOK_S = 0.5
# A restart of the demo is quick, so the operator may pause less between restarts, and repeat a lost patch sooner.
_QUICK = ("--between-restarts", "2s", "--confirm", "60s")


class ControlPlane:
    """The processes of the control plane, and its present state of the stream `orders`.

    Attributes:
        confirmed: {revision: `Restart`, `Reload` or `Adopt`} of the confirmed roll-outs.
        document: {cluster: `Active` or `Draining`} of the rendered document.
        revision: revision of that document, `<lineage>/<counter>`.
        verdicts: {cluster: its entry in the stream's status}.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        """Prepare a control plane with its logs in `folder`. Starts nothing."""
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
        self.verdicts: dict[str, Mapping[str, Any]] = {}
        self._rolled_out: Mapping[str, Any] = {}

    def open(self, log: Callable[[str], None]) -> None:
        """Start everything that the first `kubectl apply` needs."""
        self._cluster.start()
        self._namespace = self._cluster.new_namespace("shop")
        log("the API server is up")
        self._spark_operator = SparkOperator(self._cluster, self._namespace).start()
        self._node = LocalNode(self._cluster, self._namespace, command).start()
        log("Kubeflow's spark-operator is up; its spark-submit makes a pod, which runs as a process of this machine")
        self._operator = OperatorProcess(self._cluster, self._namespace, _QUICK).start()
        log("the operator of KafkaStreams is started")

    def write_manifests(self, servers: Mapping[str, str]) -> None:
        """Write the manifests, with the bootstrap servers by cluster."""
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
        """Return the folder of manifests; `write_manifests` creates it."""
        assert self._git is not None
        return self._git

    @property
    def node(self) -> LocalNode:
        """Return the node that runs the drivers; `open` starts it."""
        assert self._node is not None
        return self._node

    def refresh(self) -> None:
        """Read the present state, at most every `_LOOK_S`."""
        if self._git is None or time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        api = self._cluster.api
        # Read in the reverse order of the operator's writes: a status is never newer than the document read after it.
        stream = api.find(STREAMS, STREAM, self._namespace) or {}
        subscription = api.find(SUBSCRIPTIONS, APPLICATION, self._namespace) or {}
        document = api.find(CONFIG_MAPS, f"{APPLICATION}-kafkastreams", self._namespace)
        self.revision, self.document = rendered(document)
        self.verdicts = {entry["id"]: entry for entry in (stream.get("status") or {}).get("clusters", ())}
        self._rolled_out = condition(subscription, "RolledOut")
        rollout = (subscription.get("status") or {}).get("rollout") or {}
        if rollout.get("phase") == "Confirmed":
            self.confirmed.setdefault(rollout["token"], rollout["method"])

    def operator_status(self) -> str:
        """Return the operator's last messages about the roll-out and the drains."""
        waits = "; ".join(filter(None, map(self.waits_for, self.verdicts)))
        return f"{self._rolled_out.get('message', 'nothing')}; {waits or 'nothing drains'}"

    def waits_for(self, cluster: str) -> str:
        """Return why the operator holds a cluster; empty without a reason."""
        return str(self.verdicts.get(cluster, {}).get("message", ""))

    def has_released(self, cluster: str) -> bool:
        """Return whether the operator says that a cluster may be shut down."""
        return self.verdicts.get(cluster, {}).get("state") == "Released"

    def application_state(self) -> str:
        """Return the application's state by Kubeflow's operator; empty if it has none."""
        application = self._cluster.api.find(APPLICATIONS, APPLICATION, self._namespace) or {}
        return str(application.get("status", {}).get("applicationState", {}).get("state", ""))

    def close(self, *, keep_logs: bool) -> None:
        """Stop everything; with `keep_logs`, move the logs to the run's folder."""
        parts = [self._node, self._spark_operator, self._operator, self._cluster]
        for part in parts:
            if part is None:
                continue
            with contextlib.suppress(ApiUnreachableError, KubeError):
                part.close(keep_logs=keep_logs)
            if keep_logs:
                shutil.move(part.folder, self._folder / "logs" / part.name)


def rendered(config_map: Mapping[str, Any] | None) -> tuple[str, dict[str, str]]:
    """Return a document's revision, and {cluster: `Active` or `Draining`}; both empty without a document."""
    if config_map is None:
        return "", {}
    document = json.loads(config_map["data"]["streams.json"])
    clusters = [entry for stream in document["streams"].values() for entry in stream["clusters"].items()]
    states = {name: content.get("state", "Active") for name, content in clusters}
    return f"{document['lineage']}/{document['revision']}", states
