"""Streams with `value.format=json` on real brokers: each mode, dead letters, stop records, crashes, changed options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import cause_of, register
from dynamic_kafka.errors import RecordDecodingError
from dynamic_kafka.executor.reading import range_reader
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster, Record
from tests.support.kafka.dead_letters import Letter, dead_letters
from tests.support.source_run import CRASH_POINTS, CrashPoint, SourceRun, reading
from tests.support.streams import Row, Rows, cluster, stream, write_metadata

DEEP = pytest.mark.deep("a matrix of modes, crashes and evaluators")

pytestmark = pytest.mark.both_readers

MODULE = "tests.integration.source.evaluators"
SCHEMA = "id INT, last BOOLEAN, _corrupt_record STRING"
JSON = {"value.format": "json", "value.schema": SCHEMA}
BAD = ('{"id": "x"}', "no json")
CAUSES = ("`id` is no int", "it is no JSON: a value is missing at character 1")
OPTIONS = {"streamIds": "orders", "startingOffsets": "earliest"}


def text(number: int | None, last: bool | None = None, corrupt: str | None = None) -> str:
    """Return a decoded value as `SourceRun` shows it."""
    return json.dumps({"id": number, "last": last, "_corrupt_record": corrupt})


@pytest.fixture
def run(brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query on a topic of two clusters, in ranges of several batches of rows."""
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "ab")))
    with reading(path, **JSON) as made:
        yield made


def produce_json(name: str, at: KafkaCluster, topic: str, *values: str | None) -> list[int]:
    """Send values, and return their offsets."""
    first = at.end_offsets(topic)[0]
    at.produce(topic, [Record(value) for value in values], partition=0)
    return [first + n for n in range(len(values))]


def produce_mixed(brokers: Brokers, orders: str) -> tuple[Rows, Rows, Rows]:
    """Send good and malformed values to both clusters; return the good rows, the malformed ones, and both as sent."""
    good, bad, sent = Rows(), Rows(), Rows()
    for name in "ab":
        values = ['{"id": 1}', BAD[0], None, '{"id": 2, "more": [1]}', BAD[1], "\n{\n}\n"]
        offsets = produce_json(name, getattr(brokers, name), orders, *values)
        shown = [text(1), text(None, corrupt=BAD[0]), "null", text(2), text(None, corrupt=BAD[1]), text(None)]
        for at, offset in enumerate(offsets):
            (bad if at in (1, 4) else good)[Row(name, orders, 0, offset, shown[at])] += 1
            sent[Row(name, orders, 0, offset, values[at] or "")] += 1
    return good, bad, sent


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "MAX_ROWS", 4)


@DEEP
@pytest.mark.sampled
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("crash", [None, *CRASH_POINTS])
@pytest.mark.parametrize("mode", ["permissive", "dropmalformed"])
def test_a_replay_decodes_alike(
    *, run: SourceRun, brokers: Brokers, orders: str, mode: str, crash: CrashPoint | None
) -> None:
    run.configure(mode=mode)
    good, bad, _ = produce_mixed(brokers, orders)
    if crash is not None:
        run.until(lambda: run.batch(crash), "the batch")
    run.until_rows(good + bad if mode == "permissive" else good)


def test_failfast_fails_the_batch_until_an_option_changes(run: SourceRun, brokers: Brokers, orders: str) -> None:
    # By default a malformed value fails its batch, with the place and without the value
    good, bad, _ = produce_mixed(brokers, orders)
    message = run.until_fails(RecordDecodingError)
    assert f"offset 1 of a/{orders}[0] is malformed" in message and "`id` is no int" in message
    assert run.commits == 0 and len(run.offsets) == 1

    # Given another schema and mode at the next start, the pending batch is decoded by those
    run.restart(mode="permissive", **{"value.schema": "id STRING"})
    first = {row for row in good + bad if row.cluster == "a"}
    run.until(lambda: run.rows().total() >= 2 * len(first), "all rows")
    assert len(run.offsets) == 1, "the replay has the ranges of the first plan"
    shown = {row.offset: row.value for row in run.rows() if row.cluster == "a"}
    assert shown[1] == '{"id": "x"}' and shown[4] == '{"id": null}'


@pytest.fixture
def dead(brokers: Brokers, topic: Topic) -> str:
    """The dead-letter topic, on cluster `b`."""
    return brokers.b.create_topic(topic("dead"), config={"cleanup.policy": "compact"})


@DEEP
@pytest.mark.sampled
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("crash", [None, "reading", "read", "sunk", "committed"])
def test_malformed_records_become_dead_letters(
    *, run: SourceRun, brokers: Brokers, orders: str, dead: str, crash: CrashPoint | None
) -> None:
    run.configure(mode="deadletter", deadLetters=json.dumps({"topic": dead, "cluster": "b"}))
    good, bad, sent = produce_mixed(brokers, orders)
    if crash is not None:
        run.until(lambda: run.batch(crash), "the batch")
    run.until_rows(good)
    places = {(row.cluster, row.offset): row.value for row in sent}
    wanted = {
        Letter(row.cluster, orders, 0, row.offset, places[row.cluster, row.offset], cause)
        for row in bad
        for cause in [CAUSES[BAD.index(places[row.cluster, row.offset])]]
    }
    assert set(dead_letters(brokers.b, dead)) == wanted


@DEEP
@pytest.mark.sampled
@pytest.mark.parametrize("evaluator", ["is_last", "LastMask"])
@pytest.mark.parametrize("mode", ["permissive", "dropmalformed", "deadletter", "failfast"])
def test_an_evaluator_sees_decoded_values(
    *,
    run: SourceRun,
    brokers: Brokers,
    orders: str,
    dead: str,
    mode: str,
    evaluator: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a stop record behind malformed ones, and a malformed one behind it in the same batch of rows
    monkeypatch.setattr(range_reader, "MAX_ROWS", 5)
    home = json.dumps({"topic": dead, "cluster": "b"}) if mode == "deadletter" else None
    run.configure(mode=mode, recordEvaluator=f"{MODULE}:{evaluator}", deadLetters=home)
    good, bad, _ = produce_mixed(brokers, orders) if mode != "failfast" else (Rows(), Rows(), Rows())
    for name in "ab":
        [offset, *_] = produce_json(
            name, getattr(brokers, name), orders, '{"id": 9}', '{"last": true}', "behind", '{"id": 10}'
        )
        good[Row(name, orders, 0, offset, text(9))] += 1
    # When a driver dies after the reports about stop records, and another one takes over
    run.until(lambda: run.batch("read"), "the batch")
    run.until_rows(good + bad if mode == "permissive" else good)
    # Then the splits have ended there, and no record behind counts
    assert run.document.over
    letters = {letter.value for letter in dead_letters(brokers.b, dead)}
    assert letters == (set(BAD) if mode == "deadletter" else set())


def test_spark_gets_typed_columns(spark: SparkSession, brokers: Brokers, orders: str, path: Path) -> None:
    # Given values of many types, one of them malformed, and a tombstone
    register(spark)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    whole = (
        '{"id": 1, "at": "2026-11-01T10:00:00.5Z", "day": "2026-11-01", "amount": 12.345, "tags": ["a", null],'
        ' "by": {"k": 1.5}, "who": {"name": "\\u00e9"}, "raw": "aGk="}'
    )
    produce_json("a", brokers.a, orders, whole, None, '{"id": 2.5, "day": "2026-11-02"}', '{"id": 3}')
    schema = (
        "id BIGINT, at TIMESTAMP, day DATE, amount DECIMAL(10,2), tags ARRAY<STRING>, by MAP<STRING, DOUBLE>,"
        " who STRUCT<name: STRING>, raw BINARY, _corrupt_record STRING"
    )
    options = OPTIONS | {"metadataPath": str(path), "value.format": "json", "value.schema": schema}
    frame = spark.readStream.format("dynamic-kafka").options(**options, mode="permissive").load()
    assert frame.schema["value"].dataType.simpleString().startswith("struct<id:bigint,at:timestamp,day:date,")

    # When a streaming query writes them to Parquet
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(path.parent / "checkpoint"))
    writer.trigger(availableNow=True).start(str(path.parent / "out")).awaitTermination()

    # Then the rows are those of from_json over the same bytes
    fetched = spark.read.parquet(str(path.parent / "out")).orderBy("offset").select("value", "kafka_cluster").collect()
    rows = [row.value.asDict(recursive=True) if row.value is not None else None for row in fetched]
    assert rows[1] is None and [row.kafka_cluster for row in fetched] == ["a"] * 4
    assert rows[0] is not None and rows[0]["at"] == datetime(2026, 11, 1, 10, 0, 0, 500_000)
    raw = spark.read.format("dynamic-kafka").options(streamIds="orders", metadataPath=str(path)).load()
    wanted = raw.orderBy("offset").selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS value").collect()
    assert rows == [row.value.asDict(recursive=True) if row.value is not None else None for row in wanted]

    # With failfast, Spark fails with our error
    strict = spark.readStream.format("dynamic-kafka").options(**options).load().writeStream.format("noop")
    query = strict.option("checkpointLocation", str(path.parent / "strict")).trigger(availableNow=True).start()
    with pytest.raises(Exception) as failed:
        query.awaitTermination()
    assert isinstance(cause_of(failed.value), RecordDecodingError)
