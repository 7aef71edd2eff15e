"""Stop records in plans and replays: the cut, the next document, the end of the query, and what opens a split again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import DataLossError
from dynamic_kafka.metadata.model import ClusterState
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.amendments import Amendment, Amendments
from dynamic_kafka.planning.document.codec import encode, fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import AbsentTopicsQuestion, Question, run_steps
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.planning.plans import all_logs_begin_at_zero, plan, plan_input
from tests.unit.planning.simulation import MemoryState

SPLIT = Split("east", "t", 0)
EAST = SubscribedCluster({"t": "s"}, {})
EVALUATED = {"recordEvaluator": "m:f", "stateLocation": "memory"}


def saved(following: int, *, number: int = 1, **more: Any) -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, **({"topic_id": "id"} | more))
    return OffsetDocument("q", number, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


def topic_of(document: OffsetDocument) -> TopicProgress:
    progress = document.topic("east", "t")
    assert progress is not None
    return progress


START = saved(4)
END = replace(saved(9, number=2), previous=fingerprint(START))


def planned(
    logged: OffsetDocument,
    *,
    found: StopRecord | None = None,
    latest: dict[int, int] | None = None,
    topic_id: str = "id",
    wanted: dict[str, SubscribedCluster] | None = None,
    options: dict[str, str] = EVALUATED,
    **more: Any,
) -> OffsetDocument:
    """Return the document after one plan; the topic ends at 12."""
    seen = TopicObservation(latest or {0: 12}, {}, topic_id=topic_id)
    named = {"east": EAST} if wanted is None else wanted
    answers = {"east": ClusterObservation({"t": seen}, "Mk")} if "east" in named else {}
    progress = Amendments().with_stop_records(logged, [found] if found else []).after(logged)
    given = plan_input(logged, named, answers, progress=progress, options=options, **more)
    return plan(given).plan.document


# -- the next plan -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [4, 6, 8])
def test_a_stop_record_is_in_the_next_document(offset: int) -> None:
    after = planned(END, found=StopRecord(SPLIT, offset, "id"))
    assert (topic_of(after).next, topic_of(after).ended) == ({0: offset}, {0: offset})
    assert topic_of(after).finished(0) and after.over and after.finished
    assert ranges_between(END, after) == []
    assert encode(after)["version"] == 4
    # and that is the end of it, however much arrives
    assert planned(after, latest={0: 50}) is after


def test_without_a_stop_record_reading_goes_on() -> None:
    after = planned(END)
    assert topic_of(after).next == {0: 12} and not after.over
    assert encode(after)["version"] == 3


@pytest.mark.parametrize("record", [StopRecord(SPLIT, 6, "other"), StopRecord(Split("east", "u", 0), 6, "id")])
def test_a_stop_record_of_another_topic_is_ignored(record: StopRecord) -> None:
    assert topic_of(planned(END, found=record)).next == {0: 12}


def test_an_ended_split_keeps_others_going() -> None:
    topic = TopicProgress("s", {0: 9, 1: 9}, topic_id="id")
    two = replace(END, clusters={"east": ClusterProgress({"t": topic}, "Mk")})
    after = planned(two, found=StopRecord(SPLIT, 6, "id"), latest={0: 12, 1: 12})
    assert (topic_of(after).next, topic_of(after).ended, after.over) == ({0: 6, 1: 12}, {0: 6}, False)
    assert list(after.open_splits()) == [Split("east", "t", 1)]


def test_a_range_that_was_left_out_is_read_up_to_the_stop_record() -> None:
    # An earlier attempt had found it; then the cluster was gone for the replay
    amendment = Amendment(
        "q", 2, fingerprint(START), fingerprint(END), (SplitRange(SPLIT, 4, 6),), {"east": "removed"}, 0
    )
    progress = Amendments([amendment]).with_stop_records(END, [StopRecord(SPLIT, 6, "id")]).after(END)
    assert (topic_of(progress).next, topic_of(progress).ended) == ({0: 4}, {0: 6})
    answers = {"east": ClusterObservation({"t": TopicObservation({0: 12}, {}, topic_id="id")}, "Mk")}
    after = plan(plan_input(END, {"east": EAST}, answers, progress=progress, options=EVALUATED)).plan.document
    assert ranges_between(END, after) == [SplitRange(SPLIT, 4, 6)]
    assert topic_of(after).finished(0)


# -- the end of the query ----------------------------------------------------------------------------------------------


def test_a_cluster_without_an_answer_keeps_the_query_open() -> None:
    both = {"east": EAST, "west": SubscribedCluster({"t": "s"}, {})}
    after = planned(END, found=StopRecord(SPLIT, 6, "id"), wanted=both)
    assert not after.over
    assert planned(after).over


def test_a_new_partition_keeps_the_query_open() -> None:
    after = planned(END, found=StopRecord(SPLIT, 6, "id"), latest={0: 12, 1: 3})
    assert not after.over and topic_of(after).next == {0: 6, 1: 3}


def test_a_topic_without_a_description_keeps_the_query_open() -> None:
    two = {"east": SubscribedCluster({"t": "s", "u": "s"}, {})}
    assert not planned(END, found=StopRecord(SPLIT, 6, "id"), wanted=two).over


@pytest.mark.parametrize("absent", [True, False])
def test_a_new_topic_that_one_broker_lacks_keeps_it_open(absent: bool) -> None:
    two = {"east": SubscribedCluster({"t": "s", "u": "s"}, {})}
    seen = TopicObservation({0: 12}, {}, topic_id="id")
    answers = {"east": ClusterObservation({"t": seen}, "Mk", missing=frozenset({"u"}))}

    def brokers(question: Question) -> Any:
        if isinstance(question, AbsentTopicsQuestion):
            return question.topics if absent else frozenset()
        return all_logs_begin_at_zero(question)

    planned_batch = run_steps(plan_batch(plan_input(ended(), two, answers, options=EVALUATED)), brokers)
    assert planned_batch.waits_for == ("" if absent else "not all partitions are described of east/u")
    assert planned_batch.plan.document.over is absent


@pytest.mark.parametrize("state", ["Active", "Announced"])
def test_an_announced_topic_keeps_the_query_open(state: ClusterState) -> None:
    west = SubscribedCluster({"t": "s"}, {}, state=state)
    answers = {
        "east": ClusterObservation({"t": TopicObservation({0: 12}, {}, topic_id="id")}, "Mk"),
        "west": ClusterObservation({}, "Mw", missing=frozenset({"t"})),
    }
    planned_batch = plan(plan_input(ended(), {"east": EAST, "west": west}, answers, options=EVALUATED))
    assert planned_batch.waits_for == ("west/t is announced, and not there yet" if state == "Announced" else "")


def test_newer_metadata_not_in_force_keep_the_query_open() -> None:
    given = {"logged": END, "found": StopRecord(SPLIT, 6, "id")}
    after = planned(**given, incomplete_metadata="newer metadata is rejected: west is another cluster")
    assert topic_of(after).finished(0) and not after.over
    assert planned(after, incomplete_metadata="newer metadata is rejected: still") is after
    assert planned(after).over


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"incomplete_metadata": "newer metadata is rejected: x"}, "newer metadata is rejected: x"),
        ({"wanted": {"east": EAST, "west": EAST}}, "no answer from west"),
        (
            {"wanted": {"east": SubscribedCluster({"t": "s", "u": "s"}, {})}},
            "not all partitions are described of east/u",
        ),
        ({}, ""),
        ({"wanted": {"east": EAST, "west": SubscribedCluster({}, {})}}, ""),
    ],
)
def test_a_query_that_goes_on_gives_the_reason(more: dict[str, Any], why: str) -> None:
    answers = {"east": ClusterObservation({"t": TopicObservation({0: 12}, {}, topic_id="id")}, "Mk")}
    given = {"wanted": {"east": EAST}} | more
    planned_batch = plan(plan_input(ended(), given.pop("wanted"), answers, options=EVALUATED, **given))
    assert planned_batch.waits_for == why and planned_batch.plan.document.over is not bool(why)
    assert planned_batch.warnings["waits-for",] == (
        (why and f"all splits have reached their stop records, but the query goes on: {why}") or None
    )


@pytest.mark.parametrize(
    ("kept", "keeps_it_open"),
    [
        (ParkedTopic(TopicProgress("s", {0: 5, 1: 2}, ended={0: 5}), 1000), True),
        (ParkedTopic(TopicProgress("s", {0: 5}, ended={0: 5}), 1000), False),
        (ParkedTopic(TopicProgress("s", {0: 5}, stops={0: 5}), 1000), False),
        (ParkedTopic(TopicProgress("s", {0: 5}), 500), False),
        (ParkedTopic(TopicProgress("s", {0: 5}), 1000, missing=True), True),
    ],
    ids=["unread", "ended", "stopped", "expired", "missing"],
)
def test_parked_splits_with_records_keep_the_query_open(kept: ParkedTopic, keeps_it_open: bool) -> None:
    # Given a topic that metadata name no more, or whose cluster does not have it
    logged = replace(ended(), parked={"west": ParkedCluster({"t": kept}, "Mw")})
    wanted = {"east": EAST, "west": EAST} if kept.missing else {"east": EAST}
    answers = {"east": ClusterObservation({"t": TopicObservation({0: 12}, {}, topic_id="id")}, "Mk")}
    absent = {"west": ClusterObservation({}, "Mw", missing=frozenset({"t"}))} if kept.missing else {}

    # Then the query waits for it, until it is given up
    planned_batch = plan(plan_input(logged, wanted, answers | absent, options=EVALUATED, now_ms=600))
    assert planned_batch.plan.document.over is not keeps_it_open
    assert planned_batch.waits_for.startswith("west/t is missing in ") is keeps_it_open
    given_up = EVALUATED | {"removedClusterRetention": "0"}
    later = plan(plan_input(logged, wanted, answers | absent, options=given_up, now_ms=600)).plan.document
    assert later.over


def test_a_query_without_splits_is_idle_not_over() -> None:
    empty = replace(END, clusters={})
    given = plan_input(empty, {}, {}, options=EVALUATED)
    assert not plan(given).plan.document.over


def test_without_an_evaluator_stops_end_no_unbounded_query() -> None:
    stopped = saved(9, stops={0: 9})
    assert not planned(stopped, options={}).over
    assert planned(stopped).over


def test_a_query_is_over_although_its_evaluator_was_taken_away() -> None:
    assert planned(END, found=StopRecord(SPLIT, 6, "id"), options={}).over


@pytest.mark.parametrize(("stop", "record", "end"), [(7, 5, 5), (5, 7, 5)])
def test_the_first_of_stopping_offset_and_stop_record_counts(stop: int, record: int, end: int) -> None:
    bounded = replace(saved(min(9, stop), number=2, stops={0: stop}), previous=fingerprint(START), bounded=True)
    found = StopRecord(SPLIT, record, "id") if record < stop else None
    after = planned(bounded, found=found)
    assert topic_of(after).next == {0: end} and after.finished and not after.over


def test_no_metadata_revives_a_query_that_is_over() -> None:
    over = planned(END, found=StopRecord(SPLIT, 6, "id"))
    for wanted in ({"east": EAST, "west": EAST}, {"west": EAST}, {}):
        assert planned(over, wanted=wanted, latest={0: 50, 1: 3}, topic_id="new", now_ms=10**9) is over


# -- what opens a split again, and what does not -----------------------------------------------------------------------


def ended() -> OffsetDocument:
    return replace(saved(6, ended={0: 6}), number=3)


def test_an_ended_split_returns_from_parking_ended() -> None:
    away = planned(ended(), wanted={"west": SubscribedCluster({"x": "s"}, {})})
    assert dict(away.parked["east"].topics["t"].progress.ended) == {0: 6} and encode(away)["version"] == 4
    back = planned(away, now_ms=999)
    assert (topic_of(back).ended, topic_of(back).next) == ({0: 6}, {0: 6})
    assert ranges_between(away, back) == []


def test_past_the_retention_a_split_starts_as_new() -> None:
    away = planned(ended(), wanted={"west": SubscribedCluster({"x": "s"}, {})})
    back = planned(away, now_ms=1001)
    assert ranges_between(away, back) == [SplitRange(SPLIT, 0, 12)]
    assert not topic_of(back).ended


def test_a_recreated_topic_is_open_again_and_no_loss() -> None:
    # All of the old topic was read, up to its stop record
    after = planned(ended(), topic_id="new", latest={0: 12, 1: 2})
    assert (topic_of(after).topic_id, topic_of(after).next, topic_of(after).ended) == ("new", {0: 12, 1: 2}, {})
    assert ranges_between(ended(), after) == [SplitRange(SPLIT, 0, 12), SplitRange(Split("east", "t", 1), 0, 2)]


def test_open_splits_of_a_recreated_topic_are_still_a_loss() -> None:
    topic = TopicProgress("s", {0: 6, 1: 9}, topic_id="id", ended={0: 6})
    two = replace(ended(), clusters={"east": ClusterProgress({"t": topic}, "Mk")})
    with pytest.raises(DataLossError, match=r"east/t\[1\]: the topic was re-created") as lost:
        planned(two, topic_id="new", latest={0: 12, 1: 12})
    assert "east/t[0]" not in str(lost.value)
    after = planned(two, topic_id="new", latest={0: 12, 1: 12}, options=EVALUATED | {"failOnDataLoss": "false"})
    assert (topic_of(after).next, topic_of(after).ended) == ({0: 12, 1: 12}, {})


# -- replays -----------------------------------------------------------------------------------------------------------


def replays(state: MemoryState, **options: str) -> Replays:
    given = {"streamIds": "s", "metadataPath": "/streams.yaml", "stateLocation": "memory", **options}
    seen = ClusterObservation({"t": TopicObservation({0: 12}, topic_id="id")}, "Mk")
    observation = Observation(Subscription({"east": EAST}, ("s",)), {"east": seen})
    return Replays(parse_options(given, mode="streaming"), state, lambda _: observation)


def reported(offset: int) -> MemoryState:
    state = MemoryState()
    state.save_seen("q", fingerprint(END), "stop-record", SPLIT, {"offset": offset, "topicId": "id"})
    return state


@pytest.mark.parametrize("options", [EVALUATED, {}], ids=["evaluator", "without it"])
def test_a_replay_ends_at_the_reported_stop_record(options: dict[str, str]) -> None:
    made = replays(reported(6), **options)
    made.restore(END)
    assert made.ranges(START, END) == made.ranges(START, END) == [SplitRange(SPLIT, 4, 6)]
    assert topic_of(made.amendments.after(END)).ended == {0: 6}


def test_nothing_is_left_of_a_range_that_begins_with_it() -> None:
    made = replays(reported(4))
    made.restore(END)
    assert made.ranges(START, END) == []


def test_a_second_job_of_one_batch_obeys_the_first() -> None:
    # `foreachBatch` may make Spark read a batch several times
    state = MemoryState()
    made = replays(state, **EVALUATED)
    made.planned(START, END)
    assert made.ranges(START, END) == [SplitRange(SPLIT, 4, 9)]
    state.files |= reported(6).files
    assert made.ranges(START, END) == [SplitRange(SPLIT, 4, 6)]


def test_the_plan_after_a_batch_looks_for_reports_once() -> None:
    state = MemoryState()
    made = replays(state, **EVALUATED)
    made.restore(END)
    assert not topic_of(made.amendments.after(END)).ended
    state.files |= reported(6).files
    made.batch_ended(END)
    assert topic_of(made.amendments.after(END)).ended == {0: 6}

    # A late report of an attempt whose rows did not count changes nothing any more
    state.files |= reported(5).files
    made.batch_ended(END)
    assert topic_of(made.amendments.after(END)).ended == {0: 6}
