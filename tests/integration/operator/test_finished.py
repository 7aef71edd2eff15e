"""An application that ends by itself, under Kubeflow's real controller: nothing waits for a driver that never comes."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.contract.termination_message import TerminationMessage
from tests.integration.operator.stage import APPLICATIONS, Stage, cluster
from tests.support.kube import PODS, SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import SUBSCRIPTIONS, OperatorProcess
from tests.support.resources import condition
from tests.support.waiting import wait_until


def finishes(stage: Stage, **policy: Any) -> dict[str, Any]:
    """Start an application on east and west, let its driver report the end and exit with 0, and return the pod."""
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application(restartPolicy=policy)
    stage.subscription()
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs()
    stage.report(pod, openSplits=["west/orders[0]"])
    assert "west/orders[0]" in stage.wait_condition("Finished", "SplitsOpen")["message"]
    stage.report(pod, finished=True)
    stage.api.wait(
        SUBSCRIPTIONS, "app", stage.namespace, until=lambda app: condition(app, "Finished").get("status") == "True"
    )
    set_phase(stage.api, pod, "Succeeded")
    return pod


@pytest.mark.usefixtures("spark_operator")
def test_a_finished_application_blocks_no_decommissioning(stage: Stage, operator: OperatorProcess) -> None:
    # Given an application that has ended by itself, and whose pod is gone with the report
    finishes(stage, type="OnFailure", onFailureRetries=9, onFailureRetryInterval=1)
    stage.wait_condition("ApplicationFound", "Completed")
    assert stage.wait_condition("Ready", "Finished")["status"] == "True"
    stage.api.delete(PODS, "app-driver", stage.namespace)
    stage.api.wait(PODS, "app-driver", stage.namespace, until=lambda pod: pod is None)

    # When a cluster is taken out
    stage.stream("orders", cluster("east"))

    # Then it may be shut down, although no driver runs
    stage.wait_document({"east/orders": "Active"})
    stage.wait_verdict("west", "Released")
    assert stage.wait_condition("Finished", "Finished")["status"] == "True"
    wait_until(lambda: ("Normal", "Finished") in stage.events(), "the event")


@pytest.mark.deep("each end of an application")
def test_a_finished_application_under_always_is_a_warning(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    pod = finishes(stage, type="Always", onFailureRetryInterval=1)
    again = stage.driver_runs(after=pod["metadata"]["uid"])
    finished = stage.wait_condition("Finished", "RunsAgain")
    assert "set spec.restartPolicy.type to OnFailure" in finished["message"]
    stage.report(again, finished=True)
    wait_until(lambda: ("Warning", "RunsAgain") in stage.events(), "the event")
    assert len(spark_operator.submissions("app")) == 2

    # When the policy is corrected, a last run ends the application
    change = {"spec": {"restartPolicy": {"type": "OnFailure", "onFailureRetries": 9, "onFailureRetryInterval": 1}}}
    stage.api.patch(APPLICATIONS, "app", stage.namespace, change)
    last = stage.driver_runs(after=again["metadata"]["uid"])
    stage.report(last, finished=True)
    stage.wait_condition("Finished", "Finished")
    set_phase(stage.api, last, "Succeeded")
    stage.wait_condition("ApplicationFound", "Completed")
    assert len(stage.notes("RunsAgain")) == 1


@pytest.mark.deep("each end of an application")
@pytest.mark.usefixtures("spark_operator")
def test_an_end_that_the_operator_missed_is_found_later(stage: Stage, operator: OperatorProcess) -> None:
    # Given an application that reads, and an operator that is away while it ends
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application(restartPolicy={"type": "OnFailure", "onFailureRetries": 9, "onFailureRetryInterval": 1})
    stage.subscription()
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs()
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")
    operator.stop()
    written = TerminationMessage.of_finished(1, 2).text()
    set_phase(stage.api, pod, "Succeeded", written=written)
    stage.api.wait(
        APPLICATIONS,
        "app",
        stage.namespace,
        until=lambda app: app is not None and app["status"]["applicationState"]["state"] == "COMPLETED",
    )

    # When the operator is back, and a cluster was taken out meanwhile
    stage.stream("orders", cluster("east"))
    operator.start()

    # Then the pod that is left shows the end, and the cluster may be shut down
    assert stage.wait_condition("Finished", "Finished")["status"] == "True"
    stage.wait_document({"east/orders": "Active"})
    stage.wait_verdict("west", "Released")
    wait_until(lambda: ("Normal", "Finished") in stage.events(), "the event")
