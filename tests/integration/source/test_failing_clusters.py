"""Queries on clusters that hang, fail and return, at the start and while they run, under both failure policies.

SIGSTOP makes a cluster hang: connections stay open without an answer, the worst case for a planner. The tests pause and
resume `shaky`; tests that do more harm use a cluster of their own.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.driver import observer
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, ReadTimeoutError
from tests.integration.source.failing_clusters import PATIENT, reading, saved_amendments
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.ports import reserve_ports
from tests.support.source_run import read
from tests.support.streams import (
    Rows,
    cluster,
    produce,
    start_query,
    stream,
    write_metadata,
)

DEEP = pytest.mark.deep("each failure of a cluster")

# -- at the start ------------------------------------------------------------------------------------------------------


@DEEP
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
        assert re.search(rf"west has .* 127\.0\.0\.1:{nobody}\. Correct", message)
        assert (query.document(), query.rows()) == (None, Rows())


@pytest.mark.scenario(24)
def test_a_topic_that_does_not_exist_fails_the_start(brokers: Brokers, orders: str, topic: Topic, path: Path) -> None:
    absent = topic("absent")
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, absent])))
    produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        with pytest.raises(ClusterError) as refused:
            run.batch()

        message = f"[MISSING_SOURCE_TOPIC cluster=a] has no topic '{absent}': create it, or remove it from the stream"
        assert message in str(refused.value)
        assert (run.offsets, run.rows()) == ([], Rows())


@DEEP
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


@DEEP
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
        message = run.until_fails(ClusterUnreachableError)
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
        assert "cluster s is stalled" in caplog.text
        assert "cluster s answers again" in caplog.text


@DEEP
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
        assert "or set clusterFailurePolicy" not in str(failed.value) and "leaves its ranges out" in str(failed.value)
        run.until_rows(of_a)  # a restart in place, as the application does it
        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 0}}
        assert saved_amendments(path) == [([["s", orders, 0, 0, 6]], {"s": "unreachable"})]
        shaky.resume()
        run.until_rows(of_a + of_s)

        assert run.next == {("a", orders): {0: 5}, ("s", orders): {0: 6}}


@DEEP
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


@DEEP
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


@DEEP
def test_stall_rejects_bad_metadata_before_all_clusters_answer(
    brokers: Brokers, shaky: KafkaCluster, orders: str, path: Path
) -> None:
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


# -- restarted brokers -------------------------------------------------------------------------------------------------


@DEEP
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
