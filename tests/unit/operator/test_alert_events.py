"""Each alert that pages for a cause has an Event: sent once when the cause begins, and not again while it lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers.occurrences import MANY_FAILURES
from kafkastream_operator.kube.api import SUBSCRIPTIONS
from tests.unit.operator import recorded_states as states
from tests.unit.operator.server import Operator, Server, rest
from tests.unit.operator.test_alerts import alerts
from tests.unit.operator.world import World, cluster, running

WITHOUT_AN_EVENT = {
    "KafkaStreamOperatorStale",
    "KafkaStreamChangelogUnwritten",
    "KafkaStreamClockStands",
    "KafkaStreamRowsLate",
}
"""No operator is there to send one; only the driver's log and metric have it."""


def without_driver() -> World:
    """Return a live change whose driver has died, while the application is submitted again."""
    world = states.changed("Reload").application_is("Starting")
    world.driver = None
    return world.settle()


CORE: dict[str, tuple[Callable[[], World], str]] = {
    "KafkaStreamDrainBlocked": (lambda: states.draining(days=2), "DrainTimedOut"),
    "KafkaStreamReportingLost": (lambda: states.silent(3600), "NoReport"),
    "KafkaStreamRevisionRejected": (states.rejected, "Rejected"),
    "KafkaStreamRestartUnconfirmed": (states.lost_patches, "Stalled"),
    "KafkaStreamWavePaused": (states.wave_paused, "RolloutPaused"),
    "KafkaStreamRolloutWithoutDriver": (without_driver, "RolloutWithoutDriver"),
    "KafkaStreamApplicationFailing": (lambda: running().application_is("Failing").settle(), "ApplicationFailed"),
    "KafkaStreamApplicationDown": (lambda: running().application_is("Failed").settle(), "ApplicationFailed"),
    "KafkaStreamNeedsAPerson": (lambda: states.changed("Reload").later(minutes=5).settle(), "NotConfirmed"),
    "KafkaStreamInternalTopicLost": (
        lambda: states.reporting(running(), lost_topics=("log",)),
        "InternalTopicLost",
    ),
}
"""{alert: how its cause comes about, and the reason of the Event}."""


@pytest.mark.parametrize("alert", CORE)
def test_the_cause_of_an_alert_is_one_event(alert: str) -> None:
    made, reason = CORE[alert]
    world = made()
    assert [event for event, _ in world.events].count(reason) == 1
    for _ in range(3):
        world.later(hours=2).settle()
    assert [event for event, _ in world.events].count(reason) == 1


def test_a_driver_that_is_only_replaced_has_no_event() -> None:
    world = states.changed("Restart")
    world.application_is("Starting").driver = None
    world.settle().driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert "RolloutWithoutDriver" not in [event for event, _ in world.events]


def reasons(server: Server) -> list[tuple[str, str]]:
    """Return kind of the object and reason of each Event."""
    return [(event["regarding"]["kind"], event["reason"]) for event in server.events]


def left_behind(server: Server, operator: Operator) -> None:
    """Delete the subscription of a document."""
    server.stream(cluster("east"))
    server.subscription()
    rest(server)
    server.remove(SUBSCRIPTIONS, "app")
    for _ in range(3):
        operator.reconcile(SUBSCRIPTIONS, "app")
        server.now += timedelta(hours=2)


def failing(server: Server, operator: Operator) -> None:
    """Let each reconciliation of a subscription fail."""
    server.stream(cluster("east"))
    server.subscription()
    server.refuses = lambda write: 500 * (write.plural == "configmaps")
    for count in range(3 * MANY_FAILURES):
        with suppress(ApiError):
            operator.reconcile(SUBSCRIPTIONS, "app")
        assert (("KafkaStreamSubscription", "ReconcileFailing") in reasons(server)) == (count >= MANY_FAILURES)


HANDLERS: dict[str, tuple[Callable[[Server, Operator], None], tuple[str, str]]] = {
    "KafkaStreamDocumentLeftBehind": (left_behind, ("ConfigMap", "DocumentLeftBehind")),
    "KafkaStreamReconcileFailing": (failing, ("KafkaStreamSubscription", "ReconcileFailing")),
}
"""{alert: how its cause comes about, and the object and the reason of the Event}."""


@pytest.mark.parametrize("alert", HANDLERS)
def test_the_cause_of_an_alert_is_one_event_of_its_object(alert: str) -> None:
    server = Server()
    happens, event = HANDLERS[alert]
    happens(server, Operator(server))
    assert reasons(server).count(event) == 1


def test_failures_that_end_are_counted_anew() -> None:
    server = Server()
    operator = Operator(server)
    failing(server, operator)
    server.refuses = lambda write: 0
    operator.reconcile(SUBSCRIPTIONS, "app")
    server.stream(cluster("west"))
    server.refuses = lambda write: 500 * (write.plural == "configmaps")
    for _ in range(MANY_FAILURES + 1):
        assert reasons(server).count(("KafkaStreamSubscription", "ReconcileFailing")) == 1
        with suppress(ApiError):
            operator.reconcile(SUBSCRIPTIONS, "app")
    assert reasons(server).count(("KafkaStreamSubscription", "ReconcileFailing")) == 2


def test_every_alert_has_its_event() -> None:
    assert {*CORE, *HANDLERS} == alerts().keys() - WITHOUT_AN_EVENT
