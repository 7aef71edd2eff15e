"""The fleet as a tree, in text: streams, their clusters, and the jobs that read them. Pure; `kubectl.py` calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.document import Key
from kafkastream_operator.core.drain_evidence import Report, TopicReport
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import DrainingTopic, SubscriptionStatus

Item = TypeVar("Item")
BAR_CHARACTERS = 10
Objects = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """A subscription with its application, and the report of its driver; None if there is none."""

    application: str
    status: SubscriptionStatus
    report: Report | None

    def line(self, state: str, cluster: str) -> str:
        """Return the state of the job, for one cluster that it reads."""
        rolled_out = _find(self.status.conditions, "RolledOut")
        revision = f"revision {self.status.rendered.counter}" if self.status.rendered is not None else "no document"
        parts = [self.application, state, revision, rolled_out.reason if rolled_out is not None else "Unknown"]
        if self.report is not None and cluster in self.report.never_reached:
            parts.append("never reached")
        return "  ".join(parts)

    def drains(self, stream: str, cluster: str) -> Iterator[str]:
        """Yield a line for each topic of a stream that the job reads to its end."""
        for topic in self.status.draining:
            if (topic.stream, topic.cluster) == (stream, cluster):
                seen = self.report.draining.get(Key(cluster, topic.topic)) if self.report is not None else None
                waits = f"  {topic.message}" if topic.message else ""
                yield f"{self.application}  {topic.topic}  {_progress(topic, seen)}{waits}"


def tree(streams: Objects, subscriptions: Objects, pods: Objects) -> list[str]:
    """Return the lines of the tree, from the objects as the API server has them.

    Args:
        pods: the drivers' pods, with their reports.
    """
    reports = list(_reports(pods))
    jobs = {
        (subscription["metadata"]["namespace"], subscription["metadata"]["name"]): _job(subscription, reports)
        for subscription in subscriptions
    }
    lines = []
    for stream in sorted(streams, key=lambda named: (named["metadata"]["namespace"], named["metadata"]["name"])):
        status = KafkaStreamStatus.model_validate(stream.get("status") or {})
        lines.append(_headline(stream, status))
        branches = [(f"{cluster.id}  {cluster.state}", cluster.id, cluster.state) for cluster in status.clusters]
        for last, (title, cluster, state) in _with_last(branches):
            lines.append(f"{'└─' if last else '├─'} {title}")
            leaves = list(_leaves(stream["metadata"], status, jobs, cluster, is_read=state == "InUse"))
            bar = "   " if last else "│  "
            lines += [f"{bar}{'└─' if end else '├─'} {leaf}" for end, leaf in _with_last(leaves)]
    return lines


def _leaves(
    meta: Mapping[str, Any],
    status: KafkaStreamStatus,
    jobs: Mapping[tuple[str, str], Job],
    cluster: str,
    *,
    is_read: bool,
) -> Iterator[str]:
    for reader in status.subscribers:
        job = jobs.get((meta["namespace"], reader.name))
        if job is not None and is_read:
            yield job.line(reader.state, cluster)
        if job is not None:
            yield from job.drains(meta["name"], cluster)


def _headline(stream: Mapping[str, Any], status: KafkaStreamStatus) -> str:
    name = f"{stream['metadata']['namespace']}/{stream['metadata']['name']}"
    if status.observed_generation != stream["metadata"].get("generation", 0):
        return f"{name}  the operator has not looked at it yet"
    ready = _find(status.conditions, "Ready")
    parts = [name, ready.reason if ready is not None else "Unknown"]
    if status.in_force is not None:
        parts.append(f"in force in {status.in_force.applications} of {status.in_force.of}")
    return "  ".join(parts)


def _progress(topic: DrainingTopic, seen: TopicReport | None) -> str:
    """Return a bar that fills while nothing is written any more, with the facts of the driver's report."""
    if seen is None:
        return f"{_bar(0)}  no report"
    if seen.lag is None or seen.lag > 0:
        return f"{_bar(0)}  lag {'not known' if seen.lag is None else f'{seen.lag:,}'}"
    if seen.open_transaction:
        return f"{_bar(0)}  lag 0, a transaction is open"
    quiet_s = parse_duration_ms(topic.quiet_period, where="quietPeriod") / 1000
    done = min(1.0, seen.quiet_s / quiet_s) if quiet_s else 1.0
    return f"{_bar(done)}  lag 0, quiet for {seen.quiet_s:.0f} s of {topic.quiet_period}"


def _bar(done: float) -> str:
    full = int(done * BAR_CHARACTERS)
    return "█" * full + "░" * (BAR_CHARACTERS - full)


def _job(subscription: Mapping[str, Any], reports: Sequence[Report]) -> Job:
    uid = subscription["metadata"]["uid"]
    report = next((report for report in reports if report.subscription == uid), None)
    status = SubscriptionStatus.model_validate(subscription.get("status") or {})
    return Job(subscription["spec"]["applicationRef"]["name"], status, report)


def _reports(pods: Objects) -> Iterator[Report]:
    """Yield the reports that drivers have written onto their own pods, of running pods and the newest first."""
    for pod in sorted(
        pods, key=lambda candidate: str(candidate["metadata"].get("creationTimestamp", "")), reverse=True
    ):
        report = Report.parse((pod["metadata"].get("annotations") or {}).get(REPORT_ANNOTATION))
        running = (pod.get("status") or {}).get("phase") == "Running"
        if running and report is not None and report.pod == pod["metadata"]["uid"]:
            yield report


def _find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def _with_last(items: Sequence[Item]) -> Iterator[tuple[bool, Item]]:
    return ((number == len(items), item) for number, item in enumerate(items, 1))
