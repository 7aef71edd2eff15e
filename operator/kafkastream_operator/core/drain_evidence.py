"""Whether a driver's report shows that a topic is drained. Pure.

A report is evidence only if all of it fits: the application runs, the pod exists and belongs to it, the report comes
from that pod and speaks of this subscription, it is fresh by the operator's own clock, the driver has applied a
document in which the topic drains already, and it has since listed ends, seen no new records and no open transaction,
and committed all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dynamic_kafka.metadata.driver_report import DriverReport
from dynamic_kafka.metadata.kubernetes_names import DRAIN_REPORT_INTERVAL_S
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.document import Key

FRESH_S = 3 * DRAIN_REPORT_INTERVAL_S
_WITHOUT_DRIVER: Mapping[Life, str] = {
    "Running": "is Running, and its driver has no pod: see its status, and whether its operator runs",
    "Starting": "is Starting: if that lasts, kubectl describe it and its driver's pod",
    "Suspended": "is Suspended: set its spec.suspend to false",
    "Failed": "is Failed: mend what its status and its driver's log say, and start it again",
    "Completed": "is Completed: start it again",
    "Absent": "is not there: apply it",
}
"""What is said of an application whose driver is not there, and what to do."""


@dataclass(frozen=True)
class TopicReport:
    """What a driver says of a topic that drains.

    Attributes:
        lag: offsets not yet in a batch that Spark has committed, over all partitions; None: not known.
        quiet_s: how long no end has moved, by the driver's monotonic clock, since it applied the draining revision;
            any error sets it back to 0.
        open_transaction: the last stable offset is behind the high watermark of a partition.
        kafka_id: Kafka's own `cluster.id` of who was listed; "" if the driver tells none.
    """

    lag: int | None
    quiet_s: float
    open_transaction: bool = False
    kafka_id: str = ""


@dataclass(frozen=True)
class Report:
    """The annotation of a driver's pod.

    Attributes:
        contract, reader: editions of the report and of the documents that the image reads.
        abilities: what it can do, such as `live`.
        applied: the revision in force; None before the first.
        rejected: why a newer revision is not in force, with that revision.
        subscription: the UID of the subscription that the document named; "" if it named none.
        pod: the UID of the pod that the driver believes to be.
        beat: counts up with each report.
        draining: {topic: how far}.
        streams: what is in force, so that a lost document can be made again; None if it is too large.
    """

    contract: int = 1
    reader: int = 1
    abilities: frozenset[str] = frozenset()
    applied: Revision | None = None
    hash: str = ""
    rejected: tuple[str, str] | None = None
    subscription: str = ""
    pod: str = ""
    beat: int = 0
    draining: Mapping[Key, TopicReport] = field(default_factory=dict)
    streams: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, text: str | None) -> Report | None:
        """Return the report, or None if there is none or it cannot be read: then it is no evidence."""
        try:
            found = DriverReport.parse(text or "")
        except ValueError:
            return None
        return cls(
            contract=found.contract,
            reader=found.reader,
            abilities=frozenset(found.abilities),
            applied=Revision.parse(found.applied),
            hash=found.hash,
            rejected=(found.rejected.revision, found.rejected.reason) if found.rejected is not None else None,
            subscription=found.subscription,
            pod=found.pod,
            beat=found.beat,
            draining={
                Key(each.cluster, each.topic): TopicReport(
                    each.lag, each.quiet_s, each.open_transaction, (each.kafka_id or "")[:64]
                )
                for each in found.draining
            },
            streams=found.streams,
        )


@dataclass(frozen=True)
class Driver:
    """A driver's pod as the operator sees it.

    Attributes:
        owned: it carries the application's labels and is the pod that its status names.
        token: the revision that it was started for, from its annotation.
        running: it has started and not ended.
        silent_s: how long its report has not changed, by the operator's own clock; without a report: how long it is
            known to run.
        news: its report followed another one at the pace of a driver that lives. Else it may be what one has left
            behind: an operator that starts, or was cut off, cannot tell when it was written.
        mounted: whether it mounts the document; None: not known.
        mount_fault: what is wrong with how it mounts it; "" if it does not at all.
        unreadable: there is a report, and it cannot be read.
        namespace, account: where it runs, and by which ServiceAccount.
    """

    name: str
    uid: str
    owned: bool
    running: bool
    token: str = ""
    report: Report | None = None
    silent_s: float = 0.0
    news: bool = True
    mounted: bool | None = None
    mount_fault: str = ""
    unreadable: bool = False
    namespace: str = ""
    account: str = ""


def time_left_to_report(driver: Driver | None, patience: timedelta) -> timedelta | None:
    """How much longer a driver that has just started may take to report at all; None: it has, or its time is over."""
    if driver is None or not driver.running or driver.report is not None:
        return None
    left = patience - timedelta(seconds=driver.silent_s)
    return left if left > timedelta() else None


def missing_evidence(
    key: Key, *, since: Revision, quiet_s: float, subscription: str, life: Life, driver: Driver | None
) -> str:
    """Why it is not shown that `key` is drained; "" if it is. Without numbers that move: it goes into a status.

    Args:
        since: the first revision in which it drains.
        quiet_s: how long nothing may have been written.
        subscription: UID of the subscription.
        life: what the application is doing. The driver of one that does not run is gone: whatever has its pod's name by
            now is another one.
    """
    if life != "Running" or driver is None:
        return f"the application {_WITHOUT_DRIVER[life]}. It is read on when a driver runs"
    if not driver.owned:
        return f"pod {driver.name} does not belong to the application"
    if not driver.running:
        return f"driver {driver.name} is not running: it is read on when the next one is; see its status"
    report = driver.report
    if report is None:
        return f"driver {driver.name} reports nothing: see Reporting"
    if report.pod != driver.uid:
        return f"the report on pod {driver.name} was written by another pod"
    if report.subscription != subscription:
        return f"driver {driver.name} reports for another subscription"
    if driver.silent_s > FRESH_S:
        return f"driver {driver.name} has not reported for more than {FRESH_S:.0f} s: see its log"
    if report.applied is None or not report.applied.is_at_least(since):
        return f"driver {driver.name} has not applied revision {since.counter} yet: see RolledOut"
    topic = report.draining.get(key)
    if topic is None:
        return f"driver {driver.name} says nothing of {key}"
    return _unfinished(topic, quiet_s) or ("" if driver.news else f"driver {driver.name} has to report once more")


def has_applied(revision: Revision, *, subscription: str, driver: Driver | None) -> bool:
    """Whether a driver has shown by its own report that its offsets are kept by this revision, or by a later one.

    It need not run any more: what it did is in its checkpoint. That it was started for the revision is not enough: it
    may have ended before its first plan.
    """
    report = own_report(driver, subscription)
    return report is not None and report.applied is not None and report.applied.is_at_least(revision)


def own_report(driver: Driver | None, subscription: str) -> Report | None:
    """What a driver has reported, if the pod is the application's and the report is its own, for this subscription."""
    report = driver.report if driver is not None else None
    if driver is None or report is None or not driver.owned:
        return None
    return report if (report.pod, report.subscription) == (driver.uid, subscription) else None


def _unfinished(topic: TopicReport, quiet_s: float) -> str:
    if topic.lag is None:
        return "its lag is not known: a query does not run, or the cluster does not answer (see the driver's log)"
    if topic.lag > 0:
        return "not everything in it is committed yet"
    if topic.open_transaction:
        return "a transaction is open: end its producer, or wait until the brokers abort it"
    if not topic.quiet_s >= quiet_s:  # nor if it is no number
        return f"it has not been quiet for {quiet_s:.0f} s yet: are all its producers moved?"
    return ""
