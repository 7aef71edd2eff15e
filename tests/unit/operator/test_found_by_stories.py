"""Defects that random stories (`test_stories.py`) found, each as a story of its own."""

from __future__ import annotations

import pytest

from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.world import DiedError, World, cluster, running, safe_to_decommission


def stream_status_of(world: World, before: KafkaStreamStatus, generation: int) -> tuple[KafkaStreamStatus, str]:
    """Return the status of stream `orders`, and whether it is safe to decommission."""
    found = world.stream_status("orders", [world.reader()], before, generation)
    return found, safe_to_decommission(found)[0]


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
    assert {each.quiet_period for each in world.status.draining} == {"10m"}
