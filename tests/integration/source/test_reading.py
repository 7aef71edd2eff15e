"""Reading a broker's log: transactions, gaps, empty and large records, headers, timestamps."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from dynamic_kafka.errors import ClusterError, OptionError
from dynamic_kafka.executor.reading import native_connection
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
from tests.integration.source.simulated_spark import (
    Query,
    at,
    at_offsets,
    document,
    numbered,
    query,
    read_batch,
    static,
    values,
)
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster, Record
from tests.support.waiting import eventually

pytestmark = pytest.mark.both_readers

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def encoded(texts: list[str]) -> Counter[bytes | None]:
    return Counter(text.encode() for text in texts)


# Transactions


@pytest.mark.scenario(44)
def test_aborted_records_stay_hidden_under_read_committed(brokers: Brokers, topic: Topic) -> None:
    # Given committed, aborted and plain records, with control records at the end
    name = brokers.a.create_topic(topic("orders"))
    with brokers.a.transaction() as kept:
        kept.produce(name, numbered(5, "kept"))
    aborted = brokers.a.transaction()
    aborted.produce(name, numbered(5, "aborted"))
    aborted.abort()
    brokers.a.produce(name, numbered(5, "plain"))
    last = brokers.a.transaction()
    last.produce(name, numbered(5, "also aborted"))
    last.abort()
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", readTimeout="5s")

    # When the log is read with either isolation level
    with query(options | READ_COMMITTED) as committed:
        seen = committed.batch()
        more = committed.plan()
    with query(options) as uncommitted:
        everything = uncommitted.batch()

    # Then ranges end at the end of the log, behind the control records
    assert values(seen) == encoded(numbered(5, "kept") + numbered(5, "plain"))
    assert more is False
    assert values(everything) == encoded(
        numbered(5, "kept") + numbered(5, "aborted") + numbered(5, "plain") + numbered(5, "also aborted")
    )
    assert committed.offsets() == uncommitted.offsets() == {("east", name): brokers.a.end_offsets(name)}


def test_slow_aborted_transactions_do_not_time_out(brokers: Brokers, topic: Topic) -> None:
    # Given a long aborted part of a log, and a broker that sends half a transaction of it each 0.15 s
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, ["first"])
    for _ in range(10):
        transaction = brokers.a.transaction("aborted")
        transaction.produce(name, ["aborted"])
        transaction.abort()
    brokers.a.produce(name, ["last"])
    slow = {"max.partition.fetch.bytes": 1, "fetch.min.bytes": 1_000_000, "fetch.wait.max.ms": 150}
    clients = {f"kafka.{key}": str(value) for key, value in slow.items()}
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", readTimeout="2s")

    began = time.monotonic()
    with query(options | READ_COMMITTED | clients) as reading:
        rows = reading.batch()

    assert values(rows) == encoded(["first", "last"])
    assert time.monotonic() - began > 2


def test_a_plan_ends_at_an_open_transaction(brokers: Brokers, topic: Topic) -> None:
    # Given an open transaction in the middle of the log
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(5, "before"))
    transaction = brokers.a.transaction()
    transaction.produce(name, numbered(5, "open"))
    brokers.a.produce(name, numbered(5, "after"))
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", readTimeout="30s") | READ_COMMITTED

    # When it is read
    with query(options) as reading:
        began = time.monotonic()
        first = reading.batch()
        more = reading.plan()
        took = time.monotonic() - began
        held = reading.offsets()
        transaction.commit()
        brokers.a.wait_decided(name)
        second = reading.batch()

    # Then the records before the transaction are read at once, the rest after its end
    assert values(first) == encoded(numbered(5, "before"))
    assert more is False
    assert held == {("east", name): {0: 5}}
    assert took < 10
    assert values(second) == encoded(numbered(5, "open") + numbered(5, "after"))


def test_a_clusters_isolation_level_decides_its_end_offsets(brokers: Brokers, topic: Topic) -> None:
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name)
        open_transaction = cluster.transaction()
        open_transaction.produce(name, numbered(3, "open"))
    text = document(
        strict=at(brokers.a, name, properties={"isolation.level": "read_committed"}), loose=at(brokers.b, name)
    )

    with query(static(text, startingOffsets="earliest")) as reading:
        rows = reading.batch()

    assert Counter(row["kafka_cluster"] for row in rows) == Counter({"loose": 3})


@pytest.mark.parametrize("slices", [1, 7])
def test_every_slice_of_a_log_with_gaps_ends(brokers: Brokers, topic: Topic, slices: int) -> None:
    # Given a log in which every second transaction was aborted
    name = brokers.a.create_topic(topic("orders"))
    for number in range(6):
        transaction = brokers.a.transaction("gaps")
        transaction.produce(name, numbered(3, f"t{number}-"))
        transaction.abort() if number % 2 else transaction.commit()
    options = static(document(east=at(brokers.a, name)), minPartitions=slices) | READ_COMMITTED

    rows = read_batch(options)

    assert values(rows) == encoded([f"t{number}-{record}" for number in (0, 2, 4) for record in range(3)])


def test_a_compacted_log_is_read_past_its_gaps(fresh_cluster: FreshCluster) -> None:
    # Given a log from which compaction has removed the older records of each key
    cluster = fresh_cluster("compacting", overrides={"log.cleaner.backoff.ms": "100"})
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    name = cluster.create_topic("orders", config=settings)
    for number in range(40):
        cluster.produce(name, [Record(f"v{number}".encode(), key=f"k{number % 4}".encode())])

    def left() -> list[int]:
        return [row["offset"] for row in read_batch(static(document(east=at(cluster, name))))]

    def compacted() -> bool:
        # Only closed segments are compacted, and the next record closes one.
        cluster.produce(name, [Record(b"tick", key=b"tick")])
        return len(left()) < 20

    assert eventually(compacted, 60)

    # When ranges begin and end in the gaps
    end = cluster.end_offsets(name)[0]
    with query(static(document(east=at(cluster, name)), startingOffsets="earliest", minPartitions=5)) as reading:
        rows = reading.batch()

    # Then each range ends by its position, and no record is reported as lost
    newest = {row["key"]: row["value"] for row in rows}
    assert {key: newest[key] for key in (b"k0", b"k1", b"k2", b"k3")} == {
        f"k{number % 4}".encode(): f"v{number}".encode() for number in range(36, 40)
    }
    assert len(at_offsets(rows)) == len(rows)
    assert reading.offsets() == {("east", name): {0: end}}


# Empty and large


@pytest.mark.scenario(44)
def test_empty_topics_and_partitions(brokers: Brokers, topic: Topic) -> None:
    empty = brokers.a.create_topic(topic("empty"), 3)
    sparse = brokers.a.create_topic(topic("sparse"), 3)
    brokers.a.produce(sparse, ["only"], partition=2)
    text = document(east=at(brokers.a, empty, sparse))

    with query(static(text, startingOffsets="earliest")) as reading:
        rows = reading.batch()
        idle = reading.plan()
        brokers.a.produce(empty, ["first"], partition=1)
        more = reading.batch()

    assert (values(rows), idle, values(more)) == (Counter([b"only"]), False, Counter([b"first"]))
    assert reading.sizes == [1, 1]
    assert reading.offsets() == {("east", empty): {0: 0, 1: 1, 2: 0}, ("east", sparse): {0: 0, 1: 0, 2: 1}}


def test_a_topic_whose_records_have_all_expired_is_empty(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(5))
    brokers.a.delete_records(name, 0, before=5)

    with query(static(document(east=at(brokers.a, name)), startingOffsets="earliest")) as reading:
        rows = reading.batch()
        brokers.a.produce(name, ["next"])
        more = reading.batch()

    assert (rows, values(more)) == ([], Counter([b"next"]))


def test_large_records_make_small_batches(brokers: Brokers, topic: Topic) -> None:
    # Given 60 records of 1 MB, more than one batch may have
    name = brokers.a.create_topic(topic("orders"), config={"max.message.bytes": "2000000"})
    size = 1_000_000 - 200
    brokers.a.produce(name, (bytes([number]) * size for number in range(60)))

    # When they are read
    with query(static(document(east=at(brokers.a, name)), startingOffsets="earliest")) as reading:
        assert reading.plan()
        partitions = reading.reader.partitions({"version": 2}, json.loads(reading.log[0]))
        sizes, records = [], []
        for partition in partitions:
            for batch in reading.reader.read(partition):
                sizes.append(batch.nbytes)
                records += [(value[0], len(value)) for value in batch.column("value").to_pylist()]

    # Then each batch is limited by its bytes, and no record is cut off
    assert records == [(number, size) for number in range(60)]
    assert max(sizes) < 12 << 20


# Columns


def test_headers_are_null_or_a_list_and_their_values_may_be_null(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(
        name,
        [
            Record(b"none"),
            Record(b"two", headers=[("a", b"1"), ("a", b"2")]),
            Record(b"null", headers=[("a", None), ("", b"")]),
        ],
    )

    rows = read_batch(static(document(east=at(brokers.a, name)), includeHeaders=True))

    assert {row["value"]: row["headers"] for row in rows} == {
        b"none": None,
        b"two": [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}],
        b"null": [{"key": "a", "value": None}, {"key": "", "value": b""}],
    }


def test_keys_and_values_may_be_null_or_empty(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, [Record(None, key=b"k"), Record(b"v"), Record(b"", key=b""), Record(None)])

    rows = read_batch(static(document(east=at(brokers.a, name))))

    assert [(row["key"], row["value"]) for row in rows] == [(b"k", None), (None, b"v"), (b"", b""), (None, None)]


def test_timestamps_of_either_kind(brokers: Brokers, topic: Topic) -> None:
    created = brokers.a.create_topic(topic("created"), config={"retention.ms": "-1"})
    appended = brokers.a.create_topic(topic("appended"), config={"message.timestamp.type": "LogAppendTime"})
    moment = datetime(2026, 11, 1, 12, 0, 0, 123000, tzinfo=UTC)
    record = Record(b"x", timestamp_ms=int(moment.timestamp() * 1000))
    before = datetime.now(UTC)
    for name in (created, appended):
        brokers.a.produce(name, [record])

    rows = {row["topic"]: row for row in read_batch(static(document(east=at(brokers.a, created, appended))))}

    assert (rows[created]["timestamp"], rows[created]["timestampType"]) == (moment, 0)
    assert rows[appended]["timestampType"] == 1
    assert abs((rows[appended]["timestamp"] - before).total_seconds()) < 60


def test_nanoseconds_as_milliseconds_fail_only_shown_timestamps(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("far"), config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    brokers.a.produce(name, ["near", Record(b"far", timestamp_ms=1_700_000_000_000_000_000)])
    given = static(document(east=at(brokers.a, name)))

    with pytest.raises(OptionError, match=f"offset 1 of east/{name}.*'timestamp' out of"):
        read_batch(given)
    assert [row["value"] for row in read_batch(given | {"columns": "value"})] == [b"near", b"far"]


def test_a_batch_too_large_unpacked_names_the_limit(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("packed"))
    large = {"compression.type": "zstd", "message.max.bytes": "10000000"}
    producer = Producer({"bootstrap.servers": brokers.a.bootstrap} | large)
    producer.produce(name, b"x" * 8_000_000)
    assert producer.flush(30) == 0
    given = static(document(east=at(brokers.a, name)))
    limits = {"kafka.receive.message.max.bytes": "2000000", "kafka.fetch.max.bytes": "1000000"}

    with pytest.raises(ClusterError, match=r"unpacks to over receive\.message\.max\.bytes"):
        read_batch(given | limits)
    assert [len(row["value"]) for row in read_batch(given)] == [8_000_000]


def test_each_row_has_its_cluster_and_stream(brokers: Brokers, topic: Topic) -> None:
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name, 2)
        cluster.produce(name, ["x"], partition=1)

    rows = read_batch(static(document("the stream", east=at(brokers.a, name), west=at(brokers.b, name))))

    assert Counter((r["kafka_cluster"], r["kafka_stream"], r["topic"], r["partition"], r["offset"]) for r in rows) == {
        ("east", "the stream", name, 1, 0): 1,
        ("west", "the stream", name, 1, 0): 1,
    }


# Clients


def test_consumers_are_reused_and_closed_with_their_cluster(brokers: Brokers, topic: Topic, path: Path) -> None:
    # Given a process that has read from two clusters
    name = topic("orders")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name)
        cluster.produce(name, ["x"])
    CONSUMERS.close()
    options = {"metadataPath": str(path), "streamIds": "orders"}
    path.write_text(document(east=at(brokers.a, name), west=at(brokers.b, name)))

    # When it reads from both again, then from one
    read_batch(options)
    after_first = len(CONSUMERS)
    read_batch(options)
    after_second = len(CONSUMERS)
    path.write_text(document(east=at(brokers.a, name)))
    read_batch(options)

    # Then no consumer was opened twice, and the other cluster's consumer is closed
    assert (after_first, after_second, len(CONSUMERS)) == (2, 2, 1)


def test_sinks_with_groups_of_their_own_make_one_consumer_each(
    brokers: Brokers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two queries with a group each, whose tasks run in one process
    name = brokers.a.create_topic(topic("orders"))
    made: list[str] = []

    def count(config: dict[str, Any], **more: Any) -> Consumer:
        made.append(config["group.id"])
        return Consumer(config, **more)

    CONSUMERS.close()
    monkeypatch.setattr(native_connection, "Consumer", count)
    east = static(document(east=at(brokers.a, name)), startingOffsets="earliest")
    sinks = [Query(east | {"kafka.group.id": topic(f"sink-{number}")}) for number in (1, 2)]

    # When they take turns: 40 tasks
    for number in range(20):
        brokers.a.produce(name, [f"r{number}"])
        assert [len(sink.batch()) for sink in sinks] == [1, 1]
    for sink in sinks:
        sink.stop()

    # Then each has made one consumer
    assert made == [sink.options["kafka.group.id"] for sink in sinks]


def test_readers_of_one_process_may_interleave(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 2)
    for partition in range(2):
        brokers.a.produce(name, (f"{partition}.{n}" for n in range(15_000)), partition=partition)
    reading = Query(static(document(east=at(brokers.a, name)), startingOffsets="earliest"))
    assert reading.plan()
    start, end = {"version": 2}, json.loads(reading.log[0])

    first, second = (reading.reader.read(partition) for partition in reading.reader.partitions(start, end))
    batches = [next(first), next(second), *first, *second]
    reading.stop()

    offsets = Counter((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())
    assert offsets == Counter((partition, offset) for partition in range(2) for offset in range(15_000))


def test_many_small_ranges_share_tasks(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 200)
    producer = Producer({"bootstrap.servers": brokers.a.bootstrap})
    for partition in range(200):
        producer.produce(name, str(partition), partition=partition)
    assert producer.flush(30) == 0

    with query(static(document(east=at(brokers.a, name)), startingOffsets="earliest")) as reading:
        streamed = values(reading.batch())
        assert reading.sizes == [67]
    read = values(read_batch(static(document(east=at(brokers.a, name)))))
    assert streamed == read == encoded([str(partition) for partition in range(200)])


def test_an_abandoned_reader_leaves_a_usable_process(brokers: Brokers, topic: Topic) -> None:
    # Given a task that Spark ends after its first batch, as with LIMIT
    CONSUMERS.close()
    before = set(threading.enumerate())
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(30_000))
    reading = Query(static(document(east=at(brokers.a, name)), startingOffsets="earliest"))
    assert reading.plan()
    partitions = reading.reader.partitions({"version": 2}, json.loads(reading.log[0]))
    abandoned = reading.reader.read(partitions[0])
    next(abandoned)
    abandoned.close()

    # When the same range is read again in that process
    rows = reading.run()
    reading.stop()

    assert len(rows) == 30_000
    assert eventually(lambda: set(threading.enumerate()) <= before, 10)
    assert len(CONSUMERS) <= 1


def test_expired_records_of_a_range_are_data_loss(fresh_cluster: FreshCluster) -> None:
    # Given a planned range whose first records expire before it is read
    cluster: KafkaCluster = fresh_cluster("cutting")
    name = cluster.create_topic("orders")
    cluster.produce(name, numbered(10))
    options = static(document(east=at(cluster, name)), startingOffsets="earliest", readTimeout="5s")
    with query(options) as strict, query({**options, "failOnDataLoss": "false"}) as loose:
        assert strict.plan() and loose.plan()
        cluster.delete_records(name, 0, before=4)

        with pytest.raises(Exception, match=r"data loss:.*read east/orders\[0\] 0\.\.10"):
            strict.read()
        rows = loose.run()

    assert values(rows) == encoded(numbered(10)[4:])


def test_a_record_of_100_mb_is_read(fresh_cluster: FreshCluster) -> None:
    sizes = {
        "message.max.bytes": "110000000",
        "socket.request.max.bytes": "120000000",
        "replica.fetch.max.bytes": "110000000",
    }
    cluster = fresh_cluster("large", overrides=sizes)
    name = cluster.create_topic("orders", config={"max.message.bytes": "110000000"})
    value = bytes(100_000_000)
    producer = Producer(
        {**cluster.client_properties(), "message.max.bytes": 110_000_000, "queue.buffering.max.kbytes": 500_000}
    )
    for payload in (b"before", value, b"after"):
        producer.produce(name, payload, partition=0)
    assert producer.flush(120) == 0
    del producer
    large = {"kafka.fetch.max.bytes": "150000000", "kafka.receive.message.max.bytes": "200000000"}

    rows = read_batch(static(document(east=at(cluster, name)), readTimeout="60s") | large)

    assert [(row["offset"], row["value"] == value) for row in rows] == [(0, False), (1, True), (2, False)]
