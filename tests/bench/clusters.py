"""The benchmarks' clusters, with many partitions or many records, and metadata documents that name them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.support.kafka import KafkaCluster, start_all

TOPIC = "orders"


@contextmanager
def clusters(count: int, partitions: int) -> Iterator[list[KafkaCluster]]:
    """Yield running clusters, each with one topic of `partitions` partitions."""
    made = [KafkaCluster(f"bench-{number}") for number in range(count)]
    try:
        start_all(made)
        for cluster in made:
            cluster.create_topic(TOPIC, partitions, {"retention.ms": "-1"})
        yield made
    finally:
        for cluster in made:
            cluster.close()


def document(over: Iterable[KafkaCluster]) -> str:
    """Return a metadata document of one stream over `TOPIC` of all clusters."""
    named = {cluster.name: {"bootstrapServers": cluster.bootstrap, "topics": [TOPIC]} for cluster in over}
    return json.dumps({"streams": {"orders": {"clusters": named}}})


def fill(cluster: KafkaCluster, partitions: int, *, records: int, size: int) -> None:
    """Write `records` incompressible values of `size` bytes, spread evenly over the partitions."""
    payloads = [os.urandom(size) for _ in range(16)]
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "linger.ms": 50,
        "batch.size": 1_000_000,
        "queue.buffering.max.kbytes": 65_536,
        "message.max.bytes": 10_000_000,
    }
    producer = Producer(settings)
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, payloads[number % 16], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(300)
