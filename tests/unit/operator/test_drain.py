"""Stories of drains: a removed topic stays in the document until there is evidence that it is drained."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kafkastream_operator.core.document import make_document
from kafkastream_operator.core.drain_evidence import TopicReport
from tests.unit.operator.drains import DRAINED, removed
from tests.unit.operator.world import UID, DiedError, World, cluster, revision_of, running


def test_a_removed_cluster_is_read_until_it_is_drained() -> None:
    world = removed()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert world.condition("Drained") == ("False", "Draining")
    world.driver_reports(east__orders=DRAINED).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.condition("Drained")[0] == "True"


def test_a_silent_driver_with_an_older_revision_waits_for_it() -> None:
    world = removed()
    assert world.driver is not None
    world.driver = replace(world.driver, silent_s=3600.0)
    world.later(seconds=1).settle()
    assert re.fullmatch("east/orders: driver driver-1 .*not applied revision 3 .*RolledOut", world.message("Drained"))
    world.driver_reports(east__orders=replace(DRAINED, quiet_s=0))
    world.driver = replace(world.driver, silent_s=3600.0)
    world.settle()
    assert "has not reported for more than 30 s" in world.message("Drained")


def test_a_cluster_that_was_never_reached_stays_until_released() -> None:
    world = removed()
    world.driver_reports(east__orders=TopicReport(lag=None, quiet_s=0, never_reached=True)).settle()
    assert "east/orders: its cluster was never reached, and may hold records" in world.message("Drained")
    world.later(days=3).driver_reports(east__orders=TopicReport(lag=None, quiet_s=9e9, never_reached=True)).settle()
    assert world.rendered()["east/orders"] == "Draining"
    world.released = frozenset({"east"})
    assert world.settle().rendered() == {"west/orders": "Active"}


def test_a_cluster_that_comes_back_is_active_again() -> None:
    world = removed()
    world.stream("orders", cluster("west"), cluster("east")).settle()
    assert world.rendered() == {"east/orders": "Active", "west/orders": "Active"}
    assert world.status.draining == ()


def test_a_topic_drains_alone() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("east", "orders")).settle()
    assert world.rendered() == {"east/orders": "Active", "east/retry": "Draining"}
    world.driver_reports(east__retry=DRAINED).settle()
    assert world.rendered() == {"east/orders": "Active"}


def test_a_deleted_stream_drains_by_the_rules_it_had() -> None:
    world = removed(quietPeriod="10m")
    del world.streams["orders"]
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Draining"}
    assert {drain.quiet_period for drain in world.status.draining} == {"10m"}
    world.driver_reports(east__orders=DRAINED, west__orders=replace(DRAINED, quiet_s=601)).settle()
    assert world.rendered() == {"east/orders": "Draining"}


def test_immediate_lets_go_at_once() -> None:
    assert removed(policy="Immediate").rendered() == {"west/orders": "Active"}


def test_a_renamed_cluster_does_not_drain() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("new-east", renamedFrom="east")).settle()
    assert world.rendered() == {"new-east/orders": "Active"}


def two_topics() -> World:
    """Return an application on two topics of east."""
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", "orders", "retry")).settle()
    world.driver_reports().settle()
    return world


def test_a_topic_dropped_by_a_rename_drains_under_the_new_id() -> None:
    world = two_topics()
    world.stream("orders", cluster("new", "orders", renamedFrom="east")).settle()
    assert world.rendered() == {"new/orders": "Active", "new/retry": "Draining"}
    world.driver_reports(new__retry=DRAINED).settle()
    assert world.rendered() == {"new/orders": "Active"}


def test_a_drain_goes_on_under_the_new_id() -> None:
    world = two_topics()
    world.stream("orders", cluster("east", "orders")).settle()
    since = world.status.draining[0].since
    world.later(hours=1)
    world.stream("orders", cluster("new", "orders", renamedFrom="east")).settle()
    assert world.rendered() == {"new/orders": "Active", "new/retry": "Draining"}
    assert [drain.since for drain in world.status.draining] == [since]


SECRET = {"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}


def with_secret(*bindings: dict[str, object]) -> World:
    """Return an application after east, which needs a Secret, was removed; these bindings are left."""
    world = World(spec={"secrets": [SECRET]})
    world.stream("orders", cluster("east", secretRef={"name": "login"}), cluster("west"))
    world.application_is("Starting", mounts=frozenset({"login"})).settle()
    world.driver_starts().settle()
    world.spec["secrets"] = list(bindings)
    world.stream("orders", cluster("west")).settle()
    return world


def east_of(world: World) -> dict[str, object]:
    """Return cluster east of the document."""
    assert world.document is not None
    return dict(world.document.streams["orders"]["clusters"]["east"])


def test_a_drain_keeps_its_secret_while_it_is_bound() -> None:
    assert east_of(with_secret(SECRET))["secretFolder"] == "login"


def test_a_drain_loses_a_secret_that_is_no_longer_bound() -> None:
    world = with_secret()
    assert "secretFolder" not in east_of(world)
    assert "spec.secrets" in world.status.draining[0].message
    world.spec["secrets"] = [SECRET]
    world.settle()
    assert east_of(world)["secretFolder"] == "login"


def test_a_forged_document_redirects_no_secret() -> None:
    world = with_secret(SECRET)
    assert world.document is not None
    evil = {**east_of(world), "bootstrapServers": "evil:9092"}
    streams = {"orders": {"clusters": {**world.document.streams["orders"]["clusters"], "east": evil}}}
    world.document = make_document(world.document.revision, streams, {}, UID)
    world.settle()
    assert "secretFolder" not in east_of(world)


def east_drains(world: World) -> bool:
    """Return whether the drain of east ends, after the driver has the newest document and reports east as drained."""
    world.driver_reports().settle()
    assert world.rendered()["east/orders"] == "Draining"
    world.driver_reports(east__orders=DRAINED).settle()
    return world.rendered() == {"west/orders": "Active"}


@pytest.mark.parametrize("lost", ["document", "status", "both", "edited"])
def test_drains_survive_the_loss_of(lost: str) -> None:
    world = removed()
    world.driver_reports().settle()
    if lost in ("document", "both"):
        world.document = None
    if lost in ("status", "both"):
        world.status = type(world.status)()
    world.edited = lost == "edited"
    world.settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert east_drains(world)


def test_a_restored_document_hides_no_later_drain() -> None:
    world = running(updateStrategy="Reload")
    before = world.document
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("east")).settle()
    drains, world.document = world.document, before
    world.settle()
    assert world.document == drains


@pytest.mark.parametrize("since", ["a cluster", "a property"])
def test_a_full_restore_gets_a_revision_that_drivers_take(since: str) -> None:
    """The driver uses a later revision than document and status have, and ignores the earlier one."""
    world = running(updateStrategy="Reload")
    document, status = world.document, world.status
    more = {"properties": {"fetch.min.bytes": "1000"}} if since == "a property" else {}
    world.stream("orders", cluster("east", **more), *([] if more else [cluster("west")])).settle()
    world.driver_reports().settle()
    applied = revision_of(world)

    world.document, world.status = document, status
    world.stream("orders", cluster("east"))
    world.spec["pause"] = {"reason": "restored"}
    world.settle()
    assert world.document == document, "in a pause all stays as it is"
    del world.spec["pause"]
    world.settle()

    assert revision_of(world).token == replace(applied, counter=applied.counter + 1).token
    west = {} if more else {"west/orders": "Draining"}
    assert world.rendered() == {"east/orders": "Active", **west}
    assert world.condition("RolledOut") == ("False", "RollingOut")
    if west:
        world.driver_reports(west__orders=DRAINED).settle()
        assert world.rendered() == {"east/orders": "Active"}
    world.driver_reports().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_the_status_of_an_earlier_drain_does_not_count() -> None:
    world = removed()
    world.driver_reports(east__orders=DRAINED)
    drained = world.driver
    world.driver_reports()
    world.stream("orders", cluster("west"), cluster("east"))
    world.dies_after = len(world.writes) + 1
    with pytest.raises(DiedError):
        world.look()
    assert world.rendered()["east/orders"] == "Active"
    world.stream("orders", cluster("west"))
    world.driver = drained
    world.settle()
    assert world.rendered()["east/orders"] == "Draining"


@pytest.mark.parametrize("why", ["pause", "pattern"])
def test_a_document_lost_in_a_pause_is_restored_as_it_was(why: str) -> None:
    world = removed()
    before = world.document
    world.stream("orders", cluster("north"))
    world.driver_reports(east__orders=DRAINED)
    if why == "pause":
        world.spec["pause"] = {"reason": "freeze"}
    else:
        world.spec["streams"] = {"pattern": "("}
    world.document = None
    world.settle()
    assert world.document is not None
    assert (world.document.revision, world.document.streams) == (before.revision, before.streams)  # type: ignore[union-attr]
    if why == "pause":
        del world.spec["pause"]
        world.settle()
        assert world.rendered() == {"north/orders": "Active", "west/orders": "Draining"}


def test_more_than_fits_in_a_status_drains_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkastream_operator.core.decide.MAX_DRAINING", 2)
    topics = [f"t{number}" for number in range(5)]
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east", *topics), cluster("west")).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    assert list(world.rendered().values()).count("Draining") == 6
    for _ in range(3):
        world.driver_reports(**{f"east__{topic}": DRAINED for topic in [*topics, "orders"]}).settle()
    assert world.rendered() == {"west/orders": "Active"}


def test_the_longest_names_that_drain_fit_into_a_status() -> None:
    topics = [f"{number:03d}".ljust(249, "t") for number in range(256)]
    clusters = [cluster(f"c{number}".ljust(63, "c"), *topics) for number in range(4)]
    world = running(updateStrategy="Reload").stream("orders", *clusters).settle()
    world.driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    assert list(world.rendered().values()).count("Draining") > 1000
    assert 100_000 < len(world.status.model_dump_json().encode()) < 1_000_000
    assert 500 < len(world.status.draining) < 1000


@pytest.mark.parametrize("writes", range(1, 5))
def test_a_death_at_a_drains_end_ends_no_other_drain(writes: int) -> None:
    world = removed()
    world.driver_reports(east__orders=DRAINED)
    world.settle_with_deaths(writes)
    assert world.rendered() == {"west/orders": "Active"}
    assert world.status.draining == ()


def test_a_death_at_a_drains_begin_loses_nothing() -> None:
    for writes in range(1, 5):
        world = running(updateStrategy="Reload")
        world.stream("orders", cluster("west"))
        world.settle_with_deaths(writes)
        assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
        assert [drain.cluster for drain in world.status.draining] == ["east"]
        assert east_drains(world)


def test_the_status_does_not_churn_while_it_drains() -> None:
    world = removed()
    world.driver_reports(east__orders=TopicReport(lag=500, quiet_s=0)).settle()
    before = len(world.writes)
    for lag in range(400, 0, -100):
        world.later(seconds=10)
        world.driver_reports(east__orders=TopicReport(lag=lag, quiet_s=0)).settle()
    assert len(world.writes) == before


def test_a_topic_of_two_streams_drains_in_both() -> None:
    world = World(spec={"streams": {"ids": ["b", "a"]}, "updateStrategy": "Reload"})
    offsets = {"orders": {"0": 5}}
    world.stream("a", cluster("east", "orders", "more", startingOffsets=offsets))
    world.stream("b", cluster("east", startingOffsets=offsets), cluster("west", "other"))
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    world.stream("a", cluster("east", "more"))
    world.stream("b", cluster("west", "other")).settle()
    assert world.condition("StreamsResolved")[0] == "True"
    assert world.document is not None
    streams = {name: stream["clusters"] for name, stream in world.document.streams.items()}
    assert streams["a"]["east"]["drainingTopics"] == ["orders"]
    assert (streams["b"]["east"]["state"], streams["b"]["east"]["topics"]) == ("Draining", ["orders"])
    assert world.rendered() == {"east/more": "Active", "east/orders": "Draining", "west/other": "Active"}
    world.driver_reports(east__orders=DRAINED).settle()
    assert world.rendered() == {"east/more": "Active", "west/other": "Active"}


def shared(a: dict[str, str], b: dict[str, str]) -> World:
    """Return an application after east was removed from two streams with these `drain` settings."""
    world = World(spec={"streams": {"ids": ["a", "b"]}, "updateStrategy": "Reload"})
    world.stream("a", cluster("east"), cluster("west", "other"), **a)
    world.stream("b", cluster("east"), cluster("west", "other"), **b)
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    world.stream("a", cluster("west", "other"), **a)
    world.stream("b", cluster("west", "other"), **b).settle()
    return world


@pytest.mark.parametrize("policies", [("Immediate", "WhenDrained"), ("WhenDrained", "Immediate")])
def test_a_topic_of_two_streams_drains_if_one_of_them_says_so(policies: tuple[str, str]) -> None:
    first, second = policies
    world = shared({"policy": first}, {"policy": second})
    assert world.rendered() == {"east/orders": "Draining", "west/other": "Active"}
    world = shared({"policy": "Immediate"}, {"policy": "Immediate"})
    assert world.rendered() == {"west/other": "Active"}


@pytest.mark.parametrize("turned", [False, True])
def test_the_longest_quiet_period_of_two_streams_counts(turned: bool) -> None:
    long, short = {"quietPeriod": "1h", "timeout": "2h"}, {"quietPeriod": "1m", "timeout": "2d"}
    world = shared(short, long) if turned else shared(long, short)
    assert {(drain.quiet_period, drain.timeout) for drain in world.status.draining} == {("1h", "2d")}
    del world.streams["a"], world.streams["b"]  # the document keeps their settings
    world.settle()
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=3599)).settle()
    assert world.rendered()["east/orders"] == "Draining"
    world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=3601)).settle()
    assert "east/orders" not in world.rendered()


def test_an_immediate_stream_lengthens_no_quiet_period() -> None:
    world = shared({"policy": "Immediate", "quietPeriod": "1h"}, {"quietPeriod": "1m"})
    assert {drain.quiet_period for drain in world.status.draining} == {"1m"}


@pytest.mark.parametrize("mistake", [{"startingOffsets": "begin"}, {"properties": {"plugin.library.paths": "x"}}])
def test_a_mistake_in_a_stream_does_not_shorten_its_quiet_period(mistake: dict[str, Any]) -> None:
    world = removed(quietPeriod="1h")
    world.driver_reports(east__orders=replace(DRAINED, quiet_s=600)).settle()
    world.stream("orders", {**cluster("west"), **mistake}, quietPeriod="1m").settle()
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert {drain.quiet_period for drain in world.status.draining} == {"1h"}


def reports_drained(world: World, *topics: str) -> None:
    """Let the driver report these topics of east as drained, and the others as read."""
    names = ("a", "b", "orders")
    written = TopicReport(lag=0, quiet_s=1)
    world.driver_reports(**{f"east__{name}": DRAINED if name in topics else written for name in names}).settle()


@pytest.mark.parametrize(("strategy", "changes"), [("Restart", 1), ("Reload", 3)])
def test_topics_that_fall_quiet_one_by_one_cost_one_restart(strategy: str, changes: int) -> None:
    # Given a cluster of three topics that is taken out
    world = running(updateStrategy=strategy)
    world.stream("orders", cluster("east", "a", "b", "orders"), cluster("west")).settle()
    world.later(minutes=5).settle().driver_starts().driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    world.later(minutes=5).settle().driver_starts().driver_reports().settle()
    assert world.document is not None
    before = world.document.revision.counter

    # When they fall quiet one after another, then a restart waits for the last one, and a live change for none
    for topics in (["a"], ["a", "b"], ["a", "b", "orders"]):
        reports_drained(world, *topics)
        if strategy == "Restart" and "orders" not in topics:
            assert len(world.rendered()) == 4
            assert "east/a: it is drained, and leaves with the other topics of its cluster" in world.message("Drained")
        world.later(minutes=5).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.document.revision.counter - before == changes


def test_a_drained_topic_leaves_with_a_restart_that_is_due() -> None:
    world = running(updateStrategy="Restart")
    world.stream("orders", cluster("east", "a", "b", "orders"), cluster("west")).settle()
    world.later(minutes=5).settle().driver_starts().driver_reports().settle()
    world.stream("orders", cluster("west")).settle()
    world.later(minutes=5).settle().driver_starts().driver_reports().settle()
    reports_drained(world, "a")
    world.stream("orders", cluster("west"), cluster("north")).settle()
    assert world.rendered() == {
        "east/b": "Draining",
        "east/orders": "Draining",
        "north/orders": "Active",
        "west/orders": "Active",
    }
