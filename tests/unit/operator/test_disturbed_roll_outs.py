"""Stories of disturbed roll-outs: patches that are lost or reverted, a lost document or status, and foreign ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.metadata.model import Rendering, Revision
from dynamic_kafka.metadata.revision import AwaitedRevision
from kafkastream_operator.core.decide import after_refusal, decide
from kafkastream_operator.core.rollout.restart import MAX_ATTEMPTS
from tests.unit.operator.world import World, cluster, restarted, revision_of, running


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
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.application is not None
    before = world.application.resource_version
    world.later(seconds=89).settle()
    assert world.patches == 1
    world.later(seconds=2).settle()
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
    world.application_is("Running", uid="another", submission="another").settle()
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
    world.stream("orders", cluster("east"), cluster("west"), cluster("north")).settle()
    assert world.patches == MAX_ATTEMPTS + 1


@pytest.mark.parametrize("token", ["other/57", "fresh/57"])
def test_a_driver_that_awaits_a_foreign_revision_is_reported(token: str) -> None:
    world = World(spec={"updateStrategy": "Reload"})
    world.stream("orders", cluster("east")).settle()
    assert revision_of(world).lineage == "fresh"
    # The manifest is from another Kubernetes or a backup, with the keys of the operator there.
    world.application_is("Starting", token=token).settle()
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": token})
    now = revision_of(world)
    begins = awaited is not None and awaited.reached_by(Revision("sha256:0", now.counter, now.lineage, Rendering()))
    assert begins == (token == "other/57") == ("begins with a warning" in world.message("RolledOut"))
    assert world.condition("RolledOut") == world.condition("Ready") == ("False", "AwaitsAnother")
    assert world.condition("Stalled") == ("True", "AwaitsAnother")
    assert token in world.message("Ready")
    world.driver_starts(reports=False).settle()
    assert world.condition("Ready") == ("False", "AwaitsAnother")
    assert world.patches == 0
    # A user follows the message.
    world.application_is("Starting", token="")
    world.driver_starts().settle()
    assert world.condition("Ready") == ("True", "InForce")


def test_a_driver_that_has_begun_awaits_no_revision() -> None:
    world = running(updateStrategy="Reload")
    world.driver_reports()
    world.application_is("Running", token="other/57").settle()
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
    world.stream("orders", cluster("east"), cluster("west")).settle()
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
    world.later(seconds=(world.again - world.now).total_seconds()).settle()
    assert world.patches == 2


def test_a_changed_subscription_retries_what_was_given_up() -> None:
    world = given_up()
    world.later(minutes=10).settle()
    patches = world.patches
    world.changes(orphanRetention="8d").settle()
    assert world.patches == patches + 1
    world.driver_starts().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_what_was_given_up_goes_live_under_reload() -> None:
    world = given_up()
    patches = world.patches
    world.changes(updateStrategy="Reload").settle()
    assert world.condition("RolledOut") == ("False", "RollingOut")
    assert world.events[-1] == ("RollingOut", "revision 2 is being rolled out live")
    world.driver_reports().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.patches == patches


def test_a_lost_status_costs_no_restart_and_loses_no_change() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    restarted(world)
    world.status = type(world.status)()
    world.settle()
    assert world.patches == 1
    world.stream("orders", cluster("east")).settle()
    world.status = type(world.status)()
    world.later(minutes=2).settle()
    # The same patch is made again, and changes nothing.
    assert world.application is not None
    assert world.application.resource_version == "3"
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_lost_patch_is_made_again_without_a_status() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.status = type(world.status)()
    world.settle()
    assert world.condition("RolledOut")[0] == "False"
    world.later(minutes=2).settle()
    restarted(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_change_after_the_loss_of_everything_is_rolled_out() -> None:
    world = running(updateStrategy="Reload")
    world.document, world.status = None, type(world.status)()
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert world.condition("RolledOut") == ("False", "RollingOut")
    world.driver_reports().settle()
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
        world.later(minutes=2).settle()
        restarted(world)
    counter = revision_of(world).counter
    world.document, world.status = None, type(world.status)()
    world.stream("orders", cluster("east")).settle()
    assert revision_of(world).counter == counter + 1
    assert revision_of(world).lineage == "fresh"


def test_a_foreign_configmap_is_not_overwritten() -> None:
    world = World(taken=True)
    world.stream("orders", cluster("east")).settle()
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", "ConfigMapTaken")
    assert world.message("Ready").endswith("delete it if no job reads it or may start with it")


def test_the_second_subscription_of_an_application_is_refused() -> None:
    world = World(rival="older")
    world.stream("orders", cluster("east")).settle()
    assert world.document is None
    assert "older" in world.message("Stalled")
