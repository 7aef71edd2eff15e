"""Stories of restarts: how many there are, what confirms one, and what is patched in once more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafkastream_operator.core.application import Life
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from kafkastream_operator.core.rollout.step import Timing
from tests.unit.operator.world import World, cluster, running

SECRET = {"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}
WEST = cluster("west", secretRef={"name": "login"})


def changing(count: int, **between: float) -> World:
    """So many changes of a stream, each with another cluster."""
    world = running(updateStrategy="Restart")
    world.timing = Timing()
    world.later(hours=1)
    for number in range(count):
        world.stream("orders", cluster("east"), *[cluster(f"new{each}") for each in range(number + 1)])
        world.settle()
        world.later(**between)
    return world


def test_a_burst_of_changes_is_one_restart() -> None:
    world = changing(50, milliseconds=20)
    assert (world.patches, world.condition("RolledOut")) == (0, ("False", "RollingOut"))
    assert world.again is not None
    world.later(seconds=(world.again - world.now).total_seconds())
    world.settle()
    assert world.patches == 1
    world.driver_starts(reports=False)
    for _ in range(5):
        world.settle()
        world.later(minutes=1)
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))


def test_changes_that_go_on_and_on_hold_up_no_restart() -> None:
    world = changing(5, seconds=0.9)
    assert world.patches == 1  # two seconds after the first of them, with what there was by then
    assert world.condition("RolledOut") == ("False", "Coalescing")


@pytest.mark.parametrize("writes", range(1, 6))
def test_changes_that_are_gathered_are_one_restart_whatever_write_the_operator_dies_after(writes: int) -> None:
    world = changing(2, milliseconds=100)
    world.later(seconds=2)
    world.stream("orders", cluster("east"), cluster("last"))
    world.settle_with_deaths(writes)
    assert world.patches == 1
    world.driver_starts()
    for _ in range(5):
        world.settle()
        world.later(minutes=1)
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))


def test_a_driver_that_takes_a_revision_live_does_not_confirm_its_restart() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    world.driver_reports()  # Kubeflow's operator is down, the patch is lost, and the driver has the document live
    world.settle()
    assert world.condition("RolledOut") == ("False", "RollingOut")
    world.later(seconds=91)
    world.settle()
    assert world.patches == 2
    world.driver_starts(reports=False)
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_restart_that_waits_for_its_turn_is_made_though_the_driver_has_the_revision_live() -> None:
    world = running(updateStrategy="Restart")
    for name in ("west", "north"):
        world.stream("orders", cluster("east"), cluster(name))
        world.settle()
        world.driver_starts()
        world.settle()
    assert world.condition("RolledOut") == ("False", "Coalescing")
    world.driver_reports()
    world.later(minutes=1)
    world.settle()
    assert world.patches == 2


def test_a_driver_that_was_submitted_since_confirms_by_its_report() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.application is not None
    world.application = replace(world.application, token="")  # taken back, and restarted by somebody's own means
    world.driver_starts()
    world.settle()
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))


def test_what_was_given_up_is_confirmed_by_a_person_who_restarts_it_and_not_by_the_old_driver() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(MAX_ATTEMPTS + 3):
        world.settle()
        world.later(minutes=2)
    world.driver_reports()
    world.settle()
    assert world.condition("RolledOut") == ("False", "Stalled")
    world.driver_starts()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_reload_says_at_once_that_a_driver_takes_nothing_live() -> None:
    world = running(updateStrategy="Reload")
    world.driver_reports(abilities=())
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert (world.patches, world.writes.count("refresh")) == (0, 0)
    world.driver_starts()  # by its user
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def mounted(strategy: str) -> World:
    """Its Secret was mounted by a restart, and a later revision went live or by another restart."""
    world = running(updateStrategy=strategy, secrets=[SECRET])
    world.stream("orders", cluster("east"), WEST)
    world.settle()
    world.driver_starts()
    world.settle()
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))
    world.later(hours=1)
    return world


def lacks_its_secret(world: World, life: Life = "Running", **more: Any) -> None:
    """The application as its manifest has it."""
    world.application_is(life, token="", attempt=0, mounts=frozenset(), **more)
    world.attempted = ""
    world.settle()


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
@pytest.mark.parametrize("live_since", [False, True])
def test_an_application_that_is_applied_anew_gets_its_secrets_mounted_again(strategy: str, live_since: bool) -> None:
    world = mounted(strategy)
    before = 1
    if live_since:
        world.stream("orders", cluster("north"), WEST)
        world.settle()
        before = world.patches
        if strategy == "Restart":
            world.driver_starts()
        world.driver_reports()
        world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    for number in range(4):  # as often as somebody likes
        world.later(hours=1)
        world.application, world.driver = None, None
        world.settle()
        lacks_its_secret(world, "Starting", uid=f"anew-{number}", generation=1, submission="")
        assert world.patches == before + number + 1
        world.driver_starts()
        world.settle()
        assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_tool_that_takes_secrets_out_of_a_confirmed_application_is_left_alone_after_three_times() -> None:
    world = mounted("Auto")
    for number in range(2, 4):
        lacks_its_secret(world, generation=number)
        assert world.patches == number
        world.driver_starts()
        world.settle()
        assert world.condition("RolledOut") == ("True", "Confirmed")
        world.later(hours=1)
    lacks_its_secret(world, generation=9)
    assert (world.patches, world.condition("RolledOut")) == (3, ("False", "RevertedByOthers"))
    world.later(hours=1)
    world.settle()
    assert world.patches == 3


def test_a_mount_that_is_taken_out_under_the_token_that_stays_is_patched_with_another_attempt() -> None:
    world = mounted("Restart")
    assert world.application is not None
    made = world.application.attempt
    world.application_is("Running", mounts=frozenset(), generation=4)
    world.settle()
    assert (world.patches, world.application.mounts, world.application.attempt) == (2, {"login"}, made + 1)


def test_reload_patches_no_secret_in_again() -> None:
    world = mounted("Auto")
    world.changes(updateStrategy="Reload")
    lacks_its_secret(world, generation=1)
    assert (world.patches, world.condition("RolledOut")) == (1, ("False", "RestartRequired"))


def test_what_the_first_document_needs_mounted_is_left_to_the_user() -> None:
    world = World(spec={"secrets": [SECRET]})
    world.stream("orders", WEST)
    world.application_is("Starting")
    world.settle()
    world.later(seconds=5)
    world.driver_starts()
    world.settle()
    assert (world.patches, world.condition("Mounted")) == (0, ("False", "SecretsNotMounted"))


def test_nothing_is_gathered_twice() -> None:
    world = changing(1, seconds=1)
    began = world.now - timedelta(seconds=1)
    assert world.again == began + timedelta(seconds=2)
    world.later(seconds=1)
    world.settle()
    assert world.patches == 1
