"""The summary of a progress event, besides its numbers."""

from __future__ import annotations

import pytest

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress


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


REJECTED = "cluster west has another cluster.id"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (DiscoveryStatus(None, 0, None, None), ""),
        (DiscoveryStatus(None, 0, None, REJECTED, rejected_token="6f/18"), f"newer metadata is rejected: {REJECTED}"),
        (DiscoveryStatus(None, 0, None, REJECTED), f"newer metadata is rejected: {REJECTED}"),
        (DiscoveryStatus(None, 0, None, REJECTED, rejected_token="6f/16"), ""),
        (DiscoveryStatus(None, 1, "timed out", None), "the newest metadata is unknown: timed out"),
        (DiscoveryStatus(None, 0, None, None, missing=("x",)), "metadata does not name the subscribed stream x"),
    ],
    ids=["in force", "newer", "without a number", "older", "no answer", "a stream is missing"],
)
def test_metadata_that_may_not_be_complete_has_a_reason(found: DiscoveryStatus, text: str) -> None:
    status = PlanStatus()
    status.note_metadata(Revision("sha256:1", 17, "6f"), found)
    assert status.incomplete_metadata == text


def test_a_query_that_goes_on_without_open_splits_says_why() -> None:
    topic = TopicProgress("s", {0: 7}, ended={0: 7})
    document = OffsetDocument("q", 2, clusters={"east": ClusterProgress({"t": topic})})
    summary = PlanStatus(waits_for="no answer from west").summary(document, finished=False)
    assert (summary["openSplits"], summary["waitsFor"]) == ([], "no answer from west")
