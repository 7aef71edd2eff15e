"""Revisions that arrive while a query runs: older than the one in force, or of another lineage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.metadata import AwaitedRevision, MetadataDiscovery, Revision
from tests.unit.metadata.fakes import OPERATOR_REVISION, Discoveries, FakeService, cluster, stream, warnings

NEWER = replace(OPERATOR_REVISION, hash="sha256:newer", counter=17)
ELSEWHERE = replace(OPERATOR_REVISION, hash="sha256:elsewhere", counter=3, lineage="9a0b")
TWO_CLUSTERS = stream("orders", east=cluster("orders"), west=cluster("orders", servers="w1:9092"))


def running(discoveries: Discoveries) -> tuple[FakeService, MetadataDiscovery]:
    """Return a discovery with revision 17 in force, which has a second cluster."""
    service = FakeService(TWO_CLUSTERS)
    service.next_revision = NEWER
    return service, discoveries.start(service, failure_threshold=0)


def finds(service: FakeService, discovery: MetadataDiscovery, revision: Revision, times: int = 1) -> None:
    """Make lookups find the first document, with one cluster, under this revision."""
    service.set(stream())
    service.next_revision = revision
    for _ in range(times):
        discovery.refresh()


def test_an_older_revision_is_rejected_and_logged_once(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    before = discovery.current()

    finds(service, discovery, OPERATOR_REVISION, times=5)

    assert discovery.current() is before, "and it is no failure: the service did answer"
    status = discovery.status()
    assert (status.revision, status.consecutive_failures) == (NEWER, 0)
    assert status.rejected_token == "6f1c/16"
    assert warnings(caplog) == [f"metadata {status.rejected}"]
    assert (status.rejected or "").startswith("6f1c/16 (sha256:x…) is older than 6f1c/17 (sha256:newer…), which stays")

    # When revision 17 is back, nothing is rejected. When the document goes back once more, there is another warning.
    service.set(TWO_CLUSTERS)
    service.next_revision = NEWER
    discovery.refresh()
    assert discovery.current() is before
    assert (discovery.status().rejected, discovery.status().rejected_token) == (None, "")
    finds(service, discovery, OPERATOR_REVISION)
    assert len(warnings(caplog)) == 2

    finds(service, discovery, replace(OPERATOR_REVISION, counter=18))
    assert discovery.current().revision.counter == 18
    assert discovery.status().rejected is None


def test_equal_content_under_a_lower_counter_changes_nothing(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    before = discovery.current()
    service.next_revision = replace(NEWER, counter=15)
    discovery.refresh()
    assert discovery.current() is before
    assert discovery.status().rejected is None
    assert not warnings(caplog)


@pytest.mark.parametrize(
    "revision",
    [replace(NEWER, hash="sha256:edited"), Revision("sha256:edited", 17, "6f1c")],
    ids=["rendered", "by hand"],
)
def test_other_content_under_the_same_number_is_taken(discoveries: Discoveries, revision: Revision) -> None:
    """Somebody has edited the document: the edit works until the operator corrects it."""
    service, discovery = running(discoveries)
    finds(service, discovery, revision)
    assert discovery.current().revision == revision
    assert list(discovery.current().subscription.clusters) == ["east"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Revision("sha256:a", 17), Revision("sha256:b", 16)),
        (Revision("sha256:a"), Revision("sha256:b")),
        (NEWER, Revision("sha256:b", 16)),
        (NEWER, Revision("sha256:b")),
        (Revision("sha256:a", 17), OPERATOR_REVISION),
    ],
    ids=["numbers without a lineage", "no numbers", "a number, no lineage", "neither", "the operator takes over"],
)
def test_revisions_without_lineage_have_no_order(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture, before: Revision, after: Revision
) -> None:
    service = FakeService(TWO_CLUSTERS)
    service.next_revision = before
    discovery = discoveries.start(service)
    finds(service, discovery, after)
    assert discovery.current().revision == after
    assert not warnings(caplog)


def test_another_lineage_comes_into_force_with_a_warning(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    finds(service, discovery, ELSEWHERE, times=3)
    assert discovery.current().revision == ELSEWHERE
    assert discovery.status().rejected is None
    (warning,) = warnings(caplog)
    assert warning.startswith("metadata 9a0b/3 (sha256:elsewhere…) is taken instead of 6f1c/17 (sha256:newer…)")


def test_a_rejected_revision_of_another_lineage_is_warned_once(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    good = discovery.current()
    for _ in range(3):
        finds(service, discovery, ELSEWHERE)
        discovery.reject(discovery.current(), "another cluster", keep=good)
        discovery.reconsider()
    assert discovery.current().revision == NEWER
    assert sum("is taken instead of" in warning for warning in warnings(caplog)) == 1


def test_a_start_with_another_lineage_than_awaited_is_warned(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    service.next_revision = OPERATOR_REVISION
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "9a0b/57"})
    discovery = discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0)
    discovery.refresh()
    assert discovery.current().revision == OPERATOR_REVISION
    (warning,) = warnings(caplog)
    assert warning.startswith(
        "metadata 6f1c/16 (sha256:x…) is taken instead of 9a0b/57 (KAFKASTREAMS_REVISION), of another"
    )
