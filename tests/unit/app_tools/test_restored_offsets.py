"""Offsets for a new checkpoint: what comes twice, what is missed, and which clusters and topics they are of."""

from __future__ import annotations

import pytest
import yaml

from dynamic_kafka.app.tools.restored_offsets import RestoredOffsets, SavedOffsets, restore
from dynamic_kafka.app.tools.restored_text import restored_text, restored_wire
from dynamic_kafka.errors import IdentityError, OffsetDocumentError
from dynamic_kafka.metadata.document_models import ListCluster
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split

ONE, TWO = Split("east", "orders", 0), Split("east", "orders", 1)
EAST = SubscribedCluster({"orders": "st"}, {"bootstrap.servers": "e:9092"})
NAMED = Subscription({"east": EAST}, ("st",))
REST = "n" * 18 + "g"
WEST_ID = "a+/" + REST
SAVED = SavedOffsets("the changelog", {ONE: 40, TWO: 7}, {"east": "K1"}, {("east", "orders"): "id-1"})


def answers(
    *, kafka_id: str | None = "K1", topic_id: str | None = "id-1", first: int = 10
) -> dict[str, ClusterObservation]:
    orders = TopicObservation({0: 100, 1: 50}, {0: first, 1: 0}, topic_id=topic_id)
    return {"east": ClusterObservation({"orders": orders}, kafka_id)}


def numbers(restored: RestoredOffsets) -> dict[Split, tuple[int | None, int, int | None, int]]:
    return {split.split: (split.start, split.waiting, split.twice, split.missed) for split in restored.splits}


def test_each_split_starts_where_its_source_ends() -> None:
    restored = restore(SAVED, answers(), NAMED)
    assert numbers(restored) == {ONE: (40, 60, None, 0), TWO: (7, 43, None, 0)}
    assert restored.offsets() == SAVED.next
    assert (restored.unnamed, restored.unchecked) == ({}, ())


def test_restored_topics_are_pinned_to_their_ids() -> None:
    # Given a saved topic, one that is not saved, and one of a broker that reports no ids
    orders = TopicObservation({0: 100, 1: 50}, {0: 10, 1: 0}, topic_id=WEST_ID)
    others = {"new": TopicObservation({0: 5}, {0: 0}, topic_id="id-2"), "old": TopicObservation({0: 5}, {0: 0})}
    saved = SavedOffsets("the group", {ONE: 40, Split("east", "old", 0): 3})
    restored = restore(saved, {"east": ClusterObservation({"orders": orders, **others}, "K1")}, NAMED)
    (entry,) = restored_wire(saved, restored)["metadata"]
    assert entry["topicIds"] == {"orders": "a-_" + REST}
    assert entry["startingOffsets"] == {"orders": {"0": 40}, "old": {"0": 3}}
    ListCluster.model_validate({"bootstrapServers": "e:9092", "topics": ["orders", "new", "old"], **entry})


def test_records_behind_the_start_that_were_delivered_come_twice() -> None:
    restored = restore(SAVED, answers(), NAMED, delivered={ONE: 60})
    assert numbers(restored) == {ONE: (40, 60, 20, 0), TWO: (7, 43, None, 0)}


def test_expired_records_are_missed() -> None:
    restored = restore(SAVED, answers(first=55), NAMED)
    assert numbers(restored)[ONE] == (55, 45, None, 15)


def test_a_split_that_is_not_saved_starts_at_its_first_record() -> None:
    restored = restore(SavedOffsets("the group", {ONE: 40}), answers(), NAMED)
    assert numbers(restored)[TWO] == (None, 50, None, 0)
    assert restored.offsets() == {ONE: 40}
    assert restored.unchecked == ("east",)
    text = restored_text(SavedOffsets("the group", {}), restored, None)
    assert '"1": -2' in text
    assert "NOT CHECKED: " in text and "no ids of east" in text
    assert "1 partitions are not saved" in text


def test_a_cluster_without_saved_offsets_starts_at_its_beginning() -> None:
    # The option's default, the end, would skip what the cluster holds already
    restored = restore(SavedOffsets("the group", {}), answers(), NAMED)
    entry = {"clusterId": "east", "startingOffsets": "earliest"}
    wire = restored_wire(SavedOffsets("the group", {}), restored)
    assert wire["metadata"] == [entry]
    assert wire["startingOffsets"] == {"east": {"orders": {"0": -2, "1": -2}}}
    text = restored_text(SavedOffsets("x", {}), restored, None)
    assert "    - clusterId: east\n      startingOffsets: earliest\n" in text


@pytest.mark.parametrize(
    ("other", "why", "left_out"),
    [
        (answers(kafka_id="K2"), "cluster.id K2, saved is K1", "east"),
        (answers(topic_id=WEST_ID), rf"re-created \(id id-1, now a-_{REST}\)", "east/orders"),
    ],
    ids=["cluster", "topic"],
)
def test_offsets_of_another_cluster_or_topic_are_refused(
    other: dict[str, ClusterObservation], why: str, left_out: str
) -> None:
    with pytest.raises(IdentityError, match=f"{why}.* --leave-out {left_out}$"):
        restore(SAVED, other, NAMED)
    assert restore(SAVED, other, NAMED, left_out=[left_out]).offsets() == {}


def test_an_offset_behind_the_end_is_refused() -> None:
    with pytest.raises(OffsetDocumentError, match=r"\b140 of east/orders\[0\].*cut off at 100\b"):
        restore(SavedOffsets("the changelog", {ONE: 140}), answers(), NAMED)


def test_parked_splits_get_the_lines_for_their_return() -> None:
    # Given offsets of a topic that metadata names again, and of a cluster that it does not name
    own = ParkedTopic(TopicProgress("st", {0: 40}, "id-1"), 5)
    lost = ParkedTopic(TopicProgress("st", {0: 3, 1: 4}, WEST_ID), 5)
    parked = {"east": ParkedCluster({"orders": own}, "K1"), "west": ParkedCluster({"orders": lost}, "K2")}
    saved = SavedOffsets.of(OffsetDocument(query="q", number=7, parked=parked), "the changelog")
    restored = restore(saved, answers(), NAMED)
    assert restored.offsets() == {ONE: 40}
    assert restored.unnamed == {Split("west", "orders", 0): 3, Split("west", "orders", 1): 4}
    # Then the metadata can carry these, with the id of the topic that they are of
    text = restored_text(saved, restored, None)
    assert "not name 2 saved partitions" in text and ": west/orders[0], west/orders[1]." in text
    assert "at most 7 records a second time" in text
    lines = {"clusterId": "west", "startingOffsets": {"orders": {"0": 3, "1": 4}}, "topicIds": {"orders": "a-_" + REST}}
    assert yaml.safe_load(text.rpartition("\n\n")[2]) == [lines]
    ListCluster.model_validate({"bootstrapServers": "w:9092", "topics": ["orders"], **lines})
    # And a parked topic that was re-created is refused as an active one is
    with pytest.raises(IdentityError, match="--leave-out east/orders"):
        restore(saved, answers(topic_id="id-2"), NAMED)


def test_an_ended_split_needs_its_stop_record_and_an_evaluator() -> None:
    ended = TopicProgress("st", {0: 40, 1: 7}, "id-1", ended={0: 40})
    saved = SavedOffsets.of(
        OffsetDocument(clusters={"east": ClusterProgress({"orders": ended}, "K1")}), "the changelog"
    )
    restored = restore(saved, answers(), NAMED, stops=[ONE])
    assert [(split.start, split.ended) for split in restored.splits] == [(40, True), (7, False)]
    text = "1 splits had ended at stop records: east/orders[0]."
    assert text in restored_text(saved, restored, None, evaluates=True)
    with pytest.raises(OffsetDocumentError, match=r"east/orders\[0\] at 40 .*record is gone"):
        restore(saved, answers(), NAMED, stops=[])
    with pytest.raises(OffsetDocumentError, match="has no recordEvaluator"):
        restore(saved, answers(), NAMED)
    assert restore(saved, answers(), NAMED, left_out=["east/orders"]).offsets() == {}
    # And a source without stop records says that it has none
    group = SavedOffsets("the group", {ONE: 40})
    restored = restore(group, answers(), NAMED, stops=[])
    assert "does not show which splits have ended" in restored_text(group, restored, None, evaluates=True)
