"""Events that no condition of ours shows: each problem once, while it lasts. Operator; workers call it.

The memory is the process's: an operator that starts anew reports each problem that is still there once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from dynamic_kafka.wording import without_secrets
from kafkastream_operator.handlers.apply_plan import send_event
from kafkastream_operator.kube.api import Api, Object, Resource
from kafkastream_operator.kube.cache import Ref

Problem = tuple[str, str]
"""The reason and the text of an Event."""
MANY_FAILURES = 10
"""An object gets an Event after more failures in a row than this. The alert about it has the same number."""

FORGOTTEN_AFTER = timedelta(hours=1)
"""A problem that was over for this time is a new one when it comes back: Kubernetes forgets its Event by then."""


class Occurrences:
    """The problems of objects, as far as this process has seen them.

    Args:
        now: returns the time.
    """

    def __init__(self, api: Api, now: Callable[[], datetime]) -> None:
        self._api, self._now = api, now
        self._seen: dict[str, dict[Problem, datetime | None]] = {}
        self._failures = Counter[Ref]()

    def report(self, resource: Resource, kube_object: Object, problems: Iterable[Problem]) -> None:
        """Send an Event for each new problem of an object.

        Args:
            problems: (reason, text) of all problems that the object has now.
        """
        uid, now, present = kube_object["metadata"]["uid"], self._now(), dict.fromkeys(problems)
        before = {seen: over for seen, over in self._seen.get(uid, {}).items() if not _is_forgotten(over, now)}
        self._seen[uid] = {**{seen: over or now for seen, over in before.items()}, **present}
        for reason, text in present:
            if (reason, text) not in before:
                send_event(self._api, resource, kube_object, reason, text)
        if not self._seen[uid]:
            del self._seen[uid]

    def failed(self, job: Ref, kube_object: Object | None, error: Exception) -> None:
        """Count a failed reconciliation of an object, and send an Event when the failures in a row become many."""
        self._failures[job] += 1
        if kube_object is not None and self._failures[job] == MANY_FAILURES + 1:
            text = f"more than {MANY_FAILURES} reconciliations in a row have failed, and the operator retries: {error}"
            send_event(self._api, job.resource, kube_object, "ReconcileFailing", without_secrets(text))

    def succeeded(self, job: Ref) -> None:
        """Forget the failed reconciliations of an object."""
        del self._failures[job]


def _is_forgotten(over: datetime | None, now: datetime) -> bool:
    """Return whether a problem counts as new when it comes back.

    Args:
        over: since when the object has it no more; None while it has it.
    """
    return over is not None and now - over >= FORGOTTEN_AFTER
