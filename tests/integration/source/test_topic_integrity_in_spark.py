"""Executors of a real Spark find that a topic is another one: the query ends, and its batch delivers nothing."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from dynamic_kafka import cause_of
from dynamic_kafka.app.failures import code_of
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import TopicIntegrityError
from tests.integration.source.test_recreated_before_reading import InterruptedSink, recreate
from tests.support.fixtures import Brokers
from tests.support.streams import Rows, RunningQuery, assert_rows, cluster, produce, start_query, stream, write_metadata


def test_what_executors_find_ends_each_start(spark: SparkSession, brokers: Brokers, orders: str, path: Path) -> None:
    # Given a batch of both clusters, and a topic that is created again once the batch is planned
    sink, old = InterruptedSink(), brokers.a.topic_id(orders)
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    options |= {"stateLocation": path.parent / "state", "topicIntegrityCheck": "true"}

    def name(**more: object) -> None:
        clusters = cluster("a", brokers.a, [orders], **more), cluster("b", brokers.b, [orders])
        write_metadata(path, stream("orders", *clusters))

    def start() -> RunningQuery:
        return start_query(spark, options, path.parent, sink=sink)

    name()
    before = produce("a", brokers.a, orders, 4)
    with start() as run:
        run.wait_rows(before)
    produce("a", brokers.a, orders, 5)
    intact, new = produce("b", brokers.b, orders, 3), Rows()
    sink.before_reading = lambda: new.update(recreate(brokers.a, orders))

    # Then Spark fails with both ids, and a start fails with the same words
    words = []
    for _ in range(2):
        with start() as run:
            run.wait_failed()
            error = run.query.exception()
            assert error is not None
            assert code_of(error) == ExitCode.TOPIC_INTEGRITY
            cause = cause_of(error)
            assert isinstance(cause, TopicIntegrityError)
            words.append(str(cause))
    now = brokers.a.topic_id(orders)
    assert words[0].startswith(f"[TOPIC_CHANGED cluster=a topic={orders} id={old} now={now}] the topic was re-created")
    assert words[0] == words[1]
    assert_rows(sink.rows(), before)

    # Once the metadata name the new id, all records that exist come once
    name(topicIds={orders: now})
    with start() as run:
        run.wait_rows(before + intact + new)
