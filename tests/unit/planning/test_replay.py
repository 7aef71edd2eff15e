"""Replays of a pending batch: the same ranges, except for those that an amendment leaves out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.changed_topics import trust_one_broker
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import (
    ClusterUnreachableError,
    IdentityError,
    OffsetDocumentError,
    PendingRangesError,
    StaleCheckpointError,
)
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation
from dynamic_kafka.planning.sameness import cluster_renames
from dynamic_kafka.planning.sameness.cluster_renames import carry_over, rename
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import STOP_RECORD
from tests.unit.planning.simulation import MemoryState

OPTIONS = parse_options(
    {"streamIds": "s", "metadataPath": "/streams.yaml", "stateLocation": "memory", "clusterFailurePolicy": "stall"},
    mode="streaming",
)
START = OffsetDocument(
    "q",
    1,
    "",
    clusters={
        "east": ClusterProgress({"t": TopicProgress("s", {0: 5}), "u": TopicProgress("s", {0: 1})}, "Mk"),
        "west": ClusterProgress({"t": TopicProgress("s", {0: 7})}, "Qx"),
    },
)
END = replace(
    START,
    number=2,
    previous=fingerprint(START),
    clusters={
        "east": ClusterProgress({"t": TopicProgress("s", {0: 9}), "u": TopicProgress("s", {0: 4})}, "Mk"),
        "west": ClusterProgress({"t": TopicProgress("s", {0: 8})}, "Qx"),
    },
)
EAST_T, EAST_U = SplitRange(Split("east", "t", 0), 5, 9), SplitRange(Split("east", "u", 0), 1, 4)
WEST_T = SplitRange(Split("west", "t", 0), 7, 8)
EVERYTHING: Mapping[str, Any] = {"east": ("t", "u"), "west": ("t",)}
KAFKA_IDS = {"east": "Mk", "west": "Qx"}


def observation(
    named: Mapping[str, Any] = EVERYTHING, *, silent: str = "", ids: Mapping[str, str] = KAFKA_IDS
) -> Observation:
    clusters = {cluster: SubscribedCluster(dict.fromkeys(topics, "s"), {}) for cluster, topics in named.items()}
    answers = {cluster: ClusterObservation({}, ids[cluster]) for cluster in named if cluster != silent}
    return Observation(Subscription(clusters, ("s",)), answers)


def restarted(state: MemoryState | None, observed: Observation, **options: Any) -> Replays:
    """Return the replays of the query's next process, with this observation."""
    replays = Replays(replace(OPTIONS, **options), state, lambda _: observed)
    replays.restore(END)
    return replays


def test_the_same_ranges_are_read_again() -> None:
    assert restarted(MemoryState(), observation()).ranges(START, END) == [EAST_T, EAST_U, WEST_T]


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (replace(START, number=3), "the checkpoint was edited or mixed up; restore it"),
        (replace(START, number=2), "Spark has logged none of those in between. Take asyncProgressTrackingEnabled out"),
    ],
    ids=["another document", "documents are missing"],
)
def test_documents_that_do_not_follow_are_refused(before: OffsetDocument, reason: str) -> None:
    pending = replace(END, number=4)
    with pytest.raises(OffsetDocumentError) as refused:
        restarted(MemoryState(), observation()).ranges(before, pending)
    text = f"the offset document 4 does not follow the one that Spark names before it ({before.number})"
    assert text in str(refused.value) and reason in str(refused.value)
    assert ("asyncProgressTrackingEnabled" in str(refused.value)) is (before.number == 2)


def test_a_batch_planned_just_now_is_not_checked_again() -> None:
    def never_called(_: OffsetDocument) -> Observation:
        raise AssertionError("looked")

    replays = Replays(OPTIONS, None, never_called)
    replays.planned(START, END)
    assert len(replays.ranges(START, END)) == 3


def test_what_metadata_names_no_longer_is_left_out_and_goes_back() -> None:
    state = MemoryState()
    replays = restarted(state, observation({"east": ("t", "u")}))
    assert replays.ranges(START, END) == [EAST_T, EAST_U]
    after = replays.amendments.after(END)
    assert [after.next_of(part.split) for part in (EAST_T, EAST_U, WEST_T)] == [9, 4, 7]


def test_what_is_left_out_is_told_as_possibly_delivered(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        restarted(MemoryState(), observation({"east": ("t", "u")})).ranges(START, END)
    assert [record.message for record in caplog.records] == [
        "left out of the pending batch, possibly delivered by an earlier attempt: west/t[0] 7..8 (cluster removed)."
        " Once the cluster is read again, those that still exist come, a second time if the sink has them already"
    ]


def test_later_replays_obey_also_when_the_cluster_is_back() -> None:
    state = MemoryState()
    restarted(state, observation({"east": ("t", "u")})).ranges(START, END)
    assert restarted(state, observation()).ranges(START, END) == [EAST_T, EAST_U]
    assert len(state.files) == 1


def test_what_goes_after_an_amendment_needs_one_more() -> None:
    state = MemoryState()
    restarted(state, observation({"east": ("t", "u")})).ranges(START, END)
    again = restarted(state, observation({"east": ("t",)}))
    assert again.ranges(START, END) == [EAST_T]
    assert restarted(state, observation()).ranges(START, END) == [EAST_T]
    assert {amendment.left_out for amendment in state.amendments("q")} == {(WEST_T,), (EAST_U,)}


@pytest.mark.parametrize("more", [{}, {"failOnDataLoss": "false", "pendingRemovedRanges": "refuse"}])
@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_that_one_listing_of_a_pattern_lacks_is_kept(exists: bool, more: dict[str, str]) -> None:
    # Given a pending batch of two topics that match a pattern, and a list of topics that lacks one of them
    given = {"kafka.bootstrap.servers": "e:9", "subscribePattern": "t|u", "stateLocation": "memory", **more}
    options = parse_options(given, mode="streaming")
    assert options.single is not None
    name, state = options.single.cluster_id, MemoryState()
    start, end = (replace(found, clusters={name: found.clusters["east"]}) for found in (START, END))
    end = replace(end, previous=fingerprint(start))
    found = observation({name: ("t",)}, ids={name: "Mk"})
    replays = Replays(options, state, lambda _: found, (lambda *_: frozenset()) if exists else trust_one_broker)
    replays.restore(end)

    # Then the replay fails if the topic exists; a topic that no broker has is left out
    if exists:
        with pytest.raises(ClusterUnreachableError, match=r"does not list.*'u'.*pending batch"):
            replays.ranges(start, end)
        assert not state.files
    else:
        assert [part.split.topic for part in replays.ranges(start, end)] == ["t"]


def of_east(planned: str | None, answer: ClusterObservation, **options: Any) -> tuple[list[SplitRange], MemoryState]:
    """Return what a replay reads of the cluster east, whose topic `u` was planned under this id; and the state."""
    topics = {"t": TopicProgress("s", {0: 9}), "u": TopicProgress("s", {0: 4}, topic_id=planned)}
    start = replace(START, clusters={"east": START.clusters["east"]})
    end = replace(END, previous=fingerprint(start), clusters={"east": ClusterProgress(topics, "Mk")})
    state, seen = MemoryState(), replace(observation({"east": ("t", "u")}), answers={"east": answer})
    replays = Replays(
        replace(OPTIONS, **options), options.get("state_location", state), lambda _: seen, trust_one_broker
    )
    replays.restore(end)
    return replays.ranges(start, end), state


T_IS_THERE = {"t": TopicObservation({0: 9}, topic_id="T")}
AWAY = ClusterObservation(T_IS_THERE, "Mk", missing=frozenset({"u"}))


@pytest.mark.parametrize("planned", ["U", None])
def test_a_topic_that_is_away_is_left_out_if_losses_are_accepted(planned: str | None) -> None:
    ranges, state = of_east(planned, AWAY, fail_on_data_loss=False)
    assert ranges == [EAST_T] and [made.left_out for made in state.amendments("q")] == [(EAST_U,)]
    assert of_east(planned, AWAY)[0] == [EAST_T, EAST_U]  # executors find the loss
    assert of_east(planned, AWAY, fail_on_data_loss=False, state_location=None)[0] == [EAST_T, EAST_U]


@pytest.mark.parametrize(
    ("planned", "now", "kept"), [("U", "U", True), (None, None, False)], ids=["the same topic", "without ids"]
)
def test_a_partition_never_leaves_its_topic(planned: str | None, now: str | None, kept: bool) -> None:
    answer = ClusterObservation({**T_IS_THERE, "u": TopicObservation({1: 7}, topic_id=now)}, "Mk")
    ranges, _ = of_east(planned, answer, fail_on_data_loss=False)
    assert ranges == ([EAST_T, EAST_U] if kept else [EAST_T])


def test_a_silent_cluster_is_left_out_under_stall() -> None:
    assert restarted(MemoryState(), observation(silent="east")).ranges(START, END) == [WEST_T]


@pytest.mark.parametrize("first", [EAST_T, EAST_U], ids=str)
def test_two_amendments_of_a_batch_apply_in_any_order(first: SplitRange) -> None:
    state = MemoryState()
    (other,) = {EAST_T, EAST_U} - {first}
    restarted(state, observation({"east": (other.split.topic,), "west": ("t",)})).ranges(START, END)
    restarted(state, observation({"west": ("t",)})).ranges(START, END)
    after = restarted(state, observation()).amendments.after(END)
    assert (after.next_of(EAST_T.split), after.next_of(EAST_U.split)) == (EAST_T.start, EAST_U.start)


def test_refused_on_request_with_the_choices() -> None:
    state = MemoryState()
    with pytest.raises(PendingRangesError, match=r"west/t\[0\] 7\.\.8.*state Draining.*app abandon"):
        restarted(state, observation({"east": ("t", "u")}), pending_removed_ranges="refuse").ranges(START, END)
    assert not state.files


def test_a_removed_topic_of_a_silent_cluster_is_refused() -> None:
    state = MemoryState()
    observed = observation({"east": ("u",), "west": ("t",)}, silent="east")
    with pytest.raises(PendingRangesError, match=r"east/t\[0\]"):
        restarted(state, observed, pending_removed_ranges="refuse").ranges(START, END)
    assert not state.files


def test_without_a_state_location_nothing_is_left_out() -> None:
    with pytest.raises(PendingRangesError, match="without a stateLocation"):
        restarted(None, observation({"east": ("t", "u")})).ranges(START, END)
    with pytest.raises(ClusterUnreachableError, match=r"\[CLUSTER_UNREACHABLE cluster=west\].*pending batch needs"):
        restarted(None, observation(silent="west")).ranges(START, END)


def test_a_range_of_a_renamed_cluster_is_read_under_its_new_id() -> None:
    clusters = {
        "east": SubscribedCluster({"t": "s", "u": "s"}, {}),
        "occident": SubscribedCluster({"t": "s"}, {}, renamed_from="west"),
    }
    answers = {"east": ClusterObservation({}, "Mk"), "occident": ClusterObservation({}, "Qx")}
    replays = restarted(MemoryState(), Observation(Subscription(clusters, ("s",)), answers))
    assert replays.ranges(START, END) == [EAST_T, EAST_U, WEST_T]


def found_as(name: str, kafka_id: str | None, renamed_from: str | None, *more: str) -> Observation:
    """Return metadata with `west` under this name, beside `east` and further ids, which answer as `west` does."""
    clusters = {name: SubscribedCluster({"t": "s"}, {}, renamed_from=renamed_from) for name in (name, *more)}
    clusters["east"] = SubscribedCluster({"t": "s", "u": "s"}, {})
    answers = {name: ClusterObservation({}, kafka_id) for name in clusters} | {"east": ClusterObservation({}, "Mk")}
    return Observation(Subscription(clusters, ("s",)), answers)


@pytest.mark.parametrize("renamed_from", ["occident", None], ids=["two renames", "a rename that is taken back"])
@pytest.mark.parametrize("state", [MemoryState(), None], ids=["a state location", "none"])
def test_a_range_of_a_recognised_cluster_is_read(state: MemoryState | None, renamed_from: str | None) -> None:
    # Given a new id that answers with the `cluster.id` of `west`, which metadata no longer names
    replays = restarted(state, found_as("sunset", "Qx", renamed_from))

    # Then the batch is repeated whole, as the next plan goes on there
    assert replays.ranges(START, END) == [EAST_T, EAST_U, WEST_T]
    assert not (state and state.files)


@pytest.mark.parametrize(
    ("kafka_id", "saved"), [("Other", "Qx"), (None, "Qx"), (None, None)], ids=["another", "no answer id", "none saved"]
)
def test_a_range_is_not_read_under_an_id_that_is_not_recognised(kafka_id: str | None, saved: str | None) -> None:
    start, end = (
        replace(document, clusters={**document.clusters, "west": replace(document.clusters["west"], kafka_id=saved)})
        for document in (START, END)
    )
    state = MemoryState()
    replays = restarted(state, found_as("sunset", kafka_id, "occident"))
    assert replays.ranges(start, replace(end, previous=fingerprint(start))) == [EAST_T, EAST_U]
    assert [amendment.reasons for amendment in state.amendments("q")] == [{"west": "removed"}]


def test_a_range_of_a_silent_new_id_is_read_once_it_answers() -> None:
    # Given two renames, and a new id that does not answer before the replay
    observed = found_as("sunset", "Qx", "occident")
    silent = replace(observed, answers={"east": observed.answers["east"]})
    replays = restarted(MemoryState(), silent)

    # Then the range is left out, and the next plan with an answer begins at its start
    assert replays.ranges(START, END) == [EAST_T, EAST_U]
    after, _ = carry_over(replays.amendments.after(END), observed.subscription.clusters, observed.answers)
    assert after.next_of(Split("sunset", "t", 0)) == WEST_T.start


def test_a_replay_follows_renames_once_for_all_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given two clusters under new ids, with three ranges
    topics = {"dawn": {"t": "s", "u": "s"}, "sunset": {"t": "s"}}
    clusters = {name: SubscribedCluster(mapping, {}) for name, mapping in topics.items()}
    answers = {"dawn": ClusterObservation({}, "Mk"), "sunset": ClusterObservation({}, "Qx")}
    calls: list[Any] = []
    monkeypatch.setattr(cluster_renames, "rename", lambda *given: calls.append(given) or rename(*given))

    # Then the renames are followed once for the ranges, and once to compare the identities
    replays = restarted(MemoryState(), Observation(Subscription(clusters, ("s",)), answers))
    assert (replays.ranges(START, END), len(calls)) == ([EAST_T, EAST_U, WEST_T], 2)


@pytest.mark.parametrize("taken", ["parked as another cluster", "renamed from another one"])
def test_an_id_that_a_plan_would_not_recognise_reads_no_range(taken: str) -> None:
    # Given an id that has the `cluster.id` of `west`, but the offsets of another cluster
    parked = "sunset" if taken == "parked as another cluster" else "occident"
    kept = {parked: ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 8}), 1 << 60)}, "Other")}
    start, end = (replace(document, parked=kept) for document in (START, END))
    replays = restarted(MemoryState(), found_as("sunset", "Qx", "occident"))

    # Then the replay is refused, as the next plan would be
    with pytest.raises(IdentityError, match=r"'sunset'.*saved Kafka cluster\.id Other"):
        replays.ranges(start, replace(end, previous=fingerprint(start)))


@pytest.mark.parametrize("reports_ids", [True, False])
def test_an_old_renamed_from_does_not_lead_to_an_active_cluster(reports_ids: bool) -> None:
    # Given a cluster that still has the `renamedFrom` of its last rename, and another one that had that id since
    known = KAFKA_IDS if reports_ids else dict.fromkeys(KAFKA_IDS)
    start, end = (
        replace(found, clusters={name: replace(entry, kafka_id=known[name]) for name, entry in found.clusters.items()})
        for found in (START, END)
    )
    end = replace(end, previous=fingerprint(start))
    clusters = {"east": SubscribedCluster({"t": "s", "u": "s"}, {}, renamed_from="west")}
    found = Observation(Subscription(clusters, ("s",)), {"east": ClusterObservation({}, known["east"])})
    state = MemoryState()

    # Then the ranges of that one are left out as removed
    assert restarted(state, found).ranges(start, end) == [EAST_T, EAST_U]
    assert [amendment.reasons for amendment in state.amendments("q")] == [{"west": "removed"}]


def test_a_parked_cluster_is_not_compared_with_an_active_one() -> None:
    start, end = (
        replace(
            found,
            clusters={"east": found.clusters["east"]},
            parked={"west": ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 8}), 1 << 60)}, "Qx")},
        )
        for found in (START, END)
    )
    end = replace(end, previous=fingerprint(start))
    clusters = {"east": SubscribedCluster({"t": "s", "u": "s"}, {}, renamed_from="west")}
    found = Observation(Subscription(clusters, ("s",)), {"east": ClusterObservation({}, "Mk")})
    assert restarted(MemoryState(), found).ranges(start, end) == [EAST_T, EAST_U]


def test_a_range_is_never_read_from_another_physical_cluster() -> None:
    replays = restarted(MemoryState(), observation(ids={"east": "Mk", "west": "Other"}))
    with pytest.raises(IdentityError, match=r"west/t\[0\] 7\.\.8\b.*cluster Qx\b.*with Other") as refused:
        replays.ranges(START, END)
    # Both tools are needed, in this order
    message = str(refused.value)
    assert message.index("abandon app.yaml west`") < message.index("accept app.yaml --identity west=Other`")


def test_a_checkpoint_older_than_its_amendments_is_refused() -> None:
    state = MemoryState()
    restarted(state, observation({"east": ("t", "u")})).ranges(START, END)
    with pytest.raises(StaleCheckpointError, match=r"document 1 .*amendment.*document 2.*allowOldCheckpoint"):
        Replays(OPTIONS, state, lambda _: observation()).restore(START)
    Replays(replace(OPTIONS, allow_old_checkpoint=True), state, lambda _: observation()).restore(START)


def test_a_checkpoint_older_than_a_stop_record_is_refused() -> None:
    state = MemoryState()
    split, report = Split("east", "t", 0), {"offset": 7, "topicId": "id"}
    state.save_seen("q", fingerprint(END), STOP_RECORD, split, {"number": END.number, **report})
    state.save_seen("q", "of an earlier release", STOP_RECORD, split, report)
    Replays(OPTIONS, state, lambda _: observation()).restore(END)
    with pytest.raises(StaleCheckpointError, match=r"document 1 .*executor of document 2"):
        Replays(OPTIONS, state, lambda _: observation()).restore(START)
    Replays(replace(OPTIONS, allow_old_checkpoint=True), state, lambda _: observation()).restore(START)


@pytest.mark.scenario(17)
def test_what_was_restored_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Replays(OPTIONS, None, lambda _: observation()).restore(START)
    assert "restored offsets of east/t: {0: 5}" in caplog.messages
