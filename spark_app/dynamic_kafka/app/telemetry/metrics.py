"""The application's metrics, for Prometheus. Driver; `METRICS` lists all of them.

Nothing is stored here. Each scrape shows the current status of the sinks, the committers and the lag prober, so a
series exists exactly as long as its cluster or split is active.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dynamic_kafka.app.telemetry.metrics_receiver import SplitReads
from dynamic_kafka.driver.report.sink_status import SinkStatus, StatusBoard
from dynamic_kafka.executor.client_statistics import ClientCounts
from dynamic_kafka.metadata.discovery_state import DiscoveryStatus
from dynamic_kafka.planning.splits import Split

PREFIX = "dynamic_kafka_"
SINK, STREAM, CLUSTER = ("sink",), ("sink", "stream"), ("sink", "cluster")
SPLIT = ("sink", "cluster", "topic", "partition")
Offsets = Mapping[Split, int]
Lags = Mapping[Split, int]
Reads = Mapping[Split, SplitReads]


@dataclass(frozen=True)
class MetricDefinition:
    """The definition of one metric, as Prometheus shows it: a gauge, unless `counter` is set."""

    labels: tuple[str, ...]
    help: str
    counter: bool = False


METRICS: Mapping[str, MetricDefinition] = {
    "split_current_offset": MetricDefinition(SPLIT, "Next offset to read, after the batches that Spark has committed."),
    "split_committed_offset": MetricDefinition(SPLIT, "Offset last committed to the consumer group."),
    "split_lag": MetricDefinition(SPLIT, "End offset minus current offset; the end is asked every 10 s."),
    "split_offsets_read": MetricDefinition(
        SPLIT, "Offsets read since the application started: records and gaps.", counter=True
    ),
    "split_records_read": MetricDefinition(SPLIT, "Records that executors have read.", counter=True),
    "split_bytes_read": MetricDefinition(SPLIT, "Bytes of the keys and values that executors have read.", counter=True),
    "split_event_time_lag_seconds": MetricDefinition(
        SPLIT, "Age of the latest record of the last range when it was read."
    ),
    "split_finished": MetricDefinition(
        SPLIT, "1 once the split has reached its stopping offset or its stop record; its lag is 0 then."
    ),
    "split_idle_seconds": MetricDefinition(SPLIT, "Seconds since the split last advanced."),
    "cluster_splits": MetricDefinition(CLUSTER, "Active splits."),
    "cluster_lag": MetricDefinition(CLUSTER, "Sum of the known lags of its splits."),
    "cluster_stalled": MetricDefinition(
        CLUSTER, "1 while the cluster does not answer a plan, or the application, which asks it every 10 s."
    ),
    "cluster_never_reached": MetricDefinition(
        CLUSTER, "1 while the cluster does not answer and the query has never read it; the others are read."
    ),
    "cluster_offsets_read": MetricDefinition(CLUSTER, "Sum of the offsets read of its splits.", counter=True),
    "cluster_records_read": MetricDefinition(CLUSTER, "Sum of the records read of its splits.", counter=True),
    "cluster_bytes_read": MetricDefinition(CLUSTER, "Sum of the bytes read of its splits.", counter=True),
    "cluster_event_time_lag_seconds": MetricDefinition(CLUSTER, "Largest event-time lag of its splits."),
    "cluster_idle_seconds": MetricDefinition(CLUSTER, "Seconds since any of its splits last advanced."),
    "cluster_commits_succeeded": MetricDefinition(
        CLUSTER, "Commits to the consumer group that succeeded.", counter=True
    ),
    "cluster_commits_failed": MetricDefinition(CLUSTER, "Commits to the consumer group that failed.", counter=True),
    "cluster_client_bytes_received": MetricDefinition(
        CLUSTER, "Bytes that executors' consumers have received, compressed.", counter=True
    ),
    "cluster_client_bytes_sent": MetricDefinition(CLUSTER, "Bytes that these consumers have sent.", counter=True),
    "cluster_client_round_trips": MetricDefinition(CLUSTER, "Requests of them that were answered.", counter=True),
    "cluster_client_round_trip_seconds": MetricDefinition(
        CLUSTER, "Sum of the round-trip times of these requests.", counter=True
    ),
    "cluster_client_throttled_seconds": MetricDefinition(
        CLUSTER, "Sum of the pauses that brokers have asked these consumers for.", counter=True
    ),
    "cluster_client_connection_errors": MetricDefinition(
        CLUSTER, "Connections of these consumers that failed or broke.", counter=True
    ),
    "cluster_dead_letters": MetricDefinition(
        CLUSTER,
        "Records of the cluster, refused or late, that executors have written to the dead-letter topic.",
        counter=True,
    ),
    "cluster_dropped_records": MetricDefinition(
        CLUSTER, "Malformed records of the cluster that `mode=dropmalformed` has left out.", counter=True
    ),
    "cluster_late_rows": MetricDefinition(
        CLUSTER, "Late rows of the cluster; always 0 without `watermarkMode=periodic`.", counter=True
    ),
    "cluster_ranges_read": MetricDefinition(
        (*CLUSTER, "reader"), "Ranges that executors have begun to read, by the reader: native or python.", counter=True
    ),
    "clusters": MetricDefinition(STREAM, "Clusters with active splits."),
    "active_splits": MetricDefinition(STREAM, "Splits that the query reads: the open ones."),
    "parked_splits": MetricDefinition(STREAM, "Splits of removed clusters and topics whose offsets are kept."),
    "finished_splits": MetricDefinition(STREAM, "Splits that have reached their stopping offsets or stop records."),
    "minOffsetsBehindLatest": MetricDefinition(
        SINK, "Smallest lag of a split, under the name that Spark's source uses."
    ),
    "avgOffsetsBehindLatest": MetricDefinition(SINK, "Average lag of the splits."),
    "maxOffsetsBehindLatest": MetricDefinition(SINK, "Largest lag of a split."),
    "batch": MetricDefinition(SINK, "Number of the last committed batch."),
    "batch_seconds": MetricDefinition(SINK, "Duration of the last batch."),
    "batch_rows": MetricDefinition(SINK, "Rows of the last batch."),
    "clock_timestamp_seconds": MetricDefinition(
        SINK, "The stream's clock in the last batch, seconds since the epoch; only with `watermarkAlignmentMaxDrift`."
    ),
    "clock_held": MetricDefinition(
        SPLIT, "1 for the slowest split, which the others wait for; in normal operation, too."
    ),
    "clock_announced": MetricDefinition(
        CLUSTER, "1 while the clock waits for the first record of an announced cluster, 0 if none came in time."
    ),
    "restarts": MetricDefinition(SINK, "Restarts of the query within the process.", counter=True),
    "internal_topic_lost": MetricDefinition(
        ("topic",), "1 if the internal topic is missing or re-created, or was so when the application started."
    ),
    "changelog_unwritten_seconds": MetricDefinition(
        (), "Age of the oldest offset document that the offset changelog lacks; 0 if it has all."
    ),
    "metadata_failures": MetricDefinition((), "Metadata lookups in a row that failed."),
    "metadata_rejected": MetricDefinition(
        (), "1 while the newest metadata is rejected: invalid, not fitting its clusters, or an older revision."
    ),
}
"""Each metric by its name without the prefix; Prometheus adds `_total` to the names of counters."""


class _MetricFamilies:
    """The metric families of one scrape: each metric with its samples."""

    def __init__(self) -> None:
        self.families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, metric in METRICS.items():
            kind = CounterMetricFamily if metric.counter else GaugeMetricFamily
            self.families[name] = kind(PREFIX + name, metric.help, labels=list(metric.labels))

    def add(self, name: str, labels: Iterable[object], value: float | None) -> None:
        if value is not None:
            self.families[name].add_metric(tuple(map(str, labels)), float(value))


class AppCollector(Collector):
    """The collector that makes the metrics of each scrape.

    Args:
        ends: returns the known end offsets of splits.
        discovery: returns the state of metadata discovery.
        reads: returns the counts that executors reported for splits of a sink.
        named: returns the clusters that metadata names.
        unreachable: returns those of them that do not answer the lag prober, with the reason.
        lost_topics: returns for each internal topic whether it was lost.
        changelog_unwritten_s: returns how long the changelog lacks a document (`ChangelogWriter.unwritten_s`); None
            without a changelog.
        clients: returns the counts of the executors' consumers for a sink.
    """

    def __init__(
        self,
        board: StatusBoard,
        *,
        ends: Callable[[], Mapping[Split, int]],
        discovery: Callable[[], DiscoveryStatus],
        reads: Callable[[str, Iterable[Split]], Mapping[Split, SplitReads]],
        named: Callable[[], Collection[str]],
        unreachable: Callable[[], Mapping[str, str]],
        lost_topics: Callable[[], Mapping[str, bool]] = dict,
        changelog_unwritten_s: Callable[[], float | None] = lambda: None,
        clients: Callable[[str], Mapping[str, ClientCounts]] = lambda _: {},
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board, self._ends, self._discovery, self._reads, self._clock = board, ends, discovery, reads, clock
        self._named, self._unreachable = named, unreachable
        self._lost_topics, self._clients = lost_topics, clients
        self._changelog_unwritten_s = changelog_unwritten_s

    def collect(self) -> Iterator[Metric]:
        families, ends, now = _MetricFamilies(), self._ends(), self._clock()
        sinks = self._board.sinks().values()
        for status in sinks:
            following = status.next_offsets
            known = lags(status, ends)
            reads = self._reads(status.name, following)
            _splits(families, status, following, known, reads, now=now)
            _clusters(families, status, following, known, reads, now=now)
            _client_counts(families, status, self._clients(status.name))
            _stalled(families, status, self._named(), self._unreachable())
            _streams(families, status)
            _sink(families, status, known)
        for topic, lost in sorted(self._lost_topics().items()):
            families.add("internal_topic_lost", (topic,), lost)
        families.add("changelog_unwritten_seconds", (), self._changelog_unwritten_s())
        discovery = self._discovery()
        families.add("metadata_failures", (), discovery.consecutive_failures)
        refused = discovery.rejected is not None or any(
            summary.get("rejected") for status in sinks for summary in status.summaries
        )
        families.add("metadata_rejected", (), refused)
        yield from families.families.values()

    def describe(self) -> list[Metric]:
        """Return nothing: the series of a scrape depend on the moment."""
        return []


def lags(status: SinkStatus, ends: Mapping[Split, int]) -> dict[Split, int]:
    """Return the lag of each active split whose end offset is known; 0 for a finished one, which is not read on."""
    following, finished = status.next_offsets, status.finished_splits
    return {
        split: 0 if split in finished else max(0, ends[split] - offset)
        for split, offset in following.items()
        if split in ends
    }


def _splits(
    families: _MetricFamilies, status: SinkStatus, following: Offsets, known: Lags, reads: Reads, *, now: float
) -> None:
    finished = status.finished_splits
    for split, offset in following.items():
        labels = (status.name, split.cluster, split.topic, split.partition)
        families.add("split_current_offset", labels, offset)
        committed = status.committed.get(split.cluster, {}).get((split.topic, split.partition))
        families.add("split_committed_offset", labels, committed)
        families.add("split_lag", labels, known.get(split))
        families.add("split_offsets_read", labels, status.records.get(split, 0))
        if split in reads:
            families.add("split_records_read", labels, reads[split].records)
            families.add("split_bytes_read", labels, reads[split].size)
            families.add("split_event_time_lag_seconds", labels, reads[split].event_lag_s)
        families.add("split_finished", labels, split in finished)
        families.add("split_idle_seconds", labels, now - status.advanced_at.get(split, now))


def _clusters(
    families: _MetricFamilies, status: SinkStatus, following: Offsets, known: Lags, reads: Reads, *, now: float
) -> None:
    for cluster in sorted({split.cluster for split in following}):
        labels = (status.name, cluster)
        own = [split for split in following if split.cluster == cluster]
        families.add("cluster_splits", labels, len(own))
        # A cluster that does not answer has no lag. The lag of its last plan would soon be wrong.
        asked = [known[split] for split in own if split in known]
        families.add("cluster_lag", labels, sum(asked) if asked else None)
        families.add("cluster_offsets_read", labels, sum(status.records.get(split, 0) for split in own))
        reported = [reads[split] for split in own if split in reads]
        if reported:
            families.add("cluster_records_read", labels, sum(split_reads.records for split_reads in reported))
            families.add("cluster_bytes_read", labels, sum(split_reads.size for split_reads in reported))
            behind = [split_reads.event_lag_s for split_reads in reported if split_reads.event_lag_s is not None]
            families.add("cluster_event_time_lag_seconds", labels, max(behind, default=None))
        advanced_at = max((status.advanced_at.get(split, now) for split in own), default=now)
        families.add("cluster_idle_seconds", labels, now - advanced_at)
        if cluster in status.commits:
            families.add("cluster_commits_succeeded", labels, status.commits[cluster].succeeded)
            families.add("cluster_commits_failed", labels, status.commits[cluster].failed)


def _client_counts(families: _MetricFamilies, status: SinkStatus, clients: Mapping[str, ClientCounts]) -> None:
    for cluster, counts in sorted(clients.items()):
        if cluster not in status.document.clusters:
            continue
        labels = (status.name, cluster)
        families.add("cluster_client_bytes_received", labels, counts.received)
        families.add("cluster_client_bytes_sent", labels, counts.sent)
        families.add("cluster_client_round_trips", labels, counts.round_trips)
        families.add("cluster_client_round_trip_seconds", labels, counts.round_trip_us / 1e6)
        families.add("cluster_client_throttled_seconds", labels, counts.throttled_ms / 1e3)
        families.add("cluster_client_connection_errors", labels, counts.errors)
        families.add("cluster_dead_letters", labels, counts.dead_letters)
        families.add("cluster_dropped_records", labels, counts.dropped)
        families.add("cluster_late_rows", labels, counts.late)
        for reader, ranges in (("native", counts.native), ("python", counts.python)):
            families.add("cluster_ranges_read", (*labels, reader), ranges)


def _stalled(
    families: _MetricFamilies, status: SinkStatus, named: Collection[str], unreachable: Mapping[str, str]
) -> None:
    """Add the stalled clusters, also those that the sink has never read, and also while no batch reports them."""
    for cluster in sorted({*status.document.clusters, *named, *status.stalled}):
        families.add("cluster_stalled", (status.name, cluster), cluster in status.stalled or cluster in unreachable)
        families.add("cluster_never_reached", (status.name, cluster), cluster in status.never_reached)


def _streams(families: _MetricFamilies, status: SinkStatus) -> None:
    clusters, active, parked, finished = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for progress in status.document.clusters.values():
        clusters.update({topic.stream for topic in progress.topics.values()})
        for topic in progress.topics.values():
            done = sum(topic.finished(partition) for partition in topic.next)
            finished[topic.stream] += done
            active[topic.stream] += len(topic.next) - done
    for kept in status.document.parked.values():
        for parked_topic in kept.topics.values():
            parked[parked_topic.progress.stream] += len(parked_topic.progress.next)
    for stream in sorted(clusters.keys() | active.keys() | parked.keys()):
        labels = (status.name, stream)
        families.add("clusters", labels, clusters[stream])
        families.add("active_splits", labels, active[stream])
        families.add("parked_splits", labels, parked[stream])
        families.add("finished_splits", labels, finished[stream])


def _sink(families: _MetricFamilies, status: SinkStatus, known: Lags) -> None:
    labels = (status.name,)
    if known:
        behind = known.values()
        families.add("minOffsetsBehindLatest", labels, min(behind))
        families.add("avgOffsetsBehindLatest", labels, sum(behind) / len(behind))
        families.add("maxOffsetsBehindLatest", labels, max(behind))
    if status.batch >= 0:
        families.add("batch", labels, status.batch)
        families.add("batch_seconds", labels, status.batch_ms / 1000)
        families.add("batch_rows", labels, status.rows)
    families.add("restarts", labels, status.restarts)
    clocks = [summary["clock"] for summary in status.summaries if summary.get("clock") is not None]
    families.add("clock_timestamp_seconds", labels, min(clocks) / 1000 if clocks else None)
    for split in {Split(**summary["clockHeldBy"]) for summary in status.summaries if summary.get("clockHeldBy")}:
        families.add("clock_held", (status.name, *split), 1)
    late, waited_for = (
        {cluster for summary in status.summaries for cluster in summary.get(field, ())}
        for field in ("announcedTimedOut", "clockWaitsFor")
    )
    for cluster in late | waited_for:
        families.add("clock_announced", (status.name, cluster), cluster in waited_for)
