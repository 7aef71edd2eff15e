"""Runs that end by themselves, with topics that were re-created: they end when the new topics are read."""

from __future__ import annotations

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split
from tests.unit.planning.plans import plan, plan_input


def after_plan(document: OffsetDocument, seen: TopicObservation) -> OffsetDocument:
    """Return the document after one plan of a run that ends at the ends of its topics."""
    answers = {"east": ClusterObservation({"t": seen}, "K")}
    options = {"endingOffsets": "latest", "failOnDataLoss": "false"}
    given = plan_input(
        document, {"east": SubscribedCluster({"t": "s"}, {})}, answers, progress=document, now_ms=5, options=options
    )
    return plan(given).plan.document


def test_available_now_does_not_end_at_offsets_of_an_old_topic() -> None:
    # The topic was re-created before the run; its cluster answered when the run began, and is silent at its plans.
    old = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5}, "old")})})
    targets = Targets()
    targets.fix({"east": ClusterObservation({"t": TopicObservation({0: 2}, topic_id="new")})})
    assert still_to_read(old, {"east": ["t"]}, {}, targets) == {"east": ["t"]}


def test_a_bounded_run_reads_a_topic_recreated_while_parked() -> None:
    parked = ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 5}, "old", stops={0: 9}), 1000)}, "K")
    document = OffsetDocument("q", 3, "p", bounded=True, parked={"east": parked})
    end = after_plan(document, TopicObservation({0: 2}, {0: 0}, topic_id="new"))
    assert end.next_of(Split("east", "t", 0)) == 2, f"finished: {end.finished}"


def test_a_bounded_run_reads_all_partitions_of_a_recreated_topic() -> None:
    topic = TopicProgress("s", {0: 5}, "old", stops={0: 9})
    document = OffsetDocument("q", 3, "p", bounded=True, clusters={"east": ClusterProgress({"t": topic}, "K")})
    end = after_plan(document, TopicObservation({0: 2, 1: 3}, {0: 0, 1: 0}, topic_id="new"))
    assert {split: end.next_of(split) for split in end.splits()} == {
        Split("east", "t", 0): 2,
        Split("east", "t", 1): 3,
    }, f"finished: {end.finished}"


def test_a_bounded_run_reads_a_topic_back_past_its_retention() -> None:
    parked = ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 5}, "T", stops={0: 9}), 4)}, "K")
    document = OffsetDocument("q", 3, "p", bounded=True, parked={"east": parked})
    end = after_plan(document, TopicObservation({0: 9}, {0: 0}, topic_id="T"))
    assert end.next_of(Split("east", "t", 0)) == 9, f"finished: {end.finished}"


def test_a_bounded_run_finds_nothing_new_in_a_resumed_topic() -> None:
    parked = ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 5}, "T", stops={0: 9}), 1000)}, "K")
    document = OffsetDocument("q", 3, "p", bounded=True, parked={"east": parked})
    end = after_plan(document, TopicObservation({0: 9, 1: 4}, {0: 0, 1: 0}, topic_id="T"))
    assert list(end.splits()) == [Split("east", "t", 0)]
