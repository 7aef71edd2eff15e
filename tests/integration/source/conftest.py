from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fixtures import Brokers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the metadata document."""
    return tmp_path / "streams.json"


@pytest.fixture
def orders(brokers: Brokers, topic: Callable[[str], str]) -> str:
    """A topic of one partition on each of the three clusters."""
    name = topic("orders")
    for at in brokers:
        at.create_topic(name)
    return name
