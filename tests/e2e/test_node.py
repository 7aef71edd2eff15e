"""The node itself: pods run, and find each other by name."""

from __future__ import annotations

from tests.support.kube import PODS, KubeCluster
from tests.support.kube.api import Json
from tests.support.node.pod_node import PodNode
from tests.support.node.settings import SANDBOX_IMAGE


def test_a_pod_runs_on_the_node(cluster: KubeCluster, node: PodNode) -> None:
    namespace = cluster.new_namespace("node")
    container = {"name": "pause", "image": SANDBOX_IMAGE, "imagePullPolicy": "Never"}
    cluster.api.create(
        PODS, {"metadata": {"name": "first", "namespace": namespace}, "spec": {"containers": [container]}}
    )

    running = cluster.api.wait(PODS, "first", namespace, until=_runs, timeout=60)

    assert running is not None
    assert running["status"]["podIP"].startswith("10.244.0.")
    cluster.delete_namespace(namespace)


def _runs(pod: Json | None) -> bool:
    return pod is not None and pod["status"].get("phase") == "Running"
