"""Retries of transient errors, up to a deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.kafka import retries
from dynamic_kafka.kafka.retries import PAUSE_S, retry_while_transient

MOVING = KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
REFUSED = KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "time", Clock())


def cluster(*answers: object) -> tuple[Callable[[float], object], list[float]]:
    """Return a call with these answers, the last one repeated, and the list of the seconds that each call got."""
    asked: list[float] = []

    def ask(left: float) -> object:
        asked.append(left)
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask, asked


def test_a_retry_gets_the_remaining_time() -> None:
    ask, asked = cluster(MOVING, MOVING, "here")
    assert retry_while_transient(ask, 60) == "here"
    assert asked == pytest.approx([60, 60 - PAUSE_S, 60 - 2 * PAUSE_S])


@pytest.mark.parametrize("answer", [REFUSED, TimeoutError("no answer")], ids=str)
def test_any_other_error_is_final(answer: Exception) -> None:
    ask, asked = cluster(answer, "here")
    with pytest.raises(type(answer)):
        retry_while_transient(ask, 60)
    assert len(asked) == 1


def test_a_move_beyond_the_deadline_is_an_error() -> None:
    ask, asked = cluster(MOVING)
    with pytest.raises(KafkaException):
        retry_while_transient(ask, 3.5 * PAUSE_S)
    assert len(asked) == 4
