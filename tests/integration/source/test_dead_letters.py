"""Records that a deserialiser refuses, on real brokers: rows, dead letters, crashes, and a topic out of reach."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dynamic_kafka.errors import DeadLetterError, IdentityError, MissingInternalTopicError, RecordEvaluationError
from dynamic_kafka.executor.reading import range_reader
from tests.integration.source.evaluators import END
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.kafka.dead_letters import Letter, dead_letters
from tests.support.source_run import CRASH_POINTS, CrashPoint, SourceRun, reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("a crash at each step, and faults of the topic")

pytestmark = pytest.mark.both_readers

MODULE = "tests.integration.source.evaluators"
COMPACTED = {"cleanup.policy": "compact"}
PACKED = {"compression.type": "zstd", "message.max.bytes": "10000000"}


@pytest.fixture
def dead(brokers: Brokers, topic: Topic) -> str:
    """The dead-letter topic, on cluster `b`."""
    return brokers.b.create_topic(topic("dead"), config=COMPACTED)


@pytest.fixture
def run(brokers: Brokers, orders: str, dead: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query on a topic of two clusters that refuses values with `bad`."""
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "ab")))
    home = json.dumps({"topic": dead, "cluster": "b", "kafkaId": brokers.b.kafka_id})
    given = {"recordDeserializer": f"{MODULE}:refuse_bad", "mode": "deadletter", "deadLetters": home}
    with reading(path, **given) as made:
        yield made


def produce_bad(cluster_id: str, at: KafkaCluster, orders: str, *values: str) -> set[Letter]:
    """Send refused records; return the dead letters that they must become."""
    first = at.end_offsets(orders)[0]
    at.produce(orders, values, partition=0)
    return {
        Letter(cluster_id, orders, 0, first + n, value, f"ValueError: {value[:5]} is no order")
        for n, value in enumerate(values)
    }


def produce_mixed(brokers: Brokers, orders: str) -> tuple[Rows, set[Letter]]:
    """Send good and bad records to both clusters; return the rows and the dead letters that they must become."""
    rows, letters = Rows(), set[Letter]()
    for name in "ab":
        at = getattr(brokers, name)
        rows += produce(name, at, orders, 3)
        letters |= produce_bad(name, at, orders, "bad-1", "bad-2")
        rows += produce(name, at, orders, 2)
    return rows, letters


@DEEP
@pytest.mark.sampled
@pytest.mark.parametrize("crash", [None, *CRASH_POINTS])
def test_a_crash_loses_no_record_and_repeats_keys_only(
    *,
    run: SourceRun,
    brokers: Brokers,
    orders: str,
    dead: str,
    crash: CrashPoint | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given ranges of several batches of rows
    monkeypatch.setattr(range_reader, "MAX_ROWS", 2)
    wanted, letters = produce_mixed(brokers, orders)
    # When a driver dies at one step of the batch, and another one takes over
    if crash is not None:
        run.until(lambda: run.batch(crash), "the batch")
    run.until_rows(wanted)
    # Then no row is a refused record, and each key names one refused record, whose content is always the same
    arrived = dead_letters(brokers.b, dead)
    assert set(arrived) == letters
    assert len(arrived) == (len(letters) if crash not in ("reading", "read", "sunk") else len(arrived))
    if crash in ("read", "sunk"):
        assert len(arrived) == 2 * len(letters), "compaction keeps one of each key"


@DEEP
def test_the_home_may_be_renamed_but_not_removed(
    run: SourceRun, brokers: Brokers, orders: str, dead: str, path: Path
) -> None:
    wanted, letters = produce_mixed(brokers, orders)
    run.until_rows(wanted)

    # When metadata lose the home, then they are rejected as a whole, and both clusters are read on
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    run.until(lambda: "names no cluster 'b'" in str(run.report().get("rejected")), "the metadata to be rejected")
    rows, refused = produce_mixed(brokers, orders)
    wanted, letters = wanted + rows, letters | refused
    run.until_rows(wanted)

    # When it is renamed, then dead letters go there all the same
    renamed = cluster("c", brokers.b, [orders], renamedFrom="b")
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), renamed))
    run.until(lambda: "rejected" not in run.report(), "the renamed home")
    wanted += produce("c", brokers.b, orders, 2)
    letters |= produce_bad("c", brokers.b, orders, "bad-3")
    run.until(lambda: len(dead_letters(brokers.b, dead)) == len(letters), "the last dead letter")
    run.until_rows(wanted)
    assert set(dead_letters(brokers.b, dead)) == letters


@DEEP
def test_compaction_keeps_one_letter_of_each_record(fresh_cluster: FreshCluster, path: Path) -> None:
    # Given a broker that cleans at once, and a task that is repeated after it has written its dead letters
    at = fresh_cluster("cleaning", overrides={"log.cleaner.backoff.ms": "100"})
    at.create_topic("orders")
    at.create_topic("dead", config={**COMPACTED, "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"})
    write_metadata(path, stream("orders", cluster("a", at, ["orders"])))
    home = json.dumps({"topic": "dead", "cluster": "a", "kafkaId": at.kafka_id})
    wanted = produce("a", at, "orders", 3)
    letters = produce_bad("a", at, "orders", "bad-1", "bad-2")
    given = {"recordDeserializer": f"{MODULE}:refuse_bad", "mode": "deadletter", "deadLetters": home}
    with reading(path, **given) as run:
        run.batch("read")
        run.until_rows(wanted)
        assert at.end_offsets("dead") == {0: 4}

        # When a later letter closes the segment of the earlier ones
        letters |= produce_bad("a", at, "orders", "bad-3")
        run.until(lambda: at.end_offsets("dead") == {0: 5}, "the last letter")

    # Then the cleaner leaves one letter of each record
    wait_until(lambda: len(dead_letters(at, "dead")) == len(letters), "the compaction", timeout_s=60)
    assert set(dead_letters(at, "dead")) == letters


@DEEP
def test_nothing_behind_a_stop_record_is_a_dead_letter(
    run: SourceRun, brokers: Brokers, orders: str, dead: str
) -> None:
    run.configure(recordEvaluator=f"{MODULE}:is_end_of_text")
    wanted, letters = produce_mixed(brokers, orders)
    for at in (brokers.a, brokers.b):
        at.produce(orders, [END, "bad-3"], partition=0)
    # A driver that dies after the reports: its replay evaluates nothing, and refuses the same records
    run.until(lambda: run.batch("read"), "the batch")
    run.until_rows(wanted)
    assert run.document.over
    assert set(dead_letters(brokers.b, dead)) == letters


def test_the_batch_fails_while_the_topic_is_missing(run: SourceRun, brokers: Brokers, orders: str, dead: str) -> None:
    brokers.b.delete_topic(dead)
    wanted, letters = produce_mixed(brokers, orders)
    text = run.until_fails(MissingInternalTopicError)
    assert f"'{dead}' is missing on b." in text and "-m dynamic_kafka.app init app.yaml`" in text
    assert run.commits == 0
    brokers.b.create_topic(dead, config=COMPACTED)
    run.until_rows(wanted)
    assert set(dead_letters(brokers.b, dead)) == letters


@DEEP
def test_the_batch_fails_where_the_topic_takes_no_such_record(
    run: SourceRun, brokers: Brokers, orders: str, topic: Topic
) -> None:
    small = brokers.c.create_topic(topic("small"), config={**COMPACTED, "max.message.bytes": "2000"})
    run.configure(deadLetters=json.dumps({"topic": small, "bootstrapServers": brokers.c.bootstrap}))
    wanted = produce("a", brokers.a, orders, 3)
    produce_bad("a", brokers.a, orders, "bad-1" + random.Random(1).randbytes(2500).hex())
    text = run.until_fails(DeadLetterError)
    assert f"'{small}' on internal-topics" in text and "not committed" in text and "could not write" in text
    assert "CLUSTER_" not in text
    assert (run.commits, brokers.c.end_offsets(small)) == (0, {0: 0})

    # Given the mode without dead letters, the batch fails, too
    run.restart(mode="failfast", recordEvaluator=f"{MODULE}:is_end_of_text")
    assert "or set mode=deadletter, and start again" in run.until_fails(RecordEvaluationError)
    # Given a topic with the limit of the source's, nothing is lost, nor is a record that only compression fits there
    large = brokers.c.create_topic(topic("large"), config=COMPACTED)
    letters = produce_bad("a", brokers.a, orders, "bad-2")
    producer = Producer({"bootstrap.servers": brokers.a.bootstrap} | PACKED)
    producer.produce(orders, b"bad-3" + b"y" * 5_000_000)
    assert producer.flush(30) == 0
    home = json.dumps({"topic": large, "bootstrapServers": brokers.c.bootstrap})
    run.restart(mode="deadletter", recordEvaluator=None, deadLetters=home)
    run.until_rows(wanted)
    arrived = dead_letters(brokers.c, large)
    assert letters < set(arrived)
    assert sorted(len(letter.value) for letter in arrived) == [5, 5005, 5_000_005]


@DEEP
def test_another_cluster_gets_no_dead_letter(run: SourceRun, brokers: Brokers, orders: str, dead: str) -> None:
    run.configure(deadLetters=json.dumps({"topic": dead, "cluster": "b", "kafkaId": "another"}))
    wanted, _ = produce_mixed(brokers, orders)
    text = run.until_fails(IdentityError)
    assert f"has cluster.id {brokers.b.kafka_id};" in text
    assert f"topic '{dead}'" in text and "set up on another:" in text
    assert brokers.b.end_offsets(dead) == {0: 0}
    assert_rows(run.rows(), Rows())
    run.restart(deadLetters=json.dumps({"topic": dead, "cluster": "b"}))
    run.until_rows(wanted)
