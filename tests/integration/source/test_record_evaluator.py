"""Splits that end at a record: the rows, the saved state, and what the user is told."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from dynamic_kafka import stop_when_finished
from tests.integration.source.evaluators import END
from tests.support.fixtures import Brokers
from tests.support.streams import assert_rows, cluster, produce, start_query, stream, write_metadata

MODULE = "tests.integration.source.evaluators"


def test_a_query_ends_by_itself_at_the_records(spark: SparkSession, brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "ab")))
    wanted = produce("a", brokers.a, orders, 4) + produce("b", brokers.b, orders, 3)
    brokers.a.produce(orders, [END])
    produce("a", brokers.a, orders, 5)
    options = {
        "streamIds": "orders",
        "metadataPath": path,
        "startingOffsets": "earliest",
        "stateLocation": path.parent / "state",
        "recordEvaluator": f"{MODULE}:is_end",
    }
    with start_query(spark, options, path.parent) as run:
        run.wait_rows(wanted)
        produce("a", brokers.a, orders, 2)
        brokers.b.produce(orders, [END])
        assert stop_when_finished(run.query, timeout_s=60)
        assert_rows(run.rows(), wanted)
        document = run.document()
    assert document is not None and document.over
    assert {c: dict(p.topics[orders].ended) for c, p in document.clusters.items()} == {"a": {0: 4}, "b": {0: 3}}
    assert {c: dict(p.topics[orders].next) for c, p in document.clusters.items()} == {"a": {0: 4}, "b": {0: 3}}
