"""Detect watches that no longer deliver events. Operator; `watch.py` feeds it, `health.py` asks it for each probe.

The operator also learns of changes from listings and from the answers to its own writes. For each such change, the
watch of that kind has to deliver an event, too. A watch that does not is silent, and only a restart of the operator
helps.

- Without changes no event is expected, so an operator without work is never reported.
- While the API server is away, the time does not count against a watch.
- This module does not detect dead connections. kopf ends a watch that has brought neither events nor bookmarks for
  70 s, and starts a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kafkastream_operator.kube.api import Resource

MAX_SILENCE_S = 300.0
"""How long a watch may owe an event while the API server answers: longer than kopf's longest pause between tries."""

Watch = tuple[Resource, str | None]
"""A kind, and the namespace in which it is watched; None: all namespaces."""


class WatchHealth:
    """The events that each watch still owes. Thread-safe.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._working: set[Watch] = set()
        self._owed_since: dict[Watch, float] = {}
        self._seen_at: dict[Watch, float] = {}
        self._listed_at = clock()

    def expect_event(self, watch: Watch) -> None:
        """Expect an event of a watch, because an object that it covers has changed.

        A watch that has never delivered an event owes none: its kind may not be installed. Such kinds are listed often
        instead.
        """
        with self._lock:
            if watch in self._working:
                self._owed_since.setdefault(watch, self._clock())

    def record_event(self, watch: Watch) -> None:
        """Record that a watch has delivered an event, of whatever object."""
        with self._lock:
            self._working.add(watch)
            self._seen_at[watch] = self._clock()
            self._owed_since.pop(watch, None)

    def record_listing(self, done: bool) -> None:
        """Record whether the API server has listed everything. If not, the time of every watch starts again."""
        with self._lock:
            if done:
                self._listed_at = self._clock()
            else:
                self._owed_since = dict.fromkeys(self._owed_since, self._clock())

    def age_s(self, watches: Iterable[Watch]) -> float:
        """Return the seconds since the last event or full listing, of the watch that has waited longest."""
        with self._lock:
            return self._clock() - min(max(self._listed_at, self._seen_at.get(watch, 0.0)) for watch in watches)

    def overdue(self) -> str:
        """Return which watches have owed an event for too long; "" if none has."""
        with self._lock:
            silent = {watch: self._listed_at - since for watch, since in self._owed_since.items()}
        return "; ".join(
            f"the watch of {kind.plural} in {where or 'all namespaces'} has been silent about a change for {long:.0f} s"
            for (kind, where), long in silent.items()
            if long > MAX_SILENCE_S
        )
