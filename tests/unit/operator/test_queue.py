"""The work queue: one worker per key at a time, retries, and no key that holds up another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from kafkastream_operator.errors import ApiError
from kafkastream_operator.handlers import queue as queue_module
from kafkastream_operator.handlers.queue import PASSED, WorkQueue


def run(
    work: Callable[[str], float | None], story: Callable[[WorkQueue[str]], Awaitable[None]], workers: int = 2
) -> None:
    """Run a queue while the story lasts. Keys in capitals come later."""

    async def both() -> None:
        queue: WorkQueue[str] = WorkQueue(work, workers, comes_later=str.isupper)
        task = asyncio.create_task(queue.run())
        try:
            await asyncio.wait_for(story(queue), 30)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(both())


class Work:
    """Work that records its keys, waits at a gate, and fails as often as the test sets."""

    def __init__(self, failures: int = 0, again: float | None = None) -> None:
        self.done: list[str] = []
        self.failures, self.again = failures, again
        self.gate = threading.Event()
        self.gate.set()
        self.changed = threading.Condition()

    def __call__(self, key: str) -> float | None:
        with self.changed:
            self.done.append(key)
            self.changed.notify_all()
        self.gate.wait(30)
        if key == "bad" and self.done.count("bad") <= self.failures:
            raise ValueError("not yet")
        return self.again

    async def until(self, count: int, key: str | None = None) -> None:
        def enough() -> bool:
            return sum(key in (None, done_key) for done_key in self.done) >= count

        def wait() -> None:
            with self.changed:
                assert self.changed.wait_for(enough, 30)

        await asyncio.to_thread(wait)


def test_a_key_added_many_times_is_worked_on_once() -> None:
    work = Work()

    async def story(queue: WorkQueue[str]) -> None:
        for _ in range(50):
            queue.add("a")
        queue.add("b")
        await work.until(2)

    run(work, story)
    assert sorted(work.done) == ["a", "b"]


def test_a_key_added_during_its_work_is_worked_on_again() -> None:
    work = Work()
    work.gate.clear()

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await work.until(1)
        for _ in range(10):
            queue.add("a")
        queue.add("b")
        await work.until(1, "b")
        assert work.done.count("a") == 1  # although another worker is free
        work.gate.set()
        await work.until(2, "a")

    run(work, story, workers=3)
    assert work.done.count("a") == 2


def test_a_failing_key_is_retried_and_holds_up_no_other() -> None:
    work = Work(failures=1)

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("bad")
        queue.add("good")
        await work.until(1, "good")
        await work.until(2, "bad")

    run(work, story, workers=1)
    assert work.done[:2] == ["bad", "good"]


def test_a_key_that_fails_for_weeks_does_not_end_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_BACKOFF_S", 0.0)
    failures = 1100  # 2 to this power is too large for a float

    class Refused(Work):
        def __call__(self, key: str) -> float | None:
            super().__call__(key)
            if len(self.done) <= failures:
                raise ApiError("PUT x", 403, "Forbidden", "no")
            return None

    work = Refused()

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await work.until(failures + 1)

    run(work, story, workers=1)


def test_a_key_is_worked_on_again_when_it_asks_to() -> None:
    work = Work(again=0.01)

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await work.until(3)

    run(work, story)


def test_retry_after_of_the_api_server_is_respected() -> None:
    class Busy(Work):
        def __call__(self, key: str) -> float | None:
            super().__call__(key)
            if len(self.done) == 1:
                raise ApiError("PUT x", 429, "TooManyRequests", "later", retry_after_s=1.0)
            return None

    work = Busy()

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await work.until(1)
        began = asyncio.get_running_loop().time()
        for _ in range(20):  # events during the work and during the wait
            queue.add("a")
            await asyncio.sleep(0.01)
        await work.until(2)
        assert asyncio.get_running_loop().time() - began >= 0.9
        assert work.done == ["a", "a"]

    run(work, story)


def test_the_earlier_of_two_times_counts() -> None:
    work = Work()

    async def story(queue: WorkQueue[str]) -> None:
        queue.add_in("a", 3600)
        queue.add_in("a", 0.01)
        queue.add_in("a", 3600)
        await work.until(1)

    run(work, story)


def test_keys_that_come_later_wait_for_others_but_not_for_ever() -> None:
    work = Work()
    work.gate.clear()

    async def story(queue: WorkQueue[str]) -> None:
        queue.add("first")
        await work.until(1)
        for key in ("A", "B", *map(str, range(2 * PASSED))):
            queue.add(key)
        work.gate.set()
        await work.until(2 * PASSED + 3)

    run(work, story, workers=1)
    assert [work.done.index(key) for key in ("A", "B")] == [PASSED, 2 * PASSED + 1]


def test_as_many_keys_are_worked_on_at_once_as_there_are_workers() -> None:
    workers = 40  # more than asyncio's own threads
    barrier = threading.Barrier(workers)

    class Together(Work):
        def __call__(self, key: str) -> float | None:
            barrier.wait(30)
            return super().__call__(key)

    work = Together()

    async def story(queue: WorkQueue[str]) -> None:
        for number in range(workers):
            queue.add(str(number))
        await work.until(workers)

    run(work, story, workers=workers)
    assert not barrier.broken


def test_the_work_that_has_begun_is_done_when_a_queue_ends() -> None:
    """Another operator may write as soon as it gets the Lease."""
    done: list[str] = []

    class Slow(Work):
        def __call__(self, key: str) -> float | None:
            super().__call__(key)
            done.append(key)
            return None

    work = Slow()
    work.gate.clear()

    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(work)
        task = asyncio.create_task(queue.run())
        queue.add("a")
        await work.until(1)
        task.cancel()
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(task, return_exceptions=True)
        assert done == ["a"]

    asyncio.run(story())
