"""Count what happens to each subscription, for the metrics. Operator; workers and the event loop use it. Thread-safe.

`handlers.metrics` reads it at each scrape. Everything that a status shows is not here: a scrape reads the cache.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.last_failure import is_new, last_failure
from kafkastream_operator.core.metrics import Histogram
from kafkastream_operator.core.view import View
from kafkastream_operator.kube.cache import Ref


@dataclass
class SubscriptionMetrics:
    """The counters and histograms of one subscription since this process serves, and its driver's last report.

    Attributes:
        uid: of the subscription: another one of its name begins anew.
        failed: the submission whose failure was counted last: a plan whose writes fail is made again.
        reported_at: monotonic seconds; None if no driver runs that has reported.
        applied: the revision in force by that report.
    """

    uid: str
    restarts: int = 0
    rejected: int = 0
    failures: int = 0
    failed: str | None = None
    to_rendered: Histogram = field(default_factory=partial(Histogram.of, "subscription_apply_to_rendered_seconds"))
    to_applied: Histogram = field(default_factory=partial(Histogram.of, "subscription_rendered_to_applied_seconds"))
    reported_at: float | None = None
    applied: Revision | None = None


class Measurements:
    """The metrics of all subscriptions. Each has one writer: the worker that has the subscription.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._changed_at: dict[Ref, float] = {}
        self._metrics: dict[Ref, SubscriptionMetrics] = {}
        self._errors = Counter[str]()

    def changed(self, ref: Ref) -> None:
        """Note that a change concerns a subscription. The first of several changes counts, until `take`."""
        self._changed_at.setdefault(ref, self._clock())

    def take(self, ref: Ref) -> float | None:
        """Return since when a change waits for this reconciliation, in monotonic seconds; None if none does."""
        return self._changed_at.pop(ref, None)

    def failed(self, ref: Ref, since: float | None) -> None:
        """Count a failed reconciliation. The change that it took waits on for the next one."""
        if since is not None:
            self._changed_at[ref] = since
        with self._lock:
            self._errors[ref.resource.full_name] += 1

    def forget(self, ref: Ref) -> None:
        """Drop the metrics of a deleted subscription."""
        self._metrics.pop(ref, None)

    def observe(self, ref: Ref, view: View) -> SubscriptionMetrics:
        """Return the metrics of a subscription, with its driver's last report, and count a new failure."""
        metrics = self._metrics.get(ref)
        if metrics is None or metrics.uid != view.uid:
            metrics = self._metrics[ref] = SubscriptionMetrics(view.uid)
        report, driver = own_report(view.driver, view.uid), view.driver
        alive = report is not None and driver is not None and driver.running
        metrics.reported_at = self._clock() - driver.silent_s if alive and driver is not None else None
        metrics.applied = report.applied if report is not None else None
        failure = last_failure(view)
        if failure is not None and is_new(view) and failure.submission != metrics.failed:
            metrics.failures, metrics.failed = metrics.failures + 1, failure.submission
        return metrics

    def count(
        self,
        metrics: SubscriptionMetrics,
        events: Collection[str],
        *,
        since: float | None,
        seconds_to_apply: float | None,
    ) -> None:
        """Count what a reconciliation has done.

        Args:
            events: the reasons of its Events.
            since: when the change came that it took.
            seconds_to_apply: the duration of the roll-out that it confirms; None if it confirms none.
        """
        metrics.restarts += "Restarting" in events
        metrics.rejected += "Rejected" in events
        if "Rendered" in events and since is not None:
            metrics.to_rendered.observe(self._clock() - since)
        if seconds_to_apply is not None:
            metrics.to_applied.observe(seconds_to_apply)

    def of(self, ref: Ref, uid: str) -> SubscriptionMetrics | None:
        """Return the metrics of exactly this subscription; None if it was not reconciled yet."""
        metrics = self._metrics.get(ref)
        return metrics if metrics is not None and metrics.uid == uid else None

    def report_age_s(self, metrics: SubscriptionMetrics) -> float | None:
        """Return the seconds since the driver's last report; None without one."""
        return self._clock() - metrics.reported_at if metrics.reported_at is not None else None

    def errors(self) -> Mapping[str, int]:
        """Return the number of failed reconciliations by the kind's full name."""
        with self._lock:
            return dict(self._errors)
