"""Clusters that hang, fail, come back, or have lost records: what a query does then, by its options.

A cluster hangs by SIGSTOP: connections stay open and nobody answers, the worst that a planner can meet. `shaky` is
paused and resumed again and again; what does more harm has a cluster of its own.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.driver import observer
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DataLossError, ReadTimeoutError
from tests.support import source_run
from tests.support.fixtures import Brokers, FreshCluster
from tests.support.kafka import KafkaCluster
from tests.support.ports import reserve_ports
from tests.support.source_run import SourceRun, read
from tests.support.streams import (
    Collected,
    Rows,
    assert_rows,
    cluster,
    next_offsets,
    parked_offsets,
    produce,
    start_query,
    stream,
    write_metadata,
)

Topic = Callable[[str], str]


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("shaky") as made:
        yield made.start().wait_ready()


@pytest.fixture
def shaky(own_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """A cluster to pause; it runs again after the test."""
    yield own_cluster
    own_cluster.resume()


PATIENT = {"kafka.socket.timeout.ms": 20_000, "readTimeout": "20s"}
"""Of a cluster that answers, however busy its machine is."""
SELDOM = PATIENT | {"partitionDiscoveryInterval": "1h"}
"""Nothing new is looked for, so that whatever is noticed is noticed by the plan that it matters to."""


@pytest.fixture
def orders(brokers: Brokers, shaky: KafkaCluster, topic: Topic) -> str:
    """A topic of one partition on `a` and on `shaky`."""
    name = topic("orders")
    for at in (brokers.a, shaky):
        at.create_topic(name)
    return name


def reading(path: Path, **options: object) -> AbstractContextManager[SourceRun]:
    """A query on the stream `orders` whose clients give up after two seconds."""
    return source_run.reading(path, **{"kafka.socket.timeout.ms": 2000, "readTimeout": "2s", **options})


def amendments(path: Path) -> list[tuple[Any, Any]]:
    files = sorted((path.parent / "state").glob("*/amendments/*.json"))
    return [(found["leftOut"], found["reasons"]) for found in (json.loads(file.read_text()) for file in files)]


def until_fails(run: SourceRun, kind: type[Exception]) -> str:
    """Run batches until one fails with this kind of error; returns its text."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            run.batch()
        except kind as error:
            run.stop()
            return str(error)
    raise AssertionError(f"no {kind.__name__} within a minute")


# -- at the start ------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(24)
@pytest.mark.scenario(25)
def test_a_cluster_that_does_not_exist_fails_the_query_by_name(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    [nobody] = reserve_ports(1)
    write_metadata(
        path, stream("orders", cluster("a", brokers.a, [orders]), cluster("west", f"127.0.0.1:{nobody}", [orders]))
    )
    produce("a", brokers.a, orders, 3)
    options = {"streamIds": "orders", "metadataPath": path, "kafka.socket.timeout.ms": 2000}
    with start_query(spark, options, tmp_path) as query:
        said = query.wait_failed()

        assert "[CLUSTER_UNREACHABLE cluster=west]" in said
        assert f"west has the bootstrap servers 127.0.0.1:{nobody}. Correct a wrong address, or bring" in said
        assert (query.document(), query.rows()) == (None, Rows())


@pytest.mark.scenario(24)
def test_a_topic_that_does_not_exist_fails_the_query_at_the_start(
    brokers: Brokers, orders: str, topic: Topic, path: Path
) -> None:
    absent = topic("absent")
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, absent])))
    produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        with pytest.raises(ClusterError) as refused:
            run.batch()

        said = f"[CLUSTER_ERROR cluster=a] has no topic '{absent}': create it, or remove it from the stream"
        assert said in str(refused.value)
        assert (run.offsets, run.rows()) == ([], Rows())


def test_under_stall_a_cluster_that_is_away_at_the_start_is_waited_for_and_read_from_its_beginning(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    shaky.pause()
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(of_a)
        assert run.next == {("a", orders): {0: 5}}
        run.until(lambda: "waiting" in run.report(), "the report of who is waited for")
        assert "CLUSTER_UNREACHABLE cluster=s" in run.report()["waiting"]["s"]
        shaky.resume()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}
        assert "waiting" not in run.report()


def test_under_stall_a_cluster_that_leaves_metadata_is_waited_for_no_more(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a, cluster("s", shaky, [orders])))
    of_a = produce("a", brokers.a, orders, 5)
    shaky.pause()
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(of_a)
        run.until(lambda: "waiting" in run.report(), "the report of who is waited for")
        write_metadata(path, stream("orders", a))
        run.until(lambda: "waiting" not in run.report(), "the end of the waiting")


# -- while running -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario(25)
def test_under_fail_a_cluster_that_hangs_fails_the_query_by_name_and_a_restart_is_exact(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    with reading(path) as run:
        run.until_rows(wanted)
        shaky.pause()
        said = until_fails(run, ClusterUnreachableError)
        assert "[CLUSTER_UNREACHABLE cluster=s]" in said
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}
        shaky.resume()
        wanted += produce("a", brokers.a, orders, 2) + produce("s", shaky, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 7}, ("s", orders): {0: 8}}


def test_under_stall_a_cluster_that_hangs_stays_where_it_is_and_the_others_are_read(
    brokers: Brokers,
    shaky: KafkaCluster,
    orders: str,
    path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(wanted)
        waiting = produce("s", shaky, orders, 3)
        shaky.pause()
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
        run.until(lambda: "stalled" in run.report()["clusters"]["s"], "the report of the stall")
        assert "CLUSTER_UNREACHABLE cluster=s" in run.report()["clusters"]["s"]["stalled"]
        assert run.next == {("a", orders): {0: 7}, ("s", orders): {0: 6}}
        # Once it is known to hang, it holds up no plan any more.
        monkeypatch.setattr(observer, "GRACE_S", 60.0)
        begun = time.monotonic()
        wanted += produce("a", brokers.a, orders, 1)
        run.batch()
        assert time.monotonic() - begun < 30
        shaky.resume()
        run.until_rows(wanted + waiting)

        assert run.next == {("a", orders): {0: 8}, ("s", orders): {0: 9}}
        assert "stalled" not in run.report()["clusters"]["s"]
        assert "cluster s is stalled, the source reads the others" in caplog.text
        assert "cluster s answers again" in caplog.text


def test_a_range_in_flight_fails_after_the_read_timeout_and_under_stall_its_replay_leaves_it_out(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, clusterFailurePolicy="stall") as run:
        run.batch(crash="logged")
        run.restart()
        run.batch(crash="partitioned")  # the replay is planned while the cluster is well
        shaky.pause()
        [in_flight] = [task for task in run.tasks if task.part.split.cluster == "s"]
        begun = time.monotonic()
        with pytest.raises(ReadTimeoutError) as failed:
            list(read(in_flight))
        assert 1.5 < time.monotonic() - begun < 8
        assert "[READ_TIMEOUT cluster=s]" in str(failed.value) and "readTimeout (2 s)" in str(failed.value)
        assert "or set clusterFailurePolicy" not in str(failed.value) and "ranges out of the batch" in str(failed.value)
        run.until_rows(of_a)  # the restart in place, as the application does it
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 0}}
        assert amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "unreachable"})]
        shaky.resume()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


@pytest.mark.parametrize("how", ["pause", "kill"])
@pytest.mark.parametrize("when", ["before a record", "in the middle"])
def test_a_range_in_flight_waits_no_longer_than_the_read_timeout(
    fresh_cluster: FreshCluster, path: Path, when: str, how: str
) -> None:
    # Given a range of a cluster that hangs, or dies, while it is read
    broker = fresh_cluster("hangs")
    broker.create_topic("orders")
    broker.produce("orders", (b"x" * 900 for _ in range(60_000 if when == "in the middle" else 10)))
    write_metadata(path, stream("orders", cluster("s", broker, ["orders"])))
    with reading(path, readTimeout="6s", **{"kafka.queued.max.messages.kbytes": 2048}) as run:
        run.batch(crash="partitioned")
        [task] = run.tasks
        rows = read(task)
        if when == "in the middle":
            next(rows)
        else:  # the servers have just said who they are, to a task before
            list(rows)
            rows = read(task)
        getattr(broker, how)()

        # When no record has come for as long as `readTimeout`
        last = time.monotonic()
        with pytest.raises(ReadTimeoutError):
            for _ in rows:
                last = time.monotonic()

        # Then its batch fails
        assert time.monotonic() - last < 9


def test_under_fail_a_pending_batch_of_a_cluster_that_hangs_is_not_left_out(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    with reading(path) as run:
        run.batch(crash="logged")
        shaky.pause()
        with pytest.raises(ClusterUnreachableError, match="cluster=s"):
            run.batch()
        assert (run.rows(), amendments(path)) == (Rows(), [])
        shaky.resume()
        run.restart()
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_under_stall_bad_metadata_is_rejected_also_while_a_cluster_was_never_seen(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    brokers.b.create_topic(orders)
    s = cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), s))
    wanted, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    shaky.pause()
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.b, [orders]), s))  # another cluster's servers
        run.until(lambda: "rejected" in run.report(), "the rejection to be reported")
        assert brokers.b.kafka_id in run.report()["rejected"]
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
        shaky.resume()
        run.until_rows(wanted + of_s)

        assert run.next == {("a", orders): {0: 7}, ("s", orders): {0: 6}}


# -- runs that end by themselves ---------------------------------------------------------------------------------------

STALL: dict[str, object] = {"clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 1000}


@pytest.mark.parametrize("by", ["option", "metadata"])
def test_a_bounded_run_waits_for_a_cluster_that_hangs_while_its_last_batch_is_pending(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, *, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a bounded run that crashed with all there is to read in one batch
    stop: dict[str, Any] = {"stoppingOffsets": "latest"} if by == "metadata" else {}
    ending: dict[str, Any] = {} if by == "metadata" else {"endingOffsets": "latest"}
    a, s = cluster("a", brokers.a, [orders], **stop), cluster("s", shaky, [orders], **stop)
    write_metadata(path, stream("orders", a, s))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, **STALL, **ending) as run:
        run.batch(crash="logged")

        # When a cluster of it hangs
        shaky.pause()
        run.until_rows(of_a)
        run.until(lambda: "the bounded run waits for s" in caplog.text, "the word on who is waited for")

        # Then the others are read, and the run is not over, however often it is restarted
        assert amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "unreachable"})]
        for _ in range(2):
            assert not run.batch()
            assert "finished" not in run.report()
            run.restart()
        shaky.resume()
        produce("s", shaky, orders, 3)
        run.until_rows(of_a + of_s)

        assert run.report()["finished"] is True
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


@pytest.mark.parametrize("pending", [True, False], ids=["a batch is pending", "nothing is pending"])
def test_under_stall_an_available_now_run_does_not_end_without_a_cluster_that_hangs(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, pending: bool
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, **STALL) as run:
        if pending:
            run.batch(crash="logged")
        shaky.pause()
        run.restart()
        run.enumerator.prepare_available_now()
        said = until_fails(run, ClusterUnreachableError)
        assert "[CLUSTER_UNREACHABLE cluster=s]" in said
        assert "without this one the run of Trigger.AvailableNow is not complete" in said
        assert_rows(run.rows(), of_a)
        shaky.resume()  # and the application restarts the query
        run.enumerator.prepare_available_now()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_a_cluster_that_comes_back_in_an_available_now_run_is_read_to_the_end_it_had_then(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, **STALL, maxOffsetsPerTrigger=2) as run:
        shaky.pause()
        run.enumerator.prepare_available_now()
        assert run.batch()
        shaky.resume()
        run.until(lambda: ("s", orders) in run.next, "the other cluster's first plan")
        produce("s", shaky, orders, 2)
        run.until_rows(of_a + of_s)


def test_an_available_now_run_waits_for_a_cluster_that_is_only_slow(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run under `fail` that has read some of both
    monkeypatch.setattr(observer, "GRACE_S", 0.2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 1) + produce("s", shaky, orders, 6)
    with reading(path, maxOffsetsPerTrigger=4, **{"kafka.socket.timeout.ms": 30_000}) as run:
        run.enumerator.prepare_available_now()
        assert run.batch()

        # When a cluster takes longer than a plan usually waits
        shaky.pause()
        waiting = threading.Timer(1, shaky.resume)
        waiting.start()

        # Then that plan is not the last one
        assert run.batch()
        run.until_rows(wanted)
        waiting.join()


@pytest.mark.parametrize("ending", [{"endingOffsets": "latest"}, {"startingOffsets": "latest"}], ids=["end", "start"])
def test_an_available_now_run_s_first_plan_misses_nobody_either(
    brokers: Brokers,
    shaky: KafkaCluster,
    orders: str,
    path: Path,
    *,
    ending: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given that fixing the ends of the run has not waited for the one that hangs
    monkeypatch.setattr(observer, "FIRST_GRACE_S", 0.2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    produce("a", brokers.a, orders, 5)
    shaky.pause()
    with reading(path, **STALL, **ending) as run:
        run.enumerator.prepare_available_now()
        with pytest.raises(ClusterUnreachableError, match="cluster=s"):
            run.batch()
        assert run.offsets == []


# -- removed while it hangs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_the_removal_of_a_cluster_that_hangs_takes_effect_at_the_next_plan(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, policy: str, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    # Its clients would wait for a minute.
    with reading(path, clusterFailurePolicy=policy, **{"kafka.socket.timeout.ms": 60_000}) as run:
        run.until_rows(wanted)
        shaky.pause()
        wanted += produce("a", brokers.a, orders, 1)
        run.until(lambda: run.rows() == wanted, "a plan that it holds up, but does not stop")
        monkeypatch.setattr(observer, "GRACE_S", 60.0)
        write_metadata(path, stream("orders", a))
        begun = time.monotonic()
        run.until(lambda: bool(run.parked), "it to be parked")
        wanted += produce("a", brokers.a, orders, 1)
        run.until_rows(wanted)
        assert time.monotonic() - begun < 30

        assert (run.next, run.parked) == ({("a", orders): {0: 7}}, {("s", orders): {0: 6}})
        assert run.report()["clusters"].keys() == {"a"}


def test_the_removal_of_a_cluster_that_hangs_with_a_range_in_flight_takes_effect_after_the_read_timeout(
    spark: SparkSession, brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    options = {
        "streamIds": "orders",
        "metadataPath": path,
        "startingOffsets": "earliest",
        "stateLocation": path.parent / "state",
        "readTimeout": "2s",
        "maxRecordsPerPartition": 1,
    }

    class Pausing(Collected):
        """Pauses the cluster once the batch is planned and before it is read: its reading begins in here."""

        def __call__(self, frame: Any, batch: int) -> None:
            shaky.pause()
            super().__call__(frame, batch)

    with start_query(spark, options, path.parent, sink=Pausing()) as query:
        assert "[READ_TIMEOUT cluster=s]" in query.wait_failed()
        assert query.rows() == Rows()
    write_metadata(path, stream("orders", a))
    sink = Collected()
    with start_query(spark, options, path.parent, sink=sink) as query:
        query.wait_rows(of_a)
        query.wait_document(lambda found: bool(parked_offsets(found)), "it to be parked")
        assert amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "removed"})]
        shaky.resume()
        write_metadata(path, stream("orders", a, s))
        query.wait_rows(of_a + of_s)

        assert next_offsets(query.document()) == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_an_available_now_run_after_a_cluster_was_removed_ends_by_itself(
    spark: SparkSession, brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest"}
    sink, once = Collected(), {"availableNow": True}
    start_query(spark, options, path.parent, sink=sink, trigger=once).query.awaitTermination(120)
    assert_rows(sink.rows(), wanted)

    shaky.pause()
    write_metadata(path, stream("orders", a))
    wanted += produce("a", brokers.a, orders, 2)
    again = start_query(spark, options, path.parent, sink=sink, trigger=once)

    assert again.query.awaitTermination(120)
    assert again.error() == ""
    assert_rows(sink.rows(), wanted)
    assert next_offsets(again.document()) == {("a", orders): {0: 7}}
    assert parked_offsets(again.document()) == {("s", orders): {0: 6}}


# -- restarted brokers -------------------------------------------------------------------------------------------------


def test_a_broker_that_is_killed_and_started_again_is_read_on(
    fresh_cluster: FreshCluster, topic: Topic, path: Path
) -> None:
    at = fresh_cluster("restarted")
    orders = at.create_topic(topic("orders"))
    write_metadata(path, stream("orders", cluster("r", at, [orders])))
    wanted = produce("r", at, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        at.kill()
        at.restart()
        wanted += produce("r", at, orders, 4)
        run.until_rows(wanted)

        assert run.next == {("r", orders): {0: 9}}
        assert run.report()["clusters"]["r"]["lag"] == 0


# -- records that are gone ---------------------------------------------------------------------------------------------


def expired(brokers: Brokers, orders: str) -> Rows:
    """Six more records, of which the first four have expired; returns the two that are left."""
    found = produce("a", brokers.a, orders, 6)
    first = min(row.offset for row in found)
    brokers.a.delete_records(orders, 0, first + 4)
    return Rows({row: 1 for row in found if row.offset >= first + 4})


def test_expired_offsets_fail_a_restart_with_the_reason(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        run.stop()
        wanted += expired(brokers, orders)
        with pytest.raises(DataLossError) as lost:
            run.batch()
        assert f"data loss: a/{orders}[0]: offsets 5..9 have expired" in str(lost.value)
        assert "failOnDataLoss=false" in str(lost.value)
        assert run.next == {("a", orders): {0: 5}}
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}}
        assert any(
            note.kind == "data-loss" and "5..9 have expired" in note.text for note in run.enumerator.status.notes
        )


def test_offsets_that_expire_before_they_are_read_fail_the_batch_with_the_reason(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        wanted += expired(brokers, orders)
        with pytest.raises(DataLossError) as lost:
            run.batch()
        assert f"data loss: cannot read a/{orders}[0] 5..11 from offset 5" in str(lost.value)
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}}
        assert f"data loss accepted: a/{orders}[0] 5..11: reading continues at 9: " in caplog.text


def test_offsets_that_expire_while_their_cluster_is_parked_are_noticed_when_it_returns(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", s))
        run.until(lambda: bool(run.parked), "a to be parked")
        wanted += expired(brokers, orders)
        write_metadata(path, stream("orders", a, s))
        said = until_fails(run, DataLossError)
        assert f"a/{orders}[0]" in said and "failOnDataLoss=false" in said
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}, ("s", orders): {0: 0}}


def test_a_topic_created_anew_with_fewer_partitions_fails_the_query_and_can_be_accepted(
    brokers: Brokers, topic: Topic, path: Path
) -> None:
    orders = brokers.a.create_topic(topic("orders"), 2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("a", brokers.a, orders, 4, partition=1)
    with reading(path, **SELDOM) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders, 1)
        wanted += produce("a", brokers.a, orders, 5, prefix="again")
        said = until_fails(run, DataLossError)
        assert re.search(rf"a/{orders}\[1\]: the topic was re-created \(.*\): the partition exists no more", said)
        assert run.next == {("a", orders): {0: 5, 1: 4}}
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}
        assert any("the partition exists no more" in note.text for note in run.enumerator.status.notes)


@pytest.mark.parametrize("count", [4, 12], ids=["shorter", "longer"])
def test_a_topic_created_anew_fails_the_query_and_once_accepted_is_read_from_its_first_record(
    brokers: Brokers, orders: str, path: Path, count: int
) -> None:
    # Given a query that has read nine records of a topic that is another one by now, shorter than that or longer
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 9)
    with reading(path, **SELDOM) as run:
        run.until_rows(wanted)
        old = brokers.a.topic_id(orders)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted += produce("a", brokers.a, orders, count, prefix="again")

        # Then it refuses, again and again, and reads nothing at the old offset
        for _ in range(2):
            said = until_fails(run, DataLossError)
            now = brokers.a.topic_id(orders)
            assert f"a/{orders}[0]: the topic was re-created (id {old}, now {now}): offset 9 belongs to the" in said
        assert (run.next, run.rows().total()) == ({("a", orders): {0: 9}}, 9)

        # And with losses accepted nothing of the new topic is missing, and nothing comes twice
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)
        assert run.next == {("a", orders): {0: count}}
        assert any(note.kind == "data-loss" for note in run.enumerator.status.notes)


def test_a_running_query_asks_where_a_topic_created_anew_begins(brokers: Brokers, orders: str, path: Path) -> None:
    # Given one that goes on behind losses, and a new topic whose first records have expired already
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 9)
    with reading(path, failOnDataLoss="false", **SELDOM) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        new = produce("a", brokers.a, orders, 12, prefix="again")
        brokers.a.delete_records(orders, 0, 5)

        run.until_rows(wanted + Rows({row: 1 for row in new if row.offset >= 5}))

        [told] = [note.text for note in run.enumerator.status.notes if note.kind == "data-loss"]
        assert "offset 9 belongs to the old one" in told and run.next == {("a", orders): {0: 12}}


def test_a_topic_that_is_deleted_fails_the_query_by_name(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        said = until_fails(run, Exception)

        assert orders in said and ("the topic exists no more" in said or "cluster=a" in said)
        assert run.next == {("a", orders): {0: 5}}
        assert_rows(run.rows(), wanted)
