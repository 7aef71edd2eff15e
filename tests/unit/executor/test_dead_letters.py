"""Records that a deserialiser refuses: the rows without them, the dead letters, and a topic that cannot be written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.app.failures import code_of, code_of_text
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.errors import ClusterUnreachableError, DeadLetterError, ErrorCode, RecordEvaluationError
from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.evaluating import dead_letters
from dynamic_kafka.executor.evaluating.dead_letters import DeadLetters, dead_letter
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch, begin
from dynamic_kafka.executor.read_task import DeadLetterTarget, ReadTask
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.topic_producer import NewRecord
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.executor.test_evaluators import Message

HOME = ClusterClient(cluster="home", common={}, own={"bootstrap.servers": "h:9092"})
TASK = ReadTask(
    SplitRange(Split("east", "orders", 3), 40, 50),
    "shop",
    None,
    HOME,
    frozenset(),
    30.0,
    include_headers=False,
    fail_on_data_loss=True,
    topic_id="id1",
    dead_letters=DeadLetterTarget(HOME, "dead", "K1"),
)


class Topic:
    """The dead-letter topic, as each producer of a test writes to it.

    Attributes:
        written_before: for each batch of rows, the offsets of the dead letters that were written before it.
    """

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.written_before: list[list[int]] = []
        self.opened = self.closed = 0
        self.fails = False

    def __call__(self, cluster: str, properties: Any, topic: str, *, delivery_s: float) -> Topic:
        assert (cluster, topic, delivery_s) == ("home", "dead", 30.0)
        self.opened += 1
        return self

    def check_topic(self, kafka_id: str | None) -> None:
        assert kafka_id == "K1"

    def deliver(self, records: Sequence[NewRecord]) -> None:
        if self.fails:
            raise ClusterUnreachableError("home", "could not write to topic 'dead': timed out")
        self.records += records

    def close_in_background(self) -> None:
        self.closed += 1


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(dead_letters, "TopicProducer", made)
    return made


def rows(*messages: Any) -> MessageRows:
    return MessageRows(messages, TASK.part.split, "shop")


def offset_in(record: NewRecord) -> int:
    return int(json.loads(record.key)[3])


def read(topic: Topic, *lists: Sequence[bytes | None], end: str | None = None) -> list[int]:
    """Read lists of values from offset 40 on, as JSON; return the offsets of the rows. `end` is a stop record."""
    evaluator = Evaluator(
        "mine", "json", lambda value: value == end, None, lambda record: json.loads(record.value or b"")
    )
    if end is None:
        evaluator = replace(evaluator, is_end=None)
    offsets, fetched = iter(range(40, 99)), []
    for values in lists:
        fetched.append(rows(*(Message(next(offsets), value) for value in values)))
    row_offsets = []
    for batch in StopSearch(TASK, evaluator).batches(fetched):
        row_offsets += batch.column("offset").to_pylist()
        topic.written_before.append([offset_in(record) for record in topic.records])
    return row_offsets


def test_refused_records_are_written_and_the_others_read(topic: Topic) -> None:
    STATISTICS.take()
    assert read(topic, [b"1", b"x", b"2", b"y"], [b"z"], [None, b"3"]) == [40, 42, 45, 46]
    assert STATISTICS.take() == {"east": ClientCounts(dead_letters=3)}
    assert [offset_in(record) for record in topic.records] == [41, 43, 44]
    assert topic.written_before == [[41, 43], [41, 43, 44]]
    assert (topic.opened, topic.closed) == (1, 1)


def test_late_records_are_written_and_the_others_read(topic: Topic) -> None:
    # Given the clock at 5 ms, and a source that refuses no record
    target = DeadLetterTarget(HOME, "dead", "K1", refused=False, late=True)
    task = replace(TASK, dead_letters=target, late_before_ms=5, columns=("offset",))
    evaluator = Evaluator("", "", None, None, None)
    times = [4, 5, 6, -3]
    fetched = rows(*(Message(40 + at, b"x", stamp=(1, time)) for at, time in enumerate(times)))
    STATISTICS.take()
    [batch] = StopSearch(task, evaluator).batches([fetched])
    assert batch.column("offset").to_pylist() == [41, 42]
    assert [offset_in(record) for record in topic.records] == [40, 43]
    assert [dict(record.headers)["cause"] for record in topic.records] == [
        b"late by 1 ms",
        b"late by 8 ms",
    ]
    assert STATISTICS.take() == {"east": ClientCounts(dead_letters=2, late=2)}

    # Then a record that the deserialiser refuses still fails the batch
    evaluator = replace(evaluator, deserializer_name="json", deserialize=lambda record: json.loads(record.value or b""))
    with pytest.raises(RecordEvaluationError):
        list(StopSearch(task, evaluator).batches([rows(Message(40, b"x", stamp=(1, 4)))]))


def test_without_a_refused_record_nothing_connects(topic: Topic) -> None:
    assert read(topic, [b"1", b"2"], [b"3"]) == [40, 41, 42]
    assert topic.opened == 0


def test_nothing_behind_a_stop_record_is_a_dead_letter(topic: Topic) -> None:
    assert read(topic, [b"x", b"1", b'"end"', b"y"], [b"z"], end="end") == [41]
    assert [offset_in(record) for record in topic.records] == [40]


def test_the_letters_are_durable_before_the_rows(topic: Topic) -> None:
    topic.fails = True
    STATISTICS.take()
    with pytest.raises(DeadLetterError, match=r"cannot write 1 record of .*'dead' on home.*timed out") as failed:
        read(topic, [b"1", b"x"])
    assert topic.closed == 1
    assert not STATISTICS.take()
    assert code_of(failed.value) == ExitCode.CLUSTER
    text = f"Traceback:\ndynamic_kafka.errors.DeadLetterError: {failed.value}"
    assert code_of_text(text) == ExitCode.CLUSTER
    assert ErrorCode.find(text) is None, "no cluster that is read is to blame"


class Loaded:
    """An evaluation with a record evaluator and a deserialiser."""

    evaluator = "mine"
    looks_at_rows = False

    def load(self) -> Evaluator:
        return Evaluator("mine", "json", lambda _: True, None, lambda record: json.loads(record.value or b""))


def test_a_known_stop_record_still_leaves_the_deserialiser() -> None:
    """Each attempt delivers the same rows, also one that evaluates nothing."""
    evaluation: Any = Loaded()
    _, evaluator = begin(replace(TASK, has_stop_record=True), evaluation)
    assert evaluator is not None and not evaluator.ends_splits and evaluator.deserialize is not None
    assert begin(replace(TASK, has_stop_record=True, dead_letters=None), evaluation)[1] is None
    _, evaluator = begin(TASK, evaluation)
    assert evaluator is not None and evaluator.ends_splits

    # But where only late records become dead letters, nothing needs it
    target = DeadLetterTarget(HOME, "dead", "K1", refused=False, late=True)
    _, evaluator = begin(replace(TASK, has_stop_record=True, dead_letters=target), evaluation)
    assert evaluator is not None and evaluator.deserialize is None


def test_a_dead_letter_names_its_record_and_cause() -> None:
    message = Message(42, b"x", headers=[("trace", b"7"), ("cause", None)], stamp=(1, 1700))
    letter = dead_letter(rows(message).record(0), "ValueError: no JSON", TASK)
    assert letter.key == b'["east","orders",3,42,"id1"]'
    assert letter.value == b"x"
    assert letter.headers == [
        ("cluster", b"east"),
        ("topic", b"orders"),
        ("partition", b"3"),
        ("offset", b"42"),
        ("cause", b"ValueError: no JSON"),
        ("topicId", b"id1"),
        ("timestamp", b"1700"),
        ("key", b"k"),
        ("header.trace", b"7"),
        ("header.cause", None),
    ]


def test_headers_that_cannot_be_shown_are_left_out(topic: Topic) -> None:
    message = Message(42, b"x", headers=UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), stamp=(0, -1))
    DeadLetters(replace(TASK, topic_id=None), DeadLetterTarget(HOME, "dead", "K1")).write(
        rows(message), {0: "c" * 5000}
    )
    [letter] = topic.records
    assert [name for name, _ in letter.headers] == ["cluster", "topic", "partition", "offset", "cause", "key"]
