"""Which subscriptions to look at, and when: one de-duplicating queue, with N workers. asyncio.

A key that comes again while it waits is there once; one that comes while it is worked on is worked on again afterwards,
never twice at a time. What fails comes back later and later; a bad one holds up no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 60.0
DOUBLINGS = 10
"""After so many the pause is the longest for certain; a key may fail for weeks, and 2 to that power is no number."""

log = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """Keys to work on.

    Args:
        work: looks at one key, in a thread; returns in how many seconds to look again, None: not by itself.
        workers: how many keys are worked on at a time.
    """

    def __init__(self, work: Callable[[Key], float | None], workers: int = 4) -> None:
        self._work, self._workers = work, workers
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._timers: list[tuple[float, int, Key]] = []
        self._count = 0
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._timer_changed = asyncio.Event()

    def add(self, key: Key) -> None:
        """Look at it as soon as a worker is free, and the API server wants to hear of it again."""
        left = self._not_before.get(key, 0.0) - time.monotonic()
        if left > 0:
            self.add_in(key, left)
        elif key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_in(self, key: Key, seconds: float) -> None:
        """Look at it later, or earlier than planned before."""
        due = time.monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._count += 1
            heapq.heappush(self._timers, (due, self._count, key))
            self._timer_changed.set()

    async def run(self) -> None:
        """Work until cancelled."""
        tasks = [self._run_timers(), *(self._run_worker() for _ in range(self._workers))]
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(task)

    async def _run_worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._busy.add(key)
            self._due.pop(key, None)
            self._not_before.pop(key, None)
            again: float | None = None
            try:
                again = await asyncio.to_thread(self._work, key)
                self._failures.pop(key, None)
            except Exception as error:  # whatever it is: it must not end the worker
                count = self._failures[key] = self._failures.get(key, 0) + 1
                again = min(LAST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(count - 1, DOUBLINGS))
                wait = getattr(error, "retry_after_s", 0.0)
                again = max(again, wait)
                if wait > 0:
                    # Whatever changes meanwhile, such as by what this look has written before it was refused.
                    self._not_before[key] = time.monotonic() + wait
                unexpected = not hasattr(error, "status")
                log.warning("%s: again in %.1f s: %s", key, again, error, exc_info=unexpected)
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif again is not None:
                self.add_in(key, again)

    async def _run_timers(self) -> None:
        while True:
            self._timer_changed.clear()
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                due, _, key = heapq.heappop(self._timers)
                if self._due.get(key) == due:
                    del self._due[key]
                    self.add(key)
            wait = self._timers[0][0] - now if self._timers else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._timer_changed.wait(), wait)
