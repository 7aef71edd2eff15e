"""A node's entry in the cluster, with heartbeats: without them, Kubernetes deletes the pods of the node.

Our own control plane has no controller that does so; a kind cluster has one.
"""

from __future__ import annotations

import datetime
import time

from tests.support.kube.api import Api
from tests.support.kube.pods import timestamp

NODES = "v1/nodes"
LEASES = "coordination.k8s.io/v1/leases"

_LEASE_NAMESPACE = "kube-node-lease"
_BEAT_SECONDS = 10.0  # a kubelet's; after 40 s without it is missed


class Registration:
    """The Node and its Lease."""

    def __init__(self, api: Api, name: str) -> None:
        """Write nothing yet."""
        self._api = api
        self._name = name
        self._beat_at = 0.0

    def enter(self) -> None:
        """Create both."""
        now = timestamp()
        ready = {"type": "Ready", "status": "True", "reason": "LocalProcesses", "lastHeartbeatTime": now}
        node = {
            "metadata": {"name": self._name, "labels": {"kubernetes.io/hostname": self._name}},
            # A scheduler is to leave it alone: only `LocalNode` binds pods to it.
            "spec": {"taints": [{"key": "tests/local-node", "effect": "NoSchedule"}]},
            "status": {"conditions": [ready | {"lastTransitionTime": now}]},
        }
        uid = self._api.create(NODES, node)["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid}
        metadata = {"name": self._name, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]}
        self._api.create(LEASES, {"metadata": metadata, "spec": {"holderIdentity": self._name}})

    def beat(self) -> None:
        """Say that the node lives, if it is time to."""
        if time.monotonic() >= self._beat_at:
            renewed = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            patch = {"spec": {"leaseDurationSeconds": 40, "renewTime": renewed}}
            self._api.patch(LEASES, self._name, _LEASE_NAMESPACE, patch)
            self._beat_at = time.monotonic() + _BEAT_SECONDS

    def leave(self) -> None:
        """Delete the Node; its Lease goes with it."""
        self._api.delete(NODES, self._name)
