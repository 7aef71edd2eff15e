"""Races during the lookup of starting offsets: no record is skipped, and no older one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import ClusterError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.planning.starting import OffsetQuery
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.source_run import reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("races at the start")

Offsets = dict[tuple[str, int], tuple[int, int | None]]
SINCE_JANUARY: dict[str, Any] = {"startingOffsets": {"timestamp": "2026-01-01T00:00:00Z"}}


def after_first_request(monkeypatch: pytest.MonkeyPatch, at: str, kind: str, happens: Callable[[], None]) -> None:
    """Run `happens` right after the first request of a kind to a cluster."""
    ask, done = ClusterAdmin.offsets, []

    def offsets(self: ClusterAdmin, queries: Mapping[tuple[str, int], OffsetQuery], **more: Any) -> Offsets:
        answers = ask(self, queries, **more)
        if not done and self.cluster == at and any(query.kind == kind for query in queries.values()):
            done.append(True)
            happens()
        return answers

    monkeypatch.setattr(ClusterAdmin, "offsets", offsets)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_that_arrive_during_a_timestamp_lookup_are_read(
    brokers: Brokers, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    # Given a partition without a record as new as the cluster's starting timestamp
    own = {**SINCE_JANUARY, "properties": {"isolation.level": isolation}}
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], **own)))

    # When producers start right after the lookup
    wanted = Rows()
    after_first_request(monkeypatch, "a", "timestamp", lambda: wanted.update(produce("a", brokers.a, orders, 3)))
    with reading(path) as run:
        for _ in range(5):
            run.batch()

        # Then all their records are read, and none is reported as lost
        assert_rows(run.rows(), wanted)


def test_a_transaction_committed_during_the_lookup_is_read(
    brokers: Brokers, orders: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an open transaction of records that are new enough
    own = {**SINCE_JANUARY, "properties": {"isolation.level": "read_committed"}}
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], **own)))
    transaction = brokers.a.transaction()
    transaction.produce(orders, [f"v{number}" for number in range(3)], partition=0)

    # When it is committed right after the lookup
    def decided() -> None:
        transaction.commit()
        brokers.a.wait_decided(orders)

    after_first_request(monkeypatch, "a", "timestamp", decided)
    with reading(path) as run:
        for _ in range(5):
            run.batch()

        # Then it is read
        assert run.rows().total() == 3


@pytest.mark.parametrize("start", ["committed", "timestamp"])
def test_stall_refuses_a_cluster_that_fails_during_the_start(  # noqa: PLR0917
    brokers: Brokers,
    shaky: KafkaCluster,
    orders: str,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: str,
) -> None:
    # Given a group that has read some records of two clusters, and a query that starts there
    group = f"group-of-{orders}"
    produce("east", brokers.a, orders, 5)
    produce("west", shaky, orders, 5)
    brokers.a.commit_offsets(group, {(orders, 0): 5})
    shaky.commit_offsets(group, {(orders, 0): 5})
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("west", shaky, [orders])))
    options: dict[str, object] = {"clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 2000}
    options |= {"kafka.group.id": group, "commitOffsets": "false"}
    if start == "committed":
        options["startingOffsets"] = "committed"
    else:
        options |= {"startingOffsets": None, "startingTimestamp": "4102444800000"}
        options["startingOffsetsByTimestampStrategy"] = "latest"

    # When one of them hangs right after it has listed its topics
    hung: list[bool] = []

    def hang(self: ClusterAdmin) -> None:
        if not hung and self.cluster == "west":
            hung.append(True)
            shaky.pause()

    ask, ask_offsets = ClusterAdmin.committed, ClusterAdmin.offsets

    def committed(self: ClusterAdmin, *given: Any, **more: Any) -> Any:
        hang(self)
        return ask(self, *given, **more)

    def offsets(self: ClusterAdmin, queries: Mapping[tuple[str, int], OffsetQuery], **more: Any) -> Offsets:
        if any(query.kind == "timestamp" for query in queries.values()):
            hang(self)
        return ask_offsets(self, queries, **more)

    monkeypatch.setattr(ClusterAdmin, "committed", committed)
    monkeypatch.setattr(ClusterAdmin, "offsets", offsets)
    with reading(path, **options) as run:
        try:
            run.batch()
        except ClusterError as error:
            assert "cluster=west" in str(error)
        finally:
            shaky.resume()
        if run.offsets:
            run.until(lambda: ("west", orders) in run.next, "west to be found")

        # Then the query fails, since a later discovery would read the cluster from its first record
        while run.batch():
            pass
        assert_rows(run.rows(), Rows())


def test_a_first_plan_waits_for_a_topic_without_a_description(
    brokers: Brokers, orders: str, topic: Topic, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = brokers.a.create_topic(topic("other"))
    produce("a", brokers.a, orders, 5)
    produce("a", brokers.a, other, 5)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
    describe, done = ClusterAdmin.describe_topics, []

    def describe_topics(self: ClusterAdmin, topics: Iterable[str]) -> Any:
        described, missing = describe(self, topics)
        if not done:
            done.append(True)
            described.pop(orders, None)
        return described, missing

    monkeypatch.setattr(ClusterAdmin, "describe_topics", describe_topics)
    with reading(path, startingOffsets="latest") as run:
        try:
            run.batch()
        except ClusterError as error:
            assert orders in str(error)
        run.until(lambda: ("a", orders) in run.next, "the topic to be described")
        while run.batch():
            pass
        assert_rows(run.rows(), Rows())
