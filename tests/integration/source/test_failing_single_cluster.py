"""A single cluster, in the form of Spark's own options: deleted topics, and a cluster that hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.driver import single_cluster_service as single_cluster
from dynamic_kafka.errors import DataLossError
from tests.integration.source.simulated_spark import Row, numbered, query
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun
from tests.support.streams import produce
from tests.support.waiting import eventually

pytestmark = pytest.mark.deep("each failure of a single cluster")


@pytest.mark.parametrize("way", ["subscribe", "subscribePattern"])
def test_a_topic_deleted_with_unread_records_is_data_loss(brokers: Brokers, topic: Topic, way: str) -> None:
    # Given a query that has read some records of two topics
    prefix = topic("gone")
    names = [brokers.a.create_topic(f"{prefix}-{suffix}") for suffix in ("one", "two")]
    for name in names:
        brokers.a.produce(name, numbered(10))
    options = {
        "kafka.bootstrap.servers": brokers.a.bootstrap,
        way: ",".join(names) if way == "subscribe" else f"{prefix}-.*",
        "startingOffsets": "earliest",
        "metadataDiscoveryInterval": "100ms",
        "maxOffsetsPerTrigger": "4",
    }
    with query(options) as run:
        run.batch()
        assert run.reader._enumerator is not None
        observer = run.reader._enumerator.observer
        before = observer.in_force()

        # When one is deleted, and the topics are listed before the next plan
        brokers.a.delete_topic(names[1])
        if way == "subscribePattern":
            discovery = observer._discovery
            assert discovery is not None and eventually(lambda: discovery.current().sequence != before.sequence)

        # Then the plan fails
        with pytest.raises(DataLossError):
            eventually(lambda: bool(run.batch()) and False, 5)


@pytest.mark.parametrize("way", ["subscribe", "subscribePattern"])
def test_a_topic_deleted_unread_while_stopped_is_data_loss(brokers: Brokers, topic: Topic, way: str) -> None:
    first, second = topic("gone-x"), topic("gone-y")
    for name in (first, second):
        brokers.a.create_topic(name)
    wanted = produce("default", brokers.a, first, 3) + produce("default", brokers.a, second, 3)
    chosen = f"{first},{second}" if way == "subscribe" else f"{first}|{second}"
    with SourceRun(**{"kafka.bootstrap.servers": brokers.a.bootstrap, way: chosen}) as run:
        run.until_rows(wanted)
        run.stop()
        produce("default", brokers.a, first, 4)
        brokers.a.delete_topic(first)

        with pytest.raises(DataLossError):
            run.until(lambda: bool(run.parked), "the data loss, or the topic to be parked without one")


def test_a_topic_deleted_after_it_was_read_is_parked(brokers: Brokers, topic: Topic) -> None:
    first, second = topic("read-x"), topic("read-y")
    for name in (first, second):
        brokers.a.create_topic(name)
    wanted = produce("default", brokers.a, first, 3) + produce("default", brokers.a, second, 3)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribePattern": f"{first}|{second}"}
    with SourceRun(**options) as run:
        run.until_rows(wanted)
        run.batch()  # a plan finds no more records
        brokers.a.delete_topic(first)
        run.until(lambda: run.parked == {("default", first): {0: 3}}, "the topic to be parked")


@pytest.mark.parametrize("way", ["subscribe", "subscribePattern"])
def test_stall_waits_for_a_hanging_single_cluster(
    shaky: KafkaCluster, orders: str, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_cluster, "DEADLINE_S", 2.0)
    shaky.produce(orders, numbered(3))
    options = {
        "kafka.bootstrap.servers": shaky.bootstrap,
        way: orders,
        "startingOffsets": "earliest",
        "clusterFailurePolicy": "stall",
        "stateLocation": str(tmp_path / "state"),
        "metadataDiscoveryInterval": "500ms",
        "kafka.socket.timeout.ms": "2000",
    }
    with query(options) as run:
        assert len(run.batch()) == 3
        shaky.pause()
        assert not eventually(lambda: bool(run.batch()), 15)  # raises if the query fails
        shaky.resume()
        shaky.produce(orders, numbered(2))
        rows: list[Row] = []

        def all_read() -> bool:
            rows.extend(run.batch())
            return len(rows) == 2

        assert eventually(all_read, 30)
