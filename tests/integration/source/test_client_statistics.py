"""librdkafka's statistics on real brokers: what reaches the application, and how much a client fetches ahead."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from dynamic_kafka.app.telemetry.metrics_receiver import ReadCounts, serve_read_reports
from dynamic_kafka.errors import ClusterError
from dynamic_kafka.executor.client_statistics import ClientCounts, ClientStatistics
from dynamic_kafka.executor.reading import consumer_cache, native_connection, range_reader
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
from tests.integration.source.simulated_spark import Query, at, document, read_batch, static
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.kafka.distribution import distribution
from tests.support.waiting import wait_until


class Reported:
    """A query whose tasks report to an application, and what arrived there."""

    def __init__(self, counts: ReadCounts, address: str, cluster: KafkaCluster, topic: str) -> None:
        self.counts, self.cluster, self.topic = counts, cluster, topic
        # The counts are of the whole process: no other test has a cluster of this name.
        options = static(document(measured=at(cluster, topic)), startingOffsets="earliest", readTimeout="20s")
        self.query = Query(options | {"readReports": address})

    def read(self, records: int) -> ClientCounts:
        """Produce and read some records; return the counts of the cluster so far."""
        self.cluster.produce(self.topic, ["x" * 1000] * records)
        self.query.batch()
        return self.counts.clients("lake").get("measured", ClientCounts())


@pytest.fixture
def reported(fresh_cluster: FreshCluster, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reported]:
    CONSUMERS.close()
    monkeypatch.setattr(range_reader, "INTERVAL_MS", 100)
    counts = ReadCounts(["lake"])
    addresses, stop = serve_read_reports(counts, ["lake"], host="127.0.0.1", listen="127.0.0.1", port=0)
    cluster = fresh_cluster("measured")
    made = Reported(counts, addresses["lake"], cluster, cluster.create_topic(topic("orders")))
    yield made
    made.query.stop()
    stop()


def throttle(cluster: KafkaCluster, bytes_per_s: int) -> None:
    """Give all clients of the cluster a quota."""
    where = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "clients", "--entity-default")
    change = ("--alter", "--add-config", f"consumer_byte_rate={bytes_per_s}")
    command = distribution().command("kafka.admin.ConfigCommand", *where, *change)
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def test_statistics_of_a_cluster_reach_the_application(reported: Reported) -> None:
    # Given a query that reads 3 MB
    wait_until(lambda: reported.read(300).received > 1_000_000, "the bytes received")
    counts = reported.read(1)
    assert counts.sent > 0 and counts.round_trips > 0 and counts.round_trip_us > 0
    assert (counts.throttled_ms, counts.errors) == (0, 0)

    # When the brokers throttle it
    throttle(reported.cluster, 100_000)
    wait_until(lambda: reported.read(300).throttled_ms > 0, "the time for which it was throttled")

    # And a connection breaks
    reported.cluster.restart()

    def failed() -> bool:
        try:
            return reported.read(1).errors > 0
        except ClusterError:
            return reported.counts.clients("lake")["measured"].errors > 0

    wait_until(failed, "the connection error")


@pytest.mark.deep("more of the clients' statistics")
def test_without_metrics_a_client_emits_no_statistics(
    brokers: Brokers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    real = native_connection.Consumer

    def remember(config: dict[str, Any], **more: Any) -> object:
        made.append(config)
        return real(config, **more)

    CONSUMERS.close()
    monkeypatch.setattr(native_connection, "Consumer", remember)
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, ["x"])
    query = Query(static(document(east=at(brokers.a, name)), startingOffsets="earliest"))
    assert len(query.batch()) == 1
    query.stop()
    assert ["statistics.interval.ms" in config for config in made] == [False]


@pytest.mark.deep("more of the clients' statistics")
def test_a_slow_sink_bounds_what_is_fetched(brokers: Brokers, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a log of 60 MB, and a client that may queue 16 MiB, the default
    emitted: list[dict[str, Any]] = []

    class Kept(ClientStatistics):
        def callback(self, cluster: str) -> Any:
            return lambda text: emitted.append(json.loads(text))

    CONSUMERS.close()
    monkeypatch.setattr(range_reader, "INTERVAL_MS", 10)
    monkeypatch.setattr(consumer_cache, "STATISTICS", Kept())
    name = brokers.a.create_topic(topic("large"))
    brokers.a.produce(name, ("x" * 10_000 for _ in range(6_000)))
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest")
    query = Query(options | {"readReports": "127.0.0.1:1/none"})
    assert query.plan()

    # When its sink is so slow that another reader reads the whole log while it writes a batch
    [task] = query.reader.partitions({"version": 2}, json.loads(query.log[0]))
    rows = others = 0
    for number, batch in enumerate(query.reader.read(task)):
        rows += batch.num_rows
        others += len(read_batch(options)) if number < 2 else 0
    query.stop()

    # Then the client holds its queue and one fetch at most, not the log
    partitions = [report["topics"][name]["partitions"] for report in emitted if name in report["topics"]]
    held = [
        partition["0"]["fetchq_size"] for partition in partitions if "0" in partition
    ]  # none before the topic is known
    assert (rows, others) == (6_000, 12_000)
    assert 0 < max(held) <= (16 << 20) + (2 << 20), max(held)
