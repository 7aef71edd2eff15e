"""Metadata that what brokers say keeps out of force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.errors import MetadataInvalidError
from tests.unit.metadata.fakes import OPERATORS, FakeService, Started, cluster, stream


def test_rejected_metadata_is_replaced_by_the_last_good_one(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    bad = discovery.current()

    discovery.reject(bad, "cluster 'east' is answered by another cluster", keep=good)

    assert discovery.current().subscription == good.subscription
    assert discovery.current().sequence == 3
    discovery.refresh()
    assert discovery.current().subscription == good.subscription, "the same content stays out"
    assert discovery.status().rejected == "cluster 'east' is answered by another cluster"


def test_a_rejection_ends_when_the_metadata_says_something_else(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    discovery.reject(discovery.current(), "another cluster", keep=good)

    service.set(stream("orders", east=cluster("orders", servers="moved:1")))
    discovery.refresh()

    assert discovery.current().subscription.clusters["east"].bootstrap_servers == "moved:1"
    assert discovery.status().rejected is None


def test_a_rejection_is_told_once_and_again_when_something_else_was_there_meanwhile(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()

    def brings(servers: str) -> None:
        service.set(stream("orders", east=cluster("orders", servers=servers)))
        discovery.refresh()

    def told() -> int:
        discovery.reject(discovery.current(), "another cluster", keep=good)
        return sum("is rejected: another cluster" in each.getMessage() for each in caplog.records)

    brings("impostor:1")
    assert told() == 1
    discovery.reconsider()
    discovery.refresh()
    assert told() == 1, "it is tried again now and then, and nothing has changed"
    brings("moved:1")
    brings("impostor:1")
    assert told() == 2


def test_a_rejection_says_which_revision_it_means(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    discovery = discoveries.start(service)
    good = discovery.current()
    assert discovery.status().rejected_token == ""
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    service.edition = replace(OPERATORS, counter=17)
    discovery.refresh()

    discovery.reject(discovery.current(), "another cluster", keep=good)
    assert discovery.status().rejected_token == "6f1c/17"

    service.edition = replace(OPERATORS, counter=18)
    discovery.refresh()
    assert discovery.status().rejected_token == "6f1c/18", "the same content again is no better"

    service.set(stream())
    discovery.refresh()
    assert (discovery.status().rejected, discovery.status().rejected_token) == (None, "")


def test_a_document_that_cannot_be_used_is_told_with_its_revision_as_far_as_it_is_known(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    discovery = discoveries.start(service)
    service.error = MetadataInvalidError("streams.json:1: wrong")
    discovery.refresh()
    assert (discovery.status().rejected, discovery.status().rejected_token) == ("streams.json:1: wrong", "")

    service.error.token = "6f1c/17"
    discovery.refresh()
    assert discovery.status().rejected_token == "6f1c/17"

    service.error = None
    service.edition = replace(OPERATORS, counter=18)
    discovery.refresh()
    assert (discovery.status().revision, discovery.status().rejected_token) == (service.edition, "")


def test_streams_that_do_not_fit_together_are_told_with_their_revision(discoveries: Started) -> None:
    service = FakeService(stream(), stream("payments"))
    service.edition = OPERATORS
    discovery = discoveries.start(service, "orders", "payments")
    service.set(stream(), stream("payments", east=cluster("payments", servers="other:1")))
    service.edition = replace(OPERATORS, counter=17)
    discovery.refresh()
    assert "disagree about the cluster 'east'" in (discovery.status().rejected or "")
    assert discovery.status().rejected_token == "6f1c/17"


def test_a_rejection_that_comes_too_late_does_not_hit_what_came_after(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    bad = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="moved:1")))
    discovery.refresh()

    discovery.reject(bad, "another cluster", keep=good)

    assert discovery.current().subscription.clusters["east"].bootstrap_servers == "moved:1"
