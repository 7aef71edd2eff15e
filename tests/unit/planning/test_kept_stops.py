"""Warnings of stopping offsets that metadata changed after they were resolved."""

from __future__ import annotations

import re

import pytest

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.metadata import OffsetSpec, SubscribedCluster
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from tests.unit.planning.plans import plan, plan_input


def stopped(status: PlanStatus, rule: OffsetSpec | None, *, bounded: bool = False) -> None:
    """Plan for a query that has read `east` up to its stop at 3, under the present stopping rule of metadata."""
    topic = TopicProgress("orders", {0: 3}, stops={0: 3})
    document = OffsetDocument("q", 3, "p", bounded=bounded, clusters={"east": ClusterProgress({"t": topic}, "Mk")})
    east = SubscribedCluster({"t": "orders"}, {}, stopping_offsets=rule)
    given = plan_input(document, {"east": east}, {"east": ClusterObservation({"t": TopicObservation({0: 9})}, "Mk")})
    planned = plan(given)
    assert planned.plan.document is document
    status.warn(planned.warnings)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (None, "metadata has no stopping offsets any more for east/t"),
        (OffsetSpec("explicit", offsets={"t": {0: 5}}), "metadata has other stopping offsets for east/t"),
    ],
    ids=["removed", "moved"],
)
def test_a_removed_or_moved_stop_stays_with_one_warning(
    rule: OffsetSpec | None, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    status = PlanStatus()
    for _ in range(3):
        stopped(status, rule)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert text in record.message
    assert re.search(r"first ones stay.*a new checkpoint", record.message)

    # After the rule was put back and changed again, the warning comes again
    stopped(status, OffsetSpec("explicit", offsets={"t": {0: 3}}))
    stopped(status, rule)
    assert len(caplog.records) == 2


def test_a_stop_that_is_unchanged_causes_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    stopped(PlanStatus(), OffsetSpec("explicit", offsets={"t": {0: 3}}))
    stopped(PlanStatus(), OffsetSpec("latest"))  # never resolved again
    stopped(PlanStatus(), OffsetSpec("timestamp", timestamp_ms=5))
    stopped(PlanStatus(), None, bounded=True)
    assert not caplog.records


def test_other_stops_for_a_bounded_run_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    stopped(PlanStatus(), OffsetSpec("explicit", offsets={"t": {0: 5}}), bounded=True)
    assert re.search(r"metadata has other .*for east/t", caplog.text)
