"""Restarts of an application whose next driver has not begun yet."""

from __future__ import annotations

import pytest

from kafkastream_operator.core.application import Life
from kafkastream_operator.core.rollout.step import Timing
from tests.unit.operator.test_apache import apaches
from tests.unit.operator.world import cluster, running


def test_apaches_driver_that_starts_with_the_patch_confirms_it() -> None:
    """Its operator has begun an attempt whose driver has no pod yet: that is made from the patched spec."""
    world = apaches(updateStrategy="Restart")
    world.driver = None
    world.application_is("Starting", submission="s2")  # ScheduledToRestart, after a failure of its driver
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    world.later(seconds=2)
    world.settle()
    assert world.patches == 1
    world.driver_starts()
    world.application_is("Running", submission="s2")  # the same attempt
    for _ in range(4):
        world.settle()
        world.later(minutes=1)
    assert (world.condition("RolledOut"), world.patches, world.writes.count("end")) == (("True", "Confirmed"), 1, 0)


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Failed"])
def test_what_is_promised_to_the_next_driver_is_not_patched_while_that_starts(life: Life) -> None:
    world = running(updateStrategy="Restart")
    world.timing = Timing()
    world.later(hours=1)
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.patches == 0  # it is gathered
    world.driver = None
    world.application_is(life)
    world.settle()
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    assert "takes revision 2 when it starts" in world.message("RolledOut")
    world.later(hours=1)
    world.application_is("Starting")
    world.settle()
    assert world.patches == 0
    world.driver_starts()
    world.settle()
    assert (world.patches, world.condition("RolledOut")) == (0, ("True", "Confirmed"))
