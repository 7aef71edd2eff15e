"""Stories of roll-outs: how a change reaches the application."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dynamic_kafka.metadata.model import Rendering, Revision
from dynamic_kafka.metadata.revision import AwaitedRevision
from kafkastream_operator.core.decide import after_refusal, decide
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from tests.unit.operator.world import World, cluster, revision_of, running


def restarted(world: World) -> None:
    """Let Kubeflow's operator follow the patch with a new driver."""
    world.application_is("Starting")
    world.driver = None
    world.settle()
    world.driver_starts()
    world.settle()


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
    world.stream("orders", cluster("east"))
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}


def test_a_change_is_one_patch_and_the_new_driver_confirms() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "RollingOut")
    restarted(world)
    assert world.patches == 1
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_without_a_change_nothing_is_written() -> None:
    world = running()
    count = len(world.writes)
    world.later(hours=5)
    world.settle()
    assert len(world.writes) == count


@pytest.mark.parametrize("strategy", ["Restart", "Reload"])
@pytest.mark.parametrize("writes", range(1, 6))
def test_a_death_after_any_write_loses_and_repeats_nothing(strategy: str, writes: int) -> None:
    whole, dying = running(updateStrategy=strategy), running(updateStrategy=strategy)
    for world in (whole, dying):
        world.stream("orders", cluster("east"), cluster("west"))
    whole.settle()
    dying.settle_with_deaths(writes)
    assert dying.document == whole.document
    assert dying.status == whole.status
    assert dying.application == whole.application


def test_a_lost_patch_is_made_again_as_a_change() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.application is not None
    before = world.application.resource_version
    world.later(seconds=89)
    world.settle()
    assert world.patches == 1
    world.later(seconds=2)
    world.settle()
    assert world.patches == 2
    assert world.application.resource_version != before
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_refused_patch_is_retried_on_a_new_application() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.look()
    view = world.view()
    world.status = after_refusal(view, decide(view), 'Apply failed with 1 conflict: conflict with "gitops"')
    world.settle()
    assert world.patches == 0
    assert world.condition("RolledOut") == ("False", "FieldTaken")
    # The application was deleted and applied without that field, so its generation starts from 1 again.
    world.application_is("Running", uid="another", submission="another")
    world.settle()
    assert world.patches == 1


def test_the_operator_gives_up_after_several_lost_patches() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(MAX_ATTEMPTS + 3):
        world.settle()
        world.later(minutes=2)
    assert world.patches == MAX_ATTEMPTS
    assert world.condition("RolledOut") == ("False", "Stalled")
    assert world.condition("Stalled")[0] == "True"
    world.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    world.settle()
    assert world.patches == MAX_ATTEMPTS + 1


@pytest.mark.parametrize("token", ["other/57", "fresh/57"])
def test_a_driver_that_awaits_a_foreign_revision_is_reported(token: str) -> None:
    world = World(spec={"updateStrategy": "Reload"})
    world.stream("orders", cluster("east"))
    world.settle()
    assert revision_of(world).lineage == "fresh"
    # The manifest is from another Kubernetes or a backup, with the keys of the operator there.
    world.application_is("Starting", token=token)
    world.settle()
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": token})
    now = revision_of(world)
    begins = awaited is not None and awaited.reached_by(Revision("sha256:0", now.counter, now.lineage, Rendering()))
    assert begins == (token == "other/57") == ("begins with a warning" in world.message("RolledOut"))
    assert world.condition("RolledOut") == world.condition("Ready") == ("False", "AwaitsAnother")
    assert world.condition("Stalled") == ("True", "AwaitsAnother")
    assert token in world.message("Ready")
    world.driver_starts(reports=False)
    world.settle()
    assert world.condition("Ready") == ("False", "AwaitsAnother")
    assert world.patches == 0
    # A user follows the message.
    world.application_is("Starting", token="")
    world.driver_starts()
    world.settle()
    assert world.condition("Ready") == ("True", "InForce")


def test_a_driver_that_has_begun_awaits_no_revision() -> None:
    world = running(updateStrategy="Reload")
    world.driver_reports()
    world.application_is("Running", token="other/57")
    world.settle()
    assert world.condition("Ready") == ("True", "InForce")


def given_up() -> World:
    """Return a world in which somebody removed the patch three times."""
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(6):
        world.settle()
        assert world.application is not None
        world.application = replace(world.application, token="")
        world.later(minutes=1)
    world.settle()
    assert world.condition("RolledOut") == ("False", "RevertedByOthers")
    return world


def test_a_patch_removed_three_times_is_left_alone() -> None:
    world = given_up()
    assert world.patches == 3
    assert "GitOps" in world.message("Ready")


def test_a_removed_patch_keeps_the_time_between_restarts() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.patches == 1
    for _ in range(3):
        world.later(seconds=1)
        assert world.application is not None
        world.application = replace(world.application, token="")
        world.settle()
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "Reverted")
    assert "(1 of 3); restarts are 60 s apart" in world.message("RolledOut")
    assert world.again is not None
    world.later(seconds=(world.again - world.now).total_seconds())
    world.settle()
    assert world.patches == 2


def test_a_changed_subscription_retries_what_was_given_up() -> None:
    world = given_up()
    world.later(minutes=10)
    world.settle()
    patches = world.patches
    world.changes(orphanRetention="8d")
    world.settle()
    assert world.patches == patches + 1
    world.driver_starts()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_what_was_given_up_goes_live_under_reload() -> None:
    world = given_up()
    patches = world.patches
    world.changes(updateStrategy="Reload")
    world.settle()
    assert world.condition("RolledOut") == ("False", "RollingOut")
    assert world.events[-1] == ("RollingOut", "revision 2 is being rolled out live")
    world.driver_reports()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.patches == patches


def test_a_burst_of_changes_is_at_most_one_restart_a_minute() -> None:
    world = running(updateStrategy="Restart")
    for number in range(50):
        world.stream("orders", cluster("east"), *[cluster(f"new{each}") for each in range(number + 1)])
        world.settle()
        world.later(milliseconds=20)
    assert world.patches == 1
    assert world.condition("RolledOut") == ("False", "Coalescing")
    world.later(minutes=1)
    world.settle()
    assert world.patches == 2
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


@pytest.mark.parametrize("life", ["Suspended", "Completed", "Failed", "Absent"])
def test_an_application_that_does_not_run_is_left_alone(life: str) -> None:
    world = running(updateStrategy="Restart")
    world.application_is(life)  # type: ignore[arg-type]
    world.driver = None
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.patches == 0
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    assert world.condition("Ready") == ("True", "NotRunning")
    assert ("driver's log" in world.message("Ready")) == (life == "Failed")


def resumed() -> World:
    """Return an application that was stopped before revision 2, and has started again."""
    world = running(updateStrategy="Restart")
    world.application_is("Suspended")
    world.driver = None
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert "it takes revision 2 when it starts" in world.message("RolledOut")
    world.later(hours=1)
    world.application_is("Starting")
    world.settle()
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    world.driver_starts(reports=False)
    world.settle()
    assert (world.condition("RolledOut"), world.patches) == (("Unknown", "Waiting"), 0)
    return world


def test_a_starting_application_is_not_restarted_as_well() -> None:
    world = resumed()
    world.driver_reports()
    world.settle()
    assert (world.condition("RolledOut"), world.patches) == (("True", "Confirmed"), 0)
    world.stream("orders", cluster("west"))
    world.settle()
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
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    world.settle()
    assert world.condition("RolledOut") == ("Unknown", "NotRunning")
    world.application_is("Starting")
    world.settle()
    assert world.patches == 1


def test_reload_never_restarts() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.writes[-2:] == ["status", "refresh"]
    world.later(minutes=5)
    world.settle()
    assert world.condition("RolledOut") == ("False", "NotConfirmed")
    assert world.patches == 0
    world.driver_reports()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_rejected_revision_is_reported_and_never_forced() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.driver is not None and world.driver.report is not None
    report = replace(world.driver.report, rejected=(revision_of(world).token, "west is another cluster than before"))
    world.driver = replace(world.driver, report=report)
    world.settle()
    assert world.condition("RolledOut") == ("False", "Rejected")
    text = "keeps the one before: west is another cluster than before. Correct or revert the stream soon"
    assert text in world.message("RolledOut")
    assert "revert" in world.message("RolledOut")
    assert "west is another cluster" in world.message("RolledOut")


SECRET = {"cluster": "west", "name": "west-login", "allowedServers": ["west:9092"]}


def test_auto_is_live_unless_a_secret_has_to_be_mounted() -> None:
    world = running(secrets=[SECRET])
    world.stream("orders", cluster("east"), cluster("north"))
    world.settle()
    assert (world.patches, world.writes.count("refresh")) == (0, 1)
    world.driver_reports()
    world.settle()
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"}))
    world.settle()
    assert world.patches == 1
    assert world.application is not None
    assert world.application.mounts == {"west-login"}


def test_reload_reports_a_secret_that_needs_a_restart() -> None:
    world = running(secrets=[SECRET], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"}))
    world.settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert "west-login" in world.message("RolledOut")


def test_auto_restarts_a_driver_that_stays_silent() -> None:
    world = World()
    world.stream("orders", cluster("east"))
    world.application_is("Starting")
    world.settle()
    world.driver_starts(reports=False)
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.patches == 0
    assert world.condition("RolledOut") == ("Unknown", "Waiting")
    assert world.driver is not None and world.again is not None
    world.driver = replace(world.driver, silent_s=(world.again - world.now).total_seconds())
    world.settle()
    assert world.patches == 1
    assert world.condition("Reporting") == ("False", "NoReport")


def test_auto_gives_each_new_driver_time_to_report() -> None:
    world = running()
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    for _ in ("it ended before it had confirmed", "and its successor, too"):
        world.application_is("Starting")
        world.driver = None
        world.settle()
        world.driver_starts(reports=False)
        world.settle()
    world.driver_reports()
    world.settle()
    assert world.patches == 0
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_auto_goes_on_with_a_restart_without_a_driver() -> None:
    world = running(secrets=[SECRET])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"}))
    world.settle()
    world.application_is("Starting")
    world.driver = None
    for _ in range(MAX_ATTEMPTS):
        world.later(minutes=2)
        world.settle()
    assert world.condition("RolledOut") == ("False", "Stalled")


def test_a_pause_holds_everything_and_ends_by_itself() -> None:
    world = running(updateStrategy="Restart")
    world.spec["pause"] = {"until": "2026-11-01T01:00:00Z", "reason": "freeze"}
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert world.again is not None
    world.now = world.again
    world.settle()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.patches == 1


def test_a_pause_shows_while_nothing_else_is_wrong() -> None:
    world = running(updateStrategy="Reload")
    world.changes(pause={"reason": "freeze"})
    world.stream("orders", cluster("west"))
    world.settle()
    text = "nothing newer is rolled out: paused: freeze; take spec.pause out to go on"
    assert text in world.message("RolledOut")
    assert text in world.message("Ready")
    world.changes(pause=None)
    world.settle()
    assert "paused" not in world.message("RolledOut") + world.message("Drained")
    world.changes(pause={"reason": "freeze"})
    world.settle()
    assert "no drain ends: paused: freeze" in world.message("Drained")


def test_a_lost_status_costs_no_restart_and_loses_no_change() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    restarted(world)
    world.status = type(world.status)()
    world.settle()
    assert world.patches == 1
    world.stream("orders", cluster("east"))
    world.settle()
    world.status = type(world.status)()
    world.later(minutes=2)
    world.settle()
    # The same patch is made again, and changes nothing.
    assert world.application is not None
    assert world.application.resource_version == "3"
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_lost_patch_is_made_again_without_a_status() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle()
    world.status = type(world.status)()
    world.settle()
    assert world.condition("RolledOut")[0] == "False"
    world.later(minutes=2)
    world.settle()
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_change_after_the_loss_of_everything_is_rolled_out() -> None:
    world = running(updateStrategy="Reload")
    world.document, world.status = None, type(world.status)()
    world.stream("orders", cluster("west"))
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert world.condition("RolledOut") == ("False", "RollingOut")
    world.driver_reports()
    world.settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_report_confirms_no_revision_without_its_secret() -> None:
    world = running(secrets=[{"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    for _ in range(6):  # the patch is lost, and the driver takes the new document live except for west
        world.look()
        world.driver_reports()
    assert world.patches == 1
    assert world.condition("RolledOut")[0] == "False"
    world.later(minutes=2)
    world.settle()
    assert world.patches == 2
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_an_edited_document_is_restored_without_a_revision() -> None:
    world = running()
    before = world.document
    world.edited = True
    world.settle()
    assert world.document == before
    assert not world.edited
    assert world.patches == 0


def test_counters_go_on_when_document_and_status_are_lost() -> None:
    world = running(updateStrategy="Restart")
    for number in range(3):
        world.stream("orders", cluster("east"), cluster(f"c{number}"))
        world.later(minutes=2)
        world.settle()
        restarted(world)
    counter = revision_of(world).counter
    world.document, world.status = None, type(world.status)()
    world.stream("orders", cluster("east"))
    world.settle()
    assert revision_of(world).counter == counter + 1
    assert revision_of(world).lineage == "fresh"


def test_a_foreign_configmap_is_not_overwritten() -> None:
    world = World(taken=True)
    world.stream("orders", cluster("east"))
    world.settle()
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", "ConfigMapTaken")
    assert world.message("Ready").endswith("delete it if no job reads it or may start with it")


def test_the_second_subscription_of_an_application_is_refused() -> None:
    world = World(rival="older")
    world.stream("orders", cluster("east"))
    world.settle()
    assert world.document is None
    assert "older" in world.message("Stalled")
