"""Whether the watches still tell of what changes.

What is known otherwise, by a listing or by the answer to a write of our own, is the canary: a watch has to tell of it,
too. Where nothing changes nothing is expected, so that an operator without work is never taken for a deaf one; and
while the API server is away nothing is held against a watch. A connection that has died without a word is not meant:
kopf ends a watch that has neither events nor bookmarks for 70 s, and begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafkastream_operator.kube.api import Resource

DEAF_S = 300.0
"""How long a watch may be silent about a change, while the API server answers: longer than kopf waits between tries."""

Watch = tuple[Resource, str | None]
"""A kind, and the namespace in which it is watched; None: all."""


class Hearing:
    """What the watches are expected to tell. Thread-safe.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._heard: set[Watch] = set()
        self._since: dict[Watch, float] = {}
        self._answered = clock()

    def changed(self, watch: Watch) -> None:
        """Something that this watch shows has changed, whoever told. Of one that has never told anything nothing is
        expected: its kind may not be installed, and is listed often for that reason."""
        with self._lock:
            if watch in self._heard:
                self._since.setdefault(watch, self._clock())

    def told(self, watch: Watch) -> None:
        """It has said something, whatever it was."""
        with self._lock:
            self._heard.add(watch)
            self._since.pop(watch, None)

    def listed(self, done: bool) -> None:
        """The API server has answered for everything, or not: then all watches begin anew, too."""
        with self._lock:
            if done:
                self._answered = self._clock()
            else:
                self._since = dict.fromkeys(self._since, self._clock())

    def deaf(self) -> str:
        """Which watch has been silent for too long; "" if none has."""
        with self._lock:
            silent = {watch: self._answered - since for watch, since in self._since.items()}
        return "; ".join(
            f"the watch of {kind.plural} in {where or 'all namespaces'} has been silent about a change for {long:.0f} s"
            for (kind, where), long in silent.items()
            if long > DEAF_S
        )
