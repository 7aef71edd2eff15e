"""The evidence that a topic is drained, from the driver's report. Pure; `core.next_document` calls it.

A report is evidence only if all of this holds:

- the application runs, its driver's pod exists and belongs to it, and the report names this pod and this subscription;
- the report is fresh by the operator's own clock;
- the driver uses a revision in which the topic drains already;
- since then the driver has listed the end offsets, has seen no new record and no open transaction, and Spark has
  committed everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dynamic_kafka.contract.driver_report import DriverReport, StandingClock
from dynamic_kafka.contract.kubernetes_names import DRAIN_REPORT_INTERVAL_S
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.document import Key
from kafkastream_operator.core.topic_integrity import TopicVerdict

FRESH_S = 3 * DRAIN_REPORT_INTERVAL_S
"""Seconds for which a report counts. While a topic drains, a driver reports three times as often."""
_WITHOUT_DRIVER: Mapping[Life, str] = {
    "Running": "is Running, and its driver has no pod: see its status, and whether the Spark operator runs",
    "Starting": "is Starting: if that lasts, kubectl describe it and its driver's pod",
    "Failing": "is Failing, and tried again: correct the cause that its status and its driver's log name",
    "Suspended": "is Suspended: set its spec.suspend to false",
    "Failed": "is Failed: correct the cause that its status and its driver's log name, and start it again",
    "Completed": "is Completed: start it again",
    "Absent": "does not exist: apply it",
}
"""The state of an application without a driver, with a remedy."""


@dataclass(frozen=True)
class TopicReport:
    """A driver's report on one topic that drains.

    Attributes:
        lag: records, over all partitions, that are not in a batch that Spark has committed; None if that is not known.
        quiet_s: seconds for which no end offset has moved, by the driver's monotonic clock, since the driver has used
            the draining revision. Any error sets it back to 0.
        open_transaction: the last stable offset of a partition is behind its high watermark.
        kafka_id: the `cluster.id` that the brokers report; "" if the driver reports none.
        never_reached: no query has ever read the cluster, and it does not answer.
        finished: all queries have read all its splits to their ends, and read them no more.
    """

    lag: int | None
    quiet_s: float
    open_transaction: bool = False
    kafka_id: str = ""
    never_reached: bool = False
    finished: bool = False


@dataclass(frozen=True)
class Report:
    """A driver report in the terms of the core, without what it has no use for. `DriverReport` describes all fields.

    Attributes:
        applied: the revision in force; None before the first, or if the report names none that a status can hold.
        rejected: (token, reason) of a newer revision that the driver does not use.
        pod: the UID of the pod that the driver runs in, according to the driver.
        draining: {topic: its progress}.
        never_reached: {cluster: cause} of clusters that a query has never read because they do not answer.
        unanswered: new clusters that have neither answered a query nor failed yet.
        finished: all queries have ended by themselves, and a further start of them reads nothing.
        open_splits: splits that have not reached their stop record, once another one has; not all of them.
        lost_topics: internal topics of the application that are missing or were re-created.
        homes: the clusters that hold its internal topics, by their ids in its own configuration.
        standing_clocks: the clocks of queries that stand although there are unread records; not all of them.
    """

    reader: int = 1
    abilities: frozenset[str] = frozenset()
    applied: Revision | None = None
    hash: str = ""
    rejected: tuple[str, str] | None = None
    subscription: str = ""
    pod: str = ""
    draining: Mapping[Key, TopicReport] = field(default_factory=dict)
    never_reached: Mapping[str, str] = field(default_factory=dict)
    unanswered: frozenset[str] = frozenset()
    finished: bool = False
    open_splits: tuple[str, ...] = ()
    lost_topics: tuple[str, ...] = ()
    homes: frozenset[str] = frozenset()
    standing_clocks: tuple[StandingClock, ...] = ()
    streams: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, text: str | None) -> Report | None:
        """Return the report, or None if there is none or it cannot be read: then it is no evidence."""
        try:
            report = DriverReport.parse(text or "")
        except ValueError:
            return None
        return cls(
            reader=report.reader,
            abilities=frozenset(report.abilities),
            applied=Revision.parse(report.applied),
            hash=report.hash,
            rejected=(report.rejected.revision, report.rejected.reason) if report.rejected is not None else None,
            subscription=report.subscription,
            pod=report.pod,
            draining={
                Key(topic.cluster, topic.topic): TopicReport(
                    topic.lag,
                    topic.quiet_s,
                    topic.open_transaction,
                    (topic.kafka_id or "")[:64],
                    topic.never_reached,
                    topic.finished,
                )
                for topic in report.draining
            },
            never_reached={cluster.cluster: cluster.reason for cluster in report.never_reached},
            unanswered=frozenset(report.unanswered),
            finished=report.finished,
            open_splits=report.open_splits,
            lost_topics=report.lost_topics,
            homes=frozenset(report.homes),
            standing_clocks=report.standing_clocks,
            streams=report.streams,
        )


@dataclass(frozen=True)
class Driver:
    """A driver's pod as the operator sees it.

    Attributes:
        owned: it has the application's labels, and the application's status names it.
        running: it has started and has not ended.
        token: the revision that it was started for, from its annotation.
        silent_s: seconds for which its report has not changed, by the operator's own clock. Without a report: seconds
            for which the operator has seen it run.
        seen_alive: the operator has seen one report follow another in time. Without that the report may be left over
            from a dead driver: an operator that has just started, or was cut off, cannot date it.
        mounted: whether it mounts the document; None if that is not known.
        mount_fault: the mistake in how it mounts the document; "" if it does not mount it at all.
        unreadable: it has a report that cannot be read.
        account: its ServiceAccount.
        verdict: why it has ended for good, if a topic was deleted or re-created; None for all other reasons.
        finished_at: when it has ended after it read everything for good, by its container; "" if it has not. Only the
            driver of the application's present submission has it.
    """

    name: str
    uid: str
    owned: bool
    running: bool
    token: str = ""
    report: Report | None = None
    silent_s: float = 0.0
    seen_alive: bool = True
    mounted: bool | None = None
    mount_fault: str = ""
    unreadable: bool = False
    namespace: str = ""
    account: str = ""
    verdict: TopicVerdict | None = None
    finished_at: str = ""


def time_left_to_report(driver: Driver | None, patience: timedelta) -> timedelta | None:
    """Return how much longer a new driver may take for its first report; None if it has reported or is late."""
    if driver is None or not driver.running or driver.report is not None:
        return None
    left = patience - timedelta(seconds=driver.silent_s)
    return left if left > timedelta() else None


def missing_evidence(
    key: Key, *, since: Revision, quiet_s: float, subscription: str, life: Life, driver: Driver | None
) -> str:
    """Return which evidence is missing that the topic is drained; "" if it is drained.

    The text goes into a status. So it has no numbers that change all the time.

    Args:
        since: the first revision in which the topic drains.
        quiet_s: seconds for which nobody may have written to the topic.
        subscription: the UID of the subscription.
        life: the application's state. If it does not run, its driver is gone, and a pod of that name is another one.
    """
    if life != "Running" or driver is None:
        return f"the application {_WITHOUT_DRIVER[life]}. Reading goes on when a driver runs"
    if not driver.owned:
        return f"pod {driver.name} does not belong to the application"
    if not driver.running:
        return f"driver {driver.name} is not running: see its status. Reading goes on when the next driver runs"
    report = driver.report
    if report is None:
        return f"driver {driver.name} does not report: see Reporting"
    if report.pod != driver.uid:
        return f"the report on pod {driver.name} was written by another pod"
    if report.subscription != subscription:
        return f"driver {driver.name} reports for another subscription"
    # First, since a driver in which the topic does not drain yet reports changes only: its silence is in order.
    if report.applied is None or not report.applied.is_at_least(since):
        return f"driver {driver.name} has not applied revision {since.counter} yet: see RolledOut"
    if driver.silent_s > FRESH_S:
        return f"driver {driver.name} has not reported for more than {FRESH_S:.0f} s: see its log"
    topic = report.draining.get(key)
    if topic is None:
        return f"driver {driver.name} reports nothing about {key}"
    return _unfinished(topic, quiet_s) or ("" if driver.seen_alive else f"driver {driver.name} has to report once more")


def has_applied(revision: Revision, *, subscription: str, driver: Driver | None) -> bool:
    """Return whether a driver has reported that it uses this revision or a later one, and so keeps its offsets by it.

    The driver need not run any more, because the offsets are in its checkpoint. A driver that was only started for the
    revision does not count: it may have ended before its first plan.
    """
    report = own_report(driver, subscription)
    return report is not None and report.applied is not None and report.applied.is_at_least(revision)


def own_report(driver: Driver | None, subscription: str) -> Report | None:
    """Return the report if the pod is the application's, and the report names this pod and this subscription."""
    report = driver.report if driver is not None else None
    if driver is None or report is None or not driver.owned:
        return None
    return report if (report.pod, report.subscription) == (driver.uid, subscription) else None


def _unfinished(topic: TopicReport, quiet_s: float) -> str:
    if topic.finished:
        return ""
    if topic.never_reached:
        return "its cluster was never reached, and may hold records: correct its servers or the network, or release it"
    if topic.lag is None:
        return "its lag is not known: a query does not run, or the cluster does not answer; see the driver's log"
    if topic.lag > 0:
        return "Spark has not committed all its records yet"
    if topic.open_transaction:
        return "a transaction is open: end its producer, or wait until the brokers abort it"
    if not topic.quiet_s >= quiet_s:  # also refuses NaN
        return f"it has not been quiet for {quiet_s:.0f} s yet: find producers that still write to it"
    return ""
