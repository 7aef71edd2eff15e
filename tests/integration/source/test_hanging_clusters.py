"""Clusters that hang when a run ends by itself, or when they are removed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.driver import observer
from dynamic_kafka.errors import ClusterUnreachableError
from tests.integration.source.failing_clusters import reading, saved_amendments
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
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

pytestmark = pytest.mark.deep("clusters that hang at each moment")

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
        message = run.until_fails(ClusterUnreachableError)
        assert "[CLUSTER_UNREACHABLE cluster=s]" in message
        assert "Trigger.AvailableNow" in message and "is not complete" in message
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
