"""What a progress event says beside the numbers."""

from __future__ import annotations

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.planning.progress import OffsetDocument


def test_streams_that_are_missing_are_named_as_long_as_they_are() -> None:
    status = PlanStatus(missing=("orders",))
    assert status.summary(OffsetDocument(), finished=False)["missingStreams"] == ["orders"]
    status.missing = ()
    assert "missingStreams" not in status.summary(OffsetDocument(), finished=False)
