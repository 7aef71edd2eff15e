"""The operator's metrics: their names, and Prometheus' text format. Pure; `handlers.metrics` collects the values.

The text is written here, not by a library: one object has a few lines, and ten thousand objects are scraped at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "kafkastream_operator_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STREAM, SUBSCRIPTION = ("namespace", "stream"), ("namespace", "subscription")


@dataclass(frozen=True)
class Described:
    """The description of one metric.

    Attributes:
        buckets: the upper bounds of a histogram's buckets, without the infinite one.
    """

    labels: tuple[str, ...]
    doc: str
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    buckets: tuple[float, ...] = ()


METRICS: Mapping[str, Described] = {
    "stream_ready": Described(STREAM, "1 while the stream is valid and agrees with the others, else 0."),
    "stream_generation_lag": Described(STREAM, "Changes of the spec that the stream's status does not cover yet."),
    "stream_subscriptions": Described(STREAM, "Subscriptions that read the stream."),
    "stream_rollout_age_seconds": Described(
        STREAM, "Seconds since a newer form of the stream is on its way to subscriptions; absent at rest."
    ),
    "stream_draining_clusters": Described(STREAM, "Removed clusters that some application still reads."),
    "stream_drain_age_seconds": Described(
        STREAM, "Seconds since the stream is not safe to decommission; absent while it is."
    ),
    "subscription_ready": Described(SUBSCRIPTION, "1 while the condition Ready is True, else 0."),
    "subscription_stalled": Described(SUBSCRIPTION, "1 while a person is needed: the condition Stalled is True."),
    "subscription_revision": Described(SUBSCRIPTION, "Counter of the newest rendered revision."),
    "subscription_revision_lag": Described(
        SUBSCRIPTION, "Revisions from the one in force to the newest; at least 1 while the one in force is not known."
    ),
    "subscription_revision_rejected": Described(SUBSCRIPTION, "1 while the driver rejects the newest revision."),
    "subscription_rejected_revisions_total": Described(
        SUBSCRIPTION, "Revisions that the driver has rejected.", kind="counter"
    ),
    "subscription_rollout_age_seconds": Described(
        (*SUBSCRIPTION, "method"),
        "Seconds since a roll-out is under way or has failed, by Restart or Reload; absent when it is confirmed.",
    ),
    "subscription_restarts_total": Described(
        SUBSCRIPTION, "Patches by which the operator has restarted the application, repeated ones too.", kind="counter"
    ),
    "subscription_draining_topics": Described(SUBSCRIPTION, "Topics that drain, as many as the status lists."),
    "subscription_drain_age_seconds": Described(SUBSCRIPTION, "Seconds since the oldest of these drains began."),
    "subscription_drain_overdue": Described(
        SUBSCRIPTION, "1 while a drain takes longer than the stream's drain.timeout."
    ),
    "subscription_reporting": Described(
        SUBSCRIPTION, "1 while the running driver reports, 0 while it does not; absent while none runs."
    ),
    "subscription_report_age_seconds": Described(
        SUBSCRIPTION, "Seconds since the driver's last report; grows while nothing changes and nothing drains."
    ),
    "subscription_apply_to_rendered_seconds": Described(
        SUBSCRIPTION,
        "Seconds from the change that the operator has seen to the written document.",
        kind="histogram",
        buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
    ),
    "subscription_rendered_to_applied_seconds": Described(
        SUBSCRIPTION,
        "Seconds from the begin of a roll-out until its revision is in force.",
        kind="histogram",
        buckets=(1, 2.5, 5, 10, 30, 60, 120, 600),
    ),
    "reconcile_errors_total": Described(("resource",), "Reconciliations that failed, by kind.", kind="counter"),
    "reconcile_failures": Described(
        ("resource", "namespace", "name"), "Failed reconciliations in a row; absent when the last one succeeded."
    ),
    "queue_depth": Described((), "Objects that wait to be reconciled."),
    "watch_age_seconds": Described(
        ("resource",), "Seconds since the last event or full listing of a kind; at rest at most 300."
    ),
    "serving": Described((), "1 while this process serves, 0 while it waits for the Lease or lists everything."),
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


def label_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Return labels in Prometheus' text format, without the braces."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


class Samples:
    """The samples of one scrape."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {name: [] for name in METRICS}

    def add(self, name: str, labels: str, value: float | None) -> None:
        """Add a sample with the labels as `label_text` returns them; none if there is no value."""
        if value is not None:
            self._lines[name].append(_line(name, labels, value))

    def add_histogram(self, name: str, labels: str, found: Histogram) -> None:
        """Add the samples of a histogram."""
        count, lines = 0, self._lines[name]
        for bound, each in zip((*found.bounds, float("inf")), tuple(found.counts), strict=True):
            count += each
            le = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(_line(f"{name}_bucket", f'{labels},le="{le}"', count))
        lines += [_line(f"{name}_sum", labels, found.total), _line(f"{name}_count", labels, count)]

    def text(self) -> str:
        """Return the samples, each metric with its description."""
        parts = []
        for name, lines in self._lines.items():
            described = METRICS[name]
            parts.append(f"# HELP {PREFIX}{name} {described.doc}\n# TYPE {PREFIX}{name} {described.kind}\n")
            parts += lines
        return "".join(parts)


def _line(name: str, labels: str, value: float) -> str:
    braces = f"{{{labels}}}" if labels else ""
    return f"{PREFIX}{name}{braces} {float(value)!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
