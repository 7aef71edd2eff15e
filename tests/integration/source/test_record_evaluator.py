"""Splits that end at a record: the rows, the saved state, and the messages to the user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import Record, cause_of, register, stop_when_finished
from dynamic_kafka.errors import (
    DataLossError,
    DriverReplacedError,
    OptionError,
    RecordEvaluationError,
    StaleCheckpointError,
)
from dynamic_kafka.executor.reading import range_reader
from dynamic_kafka.kafka.groups import GroupClient
from dynamic_kafka.metadata.services.file import FileMetadataService
from dynamic_kafka.planning.document.codec import fingerprint
from tests.integration.source.evaluators import END
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import CRASH_POINTS, CrashPoint, SourceRun, read, reading
from tests.support.streams import (
    Row,
    Rows,
    assert_rows,
    cluster,
    produce,
    start_query,
    stream,
    write_metadata,
)

DEEP = pytest.mark.deep("a matrix of crashes, clusters and documents")

pytestmark = pytest.mark.both_readers

MODULE = "tests.integration.source.evaluators"


def end_of(run: SourceRun) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """Return the stop records and the next offsets in the saved state, by cluster."""
    topics = {c: topic for c, progress in run.document.clusters.items() for topic in progress.topics.values()}
    return {c: dict(topic.ended) for c, topic in topics.items()}, {c: dict(topic.next) for c, topic in topics.items()}


@pytest.fixture
def run(brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query on a topic of two clusters, whose splits end at the text `END`."""
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "ab")))
    with reading(path, recordEvaluator=f"{MODULE}:is_end") as made:
        yield made


def produce_days(brokers: Brokers, orders: str) -> Rows:
    """Send seven records, `END` and three more to `a`, two and `END` to `b`; return the rows before `END`."""
    wanted = produce("a", brokers.a, orders, 7) + produce("b", brokers.b, orders, 2)
    for at in (brokers.a, brokers.b):
        at.produce(orders, [END])
    produce("a", brokers.a, orders, 3)
    return wanted


# -- without Spark, with a crash at each step --------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"recordEvaluator": f"{MODULE}:EndMask"}, {"maxOffsetsPerTrigger": "3"}])
def test_rows_and_state_end_at_the_records(
    run: SourceRun, brokers: Brokers, orders: str, more: dict[str, object]
) -> None:
    run.configure(**more)
    wanted = produce_days(brokers, orders)
    run.until_rows(wanted)
    assert end_of(run) == ({"a": {0: 7}, "b": {0: 2}}, {"a": {0: 7}, "b": {0: 2}})
    assert run.document.over and run.report()["finished"] is True

    # Nothing revives it: no record, no cluster
    produce_days(brokers, orders)
    brokers.c.produce(orders, ["x"])
    named = (cluster(name, getattr(brokers, name), [orders]) for name in "abc")
    write_metadata(Path(run.options["metadataPath"]), stream("orders", *named))
    run.restart()
    assert not run.batch()
    assert_rows(run.rows(), wanted)
    assert run.report()["finished"] is True


@DEEP
def test_the_last_batch_needs_no_cluster(run: SourceRun, brokers: Brokers, orders: str) -> None:
    # Given a query with a consumer group, and its last batch, which reads nothing and is pending
    run.configure(**{"kafka.group.id": f"g-{orders}"})
    wanted = produce_days(brokers, orders)
    run.batch()
    run.until(lambda: run.batch("logged") and run.document.over, "the last document")

    # When its metadata names only a cluster that is gone
    write_metadata(Path(run.options["metadataPath"]), stream("orders", cluster("a", "127.0.0.1:1", [orders])))

    # Then it ends all the same
    run.restart()
    assert run.batch() and not run.batch()
    assert_rows(run.rows(), wanted)
    assert run.report()["finished"] is True


@DEEP
@pytest.mark.sampled
@pytest.mark.parametrize("crash", CRASH_POINTS)
@pytest.mark.parametrize("later", ["is_end", "never", "always", None])
def test_a_crash_changes_no_row(
    *,
    run: SourceRun,
    brokers: Brokers,
    orders: str,
    crash: CrashPoint,
    later: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a batch whose ranges have several batches of rows, and a driver that dies at one step of it
    monkeypatch.setattr(range_reader, "MAX_ROWS", 2)
    wanted = produce_days(brokers, orders)
    run.until(lambda: run.batch(crash), "the batch")
    reports = {}
    if run.offsets:
        end = run.document
        seen = Path(run.options["stateLocation"], end.query, "seen", fingerprint(end))
        stops = [json.loads(file.read_text()) for file in seen.glob("stop-record-*.json")]
        reports = {stop["split"][0]: stop["offset"] for stop in stops}
    assert reports == ({"a": 7, "b": 2} if crash in ("read", "sunk", "committed") else {})

    # When it is started again, perhaps with another evaluator or without one
    decided = crash in ("read", "sunk", "committed")
    run.restart(recordEvaluator=f"{MODULE}:{later if decided else 'is_end'}" if later or not decided else None)

    # Then what was decided stays
    run.until_rows(wanted)
    assert end_of(run) == ({"a": {0: 7}, "b": {0: 2}}, {"a": {0: 7}, "b": {0: 2}})
    assert run.document.over


@DEEP
def test_a_late_task_of_a_replaced_driver_ends_no_split(run: SourceRun, brokers: Brokers, orders: str) -> None:
    # Given the tasks of a driver that hangs, and another driver with another evaluator, which has read their batch
    wanted = produce("a", brokers.a, orders, 2)
    brokers.a.produce(orders, [END])
    wanted += Rows([Row("a", orders, 0, 2, END)]) + produce("a", brokers.a, orders, 3)
    run.until(lambda: run.batch("partitioned"), "the tasks")
    late, evaluation = run.tasks, run.evaluation
    run.restart(recordEvaluator=f"{MODULE}:never")
    assert run.batch() and run.rows() == wanted

    # When the tasks run on, and find a stop record
    for task in late:
        with pytest.raises(DriverReplacedError, match="driver has started"):
            list(read(task, evaluation))

    # Then neither this driver nor the next one obeys it
    for restarts in (False, True):
        if restarts:
            run.restart()
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
    assert end_of(run)[0]["a"] == {}


@DEEP
def test_a_split_that_never_sees_its_record_keeps_the_query_open(run: SourceRun, brokers: Brokers, orders: str) -> None:
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    brokers.a.produce(orders, [END])
    run.until_rows(wanted)
    more = produce("b", brokers.b, orders, 4)
    produce("a", brokers.a, orders, 4)
    run.until_rows(wanted + more)
    assert not run.document.over and "finished" not in run.report()
    assert {c: (progress["splits"], progress["finished"]) for c, progress in run.report()["clusters"].items()} == {
        "a": (1, 1),
        "b": (1, 0),
    }


@DEEP
def test_a_cluster_that_metadata_adds_before_the_end_is_read(
    run: SourceRun, brokers: Brokers, orders: str, path: Path
) -> None:
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    brokers.a.produce(orders, [END])
    run.until_rows(wanted)
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "abc")))
    wanted += produce("c", brokers.c, orders, 5)
    run.until_rows(wanted)
    for at in (brokers.b, brokers.c):
        at.produce(orders, [END, "late"])
    run.until_rows(wanted)
    assert end_of(run)[0] == {"a": {0: 3}, "b": {0: 2}, "c": {0: 5}} and run.document.over


@DEEP
@pytest.mark.parametrize("refused", ["another cluster", "no valid document"])
def test_a_cluster_of_a_refused_revision_keeps_the_query_open(
    *, run: SourceRun, brokers: Brokers, orders: str, path: Path, refused: str
) -> None:
    # Given a newer revision that adds a cluster, and is refused
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    run.until_rows(wanted)
    named = [cluster(name, getattr(brokers, name), [orders]) for name in "abc"]
    wrong = cluster("a", brokers.c if refused == "another cluster" else "", [orders])
    write_metadata(path, stream("orders", wrong, *named[1:]))
    run.until(lambda: run.batch() or "rejected" in run.report(), "the refusal")

    # When all splits end that the query has
    for at in (brokers.a, brokers.b):
        at.produce(orders, [END])
    run.until(lambda: run.batch() or (len(end_of(run)[0]) == 2 and all(end_of(run)[0].values())), "the stop records")
    run.batch()

    # Then the query goes on, with the reason, and the cluster is read once the revision is corrected
    assert not run.document.over and "finished" not in run.report()
    assert run.report()["waitsFor"] == f"newer metadata is rejected: {run.report()['rejected']}"
    wanted += produce("c", brokers.c, orders, 4)
    brokers.c.produce(orders, [END])
    write_metadata(path, stream("orders", *named))
    run.until_rows(wanted)
    assert end_of(run)[0] == {"a": {0: 3}, "b": {0: 2}, "c": {0: 4}} and run.document.over


@DEEP
@pytest.mark.parametrize("mode", ["a long interval", "one look-up", "available now"])
@pytest.mark.sampled
def test_a_cluster_that_no_plan_has_seen_keeps_the_query_open(
    *, run: SourceRun, brokers: Brokers, orders: str, path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run that has looked metadata up, and will not again for long
    monkeypatch.setattr(FileMetadataService, "changed", lambda _: False)
    run.configure(metadataDiscoveryInterval="0" if mode == "one look-up" else "1h")
    wanted = produce_days(brokers, orders)
    if mode == "available now":
        run.enumerator.prepare_available_now()
    assert run.batch() and not run.document.over

    # When metadata adds a cluster before the plan that would end the query
    write_metadata(path, stream("orders", *(cluster(name, getattr(brokers, name), [orders]) for name in "abc")))
    assert not run.batch() and not run.document.over
    assert "is newer metadata" in run.report()["waitsFor"]

    # Then the cluster is read
    wanted += produce("c", brokers.c, orders, 4)
    brokers.c.produce(orders, [END])
    if mode != "a long interval":
        run.restart()
    run.until_rows(wanted)
    assert end_of(run)[0].keys() == {"a", "b", "c"} and run.document.over


@DEEP
@pytest.mark.parametrize("retention", ["7d", "1ms"])
def test_an_ended_cluster_may_come_back(
    run: SourceRun, brokers: Brokers, orders: str, path: Path, retention: str
) -> None:
    # Given a cluster whose split has ended, and that metadata do not name any more
    run.configure(removedClusterRetention=retention)
    of_a, of_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 2)
    brokers.b.produce(orders, [END, "late"])
    run.until_rows(of_a + of_b)
    both, is_kept = json.loads(path.read_text()), retention == "7d"
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    run.until(lambda: ("b", orders) not in run.next and (is_kept or not run.parked), "the removal of b")
    assert run.parked == ({("b", orders): {0: 2}} if is_kept else {})

    # When it comes back, then within the retention its split stays ended, and later it is read anew up to its record
    produce("b", brokers.b, orders, 3)
    write_metadata(path, *both)
    run.until(lambda: ("b", orders) in run.next, "the return of b")
    assert end_of(run)[0]["b"] == ({0: 2} if is_kept else {})
    wanted = of_a + of_b + (Rows() if is_kept else of_b)
    run.until_rows(wanted)
    assert end_of(run) == ({"a": {}, "b": {0: 2}}, {"a": {0: 3}, "b": {0: 2}})

    # And the query is over once the other cluster has ended, too
    brokers.a.produce(orders, [END])
    run.until(lambda: run.batch() or run.document.over, "the end")
    assert_rows(run.rows(), wanted)


@DEEP
@pytest.mark.parametrize("given_up", [False, True])
def test_a_removed_cluster_with_records_keeps_the_query_open(
    *, run: SourceRun, brokers: Brokers, orders: str, path: Path, given_up: bool
) -> None:
    # Given a cluster that metadata name no more, with its stop record unread, when the other one ends
    of_a, of_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 2)
    run.until_rows(of_a + of_b)
    both = json.loads(path.read_text())
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    run.until(lambda: ("b", orders) not in run.next, "the removal of b")
    brokers.a.produce(orders, [END])
    brokers.b.produce(orders, [END])
    run.until(lambda: "waitsFor" in run.report(), "the reason why the query goes on")
    assert run.report()["waitsFor"].startswith(f"b/{orders} is missing in the metadata")

    # Then the query is over once the cluster is back and has ended, or is given up at a start
    if given_up:
        run.restart(removedClusterRetention="0")
    else:
        write_metadata(path, *both)
    run.until(lambda: run.document.over, "the end")
    assert_rows(run.rows(), of_a + of_b)
    assert end_of(run)[0] == {"a": {0: 3}} | ({} if given_up else {"b": {0: 2}})


@DEEP
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_silent_cluster_keeps_the_query_open(
    *, run: SourceRun, brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, has_ended: bool
) -> None:
    # Given a cluster that hangs, after its split has ended or before it was ever read
    run.configure(clusterFailurePolicy="stall", **{"kafka.socket.timeout.ms": 2000, "readTimeout": "2s"})
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", *([a, s] if has_ended else [a])))
    wanted, of_s = produce("a", brokers.a, orders, 3), produce("s", shaky, orders, 2)
    shaky.produce(orders, [END])
    run.until_rows(wanted + of_s if has_ended else wanted)
    shaky.pause()
    write_metadata(path, stream("orders", a, s))

    # When the splits of the other cluster end
    run.until(lambda: "s" in run.enumerator.observer.in_force().subscription.clusters, "the metadata with s")
    brokers.a.produce(orders, [END])
    run.until(lambda: "waitsFor" in run.report(), "the reason why the query goes on")

    # Then the query is not over, and says why, until the cluster answers and has ended
    assert run.report()["waitsFor"] == "no answer from s"
    assert not run.document.over and "finished" not in run.report()
    shaky.resume()
    run.until(lambda: run.document.over, "the end")
    assert_rows(run.rows(), wanted + of_s)
    assert end_of(run)[0] == {"a": {0: 3}, "s": {0: 2}} and run.report()["finished"] is True


@DEEP
def test_a_recreated_topic_is_open_again(run: SourceRun, brokers: Brokers, orders: str) -> None:
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    brokers.a.produce(orders, [END, "late"])
    run.until_rows(wanted)
    brokers.a.delete_topic(orders)
    brokers.a.create_topic(orders)
    wanted += produce("a", brokers.a, orders, 4, prefix="new")
    run.until_rows(wanted)  # and no data loss: all of the old topic was read
    brokers.a.produce(orders, [END])
    brokers.b.produce(orders, [END])
    run.until_rows(wanted)
    assert end_of(run)[0] == {"a": {0: 4}, "b": {0: 2}} and run.document.over


@DEEP
def test_a_topic_recreated_before_reading_ends_at_no_record(run: SourceRun, brokers: Brokers, orders: str) -> None:
    # Given a planned batch, whose topic has another stop record when it is read
    produce("a", brokers.a, orders, 4)
    run.until(lambda: run.batch("partitioned"), "a batch")
    brokers.a.delete_topic(orders)
    brokers.a.create_topic(orders)
    brokers.a.produce(orders, [END, "x", "y", "z"])

    # Then no report is written about it
    with pytest.raises(DataLossError):
        run.batch()
    assert not list(Path(run.options["stateLocation"]).glob("*/seen/*/stop-record-*.json"))


@pytest.mark.parametrize(("stop", "last"), [(3, 3), (30, 7)])
def test_stopping_offset_or_stop_record_whichever_comes_first(
    *, run: SourceRun, brokers: Brokers, orders: str, stop: int, last: int
) -> None:
    wanted = produce_days(brokers, orders)
    produce("a", brokers.a, orders, 30)
    run.configure(endingOffsets=json.dumps({"a": {orders: {"0": stop}}, "b": {orders: {"0": 1}}}))
    expected = Rows(row for row in wanted if row.offset < {"a": last, "b": 1}[row.cluster])
    run.until_rows(expected)
    assert run.document.finished and run.report()["finished"] is True


@DEEP
def test_commits_do_not_pass_the_stop_record(run: SourceRun, brokers: Brokers, orders: str) -> None:
    run.configure(**{"kafka.group.id": f"g-{orders}"})
    run.until_rows(produce_days(brokers, orders))
    group = GroupClient("a", f"g-{orders}", brokers.a.client_properties(), deadline_s=20)
    run.until(lambda: bool(group.committed([(orders, 0)])), "a commit")
    assert group.committed([(orders, 0)])[orders, 0][0] == 7


@DEEP
def test_a_checkpoint_from_before_a_stop_record_is_refused(run: SourceRun, brokers: Brokers, orders: str) -> None:
    wanted = produce("a", brokers.a, orders, 3) + produce("b", brokers.b, orders, 2)
    run.until_rows(wanted)
    backup = list(run.offsets)
    more = produce("a", brokers.a, orders, 4)
    brokers.a.produce(orders, [END, "late"])
    run.until_rows(wanted + more)

    run.offsets, run.commits = backup, len(backup)
    run.restart()
    with pytest.raises(StaleCheckpointError, match="a report of an executor of document"):
        run.batch()
    run.delivered = {number: rows for number, rows in run.delivered.items() if number < len(backup)}
    run.restart(allowOldCheckpoint="true")
    run.until_rows(wanted + more)
    run.until(lambda: run.batch() or end_of(run)[0]["a"] == {0: 7}, "the stop record")


# -- through Spark -----------------------------------------------------------------------------------------------------


@pytest.fixture
def options(run: SourceRun) -> dict[str, object]:
    return dict(run.options)


def test_a_query_ends_by_itself_at_the_records(
    *, spark: SparkSession, brokers: Brokers, orders: str, path: Path, options: dict[str, object]
) -> None:
    wanted = produce("a", brokers.a, orders, 4) + produce("b", brokers.b, orders, 3)
    brokers.a.produce(orders, [END])
    produce("a", brokers.a, orders, 5)
    with start_query(spark, options, path.parent) as query:
        query.wait_rows(wanted)
        produce("a", brokers.a, orders, 2)
        brokers.b.produce(orders, [END])
        assert stop_when_finished(query.query, timeout_s=60)
        assert_rows(query.rows(), wanted)
        document = query.document()
    assert document is not None and document.over
    assert {c: dict(p.topics[orders].ended) for c, p in document.clusters.items()} == {"a": {0: 4}, "b": {0: 3}}
    assert {c: dict(p.topics[orders].next) for c, p in document.clusters.items()} == {"a": {0: 4}, "b": {0: 3}}

    # A further start ends at once
    with start_query(spark, options, path.parent, sink=query.sink or "collect") as again:
        assert stop_when_finished(again.query, timeout_s=60)
        assert_rows(again.rows(), wanted)


def test_a_registered_function_travels_with_the_source(
    *, spark: SparkSession, brokers: Brokers, orders: str, options: dict[str, object]
) -> None:
    wanted = produce_days(brokers, orders)
    word = END.encode()  # not in any module
    given = {name: str(value) for name, value in options.items() if name != "stateLocation"}

    def ends(record: Record) -> bool:
        return record.value == word

    register(spark, evaluators={"ends": ends})
    frame = spark.read.format("dynamic-kafka").options(**given).option("recordEvaluator", "ends").load()
    rows = frame.selectExpr("kafka_cluster", "offset").collect()
    assert sorted((row[0], row[1]) for row in rows) == sorted((row.cluster, row.offset) for row in wanted)
    with pytest.raises(Exception, match="it was given ends; did you mean 'ends'") as refused:
        spark.read.format("dynamic-kafka").options(**given).option("recordEvaluator", "end").load()
    assert isinstance(cause_of(refused.value), OptionError)
    register(spark)


@DEEP
def test_a_batch_read_ends_at_the_records_without_reports(
    *, spark: SparkSession, brokers: Brokers, orders: str, options: dict[str, object]
) -> None:
    wanted = produce_days(brokers, orders)
    register(spark)
    given = {name: str(value) for name, value in options.items()}
    frame = spark.read.format("dynamic-kafka").options(**given).load()
    rows = frame.selectExpr("kafka_cluster", "offset").collect()
    assert sorted((row[0], row[1]) for row in rows) == sorted((row.cluster, row.offset) for row in wanted)
    assert not Path(given["stateLocation"]).exists()


FAILURES: list[tuple[dict[str, str], str]] = [
    ({"recordEvaluator": f"{MODULE}:fails"}, r"recordEvaluator .*:fails fails for the record at offset 4 of a/.*\[0\]"),
    (
        {"recordEvaluator": f"{MODULE}:is_end_of_json", "recordDeserializer": f"{MODULE}:read_json"},
        r"recordDeserializer .*:read_json fails for the record at offset 0 of a/.*\[0\]: JSONDecodeError",
    ),
]


@DEEP
@pytest.mark.parametrize(("more", "text"), FAILURES, ids=["evaluator", "deserialiser"])
def test_an_error_of_the_users_code_fails_the_batch(
    *,
    spark: SparkSession,
    brokers: Brokers,
    orders: str,
    path: Path,
    options: dict[str, object],
    more: dict[str, str],
    text: str,
) -> None:
    produce("a", brokers.a, orders, 4)
    brokers.a.produce(orders, [END])
    with start_query(spark, {**options, **more}, path.parent) as query:
        shown = query.wait_failed()
        error = cause_of(query.query.exception())
    assert isinstance(error, RecordEvaluationError)
    assert re.search(text, str(error)), error
    assert "s3cret" not in shown
    assert not query.rows()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"recordEvaluator": "no.such:f"}, "no.such:f: the module cannot be imported"),
        ({"stateLocation": ""}, "'recordEvaluator' needs 'stateLocation'"),
        ({"recordEvaluator": "value = 'end'"}, "no SQL expression"),
    ],
)
def test_a_wrong_setting_fails_before_the_first_batch(
    *, spark: SparkSession, path: Path, options: dict[str, object], more: dict[str, str], why: str
) -> None:
    given = {name: value for name, value in {**options, **more}.items() if value}
    with pytest.raises(Exception, match=why) as refused:
        query = start_query(spark, given, path.parent)
        query.query.awaitTermination(60)
    assert isinstance(cause_of(refused.value), OptionError)
