"""`Ready` of a subscription: a document counts as in force when a driver has reported it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from tests.unit.operator.world import World, cluster, running

PATIENCE_S = DEFAULT_TIMING.confirm_live.total_seconds()


def started() -> World:
    """Return an application that starts with its first document."""
    return World().stream("orders", cluster("east")).application_is("Starting").settle()


def silent_for(world: World, seconds: float) -> World:
    """Let a driver run this long without a report."""
    assert world.driver is not None
    world.driver = replace(world.driver, silent_s=seconds)
    return world.later(seconds=seconds).settle()


def replaced(world: World) -> World:
    """Delete the driver's pod, and let the next driver run without a report."""
    world.driver = None
    return world.settle().driver_starts(reports=False).settle()


def test_ready_waits_for_the_first_report_of_the_driver() -> None:
    # Given a document, and an application that starts with it
    world = started()
    assert world.condition("RolledOut") == ("True", "Adopted")
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert world.message("Ready").startswith("no driver runs yet")

    # When its driver runs, it is still not known whether it has the document
    world.driver_starts(reports=False).settle()
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert "driver-1 has started" in world.message("Ready")

    # And when the driver reports
    world.driver_reports().settle()
    assert world.condition("Ready") == ("True", "InForce")


def test_a_report_before_the_first_plan_shows_nothing_in_force() -> None:
    world = started().driver_starts()
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, applied=None))
    world.settle()
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert "has not planned" in world.message("Ready")


@pytest.mark.parametrize("foreign", [{"pod": "another"}, {"subscription": "another"}])
def test_a_foreign_report_shows_nothing_in_force(foreign: dict[str, str]) -> None:
    world = started().driver_starts()
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, **foreign))  # type: ignore[arg-type]
    world.settle()
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert "for this subscription" in world.message("Ready")
    assert "driver driver-1 has started, and" in world.message("RolledOut")
    world.driver_reports().settle()
    assert world.condition("Ready") == ("True", "InForce")
    assert "is in force" in world.message("RolledOut")


def test_a_driver_that_never_reports_is_ready_after_its_time() -> None:
    world = silent_for(started().driver_starts(reports=False), PATIENCE_S - 1)
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    silent_for(world, PATIENCE_S)
    assert (world.condition("Ready"), world.condition("Reporting")) == (("True", "InForce"), ("False", "NoReport"))


def test_another_driver_of_a_ready_application_keeps_it_ready() -> None:
    world = running()
    (before,) = [condition for condition in world.status.conditions if condition.type == "Ready"]
    for life in ("Starting", "Running"):
        world.later(minutes=1).application_is(life).driver = None  # type: ignore[arg-type]
        world.settle()
        assert world.condition("Ready") == ("True", "InForce")
    replaced(world)
    (after,) = [condition for condition in world.status.conditions if condition.type == "Ready"]
    assert (after.status, after.last_transition_time) == (before.status, before.last_transition_time)


def test_after_a_restart_ready_waits_for_the_new_driver() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.condition("Ready") == ("False", "RollingOut")
    replaced(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    world.driver_reports().settle()
    assert world.condition("Ready") == ("True", "InForce")


@pytest.mark.parametrize("life", ["Failing", "Suspended"])
def test_after_a_stop_or_failure_ready_waits_for_a_report(life: str) -> None:
    world = running().application_is(life)  # type: ignore[arg-type]
    world.driver = None
    assert world.settle().condition("Ready")[1] in ("Failing", "NotRunning")
    world.application_is("Starting").settle()
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    world.driver_starts().settle()
    assert world.condition("Ready") == ("True", "InForce")


def test_a_cluster_never_reached_keeps_ready_over_a_new_driver() -> None:
    world = running()
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, never_reached={"east": "timed out"}))
    assert world.settle().condition("Ready") == ("True", "NeverReached")
    assert replaced(world).condition("Ready") == ("True", "InForce")
