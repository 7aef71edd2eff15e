"""The verdict on a cluster that only a document without a subscription still has, or another stream."""

from __future__ import annotations

from dynamic_kafka.contract.kubernetes_names import APPLICATION_GONE_ANNOTATION
from tests.integration.operator.stage import DOCUMENT, STREAMS, SUBSCRIPTIONS, Stage, cluster
from tests.support.kube import KubeCluster
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, OperatorProcess


def test_a_document_left_behind_blocks_until_it_is_deleted(
    kube: KubeCluster, stage: Stage, operator: OperatorProcess
) -> None:
    kube.install_crds(spark_operator_crds())
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    stage.wait_verdict("east", "InUse")
    stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    stage.api.wait(SUBSCRIPTIONS, "app", stage.namespace, until=lambda subscription: subscription is None)
    stage.stream("orders", cluster("west"))
    text = f"its subscription is gone: delete ConfigMap {DOCUMENT} when no job reads it"
    assert stage.wait_verdict("east", "Draining", text)["readers"] == ["app"]
    # It would go a week after its application, which is not there
    stage.wait_annotation(DOCUMENT, APPLICATION_GONE_ANNOTATION, there=True)
    stage.application()
    stage.wait_annotation(DOCUMENT, APPLICATION_GONE_ANNOTATION, there=False)
    stage.api.delete(CONFIG_MAPS, DOCUMENT, stage.namespace)
    stage.wait_verdict("east", "Released")


def test_a_cluster_is_released_when_the_last_stream_drops_it(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.stream("payments", cluster("old", bootstrapServers="east:9092"))
    stage.wait_verdict("east", "InUse")
    stage.stream("orders", cluster("west"))
    stage.wait_verdict("east", "InUse", "stream payments names it, or one of its servers")
    stage.api.delete(STREAMS, "payments", stage.namespace)
    stage.wait_verdict("east", "Released")


def test_a_renamed_subscription_goes_on_with_the_document(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    stage.subscription("renamed")
    stage.stream("orders", cluster("west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    stage.wait_condition("Ready", "NotRunning", name="renamed")
