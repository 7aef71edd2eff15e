"""Deletions on a real API server: all objects of a stream, one after the other, during a drain.

`tests/unit/operator/test_deletions.py` has every order.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.operator.stage import DOCUMENT, Stage, cluster
from tests.support.kube import SparkOperator
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS, OperatorProcess

pytestmark = pytest.mark.deep("deletions in each order")

BOTH = {"east/orders": "Draining", "west/orders": "Active"}
LAGS = {"cluster": "east", "topic": "orders", "lag": 5, "quiet": 0}
DRAINED = LAGS | {"lag": 0, "quiet": 400}


@pytest.fixture
def draining(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> Stage:
    """Remove east, which then drains; the driver reports that the drain has not ended."""
    stage.stream("orders", cluster("east"), cluster("west"))
    applied(stage)
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs()
    reported(stage, pod)
    stage.wait_condition("Reporting", "Reporting")
    stage.stream("orders", cluster("west"))
    stage.wait_document(BOTH)
    reported(stage, pod, draining=[LAGS])
    return stage


def applied(stage: Stage) -> None:
    """Apply the application and its subscription."""
    stage.application()
    stage.subscription(updateStrategy="Reload")


def reported(stage: Stage, pod: dict[str, Any], **content: Any) -> None:
    """Report the streams that the driver has in force."""
    document = stage.document()
    assert document is not None
    stage.report(pod, streams=document.streams, **content)


def without(stage: Stage, resource: str, name: str) -> None:
    """Delete an object, and wait until it is gone."""
    uid = stage.api.get(resource, name, stage.namespace)["metadata"]["uid"]
    stage.api.delete(resource, name, stage.namespace)
    stage.api.wait(
        resource, name, stage.namespace, until=lambda instance: (instance or {}).get("metadata", {}).get("uid") != uid
    )


def test_the_document_survives_the_deletion_of_its_sources(draining: Stage) -> None:
    stage = draining
    without(stage, CONFIG_MAPS, DOCUMENT)
    stage.wait_document(BOTH)
    without(stage, STREAMS, "orders")
    stage.wait_document(dict.fromkeys(BOTH, "Draining"))
    stage.deleted()
    stage.wait_condition("ApplicationFound", "ApplicationMissing")
    without(stage, SUBSCRIPTIONS, "app")
    stage.wait_document(dict.fromkeys(BOTH, "Draining"))

    stage.stream("orders", cluster("west"))
    applied(stage)
    stage.wait_document(BOTH)
    stage.reports_until(stage.driver_runs(), {"west/orders": "Active"}, draining=[DRAINED])


def test_the_drivers_report_restores_drains_after_deletions(draining: Stage) -> None:
    stage = draining
    without(stage, SUBSCRIPTIONS, "app")
    without(stage, CONFIG_MAPS, DOCUMENT)
    without(stage, STREAMS, "orders")
    stage.stream("orders", cluster("west"))
    stage.subscription(updateStrategy="Reload")
    stage.wait_document(BOTH)
