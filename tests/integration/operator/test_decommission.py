"""`SafeToDecommission` of a cluster that only the document of a deleted subscription still has."""

from __future__ import annotations

from typing import Any

from tests.integration.operator.stage import DOCUMENT, STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.support.operator import CONFIG_MAPS, OperatorProcess


def wait_safe(stage: Stage, status: str, text: str = "") -> None:
    """Wait until `SafeToDecommission` of `orders` has this status, with this text in its message."""

    def is_so(stream: dict[str, Any] | None) -> bool:
        safe = condition(stream, "SafeToDecommission")
        return safe.get("status") == status and text in safe["message"]

    stage.api.wait(STREAMS, "orders", stage.namespace, until=is_so)


def test_a_document_left_behind_blocks_until_it_is_deleted(stage: Stage, operator: OperatorProcess) -> None:
    stage.stream("orders", cluster("east"))
    stage.subscription()
    stage.wait_document({"east/orders": "Active"})
    wait_safe(stage, "True")
    stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    stage.api.wait(SUBSCRIPTIONS, "app", stage.namespace, until=lambda subscription: subscription is None)
    stage.stream("orders", cluster("west"))
    wait_safe(stage, "False", f"its subscription is gone: delete ConfigMap {DOCUMENT} when no job reads it")
    stage.api.delete(CONFIG_MAPS, DOCUMENT, stage.namespace)
    wait_safe(stage, "True")
