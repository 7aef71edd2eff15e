"""Found by random stories."""

from __future__ import annotations

import pytest

from tests.unit.operator.test_standing import safe, status_of
from tests.unit.operator.world import DiedError, World, cluster, running


def test_a_topic_that_is_let_go_at_once_is_not_safe_before_that_is_in_force() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry"), policy="Immediate")
    world.settle()
    world.driver_reports()
    world.settle()
    before = status_of(world)
    assert safe(world)[0] == "True"
    world.stream("orders", cluster("east", "orders"), policy="Immediate")
    world.settle()  # looked at before the stream is
    assert world.rendered() == {"east/orders": "Active"}
    assert world.condition("RolledOut") == ("False", "RollingOut")
    # The driver goes by the document with east/retry.
    assert safe(world, before)[0] == "False"
    world.driver_reports()
    world.settle()
    assert safe(world, before)[0] == "True"


def test_a_restart_whose_operator_died_counts_for_the_time_between_restarts() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("west"))
    world.dies_after = len(world.writes) + 3  # the document, its status, the patch
    with pytest.raises(DiedError):
        world.settle()
    assert world.writes[-1] == "patch"
    world.later(seconds=1)
    world.stream("orders", cluster("west"), cluster("north"))
    world.settle()
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "Coalescing")


def test_a_stream_that_says_wait_waits_though_its_subscription_leaves_it_in_the_same_commit() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), policy="Immediate")
    world.stream("bills", cluster("west"))
    world.settle()
    world.stream("orders", cluster("east"), policy="WhenDrained")
    world.changes(streams={"ids": ["bills"]})
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
