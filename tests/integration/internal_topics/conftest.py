"""An application with internal topics on a real cluster, for tests of `init` and of the driver's start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.app_tools.story import Tools
from tests.support.fixtures import Topic, kept_open
from tests.support.kafka import KafkaCluster, start_all
from tests.support.streams import cluster, write_metadata

CHANGELOG, REPARTITION, DEAD = "changelog", "repartition", "deadLetters"


class Shop:
    """An application `shop` that reads one topic of cluster `east`, and declares three internal topics.

    Their `home` is `east` too, unless a test sets it.
    """

    def __init__(self, folder: Path, east: KafkaCluster, topic: Topic) -> None:
        self.folder, self.east = folder, east
        self.home = east
        self.app = folder / "app.yaml"
        self.orders = east.create_topic(topic("orders"))
        self.names = {kind: topic(kind) for kind in (CHANGELOG, REPARTITION, DEAD)}
        self.declared: list[dict[str, Any]] = [
            {"name": self.names[CHANGELOG], "kind": CHANGELOG, "replicationFactor": 1},
            {"name": self.names[REPARTITION], "kind": REPARTITION, "partitions": 3, "config": {"segment.ms": "600000"}},
            {"name": self.names[DEAD], "kind": DEAD, "partitions": 2},
        ]
        write_metadata(
            folder / "streams.json",
            {"streamId": "st", "clusterMetadataList": [cluster("east", east, [self.orders])]},
        )
        self.write()

    def write(self, topics: Sequence[dict[str, Any]] | None = None, **fields: Any) -> Path:
        """Write the app.yaml, with these fields of `internalTopics` instead of the home `east`."""
        options = fields.pop("options", {})
        home = fields or {"cluster": "east"}
        content = {
            "name": "shop",
            "metadata": str(self.folder / "streams.json"),
            "streams": {"ids": ["st"]},
            "options": {"startingOffsets": "earliest", **options},
            "checkpoint": str(self.folder / "checkpoints"),
            "sinks": [{"name": "out", "type": "console"}],
            "internalTopics": {"timeout": "30s", "topics": list(topics or self.declared), **home},
        }
        self.app.write_text(yaml.safe_dump(content))
        return self.app

    def there(self) -> set[str]:
        """Return those kinds of the declared topics that exist."""
        listed = self.home.admin.list_topics(timeout=10).topics
        return {kind for kind, name in self.names.items() if name in listed}

    def make(self, kind: str, partitions: int, **config: str) -> str:
        """Make one of the topics by hand, as another program would."""
        return self.east.create_topic(self.names[kind], partitions, {k.replace("_", "."): v for k, v in config.items()})


@pytest.fixture(scope="session")
def east(pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    """The one cluster of these tests."""
    made = KafkaCluster("east")
    with kept_open(pytestconfig, pytestconfig.stash, [made]):
        start_all([made], timeout=240)
        yield made


@pytest.fixture(scope="session")
def _home(pytestconfig: pytest.Config) -> Iterator[KafkaCluster]:
    made = KafkaCluster("home")
    with kept_open(pytestconfig, pytestconfig.stash, [made]):
        start_all([made], timeout=240)
        yield made


@pytest.fixture
def home(_home: KafkaCluster, shop: Shop) -> Iterator[KafkaCluster]:
    """Yield a home for the internal topics of `shop`, which the test may pause; it runs again after the test."""
    shop.home = _home
    yield _home
    _home.resume()
    _home.wait_ready()


@pytest.fixture
def shop(east: KafkaCluster, topic: Topic, tmp_path: Path) -> Shop:
    """An application whose internal topics do not exist yet."""
    return Shop(tmp_path, east, topic)


@pytest.fixture
def tools(capsys: pytest.CaptureFixture[str]) -> Tools:
    """The tools, called as from a command line."""
    return Tools(capsys)
