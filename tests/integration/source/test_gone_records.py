"""Records that expired, and topics that were deleted or re-created."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynamic_kafka.errors import DataLossError
from tests.integration.source.failing_clusters import PATIENT, reading
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.streams import (
    Rows,
    assert_rows,
    cluster,
    produce,
    stream,
    write_metadata,
)

DEEP = pytest.mark.deep("each way that records go")

pytestmark = pytest.mark.both_readers

SELDOM = PATIENT | {"partitionDiscoveryInterval": "1h"}
"""Options without periodic discovery: only a plan itself can notice a change."""


def produce_and_expire(brokers: Brokers, orders: str) -> Rows:
    """Produce six more records, expire the first four, and return the other two."""
    produced = produce("a", brokers.a, orders, 6)
    first = min(row.offset for row in produced)
    brokers.a.delete_records(orders, 0, first + 4)
    return Rows({row: 1 for row in produced if row.offset >= first + 4})


def test_expired_offsets_fail_a_restart(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        run.stop()
        wanted += produce_and_expire(brokers, orders)
        with pytest.raises(DataLossError) as lost:
            run.batch()
        assert f"a/{orders}[0]: offsets 5..9 have expired" in str(lost.value)
        assert "accept app.yaml --data-loss" in str(lost.value)
        assert run.next == {("a", orders): {0: 5}}
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}}
        assert any(
            note.kind == "data-loss" and "5..9 have expired" in note.text for note in run.enumerator.status.notes
        )


@DEEP
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
        assert f"read a/{orders}[0] 5..11 from offset 5:" in str(lost.value)
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}}
        assert f"a/{orders}[0] 5..11: reading continues at 9: " in caplog.text


@DEEP
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
        message = run.until_fails(DataLossError)
        assert f"a/{orders}[0]" in message and "accept app.yaml --data-loss" in message
        assert run.rows().total() == 5
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 11}, ("s", orders): {0: 0}}


@DEEP
def test_a_topic_re_created_with_fewer_partitions_is_data_loss(brokers: Brokers, topic: Topic, path: Path) -> None:
    orders = brokers.a.create_topic(topic("orders"), 2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("a", brokers.a, orders, 4, partition=1)
    with reading(path, **SELDOM) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders, 1)
        wanted += produce("a", brokers.a, orders, 5, prefix="again")
        message = run.until_fails(DataLossError)
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
            message = run.until_fails(DataLossError)
            now = brokers.a.topic_id(orders)
            assert f"a/{orders}[0]: " in message and f"re-created (id {old}, now {now}): offset 9 " in message
        assert (run.next, run.rows().total()) == ({("a", orders): {0: 9}}, 9)

        # And once the loss is accepted, every record of the new topic is read exactly once
        run.restart(failOnDataLoss="false")
        run.until_rows(wanted)
        assert run.next == {("a", orders): {0: count}}
        assert any(note.kind == "data-loss" for note in run.enumerator.status.notes)


@DEEP
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


@DEEP
def test_a_deleted_topic_fails_the_query(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, **PATIENT) as run:
        run.until_rows(wanted)
        brokers.a.delete_topic(orders)
        message = run.until_fails(Exception)

        assert orders in message and ("the topic no longer exists" in message or "cluster=a" in message)
        assert run.next == {("a", orders): {0: 5}}
        assert_rows(run.rows(), wanted)
