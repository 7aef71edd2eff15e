"""Stories of roll-outs: how a change reaches the application."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.figures import subscription_figures
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from tests.unit.operator.recorded_states import rejected
from tests.unit.operator.world import World, cluster, restarted, revision_of, running


def test_the_first_document_is_adopted_and_patches_nothing() -> None:
    world = running(updateStrategy="Restart")
    assert world.rendered() == {"east/orders": "Active"}
    assert world.patches == 0
    assert world.condition("RolledOut") == ("True", "Adopted")
    assert world.condition("Ready")[0] == "True"


def test_nothing_is_served_until_the_stream_is_there() -> None:
    world = World()
    world.settle()
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", "StreamMissing")
    world.stream("orders", cluster("east")).settle()
    assert world.rendered() == {"east/orders": "Active"}


def test_a_change_is_one_patch_and_the_new_driver_confirms() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "RollingOut")
    restarted(world)
    assert world.patches == 1
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_without_a_change_nothing_is_written() -> None:
    world = running()
    count = len(world.writes)
    world.later(hours=5).settle()
    assert len(world.writes) == count


def test_a_burst_of_changes_is_at_most_one_restart_a_minute() -> None:
    world = running(updateStrategy="Restart")
    for number in range(50):
        world.stream("orders", cluster("east"), *[cluster(f"new{index}") for index in range(number + 1)]).settle()
        world.later(milliseconds=20)
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "Coalescing")
    world.later(minutes=1).settle()
    assert world.patches == 2
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Failed", "Absent"])
def test_an_application_that_does_not_run_is_left_alone(life: str) -> None:
    world = running(updateStrategy="Restart")
    world.application_is(life)  # type: ignore[arg-type]
    world.driver = None
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.patches == 0
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    assert world.condition("Ready") == (("False", "Failed") if life == "Failed" else ("True", "NotRunning"))
    assert ("driver's log" in world.message("Ready")) == (life == "Failed")


def test_an_application_that_fails_at_rest_is_not_ready() -> None:
    world = running()
    assert world.condition("Ready") == ("True", "InForce")
    world.application_is("Failed").settle()
    assert world.condition("RolledOut") == ("True", "Adopted")
    assert world.condition("Ready") == ("False", "Failed")
    assert world.condition("Stalled") == ("True", "Failed")
    assert "kubectl describe sparkapplication.sparkoperator.k8s.io app" in world.message("Ready")
    world.application_is("Starting").settle()
    assert world.condition("Ready") == ("True", "InForce")


def test_an_application_that_is_tried_again_is_not_ready() -> None:
    world = running()
    world.application_is("Failing").driver = None
    before = world.stream("orders", cluster("east"), cluster("west")).settle().condition("RolledOut")
    assert world.condition("ApplicationFound") == ("True", "Failing")
    assert (world.condition("Ready"), world.condition("Stalled")) == (("False", "Failing"), ("False", "Settled"))
    assert "tries again: `kubectl describe" in world.message("Ready")
    world.application_is("Starting").settle()
    assert world.condition("RolledOut") == before == ("Unknown", "Waiting")
    assert world.condition("Ready") == ("Unknown", "Waiting")
    resting = running().application_is("Failing").settle()
    assert (resting.condition("RolledOut"), resting.condition("Ready")) == (("True", "Adopted"), ("False", "Failing"))


def test_a_stopped_application_is_ready_and_not_in_force() -> None:
    for life in ("Suspended", "Completed"):
        world = running().application_is(life).settle()  # type: ignore[arg-type]
        assert world.condition("Ready") == ("True", "NotRunning")
        assert f"is {life}" in world.message("Ready")
    absent = World().stream("orders", cluster("east")).settle()
    assert absent.condition("Ready") == ("True", "NotRunning")
    assert "there is no SparkApplication app" in absent.message("Ready")


def resumed() -> World:
    """Return an application that was stopped before revision 2, and has started again."""
    world = running(updateStrategy="Restart")
    world.application_is("Suspended")
    world.driver = None
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert "it takes revision 2 when it starts" in world.message("RolledOut")
    world.later(hours=1)
    world.application_is("Starting").settle()
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    world.driver_starts(reports=False).settle()
    assert (world.condition("RolledOut"), world.patches) == (("Unknown", "Waiting"), 0)
    return world


def test_a_starting_application_is_not_restarted_as_well() -> None:
    world = resumed()
    world.driver_reports().settle()
    assert (world.condition("RolledOut"), world.patches) == (("True", "Confirmed"), 0)
    world.stream("orders", cluster("west")).settle()
    assert world.patches == 1


@pytest.mark.parametrize("what", ["says nothing", "has an older one"])
def test_a_driver_without_the_promised_revision_is_restarted(what: str) -> None:
    world = resumed()
    if what == "has an older one":
        world.driver_reports()
        assert world.driver is not None and world.driver.report is not None
        report = replace(world.driver.report, applied=Revision(lineage="fresh", counter=1))
        world.driver = replace(world.driver, report=report)
    else:
        assert world.again == world.now + timedelta(seconds=120)
        world.later(seconds=120)
        assert world.driver is not None
        world.driver = replace(world.driver, silent_s=120.0)
    world.settle()
    assert (world.condition("RolledOut"), world.patches) == (("False", "RollingOut"), 1)


def test_an_application_starting_without_its_secret_is_patched() -> None:
    world = running(updateStrategy="Restart")
    world.application_is("Suspended")
    world.driver = None
    world.changes(secrets=[{"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"})).settle()
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    world.application_is("Starting").settle()
    assert world.patches == 1


def test_reload_never_restarts() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.writes[-2:] == ["status", "refresh"]
    world.later(minutes=5).settle()
    assert world.condition("RolledOut") == ("False", "NotConfirmed")
    assert world.patches == 0
    world.driver_reports().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


@pytest.mark.parametrize("field", ["subscription", "pod"])
def test_a_report_of_another_confirms_nothing(field: str) -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west")).settle().driver_reports()
    assert world.driver is not None and world.driver.report is not None
    own = world.driver
    world.driver = replace(own, report=replace(world.driver.report, **{field: "another"}))
    world.settle()
    assert world.condition("RolledOut") == ("False", "RollingOut")
    world.driver = own
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_rejected_revision_is_reported_and_never_forced() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.driver is not None and world.driver.report is not None
    report = replace(world.driver.report, rejected=(revision_of(world).token, "west is another cluster than before"))
    world.driver = replace(world.driver, report=report)
    world.settle()
    assert world.condition("RolledOut") == ("False", "Rejected")
    text = "keeps the one before: west is another cluster than before. Correct or revert the stream soon"
    assert text in world.message("RolledOut")
    assert "revert" in world.message("RolledOut")
    assert "west is another cluster" in world.message("RolledOut")


def test_a_pause_does_not_hide_a_rejection() -> None:
    """The document has the revision already: a driver that starts in the pause would end."""
    world = rejected().changes(pause={"reason": "freeze"}).settle()
    assert world.condition("RolledOut") == ("False", "Rejected")
    assert re.search("; nothing newer .*: paused: freeze", world.message("RolledOut"))
    assert subscription_figures(world.status).rejected


def test_a_driver_that_has_ended_rejects_nothing() -> None:
    """Its pod stays until the next attempt. The alert about an application without a driver has to fire."""
    world = rejected()
    assert world.driver is not None
    world.driver = replace(world.driver, running=False)
    world.application_is("Failing").settle()
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    assert subscription_figures(world.status).without_driver


SECRET = {"cluster": "west", "name": "west-login", "allowedServers": ["west:9092"]}


def test_auto_is_live_unless_a_secret_has_to_be_mounted() -> None:
    world = running(secrets=[SECRET])
    world.stream("orders", cluster("east"), cluster("north")).settle()
    assert (world.patches, world.writes.count("refresh")) == (0, 1)
    world.driver_reports().settle()
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    assert world.patches == 1
    assert world.application is not None
    assert world.application.mounts == {"west-login"}


def test_reload_reports_a_secret_that_needs_a_restart() -> None:
    world = running(secrets=[SECRET], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert "west-login" in world.message("RolledOut")


def test_auto_restarts_a_driver_that_stays_silent() -> None:
    world = World()
    world.stream("orders", cluster("east"))
    world.application_is("Starting").settle()
    world.driver_starts(reports=False)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.patches == 0
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    assert world.driver is not None and world.again is not None
    world.driver = replace(world.driver, silent_s=(world.again - world.now).total_seconds())
    world.settle()
    assert world.patches == 1
    assert world.condition("Reporting") == ("False", "NoReport")


def test_auto_gives_each_new_driver_time_to_report() -> None:
    world = running()
    world.stream("orders", cluster("east"), cluster("west")).settle()
    for _ in ("it ended before it had confirmed", "and its successor, too"):
        world.application_is("Starting")
        world.driver = None
        world.settle()
        world.driver_starts(reports=False).settle()
    world.driver_reports().settle()
    assert world.patches == 0
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_auto_goes_on_with_a_restart_without_a_driver() -> None:
    world = running(secrets=[SECRET])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    world.application_is("Starting")
    world.driver = None
    for _ in range(MAX_ATTEMPTS):
        world.later(minutes=2).settle()
    assert world.condition("RolledOut") == ("False", "Stalled")


def test_a_pause_holds_everything_and_ends_by_itself() -> None:
    world = running(updateStrategy="Restart")
    world.spec["pause"] = {"until": "2026-11-01T01:00:00Z", "reason": "freeze"}
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.again is not None
    world.now = world.again
    world.settle()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.patches == 1


def test_a_pause_shows_while_nothing_else_is_wrong() -> None:
    world = running(updateStrategy="Reload")
    world.changes(pause={"reason": "freeze"})
    world.stream("orders", cluster("west")).settle()
    text = "nothing newer is rolled out: paused: freeze; take spec.pause out to go on"
    assert text in world.message("RolledOut")
    assert text in world.message("Ready")
    world.changes(pause=None).settle()
    assert "paused" not in world.message("RolledOut") + world.message("Drained")
    world.changes(pause={"reason": "freeze"}).settle()
    assert "no drain ends: paused: freeze" in world.message("Drained")


def test_a_report_confirms_no_revision_without_its_secret() -> None:
    world = running(secrets=[{"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    for _ in range(6):  # the patch is lost, and the driver takes the new document live except for west
        world.look()
        world.driver_reports()
    assert world.patches == 1
    assert world.condition("RolledOut")[0] == "False"
    world.later(minutes=2).settle()
    assert world.patches == 2
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")
