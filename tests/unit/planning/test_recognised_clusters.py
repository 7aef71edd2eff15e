"""A cluster under another id without `renamedFrom`: its own `cluster.id` shows that it is the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.errors import IdentityError
from dynamic_kafka.metadata import SubscribedCluster
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.sameness.cluster_renames import recognise
from dynamic_kafka.planning.splits import SplitRange
from tests.unit.planning.plans import plan, plan_input


def answer(end: int, kafka_id: str | None = "Mk") -> ClusterObservation:
    return ClusterObservation({"t": TopicObservation({0: end}, {0: 0}, {0: 0}, "T")}, kafka_id)


def named(**more: Any) -> SubscribedCluster:
    return SubscribedCluster({"t": "s"}, {"bootstrap.servers": "x:1"}, **more)


class Plans:
    """A query whose batches all succeed. Its parked splits are kept for a second, and a plan takes none."""

    def __init__(self) -> None:
        self.document = OffsetDocument()
        self.read: list[SplitRange] = []
        self.notes: list[str] = []

    def plan(
        self, clusters: Mapping[str, SubscribedCluster], answers: Mapping[str, ClusterObservation], now_ms: int = 0
    ) -> None:
        done = plan(plan_input(self.document, clusters, answers, now_ms=now_ms))
        if done.plan.document is not self.document:
            self.read += ranges_between(self.document, done.plan.document)
        self.document = done.plan.document
        self.notes = [note.kind for note in done.notes]

    @property
    def offsets(self) -> list[int]:
        return [offset for part in self.read for offset in range(part.start, part.end)]


@pytest.fixture
def query() -> Plans:
    """A query that has read the first five records of `east`."""
    made = Plans()
    made.plan({"east": named()}, {"east": answer(5)})
    return made


def test_a_rename_that_is_taken_back_reads_nothing_twice(query: Plans) -> None:
    query.plan({"eastern": named(renamed_from="east")}, {"eastern": answer(6)})
    query.plan({"east": named()}, {"east": answer(7)})
    assert query.offsets == list(range(7))
    assert query.notes == ["renamed"]
    assert not query.document.parked


def test_undoing_a_rename_with_wrong_servers_reads_nothing_twice(query: Plans) -> None:
    # Its servers do not answer within the grace of a plan; then the query ends, and the user takes the edit back
    query.plan({"eastern": named(renamed_from="east")}, {})
    query.plan({"east": named()}, {"east": answer(6)})
    assert query.offsets == list(range(6))


def test_two_renames_at_once_read_nothing_twice(query: Plans) -> None:
    query.plan({"oriental": named(renamed_from="eastern")}, {"oriental": answer(6)})
    assert query.offsets == list(range(6))


def test_a_cluster_named_by_its_servers_survives_a_server_change() -> None:
    # The list form's default for `clusterId` is the bootstrap servers
    query = Plans()
    query.plan({"e1:9092": named()}, {"e1:9092": answer(5)})
    query.plan({"e1:9092,e2:9092": named()}, {"e1:9092,e2:9092": answer(6)})
    assert query.offsets == list(range(6))


def test_a_cluster_is_recognised_after_its_old_id_was_parked(query: Plans) -> None:
    query.plan({"eastern": named()}, {})
    assert set(query.document.parked) == {"east"}
    query.plan({"eastern": named()}, {"eastern": answer(6)}, now_ms=999)
    assert query.offsets == list(range(6))
    assert query.notes == ["renamed", "resumed"]
    assert not query.document.parked


def test_a_cluster_that_answers_too_late_starts_as_new(query: Plans) -> None:
    query.plan({"eastern": named()}, {})
    query.plan({"eastern": named()}, {"eastern": answer(6)}, now_ms=1000)
    assert query.offsets == [*range(5), *range(6)]
    assert "expired" in query.notes


def test_two_new_ids_of_one_cluster_are_refused(query: Plans) -> None:
    before = query.document
    with pytest.raises(RevisionRejectedError) as refused:
        query.plan({"a": named(), "b": named()}, {"a": answer(6), "b": answer(6)})
    assert isinstance(refused.value.error, IdentityError)
    assert "clusters 'a' and 'b' are one " in str(refused.value.error)
    assert query.document is before


@pytest.mark.parametrize("answers", [{}, {"east": answer(5)}], ids=["silent", "answering"])
def test_a_new_id_of_a_cluster_that_is_still_named_is_refused(
    query: Plans, answers: dict[str, ClusterObservation]
) -> None:
    with pytest.raises(RevisionRejectedError, match="one and the same Kafka cluster"):
        query.plan({"east": named(), "other": named()}, {"other": answer(6), **answers})


def test_an_id_that_was_another_cluster_takes_over_nothing() -> None:
    # Given `west`, another cluster that is parked, and `east`
    query = Plans()
    query.plan({"east": named(), "west": named()}, {"east": answer(5), "west": answer(5, "Qx")})
    query.plan({"east": named()}, {"east": answer(5)})
    before = query.document

    # When `west` comes back with the servers of `east`, then its own offsets are not dropped for those
    with pytest.raises(RevisionRejectedError, match=r"cluster\.id Qx,.*answer with Mk"):
        query.plan({"west": named()}, {"west": answer(6)})
    assert query.document is before


# -- the step itself ---------------------------------------------------------------------------------------------------

WANTED = {"new": SubscribedCluster({"t": "s", "u": "s"}, {})}


def parked(**until_ms: int) -> dict[str, ParkedCluster]:
    """Clusters that had read the topic `t` up to their deadline."""
    return {
        old: ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: until}), until)}, "Mk")
        for old, until in until_ms.items()
    }


@pytest.mark.parametrize(("saved", "answered"), [("Mk", "Qx"), ("Mk", None), (None, "Mk"), (None, None)], ids=str)
def test_without_one_and_the_same_id_nothing_is_carried_over(saved: str | None, answered: str | None) -> None:
    document = OffsetDocument("q", 1, "", clusters={"old": ClusterProgress({"t": TopicProgress("s", {0: 5})}, saved)})
    assert recognise(document, WANTED, {"new": answer(9, answered)}) == (document, [])


def test_what_is_read_under_an_id_already_is_left_alone() -> None:
    reading = ClusterProgress({"t": TopicProgress("s", {0: 5})}, "Mk")
    document = OffsetDocument("q", 1, "", clusters={"new": reading}, parked=parked(old=9))
    assert recognise(document, WANTED, {"new": answer(9)}) == (document, [])


def test_active_offsets_win_then_those_parked_last() -> None:
    document = OffsetDocument("q", 1, "", parked=parked(a=1, b=3, c=2))
    after, notes = recognise(document, WANTED, {"new": answer(9)})
    assert after == replace(document, parked={"new": parked(b=3)["b"]})
    assert {note.kind for note in notes} == {"renamed"}

    reading = ClusterProgress({"t": TopicProgress("s", {0: 7})}, "Mk")
    after, _ = recognise(replace(document, clusters={"old": reading}), WANTED, {"new": answer(9)})
    assert after == replace(document, clusters={"new": reading}, parked={})


def test_a_topic_that_only_another_old_id_has_read_comes_along() -> None:
    document = OffsetDocument("q", 1, "", parked=parked(b=3))
    reading = ClusterProgress({"u": TopicProgress("s", {0: 7})}, "Mk")
    after, _ = recognise(replace(document, clusters={"old": reading}), WANTED, {"new": answer(9)})
    assert after == replace(document, clusters={"new": reading}, parked={"new": parked(b=3)["b"]})
