"""The operator's metrics: their definitions, and the metric families of one scrape. Pure.

`handlers.metrics` collects the values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

PREFIX = "kafkastream_operator_"
STREAM, SUBSCRIPTION = ("namespace", "stream"), ("namespace", "subscription")


@dataclass(frozen=True)
class MetricDefinition:
    """The definition of one metric, as Prometheus shows it.

    Attributes:
        buckets: the upper bounds of a histogram's buckets, without the infinite one.
    """

    labels: tuple[str, ...]
    help: str
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    buckets: tuple[float, ...] = ()


METRICS: Mapping[str, MetricDefinition] = {
    "stream_ready": MetricDefinition(STREAM, "1 while the stream is valid and agrees with the others, else 0."),
    "stream_generation_lag": MetricDefinition(
        STREAM, "Changes of the spec that the stream's status does not cover yet."
    ),
    "stream_subscriptions": MetricDefinition(STREAM, "Subscriptions that read the stream."),
    "stream_rollout_age_seconds": MetricDefinition(
        STREAM, "Seconds since a newer form of the stream is on its way to subscriptions; absent at rest."
    ),
    "stream_draining_clusters": MetricDefinition(STREAM, "Removed clusters that some application still reads."),
    "stream_drain_age_seconds": MetricDefinition(
        STREAM, "Seconds since `Drained` of the stream became False; absent while it is True."
    ),
    "subscription_ready": MetricDefinition(SUBSCRIPTION, "1 while the condition Ready is True, else 0."),
    "subscription_stalled": MetricDefinition(
        SUBSCRIPTION, "1 while a person is needed: the condition Stalled is True."
    ),
    "subscription_revision": MetricDefinition(SUBSCRIPTION, "Counter of the newest rendered revision."),
    "subscription_revision_lag": MetricDefinition(
        SUBSCRIPTION, "Revisions from the one in force to the newest; at least 1 while the one in force is not known."
    ),
    "subscription_revision_rejected": MetricDefinition(SUBSCRIPTION, "1 while the driver rejects the newest revision."),
    "subscription_rejected_revisions_total": MetricDefinition(
        SUBSCRIPTION, "Times at which the driver began to reject a revision.", kind="counter"
    ),
    "subscription_rollout_age_seconds": MetricDefinition(
        (*SUBSCRIPTION, "method"),
        "Seconds since the roll-out began, by Restart or Reload; absent when it is confirmed, and while it is held up.",
    ),
    "subscription_rollout_paused": MetricDefinition(
        SUBSCRIPTION, "1 while a restart waits because that of another application has failed, else 0."
    ),
    "subscription_rollout_without_driver": MetricDefinition(
        SUBSCRIPTION, "1 while a roll-out waits for a driver of an application that starts, runs or has failed, else 0."
    ),
    "subscription_restarts_total": MetricDefinition(
        SUBSCRIPTION, "Patches by which the operator has restarted the application, repeated ones too.", kind="counter"
    ),
    "subscription_failures_total": MetricDefinition(
        SUBSCRIPTION, "Times at which the application has failed, tried again or not.", kind="counter"
    ),
    "subscription_application_down": MetricDefinition(
        SUBSCRIPTION, "1 while an application that starts, runs or has failed has no running driver, else 0."
    ),
    "subscription_internal_topic_lost": MetricDefinition(
        SUBSCRIPTION, "1 while the driver reports that internal topics were deleted or re-created, else 0."
    ),
    "subscription_draining_topics": MetricDefinition(SUBSCRIPTION, "Topics that drain, as many as the status lists."),
    "subscription_drain_age_seconds": MetricDefinition(SUBSCRIPTION, "Seconds since the oldest of these drains began."),
    "subscription_drain_overdue": MetricDefinition(
        SUBSCRIPTION, "1 while a drain takes longer than the stream's drain.timeout."
    ),
    "subscription_reporting": MetricDefinition(
        SUBSCRIPTION, "1 while the running driver reports, 0 while it does not; absent while none runs."
    ),
    "subscription_report_age_seconds": MetricDefinition(
        SUBSCRIPTION, "Seconds since the driver's last report; grows while nothing changes and nothing drains."
    ),
    "subscription_apply_to_rendered_seconds": MetricDefinition(
        SUBSCRIPTION,
        "Seconds from the change that the operator has seen to the written document.",
        kind="histogram",
        buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
    ),
    "subscription_rendered_to_applied_seconds": MetricDefinition(
        SUBSCRIPTION,
        "Seconds from the begin of a roll-out until its revision is in force.",
        kind="histogram",
        buckets=(1, 2.5, 5, 10, 30, 60, 120, 600),
    ),
    "document_left_behind": MetricDefinition(
        ("namespace", "document"), "1 for a rendered ConfigMap whose subscription is gone; absent for all others."
    ),
    "reconcile_errors_total": MetricDefinition(("resource",), "Reconciliations that failed, by kind.", kind="counter"),
    "reconcile_failures": MetricDefinition(
        ("resource", "namespace", "name"),
        "Failed reconciliations of an object, or refused listings of a namespace, in a row; absent when the last one"
        " succeeded.",
    ),
    "queue_depth": MetricDefinition((), "Objects that wait to be reconciled."),
    "watch_age_seconds": MetricDefinition(
        ("resource",), "Seconds since the last event or full listing of a kind; at rest at most 300."
    ),
    "serving": MetricDefinition((), "1 while this process serves, 0 while it waits for the Lease or lists everything."),
}
"""Each metric by its name without the prefix."""


@dataclass
class Histogram:
    """How many observations fell into each bucket.

    Attributes:
        counts: one for each bound, and one for what is larger than all of them.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    @classmethod
    def of(cls, name: str) -> Histogram:
        """Return an empty histogram with the buckets of this metric."""
        return cls(METRICS[name].buckets)

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class MetricFamilies(Collector):
    """The metric families of one scrape: each metric with its samples."""

    def __init__(self) -> None:
        self._values: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        self._histograms: dict[str, HistogramMetricFamily] = {}
        for name, metric in METRICS.items():
            full_name = PREFIX + name
            match metric.kind:
                case "histogram":
                    self._histograms[name] = HistogramMetricFamily(full_name, metric.help, labels=metric.labels)
                case "counter":
                    self._values[name] = CounterMetricFamily(full_name, metric.help, labels=metric.labels)
                case "gauge":
                    self._values[name] = GaugeMetricFamily(full_name, metric.help, labels=metric.labels)

    def add(self, name: str, labels: Sequence[str], value: float | None) -> None:
        """Add a sample with the values of the metric's labels; none if there is no value."""
        if value is not None:
            self._values[name].add_metric(labels, value)

    def add_histogram(self, name: str, labels: Sequence[str], histogram: Histogram) -> None:
        """Add the samples of a histogram."""
        bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
        self._histograms[name].add_metric(labels, buckets, histogram.total)

    def collect(self) -> Iterable[Metric]:
        """Return all of them, those without samples too."""
        return [*self._values.values(), *self._histograms.values()]

    def text(self) -> str:
        """Return the samples in Prometheus' text format, each metric with its description."""
        return generate_latest(self).decode()
