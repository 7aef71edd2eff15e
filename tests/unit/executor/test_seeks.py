"""What an assignment brings before it can be sought, which a slow machine lets happen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.executor import reader as module
from dynamic_kafka.executor.reader import _RangeReader
from dynamic_kafka.planning.splits import Split, SplitRange


class Message:
    def __init__(self, code: int | None = None, offset: int = 5) -> None:
        self.code, self.at = code, offset

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code, "told by the broker")

    def offset(self) -> int:
        return self.at


class Client:
    """It takes no seek for a while, or ever, and has these messages meanwhile."""

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


def reader(client: Client, *, fail_on_data_loss: bool = True) -> Any:
    made: Any = _RangeReader.__new__(_RangeReader)
    part = SplitRange(Split("east", "orders", 0), 5, 11)
    made.task = SimpleNamespace(part=part, read_timeout_s=60.0, fail_on_data_loss=fail_on_data_loss)
    made.consumer, made.position, made.deadline, made.log_end = client, 5, float("inf"), None
    made.first_offset, made.real_end = lambda: 9, lambda: 11
    return made


@pytest.mark.parametrize("code", module.LOST)
def test_an_offset_that_is_not_there_is_told_though_no_seek_is_taken_any_more(code: int) -> None:
    with pytest.raises(DataLossError, match=r"cannot read east/orders\[0\] 5\.\.11 from offset 5"):
        reader(Client(float("inf"), Message(), Message(code))).assign(5, 3)


def test_where_that_is_accepted_reading_goes_on_where_the_log_begins() -> None:
    client = Client(float("inf"), Message(KafkaError.OFFSET_OUT_OF_RANGE))
    made = reader(client, fail_on_data_loss=False)
    made.assign(5, 3)
    assert made.position == 9
    assert [each.offset for each in client.assigned] == [5, 9]


def test_what_is_read_before_the_seek_moves_nothing() -> None:
    client = Client(4, Message(offset=5), Message(offset=6), Message(KafkaError._PARTITION_EOF, offset=7))
    made = reader(client)
    made.assign(5, 3)
    assert (made.position, made.log_end, client.sought) == (5, None, [5])
