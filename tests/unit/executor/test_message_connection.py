"""The reader in Python: the records that one fetch takes from the client's messages, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from dynamic_kafka.executor.reading.connection import Wanted
from dynamic_kafka.executor.reading.message_connection import MessageConnection
from dynamic_kafka.planning.splits import Split

SPLIT = Split("east", "orders", 0)
EOF = KafkaError._PARTITION_EOF


class Message:
    def __init__(self, offset: int, epoch: int | None = None, code: int | None = None) -> None:
        self.at, self.epoch, self.code = offset, epoch, code

    def __len__(self) -> int:
        return 10

    def key(self) -> None:
        return None

    def offset(self) -> int:
        return self.at

    def leader_epoch(self) -> int | None:
        return self.epoch

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class Client:
    """A client that has these messages."""

    def __init__(self, *messages: Message) -> None:
        self.messages = list(messages)

    def poll(self, _: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, number: int, _: float) -> list[Message]:
        taken, self.messages = self.messages[:number], self.messages[number:]
        return taken

    def assign(self, _: Any) -> None:
        pass

    def unassign(self) -> None:
        pass


def wanted(position: int = 5, end: int = 20, last_epoch: int = -1) -> Wanted:
    return Wanted(position, end, last_epoch, 100, 10_000, 10.0, headers=False)


def connection(*messages: Message) -> MessageConnection:
    client: Any = Client(*messages)
    return MessageConnection("east", client, [])


def offsets(made: MessageConnection) -> list[int]:
    rows = made.take(SPLIT, "shop")
    return [rows.offset(at) for at in range(len(rows))]


def test_records_of_the_range_are_taken() -> None:
    made = connection(*map(Message, (3, 4, 7, 8, 20, 21)))
    assert made.fetch(wanted(), 0)[:2] == (7, 21)
    assert offsets(made) == [7, 8]


def test_a_fetch_adds_to_those_before_it() -> None:
    made = connection(*map(Message, range(5, 9)))
    made.fetch(wanted(5, 7), 0)
    assert made.fetch(wanted(7), 0) == (7, 9, 4, 40, None)
    assert offsets(made) == [5, 6, 7, 8]


def test_a_notice_ends_a_fetch_and_the_next_one_goes_on() -> None:
    made = connection(Message(5), Message(6, code=EOF), Message(6), Message(7))
    first = made.fetch(wanted(), 0)
    assert first.notice is not None and first.notice.error is not None
    assert (first.position, first.notice.offset, first.notice.error.code()) == (6, 6, EOF)
    assert made.fetch(wanted(6), 0) == (6, 8, 3, 30, None)


def test_a_new_assignment_drops_what_is_behind_a_notice() -> None:
    made = connection(Message(5), Message(6, code=EOF), Message(7))
    made.fetch(wanted(), 0)
    made.assign(SPLIT, 6, -1)
    assert made.fetch(wanted(6), 0) == (None, 6, 1, 10, None)
    assert offsets(made) == [5]


@pytest.mark.parametrize(("last_epoch", "end", "noticed"), [(3, 20, 6), (4, 20, None), (-1, 20, None), (3, 6, None)])
def test_a_record_of_a_later_leader_is_not_taken(last_epoch: int, end: int, noticed: int | None) -> None:
    made = connection(Message(5, 3), Message(6, 4))
    notice = made.fetch(wanted(4, end, last_epoch), 0).notice
    assert (notice.offset if notice else None) == noticed
    assert offsets(made) == ([5] if noticed or end == 6 else [5, 6])


def test_nothing_of_an_unfinished_range_reaches_the_next_one() -> None:
    made = connection(Message(5), Message(6, code=EOF), Message(6))
    made.fetch(wanted(), 0)
    made.unassign()
    assert made.fetch(wanted(9), 0) == (None, 9, 0, 0, None)
