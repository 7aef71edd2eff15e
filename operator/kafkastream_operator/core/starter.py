"""The rule that decides what starts the next driver of an application. Pure; the roll-out and conditions call it.

The operator starts an application in two cases only. Its driver has ended for good because of a changed topic, and the
streams accept the change (`core.topic_integrity`). Or it has failed for good by what metadata may cause, and its
document has changed since (`core.last_failure`). A change of its spec makes Kubeflow's operator run it again.
"""

from __future__ import annotations

from typing import Literal

from kafkastream_operator.core.application import ALIVE, Application
from kafkastream_operator.models.subscription import Strategy

Starter = Literal["Nothing", "SparkOperator", "Operator", "OperatorAfterPause", "User"]
"""The starter of the next driver: none before a changed topic is accepted; its Spark operator, by itself; the
operator, now or after the pause; a user."""
BY_OPERATOR: frozenset[Starter] = frozenset({"Operator", "OperatorAfterPause"})


def next_starter(
    application: Application | None, strategy: Strategy, *, ended: bool | None, paused: bool = False
) -> Starter:
    """Return what starts the next driver, once the present one has ended.

    Args:
        ended: whether the metadata, for which the driver has ended for good, would end the next one too. False if
            it has changed since, or if its streams accept a changed topic. None if it ended for no such reason.
    """
    if ended:
        return "Nothing"
    if application is not None and application.life in ALIVE:
        return "SparkOperator"
    may_start = application is not None and application.life == "Failed" and application.restarts_itself
    if ended is None or not may_start or strategy == "Reload":
        return "User"
    return "OperatorAfterPause" if paused else "Operator"
