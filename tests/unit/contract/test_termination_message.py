"""The termination message: the application writes it, and the operator reads it back."""

from __future__ import annotations

import json

import pytest

from dynamic_kafka.contract.termination_message import MAX_BYTES, ChangedTopic, TerminationMessage

TOPICS = tuple(
    ChangedTopic(cluster="east", topic=f"orders-{number}", expected="9tQ_vI2NQ-mPHLbQyJ0jXA") for number in range(99)
)


def test_a_message_is_read_back_as_it_was_written() -> None:
    for message in (
        TerminationMessage(code=5, reason='ClusterError: "x"\ny'),
        TerminationMessage.of_finished(1, 12),
        TerminationMessage(code=9, reason="x", changed_topics=TOPICS[:3]),
    ):
        assert TerminationMessage.parse(message.text()) == message


def test_a_lone_surrogate_is_replaced() -> None:
    read = TerminationMessage.parse(r'{"code": 9, "reason": "a\ud800"}')
    assert read is not None and read.reason == "a?"


@pytest.mark.parametrize("character", ["x", "\N{GRINNING FACE}", "\n", "\x07"])
def test_a_long_reason_is_cut(character: str) -> None:
    text = TerminationMessage(code=6, reason=character * 5000).text()
    read = TerminationMessage.parse(text)
    assert MAX_BYTES - 10 < len(text.encode()) <= MAX_BYTES
    assert read is not None and read.code == 6 and set(read.reason) == {character}


def test_topics_without_room_are_counted() -> None:
    text = TerminationMessage(code=9, reason="x" * 1000, changed_topics=TOPICS).text()
    read = TerminationMessage.parse(text)
    assert read is not None and len(text) <= MAX_BYTES
    kept = len(read.changed_topics)
    assert kept > 3 and read == TerminationMessage(
        code=9, reason="x" * 1000, changed_topics=TOPICS[:kept], more_topics=len(TOPICS) - kept
    )


def test_a_finished_driver_says_so_with_counts() -> None:
    assert json.loads(TerminationMessage.of_finished(2, 1).text()) == {
        "code": 0,
        "reason": "finished for good: 2 sinks, 1 split read to the end",
        "finished": True,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "killed",
        "exit code 0: finished",
        "{}",
        "[" * 4000,
        '{"code": "0", "reason": "x"}',
        '{"code": 0}',
        '{"code": 256, "reason": "x"}',
        '{"code": 1, "reason": "x", "moreTopics": 1e999}',
        '{"code": 1, "reason": "x", "changedTopics": [7]}',
    ],
)
def test_the_words_of_another_program_are_no_message(text: str) -> None:
    assert TerminationMessage.parse(text) is None
