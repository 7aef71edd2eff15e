"""Stories of restarts: how many there are, what confirms one, and what is patched in once more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafkastream_operator.core.application import Life
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.models.subscription import SubscriptionStatus
from tests.unit.operator.test_apache import apaches
from tests.unit.operator.world import World, cluster, running

SECRET = {"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}
WEST = cluster("west", secretRef={"name": "login"})


def changing(count: int, **between: float) -> World:
    """Return an application after this many changes of its stream, each with one more cluster."""
    world = running(updateStrategy="Restart")
    world.timing = Timing()
    world.later(hours=1)
    for number in range(count):
        world.stream("orders", cluster("east"), *[cluster(f"new{index}") for index in range(number + 1)]).settle()
        world.later(**between)
    return world


def test_a_burst_of_changes_is_one_restart() -> None:
    world = changing(50, milliseconds=20)
    assert (world.patches, world.condition("RolledOut")) == (0, ("False", "RollingOut"))
    assert world.again is not None
    world.later(seconds=(world.again - world.now).total_seconds()).settle()
    assert world.patches == 1
    world.driver_starts(reports=False)
    for _ in range(5):
        world.settle()
        world.later(minutes=1)
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))


def test_changes_that_go_on_and_on_hold_up_no_restart() -> None:
    world = changing(5, seconds=0.9)
    assert world.patches == 1  # two seconds after the first change, with all changes until then
    assert world.condition("RolledOut") == ("False", "Coalescing")


@pytest.mark.parametrize("writes", range(1, 6))
def test_gathered_changes_are_one_restart_after_a_death(writes: int) -> None:
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


def test_a_live_report_does_not_confirm_a_restart() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_reports()  # Kubeflow's operator is down, the patch is lost, and the driver takes the document live
    world.settle()
    assert world.condition("RolledOut") == ("False", "RollingOut")
    world.later(seconds=91).settle()
    assert world.patches == 2
    world.driver_starts(reports=False).settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_coalescing_restart_follows_despite_a_live_report() -> None:
    world = running(updateStrategy="Restart")
    for name in ("west", "north"):
        world.stream("orders", cluster("east"), cluster(name)).settle()
        world.driver_starts().settle()
    assert world.condition("RolledOut") == ("False", "Coalescing")
    world.driver_reports()
    world.later(minutes=1).settle()
    assert world.patches == 2


def test_a_driver_submitted_since_confirms_by_its_report() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.application is not None
    world.application = replace(
        world.application, token=""
    )  # the patch was removed, and somebody restarted the application
    world.driver_starts().settle()
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))


def test_a_restart_by_hand_confirms_what_was_given_up() -> None:
    world = given_up()
    world.driver_reports().settle()
    assert world.condition("RolledOut") == ("False", "Stalled")
    world.driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def given_up() -> World:
    """Return an application whose restart the operator has given up."""
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(MAX_ATTEMPTS + 3):
        world.settle()
        world.later(minutes=2)
    assert world.condition("RolledOut") == ("False", "Stalled")
    return world


def test_a_retry_begins_a_roll_out_again_once() -> None:
    world = given_up()
    assert world.status.rollout is not None
    token, patches = world.status.rollout.token, world.patches
    assert f"kafkastream.dev/retry={token}@REASON" in world.message("RolledOut")
    # When a user asks for the revision, then the operator tries as often as before
    world.retry = f"{token}@quota raised"
    for _ in range(MAX_ATTEMPTS + 3):
        world.settle()
        world.later(minutes=2)
    assert (world.patches, world.condition("RolledOut")) == (patches + MAX_ATTEMPTS, ("False", "Stalled"))
    assert world.events.count(("Retried", f"the operator tries revision {token} again, as asked")) == 1
    # And once more for another reason
    world.retry = f"{token}@image corrected"
    world.settle().driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


@pytest.mark.parametrize("retry", ["l/1@another revision", "please"])
def test_a_retry_of_another_revision_does_not_count(retry: str) -> None:
    world = given_up()
    patches = world.patches
    world.retry = retry
    world.settle()
    assert (world.patches, world.status.retried) == (patches, "")


def test_a_retry_in_a_pause_counts_after_it() -> None:
    world = given_up()
    assert world.status.rollout is not None
    world.retry, patches = world.status.rollout.token, world.patches
    world.changes(pause={"reason": "freeze"}).settle()
    assert (world.patches, world.status.retried) == (patches, "")


def test_reload_reports_a_driver_that_takes_nothing_live() -> None:
    world = running(updateStrategy="Reload")
    world.driver_reports(abilities=())
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert (world.patches, world.writes.count("refresh")) == (0, 0)
    world.driver_starts()  # by its user
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def mounted(strategy: str) -> World:
    """Return an application whose Secret was mounted by a confirmed restart."""
    world = running(updateStrategy=strategy, secrets=[SECRET])
    world.stream("orders", cluster("east"), WEST).settle()
    world.driver_starts().settle()
    assert (world.patches, world.condition("RolledOut")) == (1, ("True", "Confirmed"))
    world.later(hours=1)
    return world


def lacks_its_secret(world: World, life: Life = "Running", **more: Any) -> None:
    """Apply the application's manifest, which has no operator's keys."""
    world.application_is(life, token="", attempt=0, mounts=frozenset(), **more)
    world.attempted = ""
    world.settle()


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
@pytest.mark.parametrize("live_since", [False, True])
def test_an_application_applied_anew_gets_its_secrets_again(strategy: str, live_since: bool) -> None:
    world = mounted(strategy)
    before = 1
    if live_since:
        world.stream("orders", cluster("north"), WEST).settle()
        before = world.patches
        if strategy == "Restart":
            world.driver_starts()
        world.driver_reports().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    for number in range(4):  # as often as somebody likes
        world.later(hours=1)
        world.application, world.driver = None, None
        world.settle()
        lacks_its_secret(world, "Starting", uid=f"anew-{number}", generation=1, submission="")
        assert world.patches == before + number + 1
        world.driver_starts().settle()
        assert world.condition("RolledOut") == ("True", "Confirmed")


def test_secrets_removed_three_times_are_left_alone() -> None:
    world = mounted("Auto")
    for number in range(2, 4):
        lacks_its_secret(world, generation=number)
        assert world.patches == number
        world.driver_starts().settle()
        assert world.condition("RolledOut") == ("True", "Confirmed")
        world.later(hours=1)
    lacks_its_secret(world, generation=9)
    assert (world.patches, world.condition("RolledOut")) == (3, ("False", "RevertedByOthers"))
    world.later(hours=1).settle()
    assert world.patches == 3


def test_a_mount_removed_under_its_token_is_another_attempt() -> None:
    world = mounted("Restart")
    assert world.application is not None
    made = world.application.attempt
    world.application_is("Running", mounts=frozenset(), generation=4).settle()
    assert (world.patches, world.application.mounts, world.application.attempt) == (2, {"login"}, made + 1)


def test_reload_patches_no_secret_in_again() -> None:
    world = mounted("Auto")
    world.changes(updateStrategy="Reload")
    lacks_its_secret(world, generation=1)
    assert (world.patches, world.condition("RolledOut")) == (1, ("False", "RestartRequired"))


def test_secrets_of_the_first_document_are_the_users() -> None:
    world = World(spec={"secrets": [SECRET]})
    world.stream("orders", WEST)
    world.application_is("Starting").settle()
    world.later(seconds=5)
    world.driver_starts().settle()
    assert (world.patches, world.condition("Mounted")) == (0, ("False", "SecretsNotMounted"))


def test_nothing_is_gathered_twice() -> None:
    world = changing(1, seconds=1)
    began = world.now - timedelta(seconds=1)
    assert world.again == began + timedelta(seconds=2)
    world.later(seconds=1).settle()
    assert world.patches == 1


def test_apaches_driver_confirms_the_patch_it_started_with() -> None:
    """Apache's operator has begun an attempt without a driver's pod, and makes the pod from the patched spec."""
    world = apaches(updateStrategy="Restart")
    world.driver = None
    world.application_is("Starting", submission="s2")  # ScheduledToRestart, after a failure of its driver
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.later(seconds=2).settle()
    assert world.patches == 1
    world.driver_starts()
    world.application_is("Running", submission="s2")  # the same attempt
    for _ in range(4):
        world.settle()
        world.later(minutes=1)
    assert (world.condition("RolledOut"), world.patches, world.writes.count("end")) == (("True", "Confirmed"), 1, 0)


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Failed"])
def test_a_revision_promised_to_a_new_driver_is_not_patched(life: Life) -> None:
    world = running(updateStrategy="Restart")
    world.timing = Timing()
    world.later(hours=1)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.patches == 0  # it waits for more changes
    world.driver = None
    world.application_is(life).settle()
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    assert "takes revision 2 when it starts" in world.message("RolledOut")
    world.later(hours=1)
    world.application_is("Starting").settle()
    assert world.patches == 0
    world.driver_starts().settle()
    assert (world.patches, world.condition("RolledOut")) == (0, ("True", "Confirmed"))


def test_a_start_with_a_restored_document_needs_no_restart() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.application_is("Starting")
    world.driver = None
    world.settle()
    world.driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    # The backup has the rendered ConfigMap and a subscription without status; Git has the application without the
    # operator's keys. No pod exists yet, and the first one mounts the newest document.
    world.status, world.driver = SubscriptionStatus(), None
    world.application_is("Starting", token="", attempt=0, uid="restored", submission="s0")
    patches = world.patches
    world.settle()
    assert world.patches == patches
