"""Topics that a broker does not have for a while, that were deleted, or that a log-in may not describe any more."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dynamic_kafka.errors import ClusterError, DataLossError, ReadTimeoutError
from dynamic_kafka.executor.reading.partition_bounds import absence
from dynamic_kafka.executor.reading.range_reader import read_range
from dynamic_kafka.kafka.admin import ClusterAdmin
from tests.support.fixtures import Brokers, Topic, kept_open
from tests.support.kafka import KafkaCluster
from tests.support.kafka.rights import CHECKS_RIGHTS, TOPIC, allow, take_back
from tests.support.source_run import SourceRun, reading
from tests.support.streams import Rows, assert_rows, cluster, produce, stream, write_metadata

pytestmark = pytest.mark.deep("topics that are away for a while")


class Forgetful:
    """Brokers that have old metadata: they do not have a topic, though it exists.

    Attributes:
        absent: the topic, for the broker that describes topics.
    """

    absent = ""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        describe = ClusterAdmin.describe_topics

        def described(admin: ClusterAdmin, names: Collection[str]) -> object:
            topics, missing = describe(admin, [name for name in names if name != self.absent])
            return topics, missing | ({self.absent} & set(names))

        patch.setattr(ClusterAdmin, "describe_topics", described)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Forgetful:
    """Return switches for the topics that brokers seem not to have."""
    return Forgetful(monkeypatch)


@pytest.fixture
def run(brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query that accepts losses and has read 5 records of `orders`."""
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    # Listing the offsets of a deleted topic fails only at the deadline: the cluster is then stalled for one plan.
    deadlines = {"clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 1000}
    with reading(path, failOnDataLoss="false", **deadlines) as made:
        made.until_rows(wanted)
        yield made


def test_one_broker_with_old_metadata_changes_nothing(
    run: SourceRun, brokers: Brokers, orders: str, forgetful: Forgetful
) -> None:
    before = run.document
    forgetful.absent = orders
    for _ in range(3):
        run.restart()  # a new process describes topics at once
        assert not run.batch()
    assert run.document == before

    forgetful.absent = ""
    wanted = run.rows() + produce("a", brokers.a, orders, 3)
    run.until_rows(wanted)


def test_a_topic_that_returns_continues_at_its_offsets(
    run: SourceRun, brokers: Brokers, orders: str, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic that no broker has
    monkeypatch.setattr(ClusterAdmin, "absent_topics", lambda admin, topics: frozenset(topics))
    forgetful.absent = orders
    run.until(lambda: run.parked == {("a", orders): {0: 5}}, "the missing topic to be parked")

    # When it is back under its id
    forgetful.absent = ""
    wanted = run.rows() + produce("a", brokers.a, orders, 3)

    # Then nothing is lost or read twice
    run.until_rows(wanted)
    assert run.next == {("a", orders): {0: 8}} and not run.parked


def test_a_topic_that_returns_as_another_starts_as_new(
    run: SourceRun, brokers: Brokers, orders: str, path: Path
) -> None:
    # Given explicit starting offsets, and the deletion of the topic that they were written for
    own = {"startingOffsets": {orders: {0: 2}}}
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], **own)))
    brokers.a.delete_topic(orders)
    run.until(lambda: bool(run.parked), "the deleted topic to be parked")

    # When another topic has its name, also after the process has restarted
    run.restart()
    brokers.a.create_topic(orders)
    wanted = run.rows() + produce("a", brokers.a, orders, 6, prefix="new")

    # Then it is read from its first record
    run.until_rows(wanted)


def test_explicit_offsets_hold_for_their_topic_after_retention(brokers: Brokers, orders: str, path: Path) -> None:
    own = {"startingOffsets": {orders: {0: 2}}}
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], **own), cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path, removedClusterRetention="0") as run:
        run.until(lambda: run.rows().total() == 3, "the records from offset 2 on")
        write_metadata(path, stream("orders", cluster("b", brokers.b, [orders])))
        run.until(lambda: ("a", orders) not in run.next and not run.parked, "the offsets to expire")
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted = run.rows() + produce("a", brokers.a, orders, 6, prefix="new")

        write_metadata(
            path, stream("orders", cluster("a", brokers.a, [orders], **own), cluster("b", brokers.b, [orders]))
        )
        run.until_rows(wanted)


def test_a_range_is_not_skipped_for_one_broker(brokers: Brokers, orders: str, path: Path, forgetful: Forgetful) -> None:
    # Given a planned range
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    produce("a", brokers.a, orders, 5)
    with reading(path, failOnDataLoss="false") as run:
        run.batch(crash="partitioned")
        [task] = run.tasks

        # When one broker does not have its topic
        forgetful.absent = orders
        assert absence(task, 20) is None
        forgetful.absent = ""

        # And when none has it
        brokers.a.delete_topic(orders)
        assert absence(task, 20) == "the topic no longer exists"


class Pending(NamedTuple):
    """A query that accepts losses, with a pending batch of two topics: `kept` and `away`.

    Attributes:
        rows: what it delivers without the range of `away`.
        left: the records of that range.
    """

    run: SourceRun
    away: str
    rows: Rows
    left: Rows


@contextmanager
def pending_batch(brokers: Brokers, topic: Topic, path: Path, **options: object) -> Iterator[Pending]:
    kept, away = (brokers.a.create_topic(topic(name)) for name in ("kept", "away"))
    write_metadata(path, stream("orders", cluster("a", brokers.a, [kept, away])))
    with reading(path, **{"failOnDataLoss": "false", **options}) as run:
        run.until_rows(produce("a", brokers.a, kept, 2) + produce("a", brokers.a, away, 2))
        rows = run.rows() + produce("a", brokers.a, kept, 3)
        left = produce("a", brokers.a, away, 3)
        run.batch(crash="logged")
        yield Pending(run, away, rows, left)


def test_a_replay_skips_no_range_of_a_topic_that_is_away(
    brokers: Brokers, topic: Topic, path: Path, forgetful: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pending_batch(brokers, topic, path) as (run, away, rows, left):
        with monkeypatch.context() as patch:
            patch.setattr(ClusterAdmin, "absent_topics", lambda admin, topics: frozenset(topics))
            forgetful.absent = away
            assert run.batch()
            assert_rows(run.rows(), rows)
            run.restart()
            run.until(lambda: run.parked == {("a", away): {0: 2}}, "the topic to be parked at the range's start")

        forgetful.absent = ""
        run.until_rows(rows + left)


def test_a_replay_of_a_deleted_topic_may_accept_the_loss(brokers: Brokers, topic: Topic, path: Path) -> None:
    with pending_batch(brokers, topic, path) as (run, away, rows, _):
        brokers.a.delete_topic(away)
        assert run.batch()
        assert_rows(run.rows(), rows)
        run.until(lambda: run.parked == {("a", away): {0: 2}}, "the topic to be parked at the range's start")

        # Another topic of this name is read from its first record
        brokers.a.create_topic(away)
        run.until_rows(rows + produce("a", brokers.a, away, 4, prefix="new"))


def test_a_deleted_topic_ends_no_process(brokers: Brokers, topic: Topic, path: Path) -> None:
    """The client, which has read the topic, calls `error_cb` while we wait. Confluent's function aborts the process."""
    soon = {"kafka.topic.metadata.propagation.max.ms": 1000}
    with pending_batch(brokers, topic, path, failOnDataLoss="true", **soon) as (run, away, _, _):
        brokers.a.delete_topic(away)
        with pytest.raises(DataLossError, match=rf"{away}.*the topic no longer exists"):
            run.batch()


def test_executors_skip_no_range_of_a_topic_that_is_away(brokers: Brokers, topic: Topic, path: Path) -> None:
    with pending_batch(brokers, topic, path, stateLocation=None, readTimeout="3s") as (run, away, rows, _):
        # Given a topic that is deleted after the replay was decided
        run.batch(crash="partitioned")
        brokers.a.delete_topic(away)

        # Then its range waits and fails, and so does each start that has no place to record that it is left out
        [task] = [task for task in run.tasks if task.part.split.topic == away]
        for attempt in (lambda: list(read_range(task)), run.batch):
            with pytest.raises(ReadTimeoutError, match=rf"{away}.*topic no longer .*readTimeout"):
                attempt()
            run.stop()

        run.restart(stateLocation=path.parent / "state")
        assert run.batch()
        assert_rows(run.rows(), rows)


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked(pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """Yield a cluster that checks the rights of its user alice."""
    cluster = KafkaCluster("checked", users={"alice": "alice-secret-1"}, overrides=CHECKS_RIGHTS)
    with kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        yield cluster.start().wait_ready()


@pytest.fixture
def readable(checked: KafkaCluster, topic: Topic) -> list[str]:
    """Return two topics that alice may read; she has no other right."""
    orders = topic("orders")
    names = [checked.create_topic(f"{orders}-{end}") for end in "ab"]
    grant(checked, *names)
    return names


def grant(at: KafkaCluster, *topics: str) -> None:
    """Let alice read these topics and no others."""
    take_back(at, "alice")
    for name in topics:
        allow(at, "alice", "READ", TOPIC, name)
        allow(at, "alice", "DESCRIBE", TOPIC, name)


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("way", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("kept", [1, 0], ids=["one topic", "no topic"])
@pytest.mark.sampled
def test_a_withdrawn_right_is_reported_and_loses_nothing(  # noqa: PLR0917
    checked: KafkaCluster,
    readable: list[str],
    way: str,
    fail: str,
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a query that has read two topics, and more records in one of them
    first, second = readable
    wanted = produce("default", checked, first, 5) + produce("default", checked, second, 5)
    monkeypatch.setenv("ALICE_PASSWORD", checked.users["alice"])
    login = {**checked.client_properties("alice"), "sasl.password": "${env:ALICE_PASSWORD}"}
    options = {f"kafka.{key}": value for key, value in login.items()}
    chosen = {way: ",".join(readable) if way == "subscribe" else f"{first[:-1]}."}
    with SourceRun(**options, **chosen, failOnDataLoss=fail) as run:
        run.until_rows(wanted)
        saved = run.next
        wanted += produce("default", checked, first, 4)

        # When the right to describe it is withdrawn
        grant(checked, *[second][:kept])

        # Then the query says so, while it runs and at its next start, and keeps the offsets
        for _ in range(2):
            with pytest.raises(ClusterError, match=rf"({first}|{second}).*may not describe"):
                run.until(lambda: bool(run.parked), "the refusal")
            run.restart()
            assert {**saved, **run.next} == run.next and not run.parked

        # And with the right back, it continues there
        grant(checked, *readable)
        run.until_rows(wanted)
