"""A restart by hand, as docs/how-to/operator.md describes it, with Kubeflow's real controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.operator.stage import APPLICATIONS, Stage, cluster
from tests.support.kube import PODS, SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import OperatorProcess

pytestmark = pytest.mark.deep("restarts that are not the operator's")


def _is(state: str) -> Callable[[Any], bool]:
    return lambda found: (found or {}).get("status", {}).get("applicationState", {}).get("state") == state


def hangs(stage: Stage, policy: str) -> dict[str, Any]:
    """Start a driver that does not confirm a live change, and return its pod."""
    stage.stream("orders", cluster("east"))
    stage.application(restartPolicy={"type": policy})
    stage.subscription(updateStrategy="Reload")
    stage.wait_document({"east/orders": "Active"})
    pod = stage.driver_runs()
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_condition("RolledOut", "NotConfirmed")
    return pod


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_any_change_of_its_spec_restarts_an_application(
    policy: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    pod = hangs(stage, policy)
    change = {"spec": {"driver": {"annotations": {"restarted-at": "2026-11-22T03:00:00Z"}}}}
    stage.api.patch(APPLICATIONS, "app", stage.namespace, change)
    new = stage.driver_runs(after=pod["metadata"]["uid"])
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    stage.report(new)
    stage.wait_condition("RolledOut", "Confirmed")
    assert len(spark_operator.submissions("app")) == 2


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_deleting_the_drivers_pod_ends_the_application(
    policy: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    hangs(stage, policy)
    set_phase(stage.api, stage.api.get(PODS, "app-driver", stage.namespace), "Succeeded")
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("COMPLETED"))
    assert len(spark_operator.submissions("app")) == 1
