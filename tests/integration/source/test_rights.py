"""The rights that a user needs on a cluster: each row of docs/how-to/rights.md, with Kafka's own authorizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import ClusterError
from dynamic_kafka.executor.reading.range_reader import _RangeReader
from tests.integration.source.simulated_spark import numbered, query, read_batch, values
from tests.integration.source.test_security import by_folder, by_references, secret_folder
from tests.support.fixtures import kept_open
from tests.support.kafka import KafkaCluster
from tests.support.kafka.rights import CHECKS_RIGHTS, GROUP, TOPIC, allow, take_back
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each right")

Topic = Callable[[str], str]


@pytest.fixture(scope="module")
def checked(pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """Yield a cluster whose user `alice` may do only what a test allows."""
    cluster = KafkaCluster("checked", users={"alice": "alice-secret-1"}, overrides=CHECKS_RIGHTS)
    with kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        yield cluster.start().wait_ready()


@pytest.fixture
def orders(checked: KafkaCluster, topic: Topic) -> Iterator[str]:
    """Yield a topic with five records; afterwards alice has no right."""
    name = checked.create_topic(topic("orders"))
    checked.produce(name, numbered(5))
    yield name
    take_back(checked, "alice")


def options(cluster: KafkaCluster, name: str, folder: Path, **more: Any) -> dict[str, str]:
    """Return the options of alice's query."""
    secret_folder(folder, cluster)
    return by_folder(cluster, name, folder, **more)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_reading_needs_the_right_to_read_the_topic(
    checked: KafkaCluster, orders: str, tmp_path: Path, isolation: str
) -> None:
    allow(checked, "alice", "READ", TOPIC, orders)

    with query(options(checked, orders, tmp_path, kafka__isolation__level=isolation)) as reading:
        first = reading.batch()
        checked.produce(orders, numbered(3, "new"))
        second = reading.batch()

    assert values(first) + values(second) == Counter(record.encode() for record in [*numbered(5), *numbered(3, "new")])


@DEEP
def test_a_batch_needs_the_right_to_read_the_topic(checked: KafkaCluster, orders: str, tmp_path: Path) -> None:
    allow(checked, "alice", "READ", TOPIC, orders)

    assert len(read_batch(options(checked, orders, tmp_path))) == 5


@DEEP
def test_planning_needs_the_right_to_describe_the_topic(checked: KafkaCluster, orders: str, tmp_path: Path) -> None:
    allow(checked, "alice", "DESCRIBE", TOPIC, orders)

    with query(options(checked, orders, tmp_path)) as reading:
        assert reading.plan()
        with pytest.raises(ClusterError, match=f"read east/{orders}.*READ on it"):
            reading.read()


@DEEP
def test_a_timeout_names_the_missing_right(
    checked: KafkaCluster, orders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(checked, "alice", "DESCRIBE", TOPIC, orders)
    # The client reports the refused fetch once, and a seek that comes after it drops the report
    monkeypatch.setattr(_RangeReader, "handle", lambda self, error, offset: None)

    with query(options(checked, orders, tmp_path)) as reading:
        assert reading.plan()
        with pytest.raises(ClusterError, match=f"read east/{orders}.*READ on it"):
            reading.read()


def test_without_a_right_the_error_names_it(checked: KafkaCluster, orders: str, tmp_path: Path) -> None:
    with (
        query(options(checked, orders, tmp_path)) as reading,
        pytest.raises(ClusterError, match=f"describe topic '{orders}'.*READ on it"),
    ):
        reading.plan()


@DEEP
def test_a_pattern_finds_the_topics_with_a_right(
    checked: KafkaCluster, orders: str, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = checked.create_topic(topic("orders"))
    checked.produce(other, ["hidden"])
    allow(checked, "alice", "READ", TOPIC, orders)
    chosen = by_references(checked, orders, tmp_path, monkeypatch)
    del chosen["subscribe"]

    rows = read_batch(chosen | {"subscribePattern": "orders-.*"})

    assert {row["topic"] for row in rows} == {orders}


@DEEP
@pytest.mark.parametrize("right", ["DESCRIBE", "READ"])
def test_committed_starts_need_a_right_to_the_group(
    checked: KafkaCluster, orders: str, topic: Topic, tmp_path: Path, right: str
) -> None:
    group = topic("group")
    checked.commit_offsets(group, {(orders, 0): 3})
    allow(checked, "alice", "READ", TOPIC, orders)
    given = options(checked, orders, tmp_path, kafka__group__id=group, commitOffsets="false")
    given["startingOffsets"] = "committed"

    # Without the right the query cannot start, and says so
    with query(given) as reading, pytest.raises(ClusterError, match="READ on the group, or DESCRIBE"):
        reading.plan()

    allow(checked, "alice", right, GROUP, group)
    with query(given) as reading:
        assert [row["offset"] for row in reading.batch()] == [3, 4]


@DEEP
@pytest.mark.parametrize("right", [None, "DESCRIBE", "READ"])
def test_commits_need_the_right_to_read_the_group(
    checked: KafkaCluster, orders: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, right: str | None
) -> None:
    group = f"of-{orders}"
    allow(checked, "alice", "READ", TOPIC, orders)
    if right is not None:
        allow(checked, "alice", right, GROUP, group)

    # Reading goes on without the right
    with query(options(checked, orders, tmp_path, kafka__group__id=group)) as reading:
        assert len(reading.batch()) == 5
        for number in (1, 2):
            checked.produce(orders, [f"more {number}"])
            assert len(reading.batch()) == 1

        # And the log names the missing right
        if right == "READ":
            wait_until(lambda: checked.committed_offsets(group) == {(orders, 0): 6}, "the commit")
        else:
            texts = ["offsets of cluster east are not committed", "give the user READ on the group"]
            texts += ["cannot read the commits of group"] if right is None else []
            wait_until(lambda: all(text in caplog.text for text in texts), "the warnings")
            assert checked.committed_offsets(group) == {}
