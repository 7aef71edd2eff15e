"""Queries on clusters that hang, fail, return, or have lost records, under both failure policies.

SIGSTOP makes a cluster hang: connections stay open without an answer, the worst case for a planner. `shaky` is paused
and resumed again and again; tests that do more harm use a cluster of their own.
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
    """Yield a cluster that a test may pause; it runs again after the test."""
    yield own_cluster
    own_cluster.resume()


PATIENT = {"kafka.socket.timeout.ms": 20_000, "readTimeout": "20s"}
"""Options for a cluster that does answer, on a busy machine."""
SELDOM = PATIENT | {"partitionDiscoveryInterval": "1h"}
"""Options without periodic discovery: only a plan itself can notice a change."""


@pytest.fixture
def orders(brokers: Brokers, shaky: KafkaCluster, topic: Topic) -> str:
    """Create a topic of one partition on `a` and on `shaky`."""
    name = topic("orders")
    for at in (brokers.a, shaky):
        at.create_topic(name)
    return name


def reading(path: Path, **options: object) -> AbstractContextManager[SourceRun]:
    """Return a query on the stream `orders` whose clients give up after two seconds."""
    return source_run.reading(path, **{"kafka.socket.timeout.ms": 2000, "readTimeout": "2s", **options})


def saved_amendments(path: Path) -> list[tuple[Any, Any]]:
    files = sorted((path.parent / "state").glob("*/amendments/*.json"))
    return [(found["leftOut"], found["reasons"]) for found in (json.loads(file.read_text()) for file in files)]


def until_fails(run: SourceRun, kind: type[Exception]) -> str:
    """Run batches until one fails with this kind of error; return its text."""
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
def test_a_cluster_that_does_not_exist_fails_the_query(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    [nobody] = reserve_ports(1)
    write_metadata(
        path, stream("orders", cluster("a", brokers.a, [orders]), cluster("west", f"127.0.0.1:{nobody}", [orders]))
    )
    produce("a", brokers.a, orders, 3)
    options = {"streamIds": "orders", "metadataPath": path, "kafka.socket.timeout.ms": 2000}
    with start_query(spark, options, tmp_path) as query:
        message = query.wait_failed()

        assert "[CLUSTER_UNREACHABLE cluster=west]" in message
        assert f"west has the bootstrap servers 127.0.0.1:{nobody}. Correct a wrong address, or bring" in message
        assert (query.document(), query.rows()) == (None, Rows())


@pytest.mark.scenario(24)
def test_a_topic_that_does_not_exist_fails_the_start(brokers: Brokers, orders: str, topic: Topic, path: Path) -> None:
    absent = topic("absent")
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, absent])))
    produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        with pytest.raises(ClusterError) as refused:
            run.batch()

        message = f"[CLUSTER_ERROR cluster=a] has no topic '{absent}': create it, or remove it from the stream"
        assert message in str(refused.value)
        assert (run.offsets, run.rows()) == ([], Rows())


def test_stall_reads_a_cluster_absent_at_the_start_from_earliest(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    shaky.pause()
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(of_a)
        assert run.next == {("a", orders): {0: 5}}
        run.until(lambda: "waiting" in run.report(), "the report of the awaited clusters")
        assert "CLUSTER_UNREACHABLE cluster=s" in run.report()["waiting"]["s"]
        shaky.resume()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}
        assert "waiting" not in run.report()


def test_stall_does_not_wait_for_a_removed_cluster(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a, cluster("s", shaky, [orders])))
    of_a = produce("a", brokers.a, orders, 5)
    shaky.pause()
    with reading(path, clusterFailurePolicy="stall") as run:
        run.until_rows(of_a)
        run.until(lambda: "waiting" in run.report(), "the report of the awaited clusters")
        write_metadata(path, stream("orders", a))
        run.until(lambda: "waiting" not in run.report(), "an empty report of the awaited clusters")


# -- while running -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario(25)
def test_fail_ends_the_query_and_a_restart_is_exact(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    with reading(path) as run:
        run.until_rows(wanted)
        shaky.pause()
        message = until_fails(run, ClusterUnreachableError)
        assert "[CLUSTER_UNREACHABLE cluster=s]" in message
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}
        shaky.resume()
        wanted += produce("a", brokers.a, orders, 2) + produce("s", shaky, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 7}, ("s", orders): {0: 8}}


def test_stall_reads_the_other_clusters_while_one_hangs(
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
        # Once the cluster has failed to answer, later plans do not wait for it.
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


def test_stall_leaves_a_timed_out_range_out_of_the_replay(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, clusterFailurePolicy="stall") as run:
        run.batch(crash="logged")
        run.restart()
        run.batch(crash="partitioned")  # the cluster still answers while the replay is planned
        shaky.pause()
        [in_flight] = [task for task in run.tasks if task.part.split.cluster == "s"]
        begun = time.monotonic()
        with pytest.raises(ReadTimeoutError) as failed:
            list(read(in_flight))
        assert 1.5 < time.monotonic() - begun < 8
        assert "[READ_TIMEOUT cluster=s]" in str(failed.value) and "readTimeout (2 s)" in str(failed.value)
        assert "or set clusterFailurePolicy" not in str(failed.value) and "ranges out of the batch" in str(failed.value)
        run.until_rows(of_a)  # a restart in place, as the application does it
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 0}}
        assert saved_amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "unreachable"})]
        shaky.resume()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


@pytest.mark.parametrize("how", ["pause", "kill"])
@pytest.mark.parametrize("when", ["before a record", "in the middle"])
def test_a_range_waits_no_longer_than_the_read_timeout(
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
        else:  # a task before has just checked the cluster's identity
            list(rows)
            rows = read(task)
        getattr(broker, how)()

        # When no record arrives for `readTimeout`
        last = time.monotonic()
        with pytest.raises(ReadTimeoutError):
            for _ in rows:
                last = time.monotonic()

        # Then its batch fails
        assert time.monotonic() - last < 9


def test_fail_does_not_leave_out_a_range_of_a_hanging_cluster(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    with reading(path) as run:
        run.batch(crash="logged")
        shaky.pause()
        with pytest.raises(ClusterUnreachableError, match="cluster=s"):
            run.batch()
        assert (run.rows(), saved_amendments(path)) == (Rows(), [])
        shaky.resume()
        run.restart()
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_stall_rejects_bad_metadata_before_all_clusters_answer(
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
def test_a_bounded_run_waits_for_a_cluster_of_its_last_batch(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, *, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a bounded run that crashed with everything to read in one batch
    stop: dict[str, Any] = {"stoppingOffsets": "latest"} if by == "metadata" else {}
    ending: dict[str, Any] = {} if by == "metadata" else {"endingOffsets": "latest"}
    a, s = cluster("a", brokers.a, [orders], **stop), cluster("s", shaky, [orders], **stop)
    write_metadata(path, stream("orders", a, s))
    of_a, of_s = produce("a", brokers.a, orders, 5), produce("s", shaky, orders, 6)
    with reading(path, **STALL, **ending) as run:
        run.batch(crash="logged")

        # When one of its clusters hangs
        shaky.pause()
        run.until_rows(of_a)
        run.until(lambda: "the bounded run waits for s" in caplog.text, "the report of the awaited clusters")

        # Then the others are read, but the run does not end, even after restarts
        assert saved_amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "unreachable"})]
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
def test_stall_does_not_end_available_now_while_a_cluster_hangs(
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
        message = until_fails(run, ClusterUnreachableError)
        assert "[CLUSTER_UNREACHABLE cluster=s]" in message
        assert "Trigger.AvailableNow has read the other clusters, but is not complete" in message
        assert_rows(run.rows(), of_a)
        shaky.resume()  # and the application restarts the query
        run.enumerator.prepare_available_now()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_available_now_sets_a_late_clusters_target_at_its_return(
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


def test_available_now_waits_for_a_slow_cluster(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run under `fail` that has read some records of both clusters
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
def test_available_nows_first_plan_waits_for_a_slow_cluster(
    brokers: Brokers,
    shaky: KafkaCluster,
    orders: str,
    path: Path,
    *,
    ending: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a run whose targets were set without waiting for the cluster that hangs
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
def test_a_removed_hanging_cluster_leaves_with_the_next_plan(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path, policy: str, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    wanted = produce("a", brokers.a, orders, 5) + produce("s", shaky, orders, 6)
    # Without the removal, its clients would wait for a minute.
    with reading(path, clusterFailurePolicy=policy, **{"kafka.socket.timeout.ms": 60_000}) as run:
        run.until_rows(wanted)
        shaky.pause()
        wanted += produce("a", brokers.a, orders, 1)
        run.until(lambda: run.rows() == wanted, "a plan that waits for the cluster")
        monkeypatch.setattr(observer, "GRACE_S", 60.0)
        write_metadata(path, stream("orders", a))
        begun = time.monotonic()
        run.until(lambda: bool(run.parked), "the cluster to be parked")
        wanted += produce("a", brokers.a, orders, 1)
        run.until_rows(wanted)
        assert time.monotonic() - begun < 30

        assert (run.next, run.parked) == ({("a", orders): {0: 7}}, {("s", orders): {0: 6}})
        assert run.report()["clusters"].keys() == {"a"}


def test_a_cluster_removed_while_read_leaves_after_the_timeout(
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
        """A sink that pauses the cluster after the plan and before the read, which starts inside the sink."""

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
        query.wait_document(lambda found: bool(parked_offsets(found)), "the cluster to be parked")
        assert saved_amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "removed"})]
        shaky.resume()
        write_metadata(path, stream("orders", a, s))
        query.wait_rows(of_a + of_s)

        assert next_offsets(query.document()) == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


def test_available_now_ends_after_a_cluster_was_removed(
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


def test_a_broker_that_was_killed_and_restarted_is_read_on(
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


def produce_and_expire(brokers: Brokers, orders: str) -> Rows:
    """Produce six more records, expire the first four, and return the other two."""
    found = produce("a", brokers.a, orders, 6)
    first = min(row.offset for row in found)
    brokers.a.delete_records(orders, 0, first + 4)
    return Rows({row: 1 for row in found if row.offset >= first + 4})


def test_expired_offsets_fail_a_restart(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        run.stop()
        wanted += produce_and_expire(brokers, orders)
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


def test_offsets_that_expire_before_their_batch_fail_it(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        wanted += produce_and_expire(brokers, orders)
        with pytest.raises(DataLossError) as lost:
            run.batch()
        assert f"data loss: cannot read a/{orders}[0] 5..11 from offset 5" in str(lost.value)
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}}
        assert f"data loss accepted: a/{orders}[0] 5..11: reading continues at 9: " in caplog.text


def test_offsets_that_expired_while_parked_fail_the_return(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
    a, s = cluster("a", brokers.a, [orders]), cluster("s", shaky, [orders])
    write_metadata(path, stream("orders", a, s))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", s))
        run.until(lambda: bool(run.parked), "a to be parked")
        wanted += produce_and_expire(brokers, orders)
        write_metadata(path, stream("orders", a, s))
        message = until_fails(run, DataLossError)
        assert f"a/{orders}[0]" in message and "failOnDataLoss=false" in message
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}, ("s", orders): {0: 0}}


def test_a_topic_re_created_with_fewer_partitions_is_data_loss(brokers: Brokers, topic: Topic, path: Path) -> None:
    orders = brokers.a.create_topic(topic("orders"), 2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("a", brokers.a, orders, 4, partition=1)
    with reading(path, **SELDOM) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders, 1)
        wanted += produce("a", brokers.a, orders, 5, prefix="again")
        message = until_fails(run, DataLossError)
        assert re.search(rf"a/{orders}\[1\]: the topic was re-created \(.*\): the partition no longer exists", message)
        assert run.next == {("a", orders): {0: 5, 1: 4}}
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}
        assert any("the partition no longer exists" in note.text for note in run.enumerator.status.notes)


@pytest.mark.parametrize("count", [4, 12], ids=["shorter", "longer"])
def test_a_re_created_topic_is_read_from_its_start_once_accepted(
    brokers: Brokers, orders: str, path: Path, count: int
) -> None:
    # Given a query that has read nine records of a topic that was then re-created, with fewer records or more
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 9)
    with reading(path, **SELDOM) as run:
        run.until_rows(wanted)
        old = brokers.a.topic_id(orders)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted += produce("a", brokers.a, orders, count, prefix="again")

        # Then the query fails again and again, and reads nothing at the old offset
        for _ in range(2):
            message = until_fails(run, DataLossError)
            now = brokers.a.topic_id(orders)
            assert f"a/{orders}[0]: the topic was re-created (id {old}, now {now}): offset 9 belongs to the" in message
        assert (run.next, run.rows().total()) == ({("a", orders): {0: 9}}, 9)

        # And once the loss is accepted, every record of the new topic is read exactly once
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)
        assert run.next == {("a", orders): {0: count}}
        assert any(note.kind == "data-loss" for note in run.enumerator.status.notes)


def test_a_running_query_finds_the_start_of_a_re_created_topic(brokers: Brokers, orders: str, path: Path) -> None:
    # Given a query that accepts losses, and a re-created topic whose first records have expired already
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 9)
    with reading(path, failOnDataLoss="false", **SELDOM) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        new = produce("a", brokers.a, orders, 12, prefix="again")
        brokers.a.delete_records(orders, 0, 5)

        run.until_rows(wanted + Rows({row: 1 for row in new if row.offset >= 5}))

        [message] = [note.text for note in run.enumerator.status.notes if note.kind == "data-loss"]
        assert "offset 9 belongs to the old one" in message and run.next == {("a", orders): {0: 12}}


def test_a_deleted_topic_fails_the_query(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        message = until_fails(run, Exception)

        assert orders in message and ("the topic no longer exists" in message or "cluster=a" in message)
        assert run.next == {("a", orders): {0: 5}}
        assert_rows(run.rows(), wanted)
