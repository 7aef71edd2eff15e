"""Renames of a cluster that metadata changes or reverts: its `cluster.id` is the same, and no record is read twice."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.driver import observer
from dynamic_kafka.errors import ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin
from tests.support.fixtures import Brokers
from tests.support.source_run import reading
from tests.support.streams import Rows, assert_rows, cluster, produce, renamed, stream, write_metadata

DEEP = pytest.mark.deep("each order of renames")


@DEEP
@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_a_rename_in_a_rejected_revision_reads_nothing_twice(
    brokers: Brokers, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    # Given a query that has read a cluster
    monkeypatch.setattr(observer, "GRACE_S", 0.3)
    quick, ask = threading.Event(), ClusterAdmin.kafka_id

    def ask_slowly(admin: ClusterAdmin, *how: Any) -> Any:
        if admin.cluster == "new":
            assert quick.wait(60)
        return ask(admin, *how)

    monkeypatch.setattr(ClusterAdmin, "kafka_id", ask_slowly)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path, clusterFailurePolicy=policy) as run:
        run.until_rows(wanted)
        try:
            # When a revision renames it, and adds a slow cluster that turns out to lack its topic
            new = cluster("new", brokers.c, ["not-created-yet"])
            write_metadata(path, stream("orders", cluster("eastern", brokers.a, [orders], renamedFrom="east"), new))
            run.until(lambda: ("eastern", orders) in run.next, "the rename")
        finally:
            quick.set()
        run.until(lambda: "rejected" in run.report(), "the rejection")
        while run.batch():
            pass

        # Then no record is read again
        assert run.rows().total() == wanted.total(), "records were read twice"


@DEEP
def test_a_reverted_rename_reads_nothing_twice(brokers: Brokers, orders: str, path: Path) -> None:
    # As with `git revert` of the rename
    before = stream("orders", cluster("east", brokers.a, [orders]))
    write_metadata(path, before)
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("eastern", brokers.a, [orders], renamedFrom="east")))
        run.until(lambda: ("eastern", orders) in run.next, "the rename")
        more = produce("eastern", brokers.a, orders, 2)
        run.until_rows(wanted + more)
        write_metadata(path, before)
        run.until(lambda: ("eastern", orders) not in run.next, "the revert of the rename")
        run.until_rows(wanted + more)


def test_two_renames_while_stopped_read_nothing_twice(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        run.stop()
        # When it is renamed to `eastern`, and then to `oriental`, before the next start
        write_metadata(path, stream("orders", cluster("oriental", brokers.a, [orders], renamedFrom="eastern")))
        more = renamed(produce("east", brokers.a, orders, 2), "oriental")
        run.until_rows(wanted + more)


@DEEP
def test_two_renames_under_a_pending_batch_repeat_it_whole(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.batch(crash="reading")
        # When it is renamed to `eastern`, and then to `oriental`, before the next start
        write_metadata(path, stream("orders", cluster("oriental", brokers.a, [orders], renamedFrom="eastern")))
        wanted += renamed(produce("east", brokers.a, orders, 2), "oriental")
        run.until_rows(wanted)  # rows of the pending batch keep the old id
        assert run.next == {("oriental", orders): {0: 7}}


@DEEP
def test_a_rename_that_is_retried_reads_nothing_twice(
    brokers: Brokers, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same, with a cluster that is slow each time: each retry makes a new client
    monkeypatch.setattr(observer, "GRACE_S", 0.3)
    monkeypatch.setattr(observer, "RECONSIDER_S", 1.0)
    ask, tries = ClusterAdmin.kafka_id, set()

    def ask_slowly(admin: ClusterAdmin, *how: Any) -> Any:
        if admin.cluster == "new":
            tries.add(admin)
            time.sleep(1)
        return ask(admin, *how)

    monkeypatch.setattr(ClusterAdmin, "kafka_id", ask_slowly)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        new = cluster("new", brokers.c, ["not-created-yet"])
        write_metadata(path, stream("orders", cluster("eastern", brokers.a, [orders], renamedFrom="east"), new))
        run.until(lambda: len(tries) >= 3, "the third try", timeout_s=90)
        assert run.rows().total() == wanted.total(), f"{run.rows().total() // wanted.total()} times each"


@DEEP
def test_new_servers_of_a_cluster_without_an_id_are_a_rename(brokers: Brokers, orders: str, path: Path) -> None:
    # In Flink's list form the id is optional; its default is the bootstrap servers
    def unnamed(servers: str) -> dict[str, Any]:
        return {"bootstrapServers": servers, "topics": [orders]}

    write_metadata(path, stream("orders", unnamed(brokers.a.bootstrap)))
    wanted = produce("", brokers.a, orders, 5)
    with reading(path) as run:
        run.until(lambda: run.rows().total() == 5, "five rows")
        # When a broker is added to the list, or its order changes
        port = brokers.a.bootstrap.rpartition(":")[2]
        write_metadata(path, stream("orders", unnamed(f"{brokers.a.bootstrap},localhost:{port}")))
        more = produce("", brokers.a, orders, 2)

        run.until(lambda: "localhost" in str(run.enumerator.observer.in_force().subscription), "the change")
        # Then the query reads on, since the `cluster.id` is the same
        run.until(lambda: run.rows().total() >= 7, "seven rows")
        while run.batch():
            pass
        rows = Rows(row._replace(cluster="") for row in run.rows().elements())
        assert_rows(rows, wanted + more)


@DEEP
@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_a_reverted_rename_to_wrong_servers_reads_nothing_twice(
    brokers: Brokers, orders: str, path: Path, policy: str
) -> None:
    before = stream("orders", cluster("east", brokers.a, [orders]))
    write_metadata(path, before)
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path, readTimeout="4s", clusterFailurePolicy=policy) as run:
        run.until_rows(wanted)
        # Given a rename with wrong servers: the query fails, or waits for them
        wrong = cluster("eastern", "127.0.0.1:1", [orders], renamedFrom="east")
        write_metadata(path, stream("orders", wrong))
        if policy == "fail":
            with pytest.raises(ClusterUnreachableError):
                run.until(lambda: False, "the query to end")
        else:
            run.until(lambda: "eastern" in run.report()["clusters"], "the rename")
        # When the user reverts it, and starts again
        write_metadata(path, before)
        run.restart()

        # Then the query resumes at its offsets
        run.until_rows(wanted + produce("east", brokers.a, orders, 1))
