"""The work queue: which objects to reconcile, and when. Operator; runs in the event loop, with N workers.

- A key that is added while it waits stays in the queue once.
- A key that is added while a worker has it is worked on again afterwards, never twice at the same time.
- A key that fails is retried with a growing back-off, and holds up no other key.
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

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 60.0
"""Seconds of the first and of the longest back-off before a retry."""
MAX_DOUBLINGS = 10
"""Bounds the exponent, because a key may fail for weeks. The back-off has long reached its longest by then."""

log = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """The keys to work on.

    Args:
        work: works on one key, in a thread. It returns the seconds after which to work on the key again; None: not
            before the key is added again.
        workers: how many keys are worked on at the same time.
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
        """Add a key for the next free worker, but not before the API server's `Retry-After` has passed."""
        left = self._not_before.get(key, 0.0) - time.monotonic()
        if left > 0:
            self.add_in(key, left)
        elif key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_in(self, key: Key, seconds: float) -> None:
        """Add a key after some seconds. If it is due at several times, the earliest counts."""
        due = time.monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._count += 1
            heapq.heappush(self._timers, (due, self._count, key))
            self._timer_changed.set()

    @property
    def depth(self) -> int:
        """How many keys wait for a worker."""
        return len(self._waiting)

    def failures(self) -> dict[Key, int]:
        """Return how often in a row each failing key has failed."""
        return dict(self._failures)

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
            except Exception as error:  # no error may end the worker
                count = self._failures[key] = self._failures.get(key, 0) + 1
                again = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(count - 1, MAX_DOUBLINGS))
                wait = getattr(error, "retry_after_s", 0.0)
                again = max(again, wait)
                if wait > 0:
                    # Events do not shorten the wait, such as those of this attempt's own writes.
                    self._not_before[key] = time.monotonic() + wait
                unexpected = not hasattr(error, "status")
                log.warning("%s: failed, retry in %.1f s: %s", key, again, error, exc_info=unexpected)
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
