"""The thread that works on the newest value only."""

from __future__ import annotations

import threading

from dynamic_kafka.kafka.newest_value import NewestValue


def test_the_end_drops_the_value_that_waits() -> None:
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
    assert not thread.flush(0.01)
    thread.close()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)
    assert done == [1]  # the end drops what waits


def test_only_the_newest_or_the_merged_value_is_worked_on() -> None:
    done: list[int] = []
    begun, go_on = threading.Semaphore(0), threading.Event()

    def work(value: int) -> None:
        begun.release()
        go_on.wait()
        done.append(value)

    newest, merged = NewestValue("test", work, lambda: None), NewestValue("test", work, lambda: None, max)
    for thread in (newest, merged):
        thread.put(0)
        assert begun.acquire(timeout=10)
        for value in (1, 9, 5):
            thread.put(value)
    go_on.set()
    assert newest.flush(10) and merged.flush(10)
    assert sorted(done) == [0, 0, 5, 9]
    newest.close()
    merged.close()


def test_a_successor_waits_for_the_present_value() -> None:
    done: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(value: str) -> None:
        begun.set()
        go_on.wait()
        done.append(value)

    first = NewestValue("first", slow, lambda: None)
    first.put("old")
    assert begun.wait(10)
    first.close()
    second = NewestValue("second", done.append, lambda: None, after=first)
    second.put("new")
    assert not second.flush(0.05)
    go_on.set()
    assert second.flush(10)
    assert done == ["old", "new"]
    second.close()
