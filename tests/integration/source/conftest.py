from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster
from tests.support.native import reading_with
from tests.support.streams import produce


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the metadata document."""
    return tmp_path / "streams.json"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "each_reader" in metafunc.fixturenames:
        # Spark's own processes read as the options say.
        readers = ["native"] if "spark" in metafunc.fixturenames else ["native", "python"]
        metafunc.parametrize("each_reader", readers, indirect=True)


@pytest.fixture
def each_reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with each reader; yield its name."""
    with reading_with(request.param):
        yield request.param


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
