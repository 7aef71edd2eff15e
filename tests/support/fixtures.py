"""Fixtures of the integration tests: brokers and Spark, started when first asked for.

Tests that ask for brokers or Spark are marked `brokers` and `spark` by that alone. The report of a failed
test names the folders of the brokers it ran against, and their logs stay.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from tests.support.kafka import CertificateAuthority, KafkaCluster, start_all
from tests.support.servers import Server
from tests.support.spark import spark_folder, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAILED = pytest.StashKey[bool]()
_OPEN = pytest.StashKey[list[Server]]()
_topic_numbers = itertools.count(1)


class Brokers(NamedTuple):
    """Three plain clusters that all tests share: use topics of your own, and leave the brokers running.

    The fixture `shaky` of the source's tests is `c`, for a test that pauses a cluster.
    """

    a: KafkaCluster
    b: KafkaCluster
    c: KafkaCluster


Topic = Callable[[str], str]
"""A function that makes topic names no other test uses."""


class FreshCluster(Protocol):
    """A function that makes clusters of the test's own, to kill, pause and wipe; they are closed after the test."""

    def __call__(
        self,
        name: str = "fresh",
        *,
        start: bool = True,
        users: Mapping[str, str] | None = None,
        authority: CertificateAuthority | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> KafkaCluster:
        """Return a cluster, ready unless `start` is false: `start_all` then starts several side by side."""


@pytest.fixture(scope="session")
def brokers(pytestconfig: pytest.Config) -> Iterator[Brokers]:
    """Yield three plain clusters `a`, `b` and `c`."""
    clusters = Brokers(KafkaCluster("a"), KafkaCluster("b"), KafkaCluster("c"))
    with kept_open(pytestconfig, pytestconfig.stash, list(clusters)):
        start_all(clusters)
        yield clusters


@pytest.fixture(scope="session")
def secure_cluster(pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """Yield a cluster that has a SASL_SSL listener too, and the users `alice` and `bob`."""
    cluster = KafkaCluster("secure", users={"alice": "alice-secret-1", "bob": "bob-secret-1"})
    with kept_open(pytestconfig, pytestconfig.stash, [cluster]):
        start_all([cluster])
        yield cluster


@pytest.fixture
def fresh_cluster(request: pytest.FixtureRequest) -> Iterator[FreshCluster]:
    """Yield a function that makes clusters which the test may kill, pause and wipe."""
    made: list[KafkaCluster] = []

    def make(name: str = "fresh", *, start: bool = True, **options: Any) -> KafkaCluster:
        cluster = KafkaCluster(name, **options)
        made.append(cluster)
        request.config.stash[_OPEN].append(cluster)
        return cluster.start().wait_ready() if start else cluster

    with kept_open(request.config, request.node.stash, made):
        yield make


@pytest.fixture
def topic() -> Topic:
    """Return a function that makes topic names no other test uses: `topic("orders")` is `orders-7`."""

    def unused(name: str) -> str:
        return f"{name}-{next(_topic_numbers)}"

    return unused


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """Yield a Spark session on two cores whose workers can import `dynamic_kafka` and the tests."""
    session = start_spark("tests")
    try:
        yield session
    finally:
        session.stop()
        if not pytestconfig.stash.get(_FAILED, False):
            shutil.rmtree(spark_folder(), ignore_errors=True)


@contextmanager
def kept_open(config: pytest.Config, outcome: pytest.Stash, servers: Sequence[Server]) -> Iterator[None]:
    """Close `servers` at the end, and keep their logs if `outcome` shows that a test failed meanwhile.

    `servers` may grow. A failure report names those that existed at the start.
    """
    registered = config.stash[_OPEN]
    registered.extend(servers)
    started = False
    try:
        yield
        started = True
    finally:
        # When they did not even start, no report has said so yet.
        keep_logs = not started or outcome.get(_FAILED, False)
        for server in servers:
            server.close(keep_logs=keep_logs)
            registered.remove(server)


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no open server."""
    config.stash[_OPEN] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they ask for."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & {"brokers", "secure_cluster", "fresh_cluster"}:
            item.add_marker(pytest.mark.brokers)
        if "spark" in names:
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember failures, and say in their reports where the logs are."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = item.config.stash[_FAILED] = True
        folders = [f"{server.name}: {server.folder}" for server in item.config.stash[_OPEN]]
        if folders:
            report.sections.append(("Logs", "\n".join(folders)))
    return report
