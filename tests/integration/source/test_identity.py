"""A cluster id belongs to one physical Kafka cluster: its offsets are never used for another one by accident.

Tests change the servers in the metadata, or wipe a cluster at its servers. Kafka's `cluster.id` reveals both.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import IdentityError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.state.store import StateLocation
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.ports import reserve_ports
from tests.support.source_run import CrashPoint, read, reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

DEEP = pytest.mark.deep("each case of another cluster")

# -- at the start ------------------------------------------------------------------------------------------------------


def test_another_cluster_is_refused_at_the_start(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        run.stop()
        produce("east", brokers.b, orders, 9)
        write_metadata(path, stream("orders", cluster("east", brokers.b, [orders])))
        with pytest.raises(IdentityError) as refused:
            run.batch()

        message = str(refused.value)
        assert re.search(r"cluster 'east' .*saved.*cluster\.id", message) and "accept" in message
        assert brokers.a.kafka_id in message and brokers.b.kafka_id in message
        assert_rows(run.rows(), wanted)
        assert run.next == {("east", orders): {0: 5}}


@DEEP
@pytest.mark.parametrize("exchanged", ["east", "west"])
def test_another_cluster_is_refused_before_a_replay(brokers: Brokers, orders: str, path: Path, exchanged: str) -> None:
    east, west = cluster("east", brokers.a, [orders]), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", east, west))
    wanted = produce("east", brokers.a, orders, 5) + produce("west", brokers.b, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        wanted += produce("east", brokers.a, orders, 2)  # the pending batch has one cluster only
        run.batch(crash="logged")
        wrong = {"east": east, "west": west} | {exchanged: cluster(exchanged, brokers.c, [orders])}
        write_metadata(path, stream("orders", *wrong.values()))
        with pytest.raises(IdentityError, match=f"cluster '{exchanged}'"):
            run.batch()
        assert run.rows().total() == 10
        assert run.next == {("east", orders): {0: 7}, ("west", orders): {0: 5}}
        write_metadata(path, stream("orders", east, west))
        run.restart()
        run.until_rows(wanted)


@DEEP
def test_two_ids_of_one_cluster_are_refused(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("alias", brokers.a, [orders])))
    produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        with pytest.raises(IdentityError) as refused:
            run.batch()

        message = f"clusters 'alias' and 'east' are one and the same Kafka cluster ({brokers.a.kafka_id})"
        assert message in str(refused.value) and "renamedFrom" in str(refused.value)
        assert (run.offsets, run.rows()) == ([], Rows())


# -- while running -----------------------------------------------------------------------------------------------------


@DEEP
def test_a_revision_with_another_cluster_is_rejected_as_a_whole(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    east, added = cluster("east", brokers.a, [orders]), cluster("new", brokers.c, [orders])
    write_metadata(path, stream("orders", east))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        of_new = produce("new", brokers.c, orders, 3)
        write_metadata(path, stream("orders", cluster("east", brokers.b, [orders]), added))
        run.until(lambda: "rejected" in run.report(), "the rejection to be reported")
        assert brokers.b.kafka_id in run.report()["rejected"]
        assert re.search(r"rejected: cluster 'east' .*saved.*cluster\.id", caplog.text)
        wanted += produce("east", brokers.a, orders, 4)
        run.until_rows(wanted)  # only of the last good revision, not of the rejected one
        assert run.next == {("east", orders): {0: 9}}
        write_metadata(path, stream("orders", east, added))
        run.until_rows(wanted + of_new)

        assert run.next == {("east", orders): {0: 9}, ("new", orders): {0: 3}}
        assert "rejected" not in run.report()
    lines = [line for line in caplog.text.splitlines() if "is in force" in line]
    assert [line.partition("clusters: ")[2] for line in lines] == ["east", "east, new"]


@DEEP
def test_an_alias_added_while_running_is_rejected(brokers: Brokers, orders: str, path: Path) -> None:
    east = cluster("east", brokers.a, [orders])
    write_metadata(path, stream("orders", east))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", east, cluster("alias", brokers.a, [orders])))
        run.until(lambda: "rejected" in run.report(), "the rejection to be reported")
        wanted += produce("east", brokers.a, orders, 4)
        run.until_rows(wanted)

        assert "one and the same Kafka cluster" in run.report()["rejected"]
        assert run.next == {("east", orders): {0: 9}}


@DEEP
def test_a_parked_cluster_that_returns_as_another_stays_parked(brokers: Brokers, orders: str, path: Path) -> None:
    east, west = cluster("east", brokers.a, [orders]), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", east, west))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", west))
        run.until(lambda: bool(run.parked), "east to be parked")
        produce("east", brokers.c, orders, 7)
        write_metadata(path, stream("orders", cluster("east", brokers.c, [orders]), west))
        run.until(lambda: "rejected" in run.report(), "the rejection to be reported")
        assert run.parked == {("east", orders): {0: 5}}
        wanted += produce("east", brokers.a, orders, 1)
        write_metadata(path, stream("orders", east, west))
        run.until_rows(wanted)

        assert run.next == {("east", orders): {0: 6}, ("west", orders): {0: 0}}


@DEEP
def test_an_alias_added_while_the_other_id_is_slow_is_rejected(
    brokers: Brokers, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster id with slow answers, so that plans do not include it
    east = cluster("east", brokers.a, [orders])
    write_metadata(path, stream("orders", east))
    wanted = produce("east", brokers.a, orders, 5)
    quick, ask = threading.Event(), ClusterAdmin.offsets

    def ask_slowly(admin: ClusterAdmin, queries: Any, **how: Any) -> Any:
        if admin.cluster == "east":
            assert quick.wait(60)
        return ask(admin, queries, **how)

    with reading(path) as run:
        run.until_rows(wanted)
        monkeypatch.setattr(ClusterAdmin, "offsets", ask_slowly)
        try:
            # When another id for the same cluster is added meanwhile
            write_metadata(path, stream("orders", east, cluster("west", brokers.a, [orders])))
            run.until(lambda: "rejected" in run.report(), "the rejection to be reported")
        finally:
            quick.set()
        wanted += produce("east", brokers.a, orders, 4)

        # Then nothing is read under it
        run.until_rows(wanted)
        assert "one and the same Kafka cluster" in run.report()["rejected"]
        assert run.next == {("east", orders): {0: 9}}


@DEEP
@pytest.mark.parametrize("interval", ["100ms", "10m"], ids=["described often", "described seldom"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_wiped_cluster_at_the_same_servers_ends_the_query(
    fresh_cluster: FreshCluster, topic: Topic, path: Path, interval: str, fail: str
) -> None:
    at = fresh_cluster("wiped")
    orders, before = at.create_topic(topic("orders")), at.kafka_id
    write_metadata(path, stream("orders", cluster("east", at, [orders])))
    wanted = produce("east", at, orders, 5)
    options = {"kafka.socket.timeout.ms": 20_000, "metadataDiscoveryInterval": interval, "failOnDataLoss": fail}
    with reading(path, **options) as run:
        run.until_rows(wanted)
        at.wipe()
        at.start().wait_ready()
        at.create_topic(orders)
        produce("east", at, orders, 9)
        with pytest.raises(IdentityError) as ended:
            run.until(lambda: False, "the query to end")

        assert before in str(ended.value) and at.kafka_id in str(ended.value)
        assert_rows(run.rows(), wanted)
        assert run.next == {("east", orders): {0: 5}}


def test_the_same_cluster_at_new_servers_is_read_on(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        [nobody] = reserve_ports(1)
        moved = f"127.0.0.1:{nobody},{brokers.a.bootstrap}"
        revision = run.report()["revision"]
        write_metadata(path, stream("orders", cluster("east", moved, [orders])))
        run.until(lambda: run.report()["revision"] != revision, "the new servers to be in force")
        wanted += produce("east", brokers.a, orders, 4)
        run.until_rows(wanted)

        assert {task.client.own["bootstrap.servers"] for task in run.tasks} == {moved}
        assert run.next == {("east", orders): {0: 9}}
        assert "rejected" not in run.report()


# -- executors, and people ---------------------------------------------------------------------------------------------


@DEEP
def test_an_executor_that_reaches_another_cluster_reads_nothing(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    produce("east", brokers.b, orders, 5)
    with reading(path) as run:
        run.batch(crash="partitioned")
        [task] = run.tasks
        # On the executor, the same names resolve to another cluster.
        elsewhere = replace(task, client=replace(task.client, own={"bootstrap.servers": brokers.b.bootstrap}))
        rows = read(elsewhere)
        with pytest.raises(IdentityError) as refused:
            next(rows)

        message = str(refused.value)
        assert f"is Kafka cluster {brokers.a.kafka_id}" in message and brokers.b.kafka_id in message
        run.until_rows(wanted)
        assert run.next == {("east", orders): {0: 5}}


@DEEP
def test_an_accepted_new_identity_starts_as_new(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        run.stop()
        wanted += produce("east", brokers.b, orders, 3)
        write_metadata(path, stream("orders", cluster("east", brokers.b, [orders])))
        accepted = {"kind": "identity", "cluster": "east", "kafkaId": brokers.b.kafka_id}
        StateLocation(str(path.parent / "state")).write(f"{run.document.query}/accepted/1-identity.json", accepted)
        run.until_rows(wanted)

        assert run.next == {("east", orders): {0: 3}}
        assert run.document.clusters["east"].kafka_id == brokers.b.kafka_id
        assert run.report()["clusters"]["east"]["lag"] == 0


@DEEP
@pytest.mark.parametrize("crash", ["planned", "logged"])
def test_an_accepted_identity_is_used_once(brokers: Brokers, orders: str, path: Path, crash: CrashPoint) -> None:
    west = cluster("west", brokers.c, [orders])

    def put(*east: dict[str, Any]) -> None:
        write_metadata(path, stream("orders", west, *east))

    one, other = (cluster("east", broker, [orders]) for broker in (brokers.a, brokers.b))
    put(one)
    first = produce("east", brokers.a, orders, 5)
    with reading(path, removedClusterRetention="1 ms") as run:
        run.until_rows(first)
        # Given an accepted cluster, and a driver that dies in the plan that uses the acceptance
        put(other)
        wanted = first + produce("east", brokers.b, orders, 3)
        accepted = {"kind": "identity", "id": "x1", "cluster": "east", "kafkaId": brokers.b.kafka_id}
        accepted["replaces"] = brokers.a.kafka_id
        StateLocation(str(path.parent / "state")).write(f"{run.document.query}/accepted/1-identity.json", accepted)
        run.restart()
        run.batch(crash=crash)
        run.restart()
        run.until_rows(wanted)
        # When the offsets expire, and the first cluster starts as new
        put()
        run.until(lambda: "east" not in {**run.document.clusters, **run.document.parked}, "the expiry of east")
        put(one)
        run.until_rows(wanted + first)
        # Then the second one needs another acceptance
        put(other)
        run.restart()
        with pytest.raises(IdentityError, match=f"{brokers.a.kafka_id}, but its servers answer with"):
            run.batch()
