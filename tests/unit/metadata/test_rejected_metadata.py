"""Metadata that the query or discovery rejects: it stays out of force, and is reported with its revision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata import MetadataDiscovery, Revision
from tests.unit.metadata.fakes import OPERATOR_REVISION, Discoveries, FakeService, cluster, stream


class Scene:
    """A discovery whose first metadata is good, and a service that brings other servers of the cluster."""

    def __init__(self, discoveries: Discoveries, *ids: str, revision: Revision | None = None) -> None:
        self.service = FakeService(*map(stream, ids or ("orders",)))
        self.service.next_revision = revision
        self.discovery: MetadataDiscovery = discoveries.start(self.service, *ids)
        self.good = self.discovery.current()

    def bring(self, servers: str, revision: Revision | None = None) -> None:
        """Make one lookup that finds the cluster with other servers."""
        self.service.set(stream("orders", east=cluster("orders", servers=servers)))
        self.service.next_revision = revision
        self.discovery.refresh()

    def reject(self) -> None:
        """Reject the metadata in force, as the query does after it has asked the brokers."""
        self.discovery.reject(self.discovery.current(), "another cluster", keep=self.good)

    @property
    def servers(self) -> str:
        """The servers in force."""
        return self.discovery.current().subscription.clusters["east"].bootstrap_servers

    def reported(self) -> tuple[str | None, str]:
        """Return the reported reason of a rejection, and its revision."""
        status = self.discovery.status()
        return status.rejected, status.rejected_token


def test_rejected_metadata_is_replaced_by_the_last_good_one(discoveries: Discoveries) -> None:
    scene = Scene(discoveries)
    scene.bring("impostor:1")

    scene.reject()

    assert scene.discovery.current().subscription == scene.good.subscription
    assert scene.discovery.current().sequence == 3
    scene.discovery.refresh()
    assert scene.discovery.current().subscription == scene.good.subscription, "the same content stays out"
    assert scene.reported() == ("another cluster", "")


def test_a_rejection_ends_when_the_metadata_changes(discoveries: Discoveries) -> None:
    scene = Scene(discoveries)
    scene.bring("impostor:1")
    scene.reject()

    scene.bring("moved:1")

    assert scene.servers == "moved:1"
    assert scene.reported() == (None, "")


def test_a_rejection_is_logged_again_after_other_metadata(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(discoveries)

    def rejections_logged() -> int:
        return sum("is rejected: another cluster" in record.getMessage() for record in caplog.records)

    scene.bring("impostor:1")
    scene.reject()
    assert rejections_logged() == 1
    scene.discovery.reconsider()
    scene.discovery.refresh()
    scene.reject()
    assert rejections_logged() == 1, "a retry found nothing new"
    scene.bring("moved:1")
    scene.bring("impostor:1")
    scene.reject()
    assert rejections_logged() == 2


def test_a_rejection_has_its_revision(discoveries: Discoveries) -> None:
    scene = Scene(discoveries, revision=OPERATOR_REVISION)
    assert scene.reported() == (None, "")
    scene.bring("impostor:1", replace(OPERATOR_REVISION, counter=17))

    scene.reject()
    assert scene.reported() == ("another cluster", "6f1c/17")

    scene.bring("impostor:1", replace(OPERATOR_REVISION, counter=18))
    assert scene.reported() == ("another cluster", "6f1c/18"), "the same content stays rejected under a new revision"

    scene.service.set(stream())
    scene.discovery.refresh()
    assert scene.reported() == (None, "")


def test_an_invalid_document_is_reported_with_its_revision(discoveries: Discoveries) -> None:
    scene = Scene(discoveries, revision=OPERATOR_REVISION)
    scene.service.error = MetadataInvalidError("streams.json:1: wrong")
    scene.discovery.refresh()
    assert scene.reported() == ("streams.json:1: wrong", "")

    scene.service.error.token = "6f1c/17"
    scene.discovery.refresh()
    assert scene.reported() == ("streams.json:1: wrong", "6f1c/17")

    scene.service.error = None
    scene.service.next_revision = replace(OPERATOR_REVISION, counter=18)
    scene.discovery.refresh()
    assert scene.discovery.status().revision == scene.service.next_revision
    assert scene.reported() == (None, "")


def test_disagreeing_streams_are_reported_with_their_revision(discoveries: Discoveries) -> None:
    scene = Scene(discoveries, "orders", "payments", revision=OPERATOR_REVISION)
    scene.service.set(stream(), stream("payments", east=cluster("payments", servers="other:1")))
    scene.service.next_revision = replace(OPERATOR_REVISION, counter=17)
    scene.discovery.refresh()
    reason, token = scene.reported()
    assert "disagree about cluster 'east'" in (reason or "")
    assert token == "6f1c/17"


def test_a_late_rejection_does_not_affect_newer_metadata(discoveries: Discoveries) -> None:
    scene = Scene(discoveries)
    scene.bring("impostor:1")
    bad = scene.discovery.current()
    scene.bring("moved:1")

    scene.discovery.reject(bad, "another cluster", keep=scene.good)

    assert scene.servers == "moved:1"
