"""A thread that works on the newest of the values that it gets, for offsets that only matter in their newest form.

Runs on the driver. A cluster that hangs holds up this thread only: a newer value replaces the one that waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NewestValue(Generic[T]):
    """The thread, and the one value that waits for it.

    Args:
        work: takes a value. It raises nothing.
        ended: is called when the thread ends.
        merge: returns what waits, from the older waiting value and a new one; by default the new one.
        after: a closed one, whose present value comes first.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[T], None],
        ended: Callable[[], None],
        merge: Callable[[T, T], T] = lambda _, new: new,
        *,
        after: NewestValue[T] | None = None,
    ) -> None:
        self._work, self._ended, self._merge = work, ended, merge
        self._changed = threading.Condition()
        self._waiting: list[T] = []
        self._busy = self._closed = False
        self._after = after
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, value: T) -> None:
        """Let a value wait for the thread. Returns at once."""
        with self._changed:
            self._waiting = [self._merge(older, value) for older in self._waiting] or [value]
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until no value waits or is worked on. Return False when the time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def close(self) -> None:
        """Drop the value that waits, and end the thread after the present one. Returns at once."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        if self._after is not None:
            self._after._thread.join()
            self._after = None
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
                if not self._waiting:
                    break
                value, self._busy = self._waiting.pop(), True
            self._work(value)
        self._ended()
