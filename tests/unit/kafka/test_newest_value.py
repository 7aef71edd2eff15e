"""The thread that works on the newest value only."""

from __future__ import annotations

import threading

from dynamic_kafka.kafka.newest_value import NewestValue


def test_only_the_newest_waiting_value_is_worked_on() -> None:
    done: list[int] = []
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(value: int) -> None:
        begun.set()
        go_on.wait()
        done.append(value)

    thread = NewestValue("test", work, ended.set)
    thread.put(1)
    assert begun.wait(10)
    thread.put(2)
    thread.put(3)
    assert not thread.flush(0.01)
    thread.close()
    assert not ended.is_set()
    go_on.set()
    assert thread.flush(10)
    assert ended.wait(10)
    assert done == [1, 3]


def test_waiting_values_are_merged() -> None:
    done: list[int] = []
    go_on = threading.Event()

    def work(value: int) -> None:
        go_on.wait()
        done.append(value)

    thread = NewestValue("test", work, lambda: None, max)
    for value in (1, 9, 5):
        thread.put(value)
    go_on.set()
    assert thread.flush(10)
    assert done[-1] == 9
    thread.close()
