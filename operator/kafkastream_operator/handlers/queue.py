"""The work queue: which objects to reconcile, and when. Operator; runs in the event loop, with N workers.

- A key that is added while it waits stays in the queue once.
- A key that is added while a worker has it is worked on again afterwards, never twice at the same time.
- A key that fails is retried with a growing back-off, and holds up no other key.
- Some keys come later: those whose work shows what the work on the others has done.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 60.0
"""Seconds of the first and of the longest back-off before a retry."""
PASSED = 9
"""How many keys pass one that comes later."""
MAX_DOUBLINGS = 10
"""Bounds the exponent, because a key may fail for weeks. The back-off has long reached its longest by then."""

log = logging.getLogger(__name__)


class WorkQueue(Generic[Key]):
    """The keys to work on.

    Args:
        work: works on one key, in a thread. It returns the seconds after which to work on the key again; None: not
            before the key is added again.
        workers: how many keys are worked on at the same time.
        comes_later: returns whether a key waits for those that do not come later. At most `PASSED`
            of them pass one that waits.
    """

    def __init__(
        self,
        work: Callable[[Key], float | None],
        workers: int = 4,
        comes_later: Callable[[Key], bool] = lambda key: False,
    ) -> None:
        self._work, self._workers, self._comes_later = work, workers, comes_later
        self._first: deque[Key] = deque()
        self._later: deque[Key] = deque()
        self._passed = 0
        self._ready = asyncio.Semaphore(0)
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
            (self._later if self._comes_later(key) else self._first).append(key)
            self._ready.release()

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
        """Work until cancelled, in threads of its own. The work that has begun is done when it returns."""
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="worker")
        tasks = [self._run_timers(), *(self._run_worker(pool) for _ in range(self._workers))]
        try:
            async with asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(task)
        finally:
            await asyncio.to_thread(pool.shutdown)

    async def next(self) -> Key:
        """Wait for a key, and take it."""
        await self._ready.acquire()
        if self._later and (not self._first or self._passed >= PASSED):
            self._passed = 0
            key = self._later.popleft()
        else:
            self._passed += 1
            key = self._first.popleft()
        self._waiting.discard(key)
        return key

    async def _run_worker(self, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self.next()
            self._busy.add(key)
            self._due.pop(key, None)
            self._not_before.pop(key, None)
            again: float | None = None
            try:
                again = await loop.run_in_executor(pool, self._work, key)
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
