"""The leader epoch of a range: without it, a log that was cut off and has grown again looks complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.amendments import Amendment, Amendments
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import EpochEndsQuestion, HighWatermarksQuestion, Question, run_steps
from tests.unit.planning.plans import all_logs_begin_at_zero, plan, plan_input

WANTED = {"east": SubscribedCluster({"t": "s"}, {})}


def planned(
    logged: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    end: int | None,
    epoch: int = 6,
    amendments: Amendments | None = None,
) -> OffsetDocument:
    """The document after one plan; `end` None: the cluster does not answer."""
    seen = ClusterObservation({"t": TopicObservation({0: end}, epochs={0: epoch}, topic_id="T")}, "Mk") if end else None
    answers = dict.fromkeys(wanted, seen) if seen else {}
    progress = (amendments or Amendments()).after(logged)
    given = plan_input(logged, wanted, answers, progress=progress, options={"failOnDataLoss": "false"})
    return plan(given).plan.document


def saved(following: int, epoch: int = 5, **more: object) -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, topic_id="T", epochs={0: epoch})
    return OffsetDocument("q", 1, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


def first_epoch(start: OffsetDocument, end: OffsetDocument) -> int:
    (part,) = ranges_between(start, end)
    assert part.start == 100
    return part.epoch


def test_a_continued_range_has_the_saved_epoch() -> None:
    before = saved(100)
    assert first_epoch(before, planned(before, WANTED, 200)) == 5


def test_a_range_after_parking_has_the_saved_epoch() -> None:
    parked = planned(saved(100), {}, None)
    assert first_epoch(parked, planned(parked, WANTED, 200)) == 5


def test_a_range_of_a_renamed_cluster_has_the_saved_epoch() -> None:
    before = saved(100)
    renamed = {"eastern": SubscribedCluster({"t": "s"}, {}, renamed_from="east")}
    assert first_epoch(before, planned(before, renamed, 200)) == 5


@pytest.mark.parametrize("away", [False, True])
def test_a_range_that_was_left_out_has_an_epoch_when_it_is_read(away: bool) -> None:
    start = saved(100)
    end = planned(start, WANTED, 150, epoch=5)
    left_out = tuple(ranges_between(start, end))
    made = Amendment("q", end.number, fingerprint(start), fingerprint(end), left_out, {"east": "unreachable"}, 0)
    amendments = Amendments([made])
    # Epoch 5 was the log's when it was seen to reach 150: it may be later than that of 100, and serves as well.
    if away:
        end = planned(end, WANTED, None, amendments=amendments)
    assert first_epoch(end, planned(end, WANTED, 200, amendments=amendments)) == 5


def truncated_at(offset: int, given: PlanInput, high: int | None = None) -> Planned:
    """Plan on a log whose records of the saved epoch end at `offset`; its high watermark is `high` if that is asked."""

    def answer(question: Question) -> object:
        if isinstance(question, EpochEndsQuestion):
            return {split: offset for split, check in question.checks.items() if offset < check.end}
        if isinstance(question, HighWatermarksQuestion) and high is not None:
            return dict.fromkeys(question.splits, high)
        return all_logs_begin_at_zero(question)

    return run_steps(plan_batch(given), answer)


def grown(end: int, fail: str) -> PlanInput:
    """Return the input of a plan at offset 100 of epoch 5, in a log that ends at `end` in epoch 6."""
    seen = ClusterObservation({"t": TopicObservation({0: end}, epochs={0: 6}, topic_id="T")}, "Mk")
    return plan_input(saved(100), WANTED, {"east": seen}, options={"failOnDataLoss": fail})


@pytest.mark.parametrize("end", [80, 100, 120])
def test_a_truncated_log_is_resumed_where_it_was_cut(end: int) -> None:
    # Records 50..100 of the new log have not been read
    document = truncated_at(50, grown(end, "false")).plan.document
    (part,) = ranges_between(saved(100), document)
    assert (part.start, part.end, part.epoch) == (50, end, 6)
    assert not truncated_at(50, replace(grown(end, "true"), refuse_losses=False)).plan.document.parked


@pytest.mark.parametrize("end", [80, 100, 120])
def test_the_error_names_the_offset_of_the_truncation(end: int) -> None:
    with pytest.raises(DataLossError, match=r"truncated at 50, .*offset 100"):
        truncated_at(50, grown(end, "true"))


def test_a_new_leader_alone_is_no_loss() -> None:
    planned = truncated_at(120, grown(120, "true"))
    assert planned.losses == ()
    (part,) = ranges_between(saved(100), planned.plan.document)
    assert (part.start, part.epoch, part.end_epoch) == (100, 5, 6)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_hidden_records_under_a_new_leader_are_no_loss(fail: str) -> None:
    # The last stable offset 80 is the end for `read_committed`; the log has all records before 120
    given = grown(80, fail)
    planned = truncated_at(120, given, high=120)
    assert (planned.losses, planned.plan.document is given.logged) == ((), True)


def test_a_truncation_behind_the_last_stable_offset_is_found() -> None:
    document = truncated_at(90, grown(80, "false"), high=120).plan.document
    assert document.clusters["east"].topics["t"].next == {0: 90}


def test_a_truncation_is_accepted_once() -> None:
    # The epoch behind an accepted loss is the present one, so no later plan finds it again
    document = truncated_at(50, grown(120, "false")).plan.document
    assert document.clusters["east"].topics["t"].epochs == {0: 6}
    again = replace(grown(120, "true"), logged=document, progress=document.settled())
    assert truncated_at(50, again).plan.document is document
