"""Data losses: records that should have been read and are gone."""

from __future__ import annotations

import pytest

from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedTopic, TopicProgress
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.losses.dataloss import DataLoss, describe, find_data_loss, skip_losses
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split

SPLIT = Split("east", "t", 0)


def reading(*, stops: dict[int, int] | None = None, **topics: dict[int, int]) -> OffsetDocument:
    topic_progress = {name: TopicProgress("s", following, stops=stops or {}) for name, following in topics.items()}
    return OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress(topic_progress)})


def losses(
    document: OffsetDocument, *, latest: dict[int, int], earliest: dict[int, int] | None = None
) -> list[DataLoss]:
    answer = ClusterObservation({"t": TopicObservation(latest, earliest or {})})
    return find_data_loss(document, {"east": answer})


def test_within_the_log_nothing_is_lost() -> None:
    assert losses(reading(t={0: 5}), latest={0: 5}, earliest={0: 5}) == []


def test_expired_offsets_go_on_at_the_first_one_left() -> None:
    (loss,) = losses(reading(t={0: 5}), latest={0: 90}, earliest={0: 40})
    assert loss == DataLoss(Split("east", "t", 0), "offsets 5..40 have expired", 40)


def test_a_log_that_ends_earlier_goes_on_at_its_end() -> None:
    (loss,) = losses(reading(t={0: 5}), latest={0: 2})
    assert loss.resume_at == 2
    assert "truncated, or the topic re-created" in loss.reason


def test_a_partition_less() -> None:
    (loss,) = losses(reading(t={0: 5, 1: 5}), latest={0: 9})
    assert loss == DataLoss(Split("east", "t", 1), "the partition no longer exists", None)


def test_a_partition_that_a_broker_does_not_list_yet_exists() -> None:
    # Partitions never leave a topic: with the same id, the description is merely behind
    document = OffsetDocument(
        "q", 1, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5, 1: 5}, topic_id="T")})}
    )
    behind = ClusterObservation({"t": TopicObservation({0: 9}, topic_id="T")})
    another = ClusterObservation({"t": TopicObservation({0: 9}, topic_id="U")})

    assert find_data_loss(document, {"east": behind}) == []
    first, second = find_data_loss(document, {"east": another})
    recreated = "the topic was re-created (id T, now U): "
    assert (first.reason, second.reason) == (
        f"{recreated}offset 5 belongs to the old one",
        f"{recreated}the partition no longer exists",
    )
    assert second.resume_at is None
    # The saved id counts, not the one that the plan has just taken over
    renewed = OffsetDocument(
        "q", 1, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5, 1: 5}, topic_id="U")})}
    )
    assert find_data_loss(renewed, {"east": another}, before=document) == [first, second]


def of_topic(topic_id: str | None, following: dict[int, int], **more: dict[int, int]) -> OffsetDocument:
    topic = TopicProgress("s", following, topic_id=topic_id, **more)
    return OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({"t": topic})})


@pytest.mark.parametrize("end", [2, 4, 12])
def test_offsets_of_an_old_topic_are_lost_in_a_recreated_one(end: int) -> None:
    # Records of the new log before the saved offset would never be read, however long the log is
    answer = ClusterObservation({"t": TopicObservation({0: end, 1: end}, {0: 1, 1: 0}, topic_id="U")})
    data_losses = find_data_loss(of_topic("U", {0: 4, 1: 0}), {"east": answer}, before=of_topic("T", {0: 4, 1: 0}))
    assert [(loss.split.partition, loss.resume_at, loss.topic_id, loss.recreated) for loss in data_losses] == [
        (0, 1, "T", True),
        (1, 0, "T", True),
    ]
    assert "re-created (id T, now U): offset 4 " in data_losses[0].reason


@pytest.mark.parametrize(("saved", "seen"), [("T", None), (None, "T"), (None, None), ("T", "T")])
def test_a_topic_without_a_known_id_counts_as_the_saved_one(saved: str | None, seen: str | None) -> None:
    answer = ClusterObservation({"t": TopicObservation({0: 9}, topic_id=seen)})
    assert find_data_loss(of_topic(seen, {0: 4}), {"east": answer}, before=of_topic(saved, {0: 4})) == []


def test_finished_splits_of_a_recreated_topic_stay_finished() -> None:
    document = of_topic("T", {0: 4, 1: 4}, stops={0: 4, 1: 9})
    answer = ClusterObservation({"t": TopicObservation({0: 9, 1: 9}, topic_id="U")})
    (loss,) = find_data_loss(document, {"east": answer})
    assert loss.split.partition == 1


def test_a_recreated_topic_starts_without_epochs_and_stops() -> None:
    document = of_topic("U", {0: 4, 1: 9}, epochs={0: 7, 1: 7}, stops={0: 8, 1: 9})
    answer = ClusterObservation({"t": TopicObservation({0: 12, 1: 12}, {0: 2, 1: 0}, topic_id="U")})
    data_losses = find_data_loss(document, {"east": answer}, before=of_topic("T", {0: 4, 1: 9}))
    after = skip_losses(document, data_losses, 0).topic("east", "t")
    assert after == TopicProgress("s", {0: 2, 1: 9}, topic_id="U", epochs={1: 7}, stops={1: 9})


RECREATED = DataLoss(SPLIT, "", 0, "T", recreated=True)
CUT_OFF = DataLoss(SPLIT, "", 3, "T")
EXPIRED = DataLoss(SPLIT, "", 9, "T")


@pytest.mark.parametrize(
    ("word", "loss", "covered"),
    [
        (AcceptedLoss(4, "T", kind="recreated"), RECREATED, True),
        (AcceptedLoss(4, "S", kind="recreated"), RECREATED, False),
        (AcceptedLoss(4, kind="recreated"), RECREATED, False),
        (AcceptedLoss(5, "T", kind="recreated"), RECREATED, False),
        # Another loss of the same offset and topic.
        (AcceptedLoss(4, "T", 2, 7, 2, "truncated"), RECREATED, False),
        (AcceptedLoss(4, "T", None, 7, 2, "missing"), RECREATED, False),
        (AcceptedLoss(4, "T", None, 7, 2, "missing"), DataLoss(SPLIT, "", None, "T", missing=True), True),
        (AcceptedLoss(4, "T", 9, 7, 2, "expired"), CUT_OFF, False),
        (AcceptedLoss(4, "T", 2, 7, 2, "truncated"), EXPIRED, False),
        # Cut off again, after reading had continued and reached the same offset.
        (AcceptedLoss(4, "T", 2, 6, 1, "truncated"), CUT_OFF, False),
        (AcceptedLoss(4, "T", 2, 7, 1, "truncated"), CUT_OFF, False),
        (AcceptedLoss(4, "T", 2, 6, None, "truncated"), CUT_OFF, False),
        (AcceptedLoss(4, "T", 2, 7, None, "truncated"), CUT_OFF, True),
        # Only other clusters were read since.
        (AcceptedLoss(4, "T", 2, 6, 2, "truncated"), CUT_OFF, True),
        # Behind expired records, reading cannot come to the same offset again.
        (AcceptedLoss(4, "T", 9, 6, kind="expired"), EXPIRED, True),
        (AcceptedLoss(4, "S", 9, 7, 2, "expired"), EXPIRED, False),
        (AcceptedLoss(4, None, 9, 6, kind="expired"), DataLoss(SPLIT, "", 9), False),
        (AcceptedLoss(4, None, 9, 7, kind="expired"), DataLoss(SPLIT, "", 9), True),
        # Without a kind, any loss is meant that the split has at that time.
        (AcceptedLoss(4, "T", 9, 6, 2), EXPIRED, True),
        (AcceptedLoss(4, "T", 2, 7), CUT_OFF, True),
        (AcceptedLoss(4, "T", 2, 6, 1), RECREATED, False),
        (AcceptedLoss(4, "T"), CUT_OFF, False),
    ],
)
def test_an_acceptance_holds_for_one_offset_of_one_topic(word: AcceptedLoss, loss: DataLoss, covered: bool) -> None:
    # A second re-creation meets the same offset, usually 0, and is another loss
    assert word.covers(loss, 4, 7, epoch=2) is covered


@pytest.mark.parametrize(
    ("word", "loss", "at"),
    [
        (AcceptedLoss(9, to=4), DataLoss(SPLIT, "cut off, and grown since", 7), 4),
        (AcceptedLoss(9, to=4), DataLoss(SPLIT, "cut off once more", 3), 3),
        (AcceptedLoss(9), DataLoss(SPLIT, "of a word from before", 7), 7),
        (AcceptedLoss(9, to=12), DataLoss(SPLIT, "more has expired", 15), 15),
        (AcceptedLoss(9, "T", to=0), DataLoss(SPLIT, "another topic", 2, "T", recreated=True), 2),
        (AcceptedLoss(9, to=4), DataLoss(SPLIT, "gone", None), None),
    ],
)
def test_an_accepted_loss_resumes_at_the_accepted_offset(word: AcceptedLoss, loss: DataLoss, at: int | None) -> None:
    assert word.resume_at(loss) == at


def test_an_accepted_loss_does_not_resume_at_expired_records() -> None:
    assert AcceptedLoss(9, to=4).resume_at(DataLoss(SPLIT, "cut off, and grown since", 7), first=6) == 6


def test_a_topic_that_its_cluster_does_not_list() -> None:
    answer = ClusterObservation({}, missing=frozenset({"t"}))
    (loss,) = find_data_loss(reading(t={0: 5}), {"east": answer})
    assert loss == DataLoss(Split("east", "t", 0), "the topic no longer exists", None, missing=True)


def test_no_answer_is_no_loss() -> None:
    assert find_data_loss(reading(t={0: 5}), {}) == []
    assert find_data_loss(reading(t={0: 5}), {"east": ClusterObservation({})}) == []


def test_a_finished_split_has_nothing_left_to_lose() -> None:
    finished = reading(t={0: 5}, stops={0: 5})
    assert losses(finished, latest={0: 9}, earliest={0: 7}) == []
    assert find_data_loss(finished, {"east": ClusterObservation({}, missing=frozenset({"t"}))}) == []


def test_a_start_past_the_end_and_its_stop_is_a_loss() -> None:
    (loss,) = losses(reading(t={0: 50, 1: 2}, stops={0: 5, 1: 5}), latest={0: 5, 1: 5})
    assert (loss.split, loss.resume_at) == (SPLIT, 5)
    # With a stop at a time, a start behind it has nothing to read
    assert losses(reading(t={0: 50}, stops={0: 5}), latest={0: 60}) == []
    # Nor has a split that got its stop later
    seen = {"east": ClusterObservation({"t": TopicObservation({0: 40})})}
    assert find_data_loss(reading(t={0: 50}, stops={0: 9}), seen, before=reading(t={0: 50})) == []


def test_going_on_behind_a_loss_moves_that_split_alone() -> None:
    document = reading(t={0: 5, 1: 6})
    after = skip_losses(document, [DataLoss(Split("east", "t", 0), "", 40)], 0)
    assert after == reading(t={0: 40, 1: 6})


def test_what_is_gone_is_dropped_with_all_that_was_said_of_it() -> None:
    document = reading(t={0: 5, 1: 6}, u={0: 1}, stops={0: 90})
    gone = [DataLoss(Split("east", "t", 0), "", None), DataLoss(Split("east", "u", 0), "", None)]
    after = skip_losses(document, gone, 0)
    assert after.clusters["east"].topics == {"t": TopicProgress("s", {1: 6})}


def test_a_missing_topic_is_parked_under_its_id() -> None:
    document = of_topic("T", {0: 4, 1: 9}, epochs={0: 7}, stops={1: 9})
    data_losses = find_data_loss(document, {"east": ClusterObservation({}, missing=frozenset({"t"}))})
    after = skip_losses(document, data_losses, 70)
    assert (after.clusters, after.parked["east"].topics) == (
        {},
        {"t": ParkedTopic(TopicProgress("s", {0: 4, 1: 9}, "T", epochs={0: 7}, stops={1: 9}), 70, missing=True)},
    )


def test_many_losses_are_described_in_short() -> None:
    many = [DataLoss(Split("east", "t", partition), "gone", None) for partition in range(12)]
    assert describe(many).endswith("east/t[9]: gone and 2 more")
