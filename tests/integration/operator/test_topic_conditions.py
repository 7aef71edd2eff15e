"""The condition `TopicsReady` on a real API server: drivers that end for a topic, and one that has lost topics."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.operator.stage import Stage, cluster
from tests.support.kube import SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import SUBSCRIPTIONS, OperatorProcess
from tests.support.resources import condition


@pytest.fixture
def pod(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> dict[str, Any]:
    """Return the pod of a driver that reports, and that Kubeflow's operator replaces when it has failed."""
    stage.stream("orders", cluster("east"))
    stage.application(restartPolicy={"type": "Always", "onFailureRetryInterval": 1})
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    pod = stage.driver_runs()
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")
    return pod


def wait_cleared(stage: Stage) -> None:
    """Wait until the condition is gone, and the driver's report counts."""

    def is_cleared(resource: Any) -> bool:
        return not condition(resource, "TopicsReady") and condition(resource, "Reporting").get("status") == "True"

    stage.api.wait(SUBSCRIPTIONS, "app", stage.namespace, until=is_cleared)


def test_each_exit_code_about_topics_has_its_reason(stage: Stage, pod: dict[str, Any]) -> None:
    assert not condition(stage.subscription_now(), "TopicsReady")
    for code, reason, text in (
        (10, "SourceTopicMissing", "a topic of its streams does not exist"),
        (11, "InternalTopicMissing", "Make it with `python -m dynamic_kafka.app init app.yaml`"),
        (12, "InternalTopicMisconfigured", "internal topics are not as app.yaml declares them"),
    ):
        # When the driver ends with the code, then the condition has the reason and the remedy
        set_phase(stage.api, pod, "Failed", exit_code=code)
        topics_ready = stage.wait_condition("TopicsReady", reason)
        assert topics_ready["status"] == "False" and text in topics_ready["message"]

        # And it stays when the next driver starts, until that one reports
        pod = stage.driver_runs(after=pod["metadata"]["uid"])
        assert stage.wait_condition("TopicsReady", reason) == topics_ready
        stage.report(pod)
        wait_cleared(stage)


def test_a_lost_topic_is_shown_until_a_report_without_it(stage: Stage, pod: dict[str, Any]) -> None:
    stage.report(pod, beat=2, lostTopics=["shop-offsets"])
    topics_ready = stage.wait_condition("TopicsReady", "InternalTopicLost")
    assert topics_ready["status"] == "False"
    assert "their records are lost: shop-offsets." in topics_ready["message"]
    assert "`python -m dynamic_kafka.app init app.yaml`" in topics_ready["message"]
    stage.report(pod, beat=3)
    wait_cleared(stage)
