"""The summary of a progress event, besides its numbers."""

from __future__ import annotations

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress


def test_missing_streams_are_named_while_they_are_missing() -> None:
    status = PlanStatus(missing=("orders",))
    assert status.summary(OffsetDocument(), finished=False)["missingStreams"] == ["orders"]
    status.missing = ()
    assert "missingStreams" not in status.summary(OffsetDocument(), finished=False)


def test_open_splits_are_named_once_another_has_ended() -> None:
    topic = TopicProgress("s", {0: 7, 1: 9, 2: 3}, ended={0: 7})
    document = OffsetDocument("q", 2, clusters={"east": ClusterProgress({"t": topic})})
    summary = PlanStatus().summary(document, finished=False)
    assert summary["openSplits"] == ["east/t[1]", "east/t[2]"]
    assert (summary["clusters"]["east"]["splits"], summary["clusters"]["east"]["finished"]) == (3, 1)
    many = TopicProgress("s", dict.fromkeys(range(100), 7), ended={0: 7})
    document = OffsetDocument("q", 2, clusters={"east": ClusterProgress({"t": many})})
    assert len(PlanStatus().summary(document, finished=False)["openSplits"]) == 10
    assert "openSplits" not in PlanStatus().summary(OffsetDocument("q", 2), finished=False)
