"""Revisions that come while it runs: one that is older than what is in force, and one of another lineage."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from dynamic_kafka.metadata import AwaitedRevision, MetadataDiscovery, Revision
from tests.unit.metadata.fakes import OPERATORS, FakeService, Started, cluster, stream

NEWER = replace(OPERATORS, hash="sha256:newer", counter=17)
ELSEWHERE = replace(OPERATORS, hash="sha256:elsewhere", counter=3, lineage="9a0b")
TWO = stream("orders", east=cluster("orders"), west=cluster("orders", servers="w1:9092"))


def running(discoveries: Started) -> tuple[FakeService, MetadataDiscovery]:
    """A discovery with revision 17 in force, which has a second cluster."""
    service = FakeService(TWO)
    service.edition = NEWER
    return service, discoveries.start(service, failure_threshold=0)


def finds(service: FakeService, discovery: MetadataDiscovery, revision: Revision, times: int = 1) -> None:
    """Look-ups find the first document, with one cluster, under this revision."""
    service.set(stream())
    service.edition = revision
    for _ in range(times):
        discovery.refresh()


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_an_older_revision_is_left_aside_and_told_once(discoveries: Started, caplog: pytest.LogCaptureFixture) -> None:
    service, discovery = running(discoveries)
    before = discovery.current()

    finds(service, discovery, OPERATORS, times=5)

    assert discovery.current() is before, "and it is no failure: the service did answer"
    status = discovery.status()
    assert (status.revision, status.consecutive_failures) == (NEWER, 0)
    assert status.rejected_token == "6f1c/16"
    assert warned(caplog) == [f"metadata {status.rejected}"]
    assert (status.rejected or "").startswith("6f1c/16 (sha256:x…) is older than 6f1c/17 (sha256:newer…), which stays")

    # When what was in force is there again, all is well; and if it goes back once more, that is news
    service.set(TWO)
    service.edition = NEWER
    discovery.refresh()
    assert discovery.current() is before
    assert (discovery.status().rejected, discovery.status().rejected_token) == (None, "")
    finds(service, discovery, OPERATORS)
    assert len(warned(caplog)) == 2

    finds(service, discovery, replace(OPERATORS, counter=18))
    assert discovery.current().revision.counter == 18
    assert discovery.status().rejected is None


def test_the_same_content_under_an_earlier_number_is_nothing_new(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    before = discovery.current()
    service.edition = replace(NEWER, counter=15)
    discovery.refresh()
    assert discovery.current() is before
    assert discovery.status().rejected is None
    assert not warned(caplog)


@pytest.mark.parametrize(
    "revision",
    [replace(NEWER, hash="sha256:edited"), Revision("sha256:edited", 17, "6f1c")],
    ids=["rendered", "by hand"],
)
def test_other_content_under_the_same_number_is_taken(discoveries: Started, revision: Revision) -> None:
    """Somebody has edited it: they see at once what they have done, until the operator puts it right."""
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
        (Revision("sha256:a", 17), OPERATORS),
    ],
    ids=["numbers without a lineage", "no numbers", "a number, no lineage", "neither", "the operator takes over"],
)
def test_what_names_no_lineage_is_neither_older_nor_of_another(
    discoveries: Started, caplog: pytest.LogCaptureFixture, before: Revision, after: Revision
) -> None:
    service = FakeService(TWO)
    service.edition = before
    discovery = discoveries.start(service)
    finds(service, discovery, after)
    assert discovery.current().revision == after
    assert not warned(caplog)


def test_another_lineage_is_taken_with_a_warning_whatever_its_number(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    finds(service, discovery, ELSEWHERE, times=3)
    assert discovery.current().revision == ELSEWHERE
    assert discovery.status().rejected is None
    (said,) = warned(caplog)
    assert said.startswith("metadata 9a0b/3 (sha256:elsewhere…) is taken instead of 6f1c/17 (sha256:newer…)")


def test_another_lineage_that_the_query_rejects_is_told_once(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service, discovery = running(discoveries)
    good = discovery.current()
    for _ in range(3):
        finds(service, discovery, ELSEWHERE)
        discovery.reject(discovery.current(), "another cluster", keep=good)
        discovery.reconsider()
    assert discovery.current().revision == NEWER
    assert sum("is taken instead of" in each for each in warned(caplog)) == 1


def test_a_start_that_was_meant_for_another_lineage_begins_with_a_warning(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "9a0b/57"})
    discovery = discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0)
    discovery.refresh()
    assert discovery.current().revision == OPERATORS
    (said,) = warned(caplog)
    assert said.startswith(
        "metadata 6f1c/16 (sha256:x…) is taken instead of 9a0b/57 (KAFKASTREAMS_REVISION), of another"
    )
