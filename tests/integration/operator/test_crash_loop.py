"""A crash loop under Kubeflow's real controller: it deletes each failed driver's pod within a second."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.contract.termination_message import TerminationMessage
from tests.integration.operator.stage import Stage, cluster
from tests.support.kube import SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import SUBSCRIPTIONS, OperatorProcess
from tests.support.resources import condition
from tests.support.waiting import eventually

pytestmark = pytest.mark.deep("each failure of a crash loop")

CAUSE = "exit code 4: IdentityError: cluster east belongs to another Kafka cluster; password="


def ready(subscription: Any) -> dict[str, Any]:
    return dict(condition(subscription, "Ready"))


def test_each_failure_of_a_crash_loop_stays_visible(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    # Given drivers that live longer than Kubeflow's operator waits between two attempts
    stage.stream("orders", cluster("east"))
    stage.application(restartPolicy={"type": "Always", "onFailureRetryInterval": 1})
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    pod = stage.driver_runs()
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")

    # When two fail, one after the other
    for times in ("has failed, last", "has failed 2 times in a row, last"):
        reason = f"{CAUSE.removeprefix('exit code 4: ')}hunter2 is no login"
        message = TerminationMessage(code=4, reason=reason)
        set_phase(stage.api, pod, "Failed", exit_code=4, written=message.text())
        subscription = stage.api.wait(
            SUBSCRIPTIONS,
            "app",
            stage.namespace,
            until=lambda app_subscription, times=times: (
                ready(app_subscription).get("reason") == "AwaitsReport" and times in ready(app_subscription)["message"]
            ),
        )
        assert f"{CAUSE}***" in ready(subscription)["message"]
        pod = stage.driver_runs(after=pod["metadata"]["uid"])

    # Then each has an Event, without the secret
    assert eventually(lambda: len(stage.notes("ApplicationFailed")) == 2)
    notes = stage.notes("ApplicationFailed")
    assert sorted("2 times in a row" in note for note in notes) == [False, True]
    assert all(f"{CAUSE}***" in note for note in notes)
    assert ("Warning", "ApplicationFailed") in stage.events()
    assert "hunter2" not in str(stage.subscription_now()) + str(notes)

    # And a report ends the display
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")
    assert CAUSE not in str(stage.subscription_now()["status"]["conditions"])
    assert len(spark_operator.submissions("app")) == 3
