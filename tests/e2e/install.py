"""Helm on the test cluster: Kubeflow's spark-operator from its own chart, and our operator from ours."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.kube import KubeCluster
from tests.support.kube_programs import spark_operator_chart
from tests.support.operator import CHART

NAMESPACE = "shop"
OPERATOR_NAMESPACE, OPERATOR = "kafkastream-system", "kafkastream-operator"
SPARK_OPERATOR_NAMESPACE, SPARK_OPERATOR = "spark-operator", "spark-operator"
DRIVER_ACCOUNT = "spark-operator-spark"
"""The account that Kubeflow's chart makes for drivers."""
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def install_spark_operator(cluster: KubeCluster, image: str) -> None:
    """Install Kubeflow's spark-operator with its webhook, for `NAMESPACE`, and wait until it serves."""
    repository, _, tag = image.rpartition(":")
    registry, _, repository = repository.partition("/")
    _namespace(cluster, SPARK_OPERATOR_NAMESPACE)
    settings = [
        f"image.registry={registry}",
        f"image.repository={repository}",
        f"image.tag={tag}",
        f"spark.jobNamespaces={{{NAMESPACE}}}",
        # Without requests both pods starve beside busy drivers, and the kubelet restarts a webhook that answers late.
        "controller.resources.requests.cpu=200m",
        "webhook.resources.requests.cpu=200m",
        # Each spark-submit is a JVM that lives for seconds.
        "controller.env[0].name=JAVA_TOOL_OPTIONS",
        "controller.env[0].value=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    ]
    _install(cluster, SPARK_OPERATOR, SPARK_OPERATOR_NAMESPACE, str(spark_operator_chart()), settings)


def install_operator(cluster: KubeCluster, image: str) -> None:
    """Install our operator for `NAMESPACE`, and wait until it serves."""
    _namespace(cluster, OPERATOR_NAMESPACE)
    _install(cluster, OPERATOR, OPERATOR_NAMESPACE, str(CHART), operator_settings(image))


def operator_settings(image: str) -> list[str]:
    """Return the values of our chart: pauses that suit a test, and little else."""
    repository, _, tag = image.rpartition(":")
    return [
        f"image.repository={repository}",
        f"image.tag={tag}",
        f"namespaces={{{NAMESPACE}}}",
        f"drivers[0].namespace={NAMESPACE}",
        f"drivers[0].name={DRIVER_ACCOUNT}",
        "operator.betweenRestarts=2s",
        "operator.confirm=90s",
    ]


def _install(cluster: KubeCluster, release: str, namespace: str, chart: str, settings: Sequence[str]) -> None:
    values = [f"--set={setting}" for setting in settings]
    cluster.helm("install", release, chart, f"--namespace={namespace}", "--wait", "--timeout=4m", *values)


def _namespace(cluster: KubeCluster, name: str) -> None:
    if cluster.api.find("v1/namespaces", name) is None:
        cluster.api.create("v1/namespaces", {"metadata": {"name": name, "labels": _RESTRICTED}})
