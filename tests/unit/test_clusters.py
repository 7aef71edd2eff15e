"""The probes of the clusters in force, made without asking any cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka import clusters
from dynamic_kafka.clusters import ClusterProbes
from dynamic_kafka.errors import ClusterRefusedError
from dynamic_kafka.kafka.probe import Question
from dynamic_kafka.metadata import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options

SUBSCRIPTION = Subscription({"east": SubscribedCluster({"t": "s"}, {"bootstrap.servers": "127.0.0.1:1"})}, ("s",))


@pytest.mark.parametrize(("read_timeout", "deadline_s"), [("45s", 45.0), ("2h", 3600.0)])
def test_a_call_takes_as_long_as_a_range_may_but_no_longer_than_librdkafka_lets_it(
    monkeypatch: pytest.MonkeyPatch, read_timeout: str, deadline_s: float
) -> None:
    def made(*_: Any, **settings: Any) -> Any:
        return SimpleNamespace(close_aside=lambda: None, **settings)

    monkeypatch.setattr(clusters, "ClusterAdmin", made)
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "readTimeout": read_timeout}
    probes = ClusterProbes(parse_options(given, mode="streaming"))
    found, _ = probes.for_subscription(SUBSCRIPTION)
    told = found["east"].ask(lambda admin: admin.deadline_s).result(30)  # type: ignore[attr-defined]
    probes.close()
    assert told == deadline_s


def test_a_timeout_that_a_reference_turns_into_no_number_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIMEOUT", "hunter2")
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "kafka.socket.timeout.ms": "${env:TIMEOUT}"}
    probes = ClusterProbes(parse_options(given, mode="streaming"))
    try:
        made, broken = probes.for_subscription(SUBSCRIPTION)
        assert not broken
        error = made["east"].observe(lambda: Question(("t",))).exception(30)
    finally:
        probes.close()
    assert isinstance(error, ClusterRefusedError)
    assert "socket.timeout.ms" in str(error) and "hunter2" not in str(error)
