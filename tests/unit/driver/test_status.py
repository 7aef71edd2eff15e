"""The summary of a progress event, besides its numbers."""

from __future__ import annotations

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.planning.progress import OffsetDocument


def test_missing_streams_are_named_while_they_are_missing() -> None:
    status = PlanStatus(missing=("orders",))
    assert status.summary(OffsetDocument(), finished=False)["missingStreams"] == ["orders"]
    status.missing = ()
    assert "missingStreams" not in status.summary(OffsetDocument(), finished=False)
