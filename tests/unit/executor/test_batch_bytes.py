"""The first fetch of a range, before the size of its records is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.executor.range_reader import FIRST_FETCH, MAX_BYTES, MAX_ROWS, _RangeReader


class Message:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def error(self) -> None:
        return None


class Client:
    """A client that has fetched everything already, as with a fast broker."""

    def __init__(self, size: int) -> None:
        self.size = size

    def poll(self, _: float) -> Message:
        return Message(self.size)

    def consume(self, count: int, _: float) -> list[Message]:
        return [Message(self.size) for _ in range(count)]


@pytest.mark.parametrize(("size", "most"), [(1_000_000, 9), (3_000_000, 3), (20_000_000, 1), (100, FIRST_FETCH + 1)])
def test_the_first_fetch_fits_into_one_batch(size: int, most: int) -> None:
    reader: Any = _RangeReader.__new__(_RangeReader)
    reader.task = SimpleNamespace(read_timeout_s=1.0, part=SimpleNamespace(end=1_000_000))
    reader.consumer, reader.position, reader.mean_bytes = Client(size), 0, MAX_BYTES / FIRST_FETCH
    arrived = reader.fetch(MAX_ROWS, MAX_BYTES)
    assert len(arrived) == most
