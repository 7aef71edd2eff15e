"""A cluster that a query has never read and that does not answer is awaited: the others are read without it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin
from tests.support import source_run
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.ports import reserve_ports
from tests.support.source_run import SourceRun
from tests.support.streams import cluster, produce, stream, write_metadata

DEEP = pytest.mark.deep("each state of an awaited cluster")

Topic = Callable[[str], str]

POLICIES = pytest.mark.parametrize("policy", ["fail", "stall"])


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("new") as made:
        yield made.start().wait_ready()


@pytest.fixture
def new(own_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Yield a cluster that a test may pause; it runs again after the test."""
    yield own_cluster
    own_cluster.resume()


@pytest.fixture
def orders(brokers: Brokers, new: KafkaCluster, topic: Topic) -> str:
    """Create a topic of one partition on `a`, `b` and `new`."""
    name = topic("orders")
    for at in (brokers.a, brokers.b, new):
        at.create_topic(name)
    return name


@pytest.fixture
def run(path: Path) -> Iterator[SourceRun]:
    """Yield a query under `fail` whose clients give up after two seconds."""
    with source_run.reading(path, **{"kafka.socket.timeout.ms": 2000, "readTimeout": "2s"}) as made:
        yield made


def until_reported(run: SourceRun) -> str:
    """Run batches until the cluster `new` is reported as never reached; return the reason."""
    run.until(lambda: "neverReached" in run.report(), "the report of the cluster")
    assert run.report()["neverReached"] == ["new"]
    reason: str = run.report()["waiting"]["new"]
    return reason


@POLICIES
def test_an_awaited_cluster_is_read_from_its_start(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun, *, policy: str, caplog: Any
) -> None:
    # Given a query that starts at the end, and a new cluster with records that does not answer
    caplog.set_level(logging.WARNING)
    run.configure(clusterFailurePolicy=policy)
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a))
    wanted, of_new = produce("a", brokers.a, orders, 5), produce("new", new, orders, 6)
    run.until_rows(wanted)
    run.configure(startingOffsets="latest")
    new.pause()

    # When metadata names it, and the query is restarted in the middle of a batch
    write_metadata(path, stream("orders", a, cluster("new", new, [orders])))
    assert f"new has the bootstrap servers {new.bootstrap}" in until_reported(run)
    wanted += produce("a", brokers.a, orders, 2)
    run.batch(crash="reading")
    run.restart()

    # Then the others are read, and log and report name the cluster from the first plan on
    run.until_rows(wanted)
    assert run.report()["neverReached"] == ["new"]
    assert caplog.text.count("cluster new was never reached, the source reads the others") >= 2
    wanted += produce("a", brokers.a, orders, 2)
    run.until_rows(wanted)

    # And when it answers, it is read from its first record
    new.resume()
    run.until_rows(wanted + of_new)
    assert "neverReached" not in run.report() and "waiting" not in run.report()
    assert run.next == {("a", orders): {0: 9}, ("new", orders): {0: 6}}
    assert "cluster new answers now" in caplog.text


@DEEP
@pytest.mark.parametrize(
    ("servers", "properties"),
    [("127.0.0.1:{port}", {}), ("nowhere.invalid:9092", {}), ("{b}", {"security.protocol": "SSL"})],
    ids=["closed port", "unknown host", "no TLS"],
)
def test_a_mistyped_cluster_harms_no_other(
    brokers: Brokers, orders: str, path: Path, run: SourceRun, servers: str, *, properties: dict[str, str]
) -> None:
    # Given a cluster that cannot be reached by its entry in the metadata
    a, b = cluster("a", brokers.a, [orders]), cluster("new", brokers.b, [orders])
    write_metadata(path, stream("orders", a))
    wanted, of_b = produce("a", brokers.a, orders, 5), produce("new", brokers.b, orders, 3)
    run.until_rows(wanted)
    [nobody] = reserve_ports(1)
    at = servers.format(port=nobody, b=brokers.b.bootstrap)
    write_metadata(path, stream("orders", a, cluster("new", at, [orders], properties=properties)))
    assert f"new has the bootstrap servers {at}" in until_reported(run)

    # Then the query reads on, also after each restart
    for _ in range(2):
        run.restart()
        wanted += produce("a", brokers.a, orders, 1)
        run.until_rows(wanted)
        until_reported(run)

    # And it reads the cluster once its entry is corrected
    write_metadata(path, stream("orders", a, b))
    run.until_rows(wanted + of_b)


@DEEP
def test_a_first_plan_fails_for_a_cluster_without_answer(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun
) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("new", new, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    new.pause()
    for _ in range(2):
        with pytest.raises(ClusterUnreachableError, match="cluster=new"):
            run.batch()
        run.restart()
    assert run.offsets == []

    new.resume()
    run.until_rows(wanted)
    new.pause()  # it was read, in an empty range: from now on it must be there
    run.restart()
    with pytest.raises(ClusterUnreachableError, match="cluster=new"):
        run.batch()


@DEEP
def test_a_renamed_cluster_must_answer(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun
) -> None:
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a, cluster("old", new, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("old", new, orders, 2)
    run.until_rows(wanted)
    new.pause()
    write_metadata(path, stream("orders", a, cluster("new", new, [orders], renamedFrom="old")))
    run.restart()
    with pytest.raises(ClusterUnreachableError, match="cluster=new"):
        run.batch()


@DEEP
def test_an_awaited_cluster_with_anothers_id_is_rejected(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun
) -> None:
    # Given a cluster that is awaited, and metadata that name it with a further cluster
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a))
    wanted = produce("a", brokers.a, orders, 5)
    run.until_rows(wanted)
    new.pause()
    write_metadata(path, stream("orders", a, b, cluster("new", new, [orders])))
    wanted += produce("b", brokers.b, orders, 4)
    run.until_rows(wanted)
    until_reported(run)

    # When its servers are changed to those of another cluster
    write_metadata(path, stream("orders", a, b, cluster("new", brokers.a, [orders])))
    run.until(lambda: "rejected" in run.report(), "the rejection")

    # Then that revision is rejected, and the one before stays in force
    assert "clusters 'a' and 'new' are one" in run.report()["rejected"]
    wanted += produce("a", brokers.a, orders, 1) + produce("b", brokers.b, orders, 1)
    run.until_rows(wanted)
    assert (run.parked, until_reported(run) != "") == ({}, True)


@DEEP
def test_an_awaited_cluster_without_the_topic_is_rejected(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun
) -> None:
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a))
    wanted = produce("a", brokers.a, orders, 5)
    run.until_rows(wanted)
    new.pause()
    write_metadata(path, stream("orders", a, cluster("new", new, [f"{orders}-mistyped"])))
    until_reported(run)
    new.resume()
    run.until(lambda: "rejected" in run.report(), "the rejection")

    rejected = run.report()["rejected"]
    assert "[MISSING_SOURCE_TOPIC cluster=new]" in rejected and f"no topic '{orders}-mistyped'" in rejected
    assert "neverReached" not in run.report()
    run.until_rows(wanted + produce("a", brokers.a, orders, 2))


@DEEP
def test_an_awaited_cluster_that_is_removed_leaves_no_trace(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun
) -> None:
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a))
    wanted = produce("a", brokers.a, orders, 5)
    run.until_rows(wanted)
    new.pause()
    write_metadata(path, stream("orders", a, cluster("new", new, [orders])))
    until_reported(run)
    write_metadata(path, stream("orders", a))
    run.until(lambda: "neverReached" not in run.report(), "an empty report")
    run.until_rows(wanted + produce("a", brokers.a, orders, 2))
    assert (run.next, run.parked) == ({("a", orders): {0: 7}}, {})


@DEEP
@POLICIES
def test_available_now_does_not_omit_an_awaited_cluster(
    brokers: Brokers, new: KafkaCluster, orders: str, path: Path, run: SourceRun, *, policy: str
) -> None:
    # Given a query that is run now and then, and a new cluster that does not answer
    run.configure(clusterFailurePolicy=policy)
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a))
    wanted, of_new = produce("a", brokers.a, orders, 5), produce("new", new, orders, 6)
    run.until_rows(wanted)
    run.restart()
    new.pause()
    write_metadata(path, stream("orders", a, cluster("new", new, [orders])))
    wanted += produce("a", brokers.a, orders, 4)

    # When it is run again, then everything else is read, and its end names the cluster
    run.enumerator.prepare_available_now()
    assert run.batch()
    with pytest.raises(ClusterUnreachableError) as ended:
        run.batch()
    assert "[CLUSTER_UNREACHABLE cluster=new]" in str(ended.value)
    assert ended.match(r"Trigger\.AvailableNow .*not complete")
    assert run.rows() == wanted

    # And the first run in which it answers reads it from its start
    new.resume()
    run.restart()
    run.enumerator.prepare_available_now()
    run.until_rows(wanted + of_new)


@DEEP
def test_available_now_does_not_end_before_a_topic_is_described(
    brokers: Brokers, orders: str, topic: Topic, path: Path, run: SourceRun, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run that stands in the middle of two topics, of which one is not described for a while
    second = brokers.a.create_topic(topic("second"))
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, second])))
    wanted = produce("a", brokers.a, orders, 10) + produce("a", brokers.a, second, 2)
    describe, hidden = ClusterAdmin.describe_topics, set[str]()

    def describe_topics(self: ClusterAdmin, topics: Iterable[str]) -> Any:
        described, missing = describe(self, topics)
        return {name: description for name, description in described.items() if name not in hidden}, missing

    monkeypatch.setattr(ClusterAdmin, "describe_topics", describe_topics)
    run.configure(maxOffsetsPerTrigger=6, **{"kafka.socket.timeout.ms": 20_000})
    run.enumerator.prepare_available_now()
    assert run.batch()
    assert 0 < run.next["a", orders][0] < 10
    hidden.add(orders)

    # When there is nothing else to read, then the run does not end well
    with pytest.raises(ClusterError) as ended:
        while run.batch():
            pass
    assert ended.match(rf"lists {orders}, .*not describe all")
    assert ended.match(r"Trigger\.AvailableNow .*not complete")
    assert run.rows().total() < 12

    # And the next one reads the rest
    hidden.clear()
    run.restart()
    run.enumerator.prepare_available_now()
    run.until_rows(wanted)
