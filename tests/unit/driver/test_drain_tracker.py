"""When a topic counts as drained: stories of listings every ten seconds and of the sinks' commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from dynamic_kafka.driver.report.drain_tracker import STALE_S, ClusterListing, DrainTracker, TopicDrain
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedCluster, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation

ROUND_S = 10.0
OLD = {"east": frozenset({"old"})}


def committed(
    next_offsets: Mapping[int, int], *, kafka_id: str | None = "K", topic_id: str | None = "T", topic: str = "old"
) -> OffsetDocument:
    """A sink's document, with these next offsets of the topic on `east`."""
    progress = TopicProgress("orders", dict(next_offsets), topic_id=topic_id)
    return OffsetDocument("q", 3, clusters={"east": ClusterProgress({topic: progress}, kafka_id=kafka_id)})


class Story:
    """Rounds of listing; each takes a second, and the next begins ten seconds after it began."""

    def __init__(self, draining: Mapping[str, frozenset[str]] = OLD) -> None:
        self.drains, self.now, self.draining = DrainTracker(), 1000.0, draining

    def listed(
        self,
        latest: Mapping[int, int],
        *,
        high: Mapping[int, int] | None = None,
        kafka_id: str | None = "K",
        topic_id: str | None = "T",
        asked_with: Iterable[str] = ("old",),
    ) -> None:
        """`east` answers with these ends of the topic."""
        observation = TopicObservation(dict(latest), topic_id=topic_id, high=dict(high or {}))
        answer = ClusterObservation({"old": observation}, kafka_id)
        self.round({"east": ClusterListing(self.now, self.now + 1, frozenset(asked_with), answer)})

    def round(self, listings: Mapping[str, ClusterListing] | None = None, failed: Iterable[str] = ()) -> None:
        """A round with these answers; ten seconds later it is the next one's turn."""
        self.drains.record(self.draining, listings or {}, list(failed))
        self.now += ROUND_S

    def state(self, *documents: OffsetDocument | None) -> TopicDrain:
        """Return the drain of the topic right before the next round."""
        (drain,) = self.drains.states(documents, self.now)
        assert (drain.cluster, drain.topic) == ("east", "old")
        return drain

    def numbers(self, *documents: OffsetDocument | None) -> tuple[int | None, float]:
        """Lag and quiet time."""
        drain = self.state(*documents)
        return drain.lag, drain.quiet_s


def test_lag_falls_with_commits_and_quiet_time_grows() -> None:
    story = Story()
    story.listed({0: 50, 1: 20})
    assert story.numbers(committed({0: 10, 1: 20})) == (40, 0)

    story.listed({0: 50, 1: 20})
    assert story.numbers(committed({0: 45, 1: 20})) == (5, 9)

    story.listed({0: 50, 1: 20})
    assert story.numbers(committed({0: 50, 1: 20})) == (0, 19)


def test_records_behind_a_stopping_offset_are_not_awaited() -> None:
    story = Story()
    story.listed({0: 50, 1: 20})
    document = committed({0: 10, 1: 20})
    stops = replace(document.clusters["east"].topics["old"], stops={0: 30, 1: 90})
    document = replace(document, clusters={"east": ClusterProgress({"old": stops}, kafka_id="K")})
    assert story.state(document).lag == 20


def ended_at(document: OffsetDocument, ended: Mapping[int, int]) -> OffsetDocument:
    """The document with these stop records."""
    topic = replace(document.clusters["east"].topics["old"], ended=dict(ended))
    return replace(document, clusters={"east": ClusterProgress({"old": topic}, kafka_id="K")})


def test_a_topic_is_finished_once_all_its_splits_have_ended() -> None:
    story = Story()
    for end in (50, 60):  # producers write on
        story.listed({0: end, 1: 20})
    for document, expected in (
        (ended_at(committed({0: 10, 1: 20}), {0: 10}), (0, False)),
        (ended_at(committed({0: 7, 1: 20}), {0: 10, 1: 20}), (3, False)),
        (ended_at(committed({0: 10, 1: 15}), {0: 10, 1: 15}), (0, True)),
    ):
        drain = story.state(document)
        assert (drain.lag, drain.finished) == expected
    done = ended_at(committed({0: 10, 1: 20}), {0: 10, 1: 20})
    assert not story.state(done, committed({0: 10, 1: 20})).finished, "another sink reads on"
    assert not story.state(done, None).finished


def test_a_query_that_is_over_holds_no_drain_up() -> None:
    story = Story()
    story.listed({0: 50})
    assert story.state(committed({0: 50}), OffsetDocument("q", 9, over=True)).lag == 0


READ = ended_at(committed({0: 10}), {0: 10})
OVER = OffsetDocument("q", 9, over=True)


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("documents", [[OVER], [OVER, replace(READ, over=True)], [replace(READ, bounded=True)]])
def test_finished_queries_drain_every_topic(documents: list[OffsetDocument], answers: bool) -> None:
    # Given a topic that drains, with records that no query reads, perhaps on a cluster that is gone
    story = Story()
    story.listed({0: 50})
    if not answers:
        story.round(failed=["east"])

    # Then it is finished once all queries are
    assert story.state(*documents).finished
    assert not story.state(*documents, committed({0: 5})).finished
    assert not story.state(*documents, None).finished
    assert not story.state().finished


def test_quiet_time_spans_first_answer_to_last_question() -> None:
    """Between the two, certainly nothing was written. Before and after them, something may have been."""
    story = Story()
    story.listed({0: 5})
    assert story.state(committed({0: 5})).quiet_s == 0

    story.listed({0: 5})
    assert story.state(committed({0: 5})).quiet_s == ROUND_S - 1


def test_a_record_that_arrives_begins_it_anew() -> None:
    story = Story()
    for _ in range(5):
        story.listed({0: 5})
    story.listed({0: 6})
    assert story.numbers(committed({0: 5})) == (1, 0)

    story.listed({0: 6})
    assert story.numbers(committed({0: 6})) == (0, 9)


def test_an_answer_from_before_the_drain_does_not_count() -> None:
    story = Story()
    story.listed({0: 5}, asked_with=())
    assert story.numbers(committed({0: 5})) == (None, 0)

    story.listed({0: 5})
    assert story.numbers(committed({0: 5})) == (0, 0)


@pytest.mark.parametrize("failed", [["east"], ["east", "west"]])
def test_an_error_begins_it_anew(failed: list[str]) -> None:
    story = Story()
    story.listed({0: 5})
    story.listed({0: 5})
    story.round(failed=failed)
    assert story.numbers(committed({0: 5})) == (None, 0)

    story.listed({0: 5})
    assert story.numbers(committed({0: 5})) == (0, 0)


def test_an_error_of_another_cluster_changes_nothing() -> None:
    story = Story({**OLD, "west": frozenset({"old"})})
    story.listed({0: 5})
    listing = ClusterListing(
        story.now, story.now + 1, OLD["east"], ClusterObservation({"old": TopicObservation({0: 5})}, "K")
    )
    story.round(
        {"east": ClusterListing(listing.asked_s, listing.answered_s, listing.draining, listing.answer)}, ["west"]
    )
    east, west = story.drains.states([committed({0: 5})], story.now)
    assert (east.cluster, east.lag, west.cluster, west.lag) == ("east", 0, "west", None)


def test_a_topic_that_is_not_listed_begins_anew() -> None:
    """It is being created, moved or deleted."""
    for answer in (ClusterObservation({}, "K"), ClusterObservation({"old": TopicObservation({})}, "K")):
        story = Story()
        story.listed({0: 5})
        story.listed({0: 5})
        story.round({"east": ClusterListing(story.now, story.now + 1, OLD["east"], answer)})
        assert story.numbers(committed({0: 5})) == (None, 0)
        story.listed({0: 5})
        assert story.numbers(committed({0: 5})) == (0, 0)


def test_a_topic_without_partitions_is_not_drained() -> None:
    story = Story()
    story.listed({})
    story.listed({})
    assert story.numbers(committed({})) == (None, 0)


def test_a_topic_that_never_existed_is_drained() -> None:
    """Its name was mistyped: no source has read it, and the cluster does not have it."""
    story = Story()
    for _ in range(3):
        answer = ClusterObservation({}, "K", missing=OLD["east"])
        story.round({"east": ClusterListing(story.now, story.now + 1, OLD["east"], answer)})
    other = committed({0: 5}, topic="other")
    assert story.numbers(other) == (0, 2 * ROUND_S - 1)
    assert story.state(other).kafka_id == "K"
    assert story.numbers(other, None) == (None, 0)
    assert story.numbers() == (None, 0), "without any progress nothing is known"


@pytest.mark.parametrize("parked", [False, True])
def test_a_missing_topic_that_was_read_is_not_drained(parked: bool) -> None:
    document = committed({0: 5})
    if parked:
        topic = document.clusters["east"].topics["old"].parked(9)
        document = replace(document, clusters={}, parked={"east": ParkedCluster({"old": topic}, "K")})
    story = Story()
    for _ in range(2):
        answer = ClusterObservation({}, "K", missing=OLD["east"])
        story.round({"east": ClusterListing(story.now, story.now + 1, OLD["east"], answer)})
    assert story.numbers(document) == (None, 0)


def test_a_slow_cluster_keeps_its_last_answer_for_a_while() -> None:
    story = Story()
    story.listed({0: 5})
    story.listed({0: 5})
    story.round()
    assert story.numbers(committed({0: 5})) == (0, 9), "no more than what was listed"

    story.now += STALE_S
    assert story.numbers(committed({0: 5})) == (None, 0)

    story.listed({0: 5})
    assert story.numbers(committed({0: 5})) == (0, 59), "nothing was written meanwhile"


def test_an_open_transaction_is_reported_and_counts_as_movement() -> None:
    story = Story()
    story.listed({0: 5, 1: 7}, high={0: 5, 1: 7})
    story.listed({0: 5, 1: 7}, high={0: 5, 1: 9})
    state = story.state(committed({0: 5, 1: 7}))
    assert (state.lag, state.quiet_s, state.open_transaction) == (0, 0, True)

    story.listed({0: 5, 1: 7}, high={0: 5, 1: 9})
    assert story.state(committed({0: 5, 1: 7})).open_transaction, "one that hangs goes on being open"

    story.listed({0: 5, 1: 10}, high={0: 5, 1: 10})
    state = story.state(committed({0: 5, 1: 7}))
    assert (state.lag, state.quiet_s, state.open_transaction) == (3, 0, False)


def test_readers_of_everything_have_no_open_transactions() -> None:
    story = Story()
    story.listed({0: 5})
    assert not story.state(committed({0: 5})).open_transaction


def test_of_two_sinks_the_one_that_is_behind_counts() -> None:
    story = Story()
    story.listed({0: 50})
    assert story.state(committed({0: 50}), committed({0: 20})).lag == 30
    assert story.state(committed({0: 20}), committed({0: 50})).lag == 30


def test_a_sink_without_a_commit_leaves_the_lag_unknown() -> None:
    story = Story()
    story.listed({0: 50})
    assert story.state(committed({0: 50}), None).lag is None
    assert story.state().lag is None


def test_a_sink_without_the_topic_leaves_the_lag_unknown() -> None:
    story = Story()
    story.listed({0: 0})
    assert story.state(committed({0: 0}, topic="another")).lag is None


def test_a_new_partition_leaves_the_lag_unknown_until_it_is_read() -> None:
    story = Story()
    story.listed({0: 5})
    story.listed({0: 5})
    story.listed({0: 5, 1: 0})
    assert story.numbers(committed({0: 5})) == (None, 0)

    story.listed({0: 5, 1: 0})
    assert story.numbers(committed({0: 5, 1: 0})) == (0, 9)


def test_a_partition_with_unknown_end_leaves_the_lag_unknown() -> None:
    story = Story()
    story.listed({0: 5})
    assert story.state(committed({0: 5, 1: 3})).lag is None


@pytest.mark.parametrize("other", [{"kafka_id": "L"}, {"topic_id": "U"}])
def test_another_cluster_or_topic_of_that_name_does_not_count(other: dict[str, str]) -> None:
    """Ends of an empty one would look like no lag at all."""
    story = Story()
    story.listed({0: 5})
    story.listed({0: 5}, **other)  # type: ignore[arg-type]
    assert story.numbers(committed({0: 5})) == (None, 0)
    assert story.state(committed({0: 5})).kafka_id == other.get("kafka_id", "K"), "that of the listed one"


@pytest.mark.parametrize("untold", [{"kafka_id": None}, {"topic_id": None}])
def test_brokers_need_not_tell_ids(untold: dict[str, None]) -> None:
    story = Story()
    story.listed({0: 5}, **untold)  # type: ignore[arg-type]
    assert story.state(committed({0: 5})).lag == 0
    assert story.state(committed({0: 5}, **untold)).lag == 0  # type: ignore[arg-type]


def test_a_commit_beyond_the_listed_end_counts_as_movement() -> None:
    story = Story()
    story.listed({0: 50, 1: 9})
    story.listed({0: 50, 1: 9})
    assert story.numbers(committed({0: 60, 1: 5})) == (4, 0)


def test_a_topic_that_drains_again_begins_anew() -> None:
    story = Story()
    story.listed({0: 5})
    story.listed({0: 5})
    story.draining = {}
    story.listed({0: 5}, asked_with=())
    assert story.drains.topics() == []
    assert story.drains.states([committed({0: 5})], story.now) == []

    story.draining = OLD
    story.listed({0: 5})
    assert story.drains.topics() == [("east", "old")]
    assert story.numbers(committed({0: 5})) == (0, 0)


def test_a_restart_begins_anew() -> None:
    before = Story()
    before.listed({0: 5})
    before.listed({0: 5})
    assert before.state(committed({0: 5})).quiet_s > 0

    after = Story()
    after.listed({0: 5})
    assert after.numbers(committed({0: 5})) == (0, 0)
