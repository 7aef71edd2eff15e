"""The probes of subscribed clusters, made without contact to any cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.driver import cluster_clients as clusters
from dynamic_kafka.driver.cluster_clients import ClusterProbes, client_of, observe_all, request_of
from dynamic_kafka.errors import (
    ClusterRefusedError,
    ClusterUnreachableError,
    MissingSourceTopicError,
    SecretWithheldError,
)
from dynamic_kafka.kafka.config_checks import check_client
from dynamic_kafka.metadata import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.observation import ClusterObservation

SUBSCRIPTION = Subscription({"east": SubscribedCluster({"t": "s"}, {"bootstrap.servers": "127.0.0.1:1"})}, ("s",))


@pytest.mark.parametrize(("read_timeout", "deadline_s"), [("45s", 45.0), ("2h", 3600.0)])
def test_a_call_may_take_as_long_as_a_range_within_librdkafka(
    monkeypatch: pytest.MonkeyPatch, read_timeout: str, deadline_s: float
) -> None:
    def made(*_: Any, **settings: Any) -> Any:
        return SimpleNamespace(close_in_background=lambda: None, **settings)

    monkeypatch.setattr(clusters, "ClusterAdmin", made)
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "readTimeout": read_timeout}
    probes = ClusterProbes(parse_options(given, mode="streaming"))
    clients, _ = probes.for_subscription(SUBSCRIPTION)
    deadline = clients["east"].ask(lambda admin: admin.deadline_s).result(30)  # type: ignore[attr-defined]
    probes.close()
    assert deadline == deadline_s


def test_a_cluster_without_an_answer_is_named_with_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(for_subscription=lambda _: ({}, {}), close=lambda: None)
    monkeypatch.setattr(clusters, "ClusterProbes", lambda _: silent)
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    with pytest.raises(ClusterUnreachableError, match=r"within 2 s .*127\.0\.0\.1:1: .*metadata"):
        observe_all(options, SUBSCRIPTION, timeout_s=2.0)


def test_a_secret_timeout_that_is_no_number_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIMEOUT", "hunter2")
    given = {"streamIds": "s", "metadataPath": "streams.yaml", "kafka.socket.timeout.ms": "${env:TIMEOUT}"}
    probes = ClusterProbes(parse_options(given, mode="streaming"))
    try:
        made, broken = probes.for_subscription(SUBSCRIPTION)
    finally:
        probes.close()
    assert not made
    error = broken["east"]
    assert isinstance(error, ClusterRefusedError)
    assert "socket.timeout.ms" in str(error) and "hunter2" not in str(error)


@pytest.mark.parametrize("draining", [False, True])
def test_a_missing_topic_may_drain(draining: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped name, taken back, drains until a driver runs. `init` must not wait for it before the first one."""
    answer = ClusterObservation({}, "K1", missing=frozenset({"t"}))
    monkeypatch.setattr(clusters, "collect_observations", lambda *_, **__: ({"east": answer}, {}))
    monkeypatch.setattr(clusters.ClusterProbes, "for_subscription", lambda *_: ({}, {}))
    east = replace(SUBSCRIPTION.clusters["east"], draining=frozenset({"t"} if draining else ()))
    options = parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming")
    given = Subscription({"east": east}, ("s",))
    if draining:
        assert observe_all(options, given) == {"east": answer}
    else:
        with pytest.raises(MissingSourceTopicError, match="'t'"):
            observe_all(options, given)


def named(**properties: str) -> Subscription:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return Subscription({"east": SubscribedCluster({"t": "s"}, {"bootstrap.servers": "127.0.0.1:1"} | given)}, ("s",))


def test_consumer_properties_are_checked_once_per_set(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def check(cluster: str, config: Mapping[str, str]) -> None:
        checked.append(config.get("max.poll.interval.ms", ""))
        check_client(cluster, config)

    monkeypatch.setattr(clusters, "check_client", check)
    probes = ClusterProbes(parse_options({"streamIds": "s", "metadataPath": "streams.yaml"}, mode="streaming"))
    try:
        first, _ = probes.for_subscription(named())
        probes.for_subscription(named())
        made, broken = probes.for_subscription(named(max_poll_interval_ms="2000"))
        assert not made and "max.poll.interval.ms" in str(broken["east"])
        again, broken = probes.for_subscription(named())
        assert again == first and not broken  # the client that was there serves on
        _, broken = probes.for_subscription(named(max_poll_interval_ms="400000"))
        assert not broken
    finally:
        probes.close()
    assert checked == ["", "2000", "", "400000"]


def test_the_options_own_document_names_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given an own document, whose servers need no list, and a subscriber of the user's that returns others
    monkeypatch.setenv("PW", "hunter2")
    streams = "streams: {orders: {clusters: {east: {bootstrapServers: 'e:9092', topics: [orders]}}}}"
    given = {"metadataService": "static", "metadataDocument": streams, "streamSubscriber": "acme:Chosen"}
    options = parse_options(given | {"kafka.sasl.password": "${env:PW}"}, mode="streaming")

    def password(servers: str, more: str = "") -> str:
        subscription = Subscription({"c": SubscribedCluster({"t": "s"}, {"bootstrap.servers": servers})}, ("s",))
        asked = client_of(replace(options, allowed_servers=more or None), subscription, "c")
        return asked.resolved_properties()["sasl.password"]

    assert password("E:9092") == "hunter2"
    with pytest.raises(SecretWithheldError, match="evil:9092"):
        password("evil:9092")
    # A list adds servers to them, and replaces none
    assert password("e:9092,f:9092", more="f:9092") == "hunter2"


@pytest.mark.parametrize(
    ("options", "ids", "idle"),
    [
        ({}, {}, True),
        ({"topicIntegrityCheck": "true", "stateLocation": "/state"}, {}, False),
        ({"recordEvaluator": "module:name", "stateLocation": "/state"}, {}, False),
        ({}, {"t": "4ceWFAj4RwuuDIWAvAiQCA"}, False),
    ],
    ids=["unchecked", "all are checked", "stop records end the query", "pinned"],
)
def test_only_what_no_plan_checks_may_be_idle(options: Mapping[str, str], ids: Mapping[str, str], idle: bool) -> None:
    parsed = parse_options({"streamIds": "s", "metadataPath": "streams.yaml", **options}, mode="streaming")
    pinned = replace(SUBSCRIPTION, clusters={"east": replace(SUBSCRIPTION.clusters["east"], topic_ids=ids)})
    assert request_of(parsed, pinned, "east", idle=True).idle is idle
