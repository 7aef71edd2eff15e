"""Connections that something between us and the brokers drops in silence, as balancers and NAT do with idle ones.

The relay forwards nothing more over them and closes none, so that only the lack of an answer shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamic_kafka.executor.reading import cluster_identity
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
from dynamic_kafka.kafka import retries
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.probe import LATEST
from tests.support.fixtures import Topic, kept_open
from tests.support.kafka import KafkaCluster
from tests.support.relay import Relay
from tests.support.source_run import reading
from tests.support.streams import cluster, produce, stream, write_metadata
from tests.support.waiting import eventually

pytestmark = pytest.mark.deep("connections that are dropped in silence")


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    with Relay() as made:
        yield made


@pytest.fixture(scope="module")
def relayed(pytestconfig: pytest.Config, relay: Relay) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster("relayed", relay=relay.address)
    relay.target = cluster.relayed
    with kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        yield cluster.start().wait_ready()


@pytest.fixture
def orders(relayed: KafkaCluster, topic: Topic) -> str:
    return relayed.create_topic(topic("orders"))


@pytest.fixture
def at(relayed: KafkaCluster, relay: Relay, path: Path, orders: str) -> KafkaCluster:
    """Return a cluster behind the relay, which the metadata name. No other test's connection is open."""
    CONSUMERS.close()
    assert eventually(lambda: not relay.open())
    write_metadata(path, stream("orders", cluster("a", relay.address, [orders])))
    return relayed


@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_dropped_connections_fail_no_batch(
    *, at: KafkaCluster, relay: Relay, orders: str, path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy partition's broker has just confirmed the cluster's id. So the first question to the other one is a fetch.
    monkeypatch.setattr(cluster_identity, "IDENTITY_VALID_S", 60.0)
    rows = produce("a", at, orders, 5)
    with reading(path, readTimeout="12s", clusterFailurePolicy=policy) as run:
        run.until_rows(rows)

        # When the connections of the driver and of the executor are dropped, then new ones read the next records
        assert relay.drop() >= 2
        rows += produce("a", at, orders, 4)
        run.until_rows(rows)

        # When only those of the executor are dropped, after the plan
        rows += produce("a", at, orders, 3)
        run.batch(crash="partitioned")
        assert relay.drop() >= 2
        run.until_rows(rows)


def test_no_connection_is_used_after_its_longest_idle_time(
    at: KafkaCluster, relay: Relay, orders: str, path: Path
) -> None:
    rows = produce("a", at, orders, 5)
    with reading(path, **{"kafka.connections.max.idle.ms": 3000}) as run:
        run.until_rows(rows)
        used = relay.open()
        assert len(used) >= 2

        # A client may open another one at once, which is not idle
        assert eventually(lambda: not any(connection.is_open for connection in used))

        rows += produce("a", at, orders, 4)
        run.until_rows(rows)


def test_a_question_is_repeated_over_new_connections(
    at: KafkaCluster, relay: Relay, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "USED_CLIENT_S", 2.0)
    produce("a", at, orders, 5)
    admin = ClusterAdmin("a", {"bootstrap.servers": relay.address}, read_committed=False, deadline_s=30)
    try:
        assert admin.describe_topics([orders])[0].keys() == {orders}
        asked = {(orders, 0): LATEST}
        ends = admin.offsets(asked)

        # When the first question after a pause goes to a broker whose connection was dropped
        assert relay.drop() >= 1
        assert admin.offsets(asked) == ends
        assert relay.drop() >= 1
        assert admin.describe_topics([orders])[0].keys() == {orders}
    finally:
        admin.close_in_background()
