"""The benchmarks' clusters, with many partitions or many records, and metadata documents that name them."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from tests.support.kafka import KafkaCluster, start_all
from tests.support.waiting import wait_until

TOPIC = "orders"
SHARED_MEMORY = Path("/dev/shm")
SECONDS = 300.0
"""The most seconds for one step of a set-up."""


@contextmanager
def clusters(count: int, partitions: int, *, in_memory: bool = False) -> Iterator[list[KafkaCluster]]:
    """Yield running clusters, each with one topic of `partitions` partitions.

    Args:
        in_memory: keep their data in shared memory. Thousands of partitions are made in a quarter of the time there.
    """
    made = [KafkaCluster(f"bench-{number}") for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="dynamic-kafka-bench-", dir=SHARED_MEMORY if in_memory else None) as data:
        try:
            for cluster in made if in_memory else ():
                (place := Path(data, cluster.name)).mkdir()
                (cluster.folder / "data").symlink_to(place)
            start_all(made)
            create_topics(made, TOPIC, partitions)
            yield made
        finally:
            for cluster in made:
                cluster.close()


def create_topics(over: Sequence[KafkaCluster], topic: str, partitions: int) -> None:
    """Create a topic on one cluster after the other, and wait until every partition has a leader that answers.

    On two cores, 25 brokers that create 2,000 partitions each at the same time miss their own heartbeats, and some do
    not recover. It asks once a second: an answer about 2,000 partitions keeps a broker from its work for 20 ms.
    """
    wanted = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    for cluster in over:
        cluster.admin.create_topics([wanted])[topic].result(SECONDS)
        wait_until(
            partial(_answers, cluster, topic, partitions),
            f"the leaders of topic {topic} on {cluster.name}",
            timeout_s=SECONDS,
            pause=lambda _: time.sleep(1),
        )


def _answers(cluster: KafkaCluster, topic: str, partitions: int) -> bool:
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    futures = cluster.admin.list_offsets(asked, request_timeout=5)
    return all(future.exception(SECONDS) is None for future in futures.values())


def document(over: Iterable[KafkaCluster], topic: str = TOPIC) -> str:
    """Return a metadata document of one stream over a topic of all clusters."""
    named = {cluster.name: {"bootstrapServers": cluster.bootstrap, "topics": [topic]} for cluster in over}
    return json.dumps({"streams": {"orders": {"clusters": named}}})


def one_record_each(over: Iterable[KafkaCluster], topic: str, partitions: int) -> None:
    """Write a record to every partition of a topic of all clusters."""
    for cluster in over:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20})
        for partition in range(partitions):
            producer.produce(topic, b"x", partition=partition)
        if producer.flush(SECONDS):
            raise RuntimeError(f"the broker of {cluster.name} did not take all records in {SECONDS:g} s")


def fill(
    cluster: KafkaCluster, partitions: int, *, records: int, size: int, topic: str = TOPIC, compression: str = "none"
) -> None:
    """Write `records` values of `size` bytes, spread evenly over the partitions, and wait until all are in the log.

    The values are JSON with an id, a name and an amount; the name fills the size with hexadecimal digits. They halve
    under compression, since no value occurs twice within a batch.
    """
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "compression.type": compression,
        "linger.ms": 50,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
        "message.max.bytes": 10_000_000,
    }
    producer = Producer(settings)
    pool = [{"value": value} for value in json_values(size, max(16, min(65_536, (64 << 20) // size)))]
    chunk = max(1, min(len(pool), 2000, (1 << 20) // size))
    most = min(500_000, (100 << 20) // size)
    for start in range(0, records, chunk):
        while len(producer) > most:
            producer.poll(0.01)
        at = start % (len(pool) - chunk + 1)
        messages = pool[at : at + min(chunk, records - start)]
        if producer.produce_batch(topic, messages, partition=start // chunk % partitions) != len(messages):
            raise RuntimeError(f"the client did not take all records for topic {topic}")
    if producer.flush(SECONDS):
        raise RuntimeError(f"the broker of {cluster.name} did not take all records in {SECONDS:g} s")


def json_values(size: int, count: int) -> list[bytes]:
    """Return values of exactly `size` bytes each; always the same ones."""
    chance = random.Random(1)
    made = []
    for number in range(count):
        start = f'{{"id":{chance.randrange(10**9)},"amount":{number % 10_000 / 100:.2f},"name":"'
        made.append(f'{start}{chance.randbytes(size).hex()[: size - len(start) - 2]}"}}'.encode())
    return made
