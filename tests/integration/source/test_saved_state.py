"""Saved offset documents: those of version 2 restore, and a restart reads what Spark has saved."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.metadata.topic_ids import saved_topic_id
from dynamic_kafka.planning.document.codec import VERSION, WITHOUT_STOP_RECORDS, decode, encode
from tests.integration.source.simulated_spark import Query, at, document, numbered, query, static, values
from tests.support.fixtures import Brokers, Topic
from tests.support.streams import last_batch, next_offsets, produce, saved_offset, start_query

DEEP = pytest.mark.deep("each property of the saved state")


def version_2(offsets: dict[str, dict[str, dict[str, int]]], number: int = 1) -> str:
    """Return a document of version 2, without the ids that brokers may not report."""
    clusters = {
        cluster: {"topics": {name: {"stream": "orders", "next": following} for name, following in topics.items()}}
        for cluster, topics in offsets.items()
    }
    return json.dumps({"version": 2, "query": "5f" * 16, "number": number, "previous": "", "clusters": clusters})


def resume_from(options: dict[str, str], saved: str) -> Query:
    """Return a query on a checkpoint with one committed batch."""
    made = Query(options)
    made.log, made.committed = [saved], 1
    return made


@pytest.mark.scenario(7)
@pytest.mark.scenario(39)
def test_state_of_version_2_restores(brokers: Brokers, topic: Topic) -> None:
    # Given a document of version 2, with a topic that metadata no longer names
    name, gone = topic("orders"), topic("gone")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name, 2)
        for partition in range(2):
            cluster.produce(name, numbered(10), partition=partition)
    saved = version_2({"east": {name: {"0": 4, "1": 10}, gone: {"0": 77}}, "west": {name: {"0": 9, "1": 0}}})

    # When a query continues from there
    reading = resume_from(static(document(east=at(brokers.a, name), west=at(brokers.b, name))), saved)
    rows = reading.batch()
    again = reading.plan()
    reading.stop()

    # Then it reads on at exactly those offsets, and the new document has the new fields
    read = Counter((row["kafka_cluster"], row["partition"], row["offset"]) for row in rows)
    assert read == Counter(
        [("east", 0, o) for o in range(4, 10)] + [("west", 0, 9)] + [("west", 1, o) for o in range(10)]
    )
    assert {row["kafka_stream"] for row in rows} == {"orders"}
    assert again is False
    assert json.loads(reading.log[-1])["version"] == WITHOUT_STOP_RECORDS  # an older release can read it
    assert reading.saved.query
    for cluster, broker in (("east", brokers.a), ("west", brokers.b)):
        assert reading.saved.clusters[cluster].kafka_id == broker.kafka_id
        assert reading.saved.clusters[cluster].topics[name].topic_id == saved_topic_id(broker.topic_id(name))
    assert reading.saved.parked["east"].topics[gone].progress.next == {0: 77}


@DEEP
@pytest.mark.scenario(7)
def test_a_pending_batch_of_version_2_is_replayed(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    brokers.a.produce(name, numbered(10))
    reading = resume_from(static(document(east=at(brokers.a, name))), version_2({"east": {name: {"0": 2}}}))
    reading.log.append(version_2({"east": {name: {"0": 6}}}, number=2))

    pending = reading.run()
    rest = reading.batch()
    reading.stop()

    assert values(pending) == Counter(v.encode() for v in numbered(10)[2:6])
    assert values(rest) == Counter(v.encode() for v in numbered(10)[6:])


@DEEP
@pytest.mark.scenario(7)
@pytest.mark.scenario(39)
def test_a_spark_checkpoint_of_version_2_restores(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given a checkpoint whose offset log was rewritten in the form of version 2
    name = brokers.a.create_topic(topic("orders"), 2)
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest")
    wanted = produce("east", brokers.a, name, 5)
    with start_query(spark, options, tmp_path, sink="parquet") as running:
        running.wait_rows(wanted)
        checkpoint = running.checkpoint
    last = checkpoint / "offsets" / str(last_batch(checkpoint / "offsets"))
    *head, _ = last.read_text().splitlines()
    last.write_text("\n".join([*head, version_2({"east": {name: {"0": 5, "1": 0}}})]))
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    # When the query starts again
    wanted += produce("east", brokers.a, name, 4) + produce("east", brokers.a, name, 3, partition=1)
    with start_query(spark, options, tmp_path, sink="parquet") as running:
        running.wait_rows(wanted)
        saved = running.document()

    # Then no record is lost or duplicated, and the new form is saved
    assert next_offsets(saved) == {("east", name): {0: 9, 1: 3}}
    assert saved is not None and saved.query


@DEEP
@pytest.mark.scenario(39)
def test_spark_saves_the_document_unchanged(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given documents that Spark has written, one with a parked topic
    name, other = brokers.a.create_topic(topic("orders"), 3), brokers.a.create_topic(topic("other"))
    both, one = (static(document(east=at(brokers.a, *topics))) for topics in ((name, other), (name,)))
    wanted = produce("east", brokers.a, name, 3) + produce("east", brokers.a, other, 2)
    with start_query(spark, both | {"startingOffsets": "earliest"}, tmp_path) as running:
        running.wait_rows(wanted)
        sink = running.sink
    assert sink is not None
    wanted += produce("east", brokers.a, name, 2, partition=1)
    with start_query(spark, one, tmp_path, sink=sink) as running:
        running.wait_rows(wanted)
        checkpoint = running.checkpoint

    # Then each one decodes and encodes to the same text
    texts = [saved_offset(checkpoint, batch) for batch in range(last_batch(checkpoint / "offsets") + 1)]
    assert [json.dumps(encode(decode(text))) for text in texts] == [json.dumps(text) for text in texts]
    assert decode(texts[-1]).parked["east"].topics[other].progress.next == {0: 2}


@DEEP
def test_a_newer_version_is_refused_clearly(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"))
    newer = json.dumps({"version": VERSION + 1, "clusters": {"east": {"anything": 1}}})
    reading = resume_from(static(document(east=at(brokers.a, name))), newer)

    with pytest.raises(OffsetDocumentError, match=f"have version {VERSION + 1}, not 2 to {VERSION}"):
        reading.plan()
    reading.stop()


@pytest.mark.scenario(4)
def test_a_single_cluster_end_to_end(brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path) -> None:
    # Given Spark's own options for one cluster, and a pattern
    prefix = topic("single")
    first = brokers.a.create_topic(f"{prefix}-first", 2)
    options = {
        "kafka.bootstrap.servers": brokers.a.bootstrap,
        "subscribePattern": f"{prefix}-.*",
        "startingOffsets": "earliest",
        "metadataDiscoveryInterval": "300ms",
    }
    wanted = produce("default", brokers.a, first, 5)

    # When a topic is created while it runs, and the query restarts
    with start_query(spark, options, tmp_path, sink="parquet") as running:
        running.wait_rows(wanted)
        second = brokers.a.create_topic(f"{prefix}-second")
        wanted += produce("default", brokers.a, second, 4)
        running.wait_rows(wanted)
    wanted += produce("default", brokers.a, first, 3, partition=1)
    with start_query(spark, options, tmp_path, sink="parquet") as running:
        running.wait_rows(wanted)
        # Rows reach the sink before the progress event of their batch.
        running.wait_until(lambda: "clusters" in running.report(), "the first progress event")
        saved = running.document()
        report = running.report()

    # Then each topic is a separate stream, read once
    assert next_offsets(saved) == {("default", first): {0: 5, 1: 3}, ("default", second): {0: 4}}
    assert saved is not None
    assert {name: at.stream for name, at in saved.clusters["default"].topics.items()} == {first: first, second: second}
    assert report["clusters"]["default"]["splits"] == 3


@DEEP
def test_idle_triggers_write_nothing(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 4)
    brokers.a.produce(name, numbered(10))

    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", metadataDiscoveryInterval="50ms")
    with query(options) as reading:
        reading.batch()
        idle = [reading.plan() for _ in range(30)]
        reading.restart()
        idle += [reading.plan() for _ in range(3)]

    assert not any(idle)
    assert len(reading.log) == 1
