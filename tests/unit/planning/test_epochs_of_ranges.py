"""The leader epoch of a range: without it, a log that was cut off and has grown again looks complete."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.amendments import Amendment, Amendments
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from tests.unit.planning.plans import plan, plan_input

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


def test_after_an_accepted_truncation_the_old_epoch_is_dropped() -> None:
    # For the end of epoch 5 a reader would get an offset before 90, and report a truncation again
    before = saved(120)
    accepted = planned(before, WANTED, 100)
    assert accepted.clusters["east"].topics["t"].next == {0: 100}
    assert first_epoch(accepted, planned(accepted, WANTED, 110)) in (-1, 6)
