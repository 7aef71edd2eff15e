"""Records that should have been read and are gone."""

from __future__ import annotations

from dynamic_kafka.planning.dataloss import DataLoss, describe, find_data_loss, skip_losses
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split


def reading(*, stops: dict[int, int] | None = None, **topics: dict[int, int]) -> OffsetDocument:
    found = {name: TopicProgress("s", following, stops=stops or {}) for name, following in topics.items()}
    return OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress(found)})


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
    assert loss == DataLoss(Split("east", "t", 1), "the partition exists no more", None)


def test_a_partition_that_this_broker_has_not_heard_of_yet_is_not_lost() -> None:
    # Partitions never leave a topic: with the same id, the description is merely behind
    document = OffsetDocument(
        "q", 1, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5, 1: 5}, topic_id="T")})}
    )
    behind = ClusterObservation({"t": TopicObservation({0: 9}, topic_id="T")})
    another = ClusterObservation({"t": TopicObservation({0: 9}, topic_id="U")})

    assert find_data_loss(document, {"east": behind}) == []
    (loss,) = find_data_loss(document, {"east": another})
    assert loss == DataLoss(Split("east", "t", 1), "the partition exists no more", None)
    # The id that counts is the saved one, not the one that was just taken over
    renewed = OffsetDocument(
        "q", 1, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 5, 1: 5}, topic_id="U")})}
    )
    assert find_data_loss(renewed, {"east": another}, before=document) == [loss]


def test_a_topic_that_its_cluster_does_not_list() -> None:
    answer = ClusterObservation({}, missing=frozenset({"t"}))
    (loss,) = find_data_loss(reading(t={0: 5}), {"east": answer})
    assert loss == DataLoss(Split("east", "t", 0), "the topic exists no more", None)


def test_no_answer_is_no_loss() -> None:
    assert find_data_loss(reading(t={0: 5}), {}) == []
    assert find_data_loss(reading(t={0: 5}), {"east": ClusterObservation({})}) == []


def test_a_finished_split_has_nothing_left_to_lose() -> None:
    finished = reading(t={0: 5}, stops={0: 5})
    assert losses(finished, latest={0: 9}, earliest={0: 7}) == []
    assert find_data_loss(finished, {"east": ClusterObservation({}, missing=frozenset({"t"}))}) == []


def test_going_on_behind_a_loss_moves_that_split_alone() -> None:
    document = reading(t={0: 5, 1: 6})
    after = skip_losses(document, [DataLoss(Split("east", "t", 0), "", 40)])
    assert after == reading(t={0: 40, 1: 6})


def test_what_is_gone_is_dropped_with_all_that_was_said_of_it() -> None:
    document = reading(t={0: 5, 1: 6}, u={0: 1}, stops={0: 90})
    gone = [DataLoss(Split("east", "t", 0), "", None), DataLoss(Split("east", "u", 0), "", None)]
    after = skip_losses(document, gone)
    assert after.clusters["east"].topics == {"t": TopicProgress("s", {1: 6})}


def test_many_findings_are_told_in_a_few_lines() -> None:
    many = [DataLoss(Split("east", "t", partition), "gone", None) for partition in range(12)]
    assert describe(many).endswith("east/t[9]: gone; and 2 more")
