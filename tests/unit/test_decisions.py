"""What a plan checks before it goes on, without brokers."""

from __future__ import annotations

import logging

import pytest

from dynamic_kafka.decisions import Decisions
from dynamic_kafka.lookout import Observed
from dynamic_kafka.metadata import Discovered, Revision, SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.status import PlanStatus

OPTIONS = parse_options({"streamIds": "orders", "metadataPath": "streams.yaml"}, mode="streaming")
SAVED = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": TopicProgress("orders", {0: 5})}, "Mk")})


def decisions(status: PlanStatus, kafka_id: str | None) -> Decisions:
    """The answers for a plan on a cluster `east` that tells this `cluster.id`."""
    subscription = Subscription({"east": SubscribedCluster({"t": "orders"}, {})}, ("orders",))
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, kafka_id)
    found = Discovered(subscription, Revision("sha256:x"), 1)
    observed = Observed(subscription, {"east": answer}, found, {}, False)
    return Decisions(OPTIONS, None, status, SAVED, observed, frozenset({"east"}), "q")


def test_a_cluster_that_tells_no_id_is_read_on_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    status = PlanStatus()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert decisions(status, None).verify(SAVED) is SAVED
    assert [record.message for record in caplog.records] == [
        "cluster 'east' tells no cluster.id: that it is still the same one cannot be checked"
    ]


def test_a_cluster_that_tells_its_saved_id_is_read_on_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decisions(PlanStatus(), "Mk").verify(SAVED) is SAVED
    assert not caplog.records
