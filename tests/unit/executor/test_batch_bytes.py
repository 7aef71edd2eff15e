"""The first fetch of a range, before the size of its records is known."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from dynamic_kafka.executor.reading.connection import Wanted
from dynamic_kafka.executor.reading.message_connection import MessageConnection
from dynamic_kafka.executor.reading.range_reader import FIRST_FETCH, MAX_BYTES, MAX_ROWS


class Message:
    def __init__(self, size: int, offset: int, field: str) -> None:
        self.size, self.at, self.field = size, offset, field

    def __len__(self) -> int:
        return self.size if self.field == "value" else 0

    def key(self) -> bytes | None:
        return bytes(self.size) if self.field == "key" else None

    def offset(self) -> int:
        return self.at

    def error(self) -> None:
        return None


class Client:
    """A client that has fetched everything already, as with a fast broker."""

    def __init__(self, size: int, field: str) -> None:
        self.size, self.field, self.offsets = size, field, count()

    def poll(self, _: float) -> Message:
        return Message(self.size, next(self.offsets), self.field)

    def consume(self, number: int, _: float) -> list[Message]:
        return [self.poll(0) for _ in range(number)]


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize(("size", "most"), [(1_000_000, 9), (3_000_000, 3), (20_000_000, 1), (100, FIRST_FETCH + 1)])
def test_the_first_fetch_fits_into_one_batch(size: int, most: int, field: str) -> None:
    client: Any = Client(size, field)
    wanted = Wanted(0, 1_000_000, -1, MAX_ROWS, MAX_BYTES, MAX_BYTES / FIRST_FETCH, headers=False)
    fetched = MessageConnection("east", client, []).fetch(wanted, 1.0)
    assert (fetched.rows, fetched.size, fetched.position) == (most, most * size, most)
