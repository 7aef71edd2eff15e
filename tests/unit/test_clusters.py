"""The probes of the clusters in force, made without asking any cluster."""

from __future__ import annotations

import pytest

from dynamic_kafka.clusters import ClusterProbes
from dynamic_kafka.errors import ClusterRefusedError
from dynamic_kafka.kafka.probe import Question
from dynamic_kafka.metadata import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options


def test_a_timeout_that_a_reference_turns_into_no_number_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIMEOUT", "hunter2")
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "kafka.socket.timeout.ms": "${env:TIMEOUT}"}
    subscription = Subscription({"east": SubscribedCluster({"t": "s"}, {"bootstrap.servers": "127.0.0.1:1"})}, ("s",))
    probes = ClusterProbes(parse_options(given, mode="streaming"))
    try:
        made, broken = probes.for_subscription(subscription)
        assert not broken
        error = made["east"].observe(lambda: Question(("t",))).exception(30)
    finally:
        probes.close()
    assert isinstance(error, ClusterRefusedError)
    assert "socket.timeout.ms" in str(error) and "hunter2" not in str(error)
