from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.native import readers, reading_with
from tests.support.streams import produce


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the metadata document."""
    return tmp_path / "streams.json"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of a file marked `both_readers` with both, but for those on the shared Spark session."""
    if metafunc.definition.get_closest_marker("both_readers") and "spark" not in metafunc.fixturenames:
        default, *others = readers()
        marks = [pytest.mark.deep("the second reader"), pytest.mark.sampled]
        deep = [pytest.param(name, marks=marks) for name in others]
        metafunc.parametrize("each_reader", [default, *deep], indirect=True)


@pytest.fixture(autouse=True)
def each_reader(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Yield the name of the reader that the test runs with; None if it runs with the default one alone."""
    reader = getattr(request, "param", None)
    with reading_with(reader) if reader else nullcontext():
        yield reader


@pytest.fixture
def orders(brokers: Brokers, topic: Topic) -> str:
    """Create a topic of one partition on each of the three clusters."""
    name = topic("orders")
    for at in brokers:
        at.create_topic(name)
    return name


@pytest.fixture
def shaky(brokers: Brokers) -> Iterator[KafkaCluster]:
    """Yield the shared cluster `c`, which the test may pause; it runs again after the test."""
    yield brokers.c
    brokers.c.resume()
    brokers.c.wait_ready()


@pytest.fixture(scope="module")
def elected() -> Iterator[KafkaCluster]:
    """Yield a cluster with the topic `orders`: offsets 0..10 of leader epoch 0, 10..30 of a later epoch."""
    with KafkaCluster("elected") as made:
        made.start().wait_ready()
        made.create_topic("orders")
        produce("east", made, "orders", 10)
        made.restart()
        produce("east", made, "orders", 20)
        yield made
