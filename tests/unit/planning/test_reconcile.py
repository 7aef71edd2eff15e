"""Saved splits brought in line with fresh metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.reconcile import Reconciled, forget, reconcile
from dynamic_kafka.planning.sameness.cluster_renames import recognise, rename
from dynamic_kafka.planning.splits import Split
from tests.unit.planning import strategies
from tests.unit.planning.simulation import everything

NOW, RETENTION = 10_000, 1_000
READING = {"t": TopicProgress("s", {0: 5, 1: 6}, topic_id="T")}


def active(**clusters: Mapping[str, TopicProgress]) -> OffsetDocument:
    return OffsetDocument(
        "q", 3, "p", clusters={name: ClusterProgress(topics, "Mk") for name, topics in clusters.items()}
    )


def parked(until_ms: int = NOW + 500, *, awaited: bool = False, **clusters: dict[int, int]) -> OffsetDocument:
    kept = {
        name: ParkedCluster({"t": ParkedTopic(TopicProgress("s", following, "T"), until_ms, awaited=awaited)}, "Mk")
        for name, following in clusters.items()
    }
    return OffsetDocument("q", 3, "p", parked=kept)


def named(*topics: str, renamed_from: str | None = None) -> SubscribedCluster:
    return SubscribedCluster(dict.fromkeys(topics, "s"), {}, renamed_from=renamed_from)


def seen(topic_id: str | None = "T", **topics: dict[int, int]) -> ClusterObservation:
    return ClusterObservation({name: TopicObservation(ends, topic_id=topic_id) for name, ends in topics.items()}, "Mk")


def done(document: OffsetDocument, wanted: Any, observed: Any = None, *, retention: int = RETENTION) -> Reconciled:
    return reconcile(document, wanted, observed or {}, now_ms=NOW, retention_ms=retention)


def kinds(reconciled: Reconciled) -> list[str]:
    return [note.kind for note in reconciled.notes]


# -- nothing changes ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario(19)
def test_what_is_still_named_goes_on_as_it_is() -> None:
    document = active(east=READING)
    reconciled = done(document, {"east": named("t")}, {"east": seen(t={0: 9, 1: 9})})
    assert reconciled.document == document
    assert not reconciled.new
    assert not reconciled.notes


def test_a_silent_cluster_keeps_its_splits() -> None:
    document = active(east=READING)
    assert done(document, {"east": named("t")}).document == document


# -- new ---------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(13)
def test_a_new_topic_brings_new_splits_alone() -> None:
    reconciled = done(active(east=READING), {"east": named("t", "u")}, {"east": seen(t={0: 9, 1: 9}, u={0: 3})})
    assert reconciled.new == {Split("east", "u", 0): True}
    assert reconciled.document.clusters["east"].topics["t"] == READING["t"]


def test_an_added_partition_is_not_a_new_topic() -> None:
    reconciled = done(active(east=READING), {"east": named("t")}, {"east": seen(t={0: 9, 1: 9, 2: 1})})
    assert reconciled.new == {Split("east", "t", 2): False}


# -- parked ------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(31)
def test_a_removed_cluster_is_parked_where_it_was() -> None:
    reconciled = done(active(east=READING), {})
    kept = ParkedTopic(TopicProgress("s", {0: 5, 1: 6}, "T"), NOW + RETENTION)
    assert reconciled.document.clusters == {}
    assert reconciled.document.parked == {"east": ParkedCluster({"t": kept}, "Mk")}
    assert kinds(reconciled) == ["parked"]


@pytest.mark.scenario(18)
@pytest.mark.scenario(32)
def test_a_removed_topic_is_parked_and_the_others_go_on() -> None:
    both = {**READING, "u": TopicProgress("s", {0: 1})}
    reconciled = done(active(east=both), {"east": named("t")}, {"east": seen(t={0: 9, 1: 9})})
    assert set(reconciled.document.clusters["east"].topics) == {"t"}
    assert set(reconciled.document.parked["east"].topics) == {"u"}


def test_without_retention_nothing_is_kept() -> None:
    for document in (active(east=READING), parked(NOW + 1, east={0: 5})):
        reconciled = done(document, {}, retention=0)
        assert reconciled.document.parked == {}
        assert kinds(reconciled) == ["expired"]


def test_a_deadline_is_written_once() -> None:
    document = parked(NOW + 1, east={0: 5})
    assert done(document, {}).document == document


# -- back --------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(20)
def test_back_in_time_it_resumes_exactly() -> None:
    reconciled = done(parked(NOW + 1, east={0: 5}), {"east": named("t")}, {"east": seen(t={0: 9})})
    assert reconciled.document == active(east={"t": TopicProgress("s", {0: 5}, topic_id="T")})
    assert not reconciled.new
    assert kinds(reconciled) == ["resumed"]


def test_back_too_late_it_starts_as_new_and_says_so() -> None:
    reconciled = done(parked(NOW, east={0: 5}), {"east": named("t")}, {"east": seen(t={0: 9})})
    assert reconciled.new == {Split("east", "t", 0): True}
    assert reconciled.document.parked == {}
    assert kinds(reconciled) == ["expired"]
    assert "starts as new" in reconciled.notes[0].text


def test_a_topic_named_in_time_resumes_however_late_the_answer() -> None:
    # Given a cluster that is named again in time, but does not answer
    silent = done(parked(NOW + 1, east={0: 5}), {"east": named("t")}).document
    assert silent == parked(NOW + 1, awaited=True, east={0: 5})
    # When it answers long after its deadline
    reconciled = reconcile(
        silent, {"east": named("t")}, {"east": seen(t={0: 9})}, now_ms=NOW + 10_000, retention_ms=RETENTION
    )
    # Then it continues at its offset
    assert reconciled.document.next_of(Split("east", "t", 0)) == 5


def test_a_topic_named_too_late_is_not_awaited() -> None:
    assert done(parked(NOW, east={0: 5}), {"east": named("t")}).document.parked == {}


def test_gone_again_before_it_answered_is_a_parking_of_its_own() -> None:
    reconciled = done(parked(NOW - 500, awaited=True, east={0: 5}), {})
    assert reconciled.document == parked(NOW + RETENTION, east={0: 5})


def test_a_topic_that_its_cluster_does_not_have_is_awaited() -> None:
    missing = ClusterObservation({}, "Mk", frozenset({"t"}))
    reconciled = done(parked(NOW + 1, east={0: 5}), {"east": named("t")}, {"east": missing})
    assert reconciled.document == parked(NOW + 1, awaited=True, east={0: 5})


def test_recreated_while_it_was_parked_it_starts_as_new() -> None:
    reconciled = done(parked(east={0: 5}), {"east": named("t")}, {"east": seen("other", t={0: 9})})
    assert reconciled.new == {Split("east", "t", 0): True}
    assert kinds(reconciled) == ["recreated"]
    assert reconciled.document.clusters["east"].topics["t"].topic_id == "other"


def test_a_topic_recreated_while_it_was_read_gets_a_note() -> None:
    reconciled = done(active(east=READING), {"east": named("t")}, {"east": seen("other", t={0: 9, 1: 9})})
    assert kinds(reconciled) == ["recreated"]
    assert reconciled.document.next_of(Split("east", "t", 0)) == 5


def test_brokers_that_tell_no_topic_ids_are_believed() -> None:
    reconciled = done(parked(east={0: 5}), {"east": named("t")}, {"east": seen(None, t={0: 9})})
    assert kinds(reconciled) == ["resumed"]


def test_active_progress_wins_over_parked_even_if_smaller() -> None:
    both = OffsetDocument(
        "q", 3, "p", clusters=active(east=READING).clusters, parked=parked(east={0: 900, 2: 7}).parked
    )
    reconciled = done(both, {"east": named("t")}, {"east": seen(t={0: 999, 1: 9, 2: 9})})
    assert reconciled.document.clusters["east"].topics["t"].next == {0: 5, 1: 6, 2: 7}
    assert reconciled.document.parked == {}


def test_parked_twice_the_progress_that_was_active_wins() -> None:
    both = OffsetDocument(
        "q", 3, "p", clusters=active(east=READING).clusters, parked=parked(east={0: 900, 2: 7}).parked
    )
    assert done(both, {}).document.parked["east"].topics["t"].progress.next == {0: 5, 1: 6, 2: 7}


# -- renamed -----------------------------------------------------------------------------------------------------------


def test_a_renamed_cluster_carries_its_offsets_over() -> None:
    document, notes = rename(active(east=READING), {"ost": named("t", renamed_from="east")})
    assert document == active(ost=READING)
    assert [note.kind for note in notes] == ["renamed"]


def test_a_parked_cluster_is_renamed_too() -> None:
    document, _ = rename(parked(east={0: 5}), {"ost": named("t", renamed_from="east")})
    assert document == parked(ost={0: 5})


def test_topics_parked_under_the_new_id_stay_parked() -> None:
    # Given a cluster that was read under two ids, one topic each, at different times
    document = replace(active(east=READING), parked=parked_topics(ost={"u": 77}))
    after, _ = rename(document, {"ost": named("t", "u", renamed_from="east")})

    assert after.clusters == active(ost=READING).clusters
    assert after.parked == parked_topics(ost={"u": 77})


def test_topics_parked_under_both_ids_merge_and_the_new_id_wins() -> None:
    document = OffsetDocument("q", 3, "p", parked=parked_topics(east={"t": 5, "u": 6}, ost={"u": 77, "v": 8}))
    after, _ = rename(document, {"ost": named("t", renamed_from="east")})

    assert after.parked == parked_topics(ost={"t": 5, "u": 77, "v": 8})


def test_a_topic_that_is_being_read_is_not_parked_beside_that() -> None:
    document = replace(active(east=READING), parked=parked_topics(ost={"t": 77}))
    after, _ = rename(document, {"ost": named("t", renamed_from="east")})

    assert after.clusters == active(ost=READING).clusters
    assert after.parked == {}


def test_parked_offsets_of_another_cluster_stay_parked() -> None:
    document = replace(active(east=READING), parked=parked_topics("Qx", ost={"u": 77}))
    wanted = {"ost": named("t", renamed_from="east")}
    after, _ = rename(document, wanted, {"ost": ClusterObservation({}, "Mk")})

    assert after.clusters == active(ost=READING).clusters
    assert after.parked == parked_topics("Qx", Qx={"u": 77})

    # When that cluster is named again, then it continues there
    back = {**wanted, "new": named("u")}
    recognised, _ = recognise(after, back, {"new": ClusterObservation({}, "Qx")})
    assert recognised.parked == parked_topics("Qx", new={"u": 77})


@pytest.mark.parametrize("kafka_id", ["Qx", None], ids=["answers", "silent"])
def test_a_leftover_rename_takes_no_other_cluster_over(kafka_id: str | None) -> None:
    # Given an old id that names another cluster by now, and a new id that comes back from its parking
    parked_ids = parked_topics("Qx", ost={"t": 7}) | parked_topics("Zz", east={"t": 900})
    document = OffsetDocument("q", 3, "p", parked=parked_ids)
    observed = {"ost": ClusterObservation({}, kafka_id)} if kafka_id else {}
    assert rename(document, {"ost": named("t", renamed_from="east")}, observed) == (document, [])


def parked_topics(kafka_id: str = "Mk", /, **clusters: dict[str, int]) -> dict[str, ParkedCluster]:
    return {
        name: ParkedCluster(
            {topic: ParkedTopic(TopicProgress("s", {0: at}), NOW + 500) for topic, at in topics.items()}, kafka_id
        )
        for name, topics in clusters.items()
    }


def test_a_rename_happens_once() -> None:
    document = active(ost=READING)
    assert rename(document, {"ost": named("t", renamed_from="east")}) == (document, [])


def test_no_rename_while_the_old_id_is_wanted_too() -> None:
    document = active(east=READING)
    assert rename(document, {"ost": named("t", renamed_from="east"), "east": named("t")}) == (document, [])


def test_forgetting_a_cluster_drops_all_of_it() -> None:
    both = OffsetDocument("q", 3, "p", clusters=active(east=READING).clusters, parked=parked(west={0: 5}).parked)
    assert forget(both, {"east", "west"}) == OffsetDocument("q", 3, "p")


# -- in any case -------------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> tuple[OffsetDocument, dict[str, SubscribedCluster], dict[str, ClusterObservation]]:
    document = draw(strategies.documents())
    # In every document, a split is either active or parked.
    kept = {
        cluster: ParkedCluster(
            {n: t for n, t in content.topics.items() if document.topic(cluster, n) is None}, content.kafka_id
        )
        for cluster, content in document.parked.items()
    }
    clean = OffsetDocument(document.query, document.number, document.previous, clusters=document.clusters, parked=kept)
    wanted = draw(strategies.wanted())
    return clean, wanted, draw(strategies.observations(wanted))


@given(world=worlds(), now=st.integers(0, 1 << 62), retention=st.integers(0, 1 << 40))
def test_a_split_is_active_or_parked_and_its_offset_never_moves(
    world: tuple[OffsetDocument, dict[str, SubscribedCluster], dict[str, ClusterObservation]], now: int, retention: int
) -> None:
    document, wanted, observed = world
    before = dict(everything(document))
    reconciled = reconcile(document, wanted, observed, now_ms=now, retention_ms=retention)
    after = list(everything(reconciled.document))
    assert len(after) == len({split for split, _ in after}), "known twice"
    assert all(before[split] == following for split, following in after)
    assert not reconciled.new.keys() & dict(after).keys(), "new and known"
    given_up = {(note.cluster, note.topic) for note in reconciled.notes if note.kind in ("expired", "recreated")}
    assert all((split.cluster, split.topic) in given_up for split in before.keys() - dict(after).keys())
    for cluster, kept in reconciled.document.parked.items():
        for topic, left in kept.topics.items():
            assert left.until_ms > now or left.awaited or retention == 0, (cluster, topic)


@given(world=worlds(), now=st.integers(0, 1 << 62))
def test_the_same_world_a_second_time_changes_nothing(
    world: tuple[OffsetDocument, dict[str, SubscribedCluster], dict[str, ClusterObservation]], now: int
) -> None:
    document, wanted, observed = world
    once = reconcile(document, wanted, observed, now_ms=now, retention_ms=1_000)
    opened = {split for split, _ in everything(once.document)}
    again = reconcile(once.document, wanted, observed, now_ms=now, retention_ms=1_000)
    assert {split for split, _ in everything(again.document)} == opened
    assert not [note for note in again.notes if note.kind in ("parked", "resumed", "expired")]
