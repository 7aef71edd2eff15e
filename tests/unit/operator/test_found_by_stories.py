"""Defects that random stories (`test_stories.py`) found, each as a story of its own."""

from __future__ import annotations

from typing import Any

import pytest

from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import DiedError, World, cluster, drained_of, running


def stream_status_of(world: World, before: KafkaStreamStatus, generation: int) -> tuple[KafkaStreamStatus, str]:
    """Return the status of stream `orders`, and whether nothing of it drains."""
    status = world.stream_status("orders", [world.reader()], before, generation)
    return status, drained_of(status)[0]


def test_an_immediate_removal_is_not_safe_before_its_revision() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry"), policy="Immediate").settle()
    world.driver_reports().settle()
    before, safe = stream_status_of(world, KafkaStreamStatus(), 1)
    assert safe == "True"
    world.stream("orders", cluster("east", "orders"), policy="Immediate")
    world.settle()  # the subscription is reconciled before the stream
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("RolledOut") == ("False", "RollingOut")
    # The driver still uses the document with east/retry.
    held, safe = stream_status_of(world, before, 2)
    assert safe == "False"
    assert stream_status_of(world, held, 2)[1] == "False"
    world.driver_reports().settle()
    assert stream_status_of(world, held, 2)[1] == "True"


def test_an_unrecorded_restart_counts_as_the_last_one() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("west"))
    world.dies_after = len(world.writes) + 3  # the document, its status, the patch
    with pytest.raises(DiedError):
        world.settle()
    assert world.writes[-1] == "patch"
    world.later(seconds=1)
    world.stream("orders", cluster("west"), cluster("north")).settle()
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "Coalescing")


def test_the_newest_drain_policy_counts_after_unsubscribing() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), policy="Immediate")
    world.stream("bills", cluster("west")).settle()
    world.stream("orders", cluster("east"), policy="WhenDrained")
    world.changes(streams={"ids": ["bills"]}).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}


def test_a_change_with_a_lost_status_is_rolled_out() -> None:
    world = World(spec={"updateStrategy": "Restart"})
    world.stream("orders", cluster("east"))
    world.application_is("Starting").settle()
    world.driver_starts(reports=False).settle()
    world.status = SubscriptionStatus()
    world.stream("orders", cluster("east"), cluster("west")).settle()
    # The driver runs with revision 1 and does not report, so it needs a restart.
    assert world.condition("RolledOut") == ("False", "RollingOut")
    assert world.patches == 1


def test_drain_settings_survive_the_loss_of_the_document() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), quietPeriod="10m")
    world.stream("bills", cluster("west")).settle()
    world.changes(streams={"ids": ["bills"]})
    world.edited = True
    world.settle()
    assert {drain.quiet_period for drain in world.status.draining} == {"10m"}


@pytest.mark.parametrize("deleted", ["before the loss", "after the loss"])
@pytest.mark.parametrize("held_up", [{"pause": {"reason": "freeze"}}, {"streams": {"pattern": "("}}], ids=list)
def test_drain_settings_survive_a_document_lost_in_a_pause(held_up: dict[str, Any], deleted: str) -> None:
    world = running(updateStrategy="Reload", streams={"pattern": ".*"})
    world.stream("bills", cluster("west"))
    world.stream("orders", cluster("east"), quietPeriod="10m").settle()
    if deleted == "before the loss":
        del world.streams["orders"]
        world.settle()
    world.changes(**held_up).settle()
    world.document = None
    world.settle()
    world.streams.pop("orders", None)
    world.changes(pause=None, streams={"pattern": ".*"}).settle()
    assert [(drain.cluster, drain.quiet_period) for drain in world.status.draining] == [("east", "10m")]


def test_a_lost_document_shortens_no_quiet_period() -> None:
    """The status names one stream for each topic: `accounts` for both, but the longer time is that of `orders`."""
    world = running(updateStrategy="Reload", streams={"pattern": ".*"})
    world.stream("bills", cluster("west"))
    world.stream("accounts", cluster("east", "orders", "retry"))
    world.stream("orders", cluster("east"), quietPeriod="10m").settle()
    del world.streams["accounts"], world.streams["orders"]
    world.settle()
    assert {drain.topic: drain.quiet_period for drain in world.status.draining} == {"orders": "10m", "retry": "5m"}
    world.document = None
    world.settle()
    assert {drain.topic: drain.quiet_period for drain in world.status.draining}["orders"] == "10m"
