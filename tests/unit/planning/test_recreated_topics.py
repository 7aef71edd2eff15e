"""A topic that was re-created under the name of the one that was read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import DataLossError
from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.planning.plans import plan, plan_input
from tests.unit.planning.simulation import MemoryState

SPLIT = Split("east", "t", 0)


def saved(topic_id: str | None, following: int, **more: Any) -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, topic_id=topic_id, **more)
    return OffsetDocument("q", 1, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


def planned(document: OffsetDocument, seen: TopicObservation, *, stop: int | None = None) -> OffsetDocument:
    """Return the document after one plan that skips losses; metadata stops the first partition at `stop`."""
    stopping = None if stop is None else OffsetSpec("explicit", offsets={"t": {0: stop}})
    east = SubscribedCluster({"t": "s"}, {}, stopping_offsets=stopping)
    answers = {"east": ClusterObservation({"t": seen}, "Mk")}
    return plan(plan_input(document, {"east": east}, answers, options={"failOnDataLoss": "false"})).plan.document


def test_an_accepted_new_topic_is_read_whole_in_all_partitions() -> None:
    before = saved("old", 4, epochs={0: 9})
    after = planned(before, TopicObservation({0: 12, 1: 3}, {0: 0, 1: 0}, {0: 0}, "new"))
    assert ranges_between(before, after) == [SplitRange(SPLIT, 0, 12, 0), SplitRange(Split("east", "t", 1), 0, 3)]
    # and that is the end of it
    assert planned(after, TopicObservation({0: 12, 1: 3}, {}, {0: 0}, "new")) is after


def test_a_new_topic_at_the_same_offset_gets_its_own_epoch() -> None:
    # A reader would take the leader epoch of another topic for a truncation
    before = saved("old", 4, epochs={0: 9})
    after = planned(before, TopicObservation({0: 12}, {0: 4}, {0: 0}, "new"))
    assert ranges_between(before, after) == [SplitRange(SPLIT, 4, 12, epoch=0)]


def test_a_bounded_runs_stop_is_resolved_again_in_the_same_plan() -> None:
    # Without, this batch would run past it
    before = replace(saved("old", 4, stops={0: 100}), bounded=True)
    after = planned(before, TopicObservation({0: 12}, {0: 0}, topic_id="new"), stop=6)
    topic = after.topic("east", "t")
    assert topic is not None
    assert (topic.next, topic.stops) == ({0: 6}, {0: 6})
    assert after.finished


# -- a pending batch ---------------------------------------------------------------------------------------------------

START, END = saved("old", 4), replace(saved("old", 9), number=2, previous=fingerprint(saved("old", 4)))


def replays(state: MemoryState | None, topic_id: str | None, fail: str) -> Replays:
    """A query that restarts with a pending batch and finds this topic."""
    given = {"streamIds": "s", "metadataPath": "/streams.yaml", "stateLocation": "memory", "failOnDataLoss": fail}
    seen = ClusterObservation({"t": TopicObservation({0: 12}, topic_id=topic_id)}, "Mk")
    observation = Observation(Subscription({"east": SubscribedCluster({"t": "s"}, {})}, ("s",)), {"east": seen})
    made = Replays(parse_options(given, mode="streaming"), state, lambda _: observation)
    made.restore(END)
    return made


def test_a_pending_batch_of_an_old_topic_is_refused_with_advice() -> None:
    state = MemoryState()
    with pytest.raises(DataLossError) as refused:
        replays(state, "new", "true").ranges(START, END)
    message = str(refused.value)
    assert "east/t[0] 4..9 is pending" in message and "re-created (id old, now new)" in message
    assert message.index("abandon app.yaml east/t`") < message.index("accept app.yaml --data-loss`")
    assert not state.files


def test_with_losses_accepted_an_old_topics_batch_is_left_out() -> None:
    # Read, its offsets would be delivered now and once more from the new topic's first record on
    state = MemoryState()
    made = replays(state, "new", "false")
    assert made.ranges(START, END) == []
    assert made.amendments.after(END).next_of(SPLIT) == 4
    assert [dict(amendment.reasons) for amendment in state.amendments("q")] == [{"east": "recreated"}]


@pytest.mark.parametrize(("topic_id", "fail"), [("old", "true"), (None, "true"), ("new", "false")])
def test_otherwise_a_pending_batch_is_read_again(topic_id: str | None, fail: str) -> None:
    state = None if topic_id == "new" else MemoryState()  # nowhere to record that it is left out
    assert replays(state, topic_id, fail).ranges(START, END) == [SplitRange(SPLIT, 4, 9)]


@pytest.mark.parametrize("disputed", [False, True])
def test_brokers_are_asked_about_all_topics_of_a_batch_at_once(disputed: bool) -> None:
    # Given a batch of three partitions each of two topics, which are other ones now for the broker that answered
    topics = {name: TopicProgress("s", dict.fromkeys(range(3), 9), topic_id=f"old {name}") for name in "tu"}
    before = {name: replace(topic, next=dict.fromkeys(range(3), 4)) for name, topic in topics.items()}
    start = OffsetDocument("q", 1, "", clusters={"east": ClusterProgress(before, "Mk")})
    end = OffsetDocument("q", 2, fingerprint(start), clusters={"east": ClusterProgress(topics, "Mk")})
    seen = {name: TopicObservation(dict.fromkeys(range(3), 12), topic_id=f"new {name}") for name in "tu"}
    named = Subscription({"east": SubscribedCluster(dict.fromkeys("tu", "s"), {})}, ("s",))
    observation = Observation(named, {"east": ClusterObservation(seen, "Mk")})
    asked: list[Any] = []

    def ask(question: Any, _: Observation) -> frozenset[tuple[str, str]]:
        asked.append(question)
        return frozenset(question.ids) if disputed else frozenset()

    given = {"streamIds": "s", "metadataPath": "/s.yaml", "stateLocation": "memory", "failOnDataLoss": "false"}
    made = Replays(parse_options(given, mode="streaming"), MemoryState(), lambda _: observation, ask)
    made.restore(end)

    # Then they are asked once, and a broker that stands alone leaves nothing out
    assert len(made.ranges(start, end)) == (6 if disputed else 0)
    assert [question.ids for question in asked] == [{("east", "t"): "new t", ("east", "u"): "new u"}]


# -- reports of executors ----------------------------------------------------------------------------------------------


def reported() -> MemoryState:
    """A state with a report that executors have read nothing of the pending batch: they met another topic."""
    state = MemoryState()
    state.save_seen("q", fingerprint(END), "topic-id", SPLIT, {"topicId": "new", "planned": "old"})
    return state


def test_a_replay_obeys_a_report_whatever_brokers_answer() -> None:
    made = replays(reported(), "old", "false")
    assert made.ranges(START, END) == made.ranges(START, END) == []


def test_a_report_fails_a_replay_once_losses_are_refused() -> None:
    with pytest.raises(DataLossError, match=r"east/t\[0\] 4\.\.9 is pending.*re-created \(id old, now new\)"):
        replays(reported(), "old", "true").ranges(START, END)


def test_a_second_run_in_one_process_obeys_a_report() -> None:
    # `foreachBatch` may make Spark run a batch several times
    state = MemoryState()
    made = replays(state, "old", "false")
    made.planned(START, END)
    assert made.ranges(START, END) == [SplitRange(SPLIT, 4, 9)]
    state.files |= reported().files
    assert made.ranges(START, END) == []


def test_a_report_about_another_batch_or_kind_is_ignored() -> None:
    state = MemoryState()
    state.save_seen("q", fingerprint(START), "topic-id", SPLIT, {"topicId": "new"})
    state.save_seen("q", fingerprint(END), "later-kind", SPLIT, {"offset": 5})
    assert replays(state, "old", "false").ranges(START, END) == [SplitRange(SPLIT, 4, 9)]
