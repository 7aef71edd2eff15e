"""A real Kubernetes for tests: an API server, Kubeflow's spark-operator, and drivers as local processes.

    with KubeCluster().start() as kube:
        namespace = kube.new_namespace()
        with SparkOperator(kube, namespace).start(), LocalNode(kube, namespace, command).start():
            kube.api.create(APPLICATIONS, manifest)
            kube.api.wait(APPLICATIONS, "orders", namespace, until=is_running)

Programs are built once per machine (`make setup-kube`). Nothing outlives the process that made it, and no
cluster is used that it did not make.
"""

from __future__ import annotations

from tests.support.kube.api import Api, Json
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.errors import ApiError, ApiUnreachableError, KubeError
from tests.support.kube.local_node import LocalNode
from tests.support.kube.pods import PODS, set_phase
from tests.support.kube.spark_operator import APPLICATIONS, DRIVER_RULES, SparkOperator, Submission

__all__ = [
    "APPLICATIONS",
    "DRIVER_RULES",
    "PODS",
    "Api",
    "ApiError",
    "ApiUnreachableError",
    "Json",
    "KubeCluster",
    "KubeError",
    "LocalNode",
    "SparkOperator",
    "Submission",
    "set_phase",
]
