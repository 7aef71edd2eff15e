"""Messages that an assignment fetches before the client accepts a seek, as on a slow machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.executor.reading import range_reader as module
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.executor.reading.message_connection import MessageConnection
from dynamic_kafka.executor.reading.range_reader import _RangeReader
from dynamic_kafka.planning.splits import Split, SplitRange


class Message:
    def __init__(self, code: int | None = None, offset: int = 5) -> None:
        self.code, self.at = code, offset

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code, "as the broker answers")

    def offset(self) -> int:
        return self.at


class Client:
    """A client that refuses some seeks, or all, and has these messages meanwhile."""

    def __init__(self, refusals: float, *messages: Message) -> None:
        self.refusals, self.messages = refusals, list(messages)
        self.assigned: list[TopicPartition] = []
        self.sought: list[int] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned += partitions

    def seek(self, start: TopicPartition) -> None:
        if self.refusals > 0:
            self.refusals -= 1
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.sought.append(start.offset)

    def poll(self, _: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log holds the offsets 9 and 10."""
    monkeypatch.setattr(module, "first_offset", lambda *_: 9)
    monkeypatch.setattr(module, "end_offset", lambda *_: 11)


def reader(client: Client, *, fail_on_data_loss: bool = True) -> Any:
    made: Any = _RangeReader.__new__(_RangeReader)
    part = SplitRange(Split("east", "orders", 0), 5, 11)
    made.task = SimpleNamespace(part=part, read_timeout_s=60.0, fail_on_data_loss=fail_on_data_loss)
    made.position, made.log_end = 5, None
    made.deadline = made.used_until = float("inf")
    made.cached = CachedConsumer("east", MessageConnection("east", cast(Any, client), []))
    return made


@pytest.mark.parametrize("code", module.LOSS_CODES)
def test_a_missing_offset_fails_although_every_seek_is_refused(code: int) -> None:
    with pytest.raises(DataLossError, match=r"read east/orders\[0\] 5\.\.11\b.*offset 5"):
        reader(Client(float("inf"), Message(), Message(code))).assign(5, 3)


def test_an_accepted_loss_continues_at_the_first_offset() -> None:
    client = Client(float("inf"), Message(KafkaError.OFFSET_OUT_OF_RANGE))
    made = reader(client, fail_on_data_loss=False)
    made.assign(5, 3)
    assert made.position == 9
    assert [partition.offset for partition in client.assigned] == [5, 9]


def test_records_fetched_before_the_seek_do_not_advance_it() -> None:
    client = Client(4, Message(offset=5), Message(offset=6), Message(KafkaError._PARTITION_EOF, offset=7))
    made = reader(client)
    made.assign(5, 3)
    assert (made.position, made.log_end, client.sought) == (5, None, [5])
