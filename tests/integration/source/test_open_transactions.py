"""An open transaction hides records that were visible before: they are not lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamic_kafka.driver.observer import Observer
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import reading
from tests.support.streams import Row, Rows, cluster, produce, stream, write_metadata

pytestmark = [pytest.mark.both_readers, pytest.mark.deep("transactions that are open at each moment")]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_read_committed_during_a_transaction_is_no_loss(brokers: Brokers, orders: str, path: Path, fail: str) -> None:
    # Given a query that has read some records of an open transaction
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    transaction = brokers.a.transaction()
    transaction.produce(orders, [f"open-{number}" for number in range(5)])
    wanted += Rows(Row("east", orders, 0, 5 + number, f"open-{number}") for number in range(5))
    with reading(path, failOnDataLoss=fail) as run:
        run.until_rows(wanted)

        # When metadata changes the cluster to read_committed
        committed = cluster("east", brokers.a, [orders], properties={"isolation.level": "read_committed"})
        write_metadata(path, stream("orders", committed))
        seen = run.enumerator.observer
        run.until(lambda: run.batch() or _committed(seen), "the change to be in force")
        for _ in range(5):
            run.batch()
        transaction.commit()
        brokers.a.wait_decided(orders)
        wanted += produce("east", brokers.a, orders, 3)

        # Then no record is reported as lost, and none is read twice
        run.until_rows(wanted)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_new_leader_during_a_transaction_is_no_loss(
    elected: KafkaCluster, path: Path, isolation: str, each_reader: str
) -> None:
    # Given a query that has read all records, some of them of an open transaction, under the last leader
    topic = f"with-{isolation}-{each_reader}"
    elected.create_topic(topic)
    wanted = produce("east", elected, topic, 5)
    transaction = elected.transaction()
    transaction.produce(topic, [f"open-{number}" for number in range(5)])
    wanted += Rows(Row("east", topic, 0, 5 + number, f"open-{number}") for number in range(5))
    write_metadata(path, stream("orders", cluster("east", elected, [topic])))
    with reading(path, readTimeout="10s") as run:
        run.until_rows(wanted)
        elected.restart()

        # When the query starts under the new leader, before the transaction ends
        run.restart(**{"kafka.isolation.level": isolation})
        assert run.batch() is False
        transaction.commit()
        elected.wait_decided(topic)
        wanted += produce("east", elected, topic, 3)

        # Then no record is reported as lost, and none is read twice
        run.until_rows(wanted)


def test_a_start_inside_an_open_transaction_is_no_loss(brokers: Brokers, orders: str, path: Path) -> None:
    # As `import-checkpoint` writes them for a query that has read everything so far
    produce("east", brokers.a, orders, 5)
    transaction = brokers.a.transaction()
    transaction.produce(orders, [f"open-{number}" for number in range(5)])
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    start = json.dumps({"east": {orders: {"0": 8}}})
    with reading(path, startingOffsets=start, **{"kafka.isolation.level": "read_committed"}) as run:
        run.batch()
        transaction.commit()
        brokers.a.wait_decided(orders)
        run.until_rows(Rows(Row("east", orders, 0, number, f"open-{number - 5}") for number in (8, 9)))


def _committed(observer: Observer) -> bool:
    east = observer.in_force().subscription.clusters["east"]
    return east.properties.get("isolation.level") == "read_committed"
