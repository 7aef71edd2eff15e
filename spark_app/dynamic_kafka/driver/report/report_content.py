"""Decide what the driver reports to the operator, and when. Driver; pure.

`reporter.py` gathers the facts and calls this module, `pod.py` writes the report onto the driver's own pod. The form
of the report is `dynamic_kafka.contract.driver_report.DriverReport`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dynamic_kafka.contract.driver_report import (
    LIVE,
    MAX_TIME_MS,
    DriverReport,
    NeverReachedCluster,
    RejectedRevision,
    ReportedTopic,
    StandingClock,
    reported_size,
)
from dynamic_kafka.contract.kubernetes_names import DRAIN_REPORT_INTERVAL_S
from dynamic_kafka.driver.report.drain_tracker import TopicDrain
from dynamic_kafka.driver.report.sink_status import SinkStatus
from dynamic_kafka.metadata.document import CONTRACT
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.planning.splits import Split

BURST = 5
"""So many changes in a row are reported at once."""
REPORT_INTERVAL_S = 30.0
"""After a burst, the time between two reports of changes; each such time without one adds one to the next burst."""
PLANNER_WAIT_S = 60.0
"""How long the first report waits for every planner to plan: queries have to start first."""
MAX_BYTES = 160 * 1024
"""The largest report. All annotations of a pod together may take 256 KiB."""
MAX_REASON = 1000
"""Characters of the reason for a rejected revision, or of the cause why a cluster does not answer."""
MAX_NEVER_REACHED = 20
"""The most clusters that are reported as never reached, as unanswered, or as awaited by a clock; also the most lost
internal topics."""
MAX_OPEN_SPLITS = 10
"""The most splits that are reported as open."""
CLOCK_STANDS_S = 300.0
"""A clock that has stood for this long, with unread records, is reported."""
MAX_CLOCKS = 10
"""The most clocks that are reported."""
MAX_REVISIONS = 16
"""How many revisions are remembered, because a planner may still use an earlier one."""


@dataclass(frozen=True)
class DriverState:
    """The reported facts, without the progress of drains. A change of one of them is worth a report.

    Attributes:
        applied: the revision that all planners use; None while a planner has not planned yet.
        rejected: (revision, reason) of a revision that is not used; the revision is empty if it is not known.
        subscription: UID of the subscription that the document was rendered for.
        draining: (cluster, topic) of each topic that drains.
        never_reached: (cluster, cause) of each cluster that a query has never read because it does not answer.
        unanswered: the new clusters that have neither answered a query nor failed yet.
        finished: all queries have ended by themselves, and a further start of them reads nothing.
        open_splits: splits that have not reached their stop record, once another one has.
        lost_topics: internal topics of the application that are missing or were re-created.
        homes: the clusters of the metadata that hold internal topics.
        standing_clocks: the clocks that stand although there are unread records.
    """

    applied: Revision | None
    rejected: tuple[str, str] | None
    subscription: str
    draining: tuple[tuple[str, str], ...] = ()
    never_reached: tuple[tuple[str, str], ...] = ()
    unanswered: tuple[str, ...] = ()
    finished: bool = False
    open_splits: tuple[str, ...] = ()
    lost_topics: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    standing_clocks: tuple[StandingClock, ...] = ()


class AppliedRevision:
    """The revision that the whole application uses: the oldest one in this process and in all planners.

    Planners run in processes of their own, each with its own discovery. They report their revision with their progress.
    """

    def __init__(self) -> None:
        self._known: dict[str, Revision] = {}
        self._applied: Revision | None = None

    def update(self, own: Revision, planners: Iterable[Mapping[str, Any]]) -> Revision | None:
        """Return the applied revision; None while a planner has not planned yet.

        Args:
            own: the revision in force in this process.
            planners: the last progress summary of each planner; empty before its first plan.
        """
        self._known[own.token] = own
        while len(self._known) > MAX_REVISIONS:
            del self._known[next(iter(self._known))]
        tokens = {own.token, *(_token(summary) for summary in planners)}
        versions = [token.rpartition("/") for token in tokens]
        if all(versions[0][0] == lineage and counter.isdecimal() for lineage, _, counter in versions):
            oldest = min(tokens, key=lambda token: int(token.rpartition("/")[2]))
            # Revisions of several lineages have no order, and a revision that only a planner has cannot be reported
            # whole. In both cases the last applied revision stays until all agree.
            self._applied = self._known.get(oldest, self._applied)
        return self._applied


def abilities_of(discovery_interval_ms: int) -> tuple[str, ...]:
    """Return what the application can do. Without periodic discovery it cannot take up a change live."""
    return (LIVE,) if discovery_interval_ms > 0 else ()


def rejection(own: tuple[str | None, str], planners: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return (revision, reason) of a rejected revision, or None.

    Args:
        own: (reason, revision) of this process; the reason is None if it rejects none. It wins over the planners'.
        planners: the last progress summary of each planner.
    """
    rejections = [(own[1], own[0])] if own[0] else []
    rejections += [
        (str(summary.get("rejectedRevision", "")), str(summary["rejected"]))
        for summary in planners
        if summary.get("rejected")
    ]
    if not rejections:
        return None
    token, reason = rejections[0]
    return token, _cut(reason)


def never_reached_causes(planners: Iterable[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return (cluster, cause) of each cluster that one of the queries has never read because it does not answer.

    Args:
        planners: {cluster: cause} of each query (`SinkStatus.never_reached`).
    """
    causes = {cluster: _cut(why) for planner in planners for cluster, why in planner.items()}
    return tuple(sorted(causes.items())[:MAX_NEVER_REACHED])


class ClockWatch:
    """Since when the clock of each query has stood.

    Only the time between two triggers counts. While a batch takes long, or the next trigger is far, no clock moves.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], _SeenClock] = {}

    def standing(self, sinks: Iterable[SinkStatus], now_s: float) -> tuple[StandingClock, ...]:
        """Return the clocks that have stood for `CLOCK_STANDS_S` while there were unread records."""
        seen, standing = {}, []
        for sink in sinks:
            for place, summary in enumerate(sink.summaries):
                if "clock" not in summary:  # the query is not aligned
                    continue
                source, clock_ms = (sink.name, place), summary["clock"]
                before = self._seen.get(source)
                has_lag = any(cluster.get("lag") for cluster in summary["clusters"].values())
                since_s = before.since_s if before and before.clock_ms == clock_ms and has_lag else now_s
                triggered_s = before.triggered_s if before and before.trigger == sink.triggered_at else now_s
                seen[source] = _SeenClock(clock_ms, since_s, sink.triggered_at, triggered_s)
                if triggered_s - since_s >= CLOCK_STANDS_S:
                    standing.append(_standing_clock(sink.name, summary))
        self._seen = seen
        return tuple(standing[:MAX_CLOCKS])


class _SeenClock(NamedTuple):
    """A clock, since when it has been seen, and the trigger that has shown it last, with the time when it was seen."""

    clock_ms: int | None
    since_s: float
    trigger: str
    triggered_s: float


def _standing_clock(query: str, summary: Mapping[str, Any]) -> StandingClock:
    clock_ms, held_by = summary["clock"], summary.get("clockHeldBy")
    return StandingClock(
        query=query,
        clock_ms=None if clock_ms is None else min(clock_ms, MAX_TIME_MS),
        held_by=str(Split(**held_by)) if held_by else "",
        waits_for=tuple(summary.get("clockWaitsFor", ())[:MAX_NEVER_REACHED]),
    )


class ReportSchedule:
    """The moments at which a report is due.

    - A change: at once, since people wait for it. After `BURST` of them, one every `REPORT_INTERVAL_S`.
    - While a topic drains: also every `DRAIN_REPORT_INTERVAL_S`.
    - The end of all queries: at once, since the process ends, too.
    - After a failure: not before `DRAIN_REPORT_INTERVAL_S`.

    All times are monotonic seconds.
    """

    def __init__(self, started_s: float) -> None:
        self._reported: DriverState | None = None
        self._started_s, self._attempted_s, self._has_failed = started_s, float("-inf"), False
        self._saved_s, self._counted_s = BURST * REPORT_INTERVAL_S, started_s

    def is_due(self, state: DriverState, now_s: float) -> bool:
        """Return whether to report now."""
        is_change = state != self._reported
        if state.finished:
            return is_change
        if now_s - self._attempted_s >= DRAIN_REPORT_INTERVAL_S:
            if state.draining:
                return True
        elif self._has_failed:
            return False
        if state.applied is None and not state.draining and now_s - self._started_s < PLANNER_WAIT_S:
            return False
        return is_change and self._saved_at(now_s) >= REPORT_INTERVAL_S

    def record_attempt(self, state: DriverState, now_s: float, *, succeeded: bool) -> None:
        """Record that a report was made, or failed. A failed one is due again."""
        if state != self._reported:
            self._saved_s, self._counted_s = max(0.0, self._saved_at(now_s) - REPORT_INTERVAL_S), now_s
        self._reported, self._attempted_s, self._has_failed = (state if succeeded else None), now_s, not succeeded

    def _saved_at(self, now_s: float) -> float:
        """Return the time without a change that further changes may use up, each of them one interval."""
        return min(BURST * REPORT_INTERVAL_S, self._saved_s + now_s - self._counted_s)


def report_text(
    state: DriverState, drains: Sequence[TopicDrain], *, pod: str, beat: int, abilities: Sequence[str] = (LIVE,)
) -> str:
    """Return the report as JSON of at most `MAX_BYTES`.

    If not all draining topics fit, the topics that are nearest to their end are reported first. They drain first, and
    then make room for the others.

    Args:
        pod: UID of the pod that reports.
        beat: a number that grows with each report.
    """
    applied = state.applied
    rendering = applied.rendering if applied is not None else None
    report = DriverReport(
        reader=CONTRACT,
        abilities=tuple(abilities),
        applied=applied.token if applied is not None else None,
        hash=applied.hash if applied is not None else "",
        rejected=RejectedRevision(revision=state.rejected[0], reason=state.rejected[1]) if state.rejected else None,
        subscription=state.subscription,
        pod=pod,
        beat=beat,
        never_reached=tuple(NeverReachedCluster(cluster=name, reason=why) for name, why in state.never_reached),
        unanswered=state.unanswered,
        finished=state.finished,
        open_splits=state.open_splits,
        lost_topics=state.lost_topics,
        homes=state.homes,
        standing_clocks=state.standing_clocks,
        streams=dict(rendering.streams) if rendering is not None and rendering.streams is not None else None,
    )
    left = MAX_BYTES - len(report.text())
    topics = []
    for drain in sorted(drains, key=_distance_to_end):
        topic = ReportedTopic(
            cluster=drain.cluster,
            topic=drain.topic,
            lag=drain.lag,
            quiet_s=round(drain.quiet_s, 1),
            open_transaction=drain.open_transaction,
            kafka_id=drain.kafka_id,
            never_reached=drain.never_reached,
            finished=drain.finished,
        )
        left -= reported_size(topic)
        if left < 0:
            break
        topics.append(topic)
    return report.model_copy(update={"draining": tuple(topics)}).text()


def never_reached_by_all(planners: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """Return the clusters that none of the queries has ever read; `planners` as for `never_reached_causes`."""
    return frozenset.intersection(*map(frozenset, planners)) if planners else frozenset()


def _cut(reason: str) -> str:
    return reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 1] + "…"


def _distance_to_end(drain: TopicDrain) -> tuple[Any, ...]:
    unknown = drain.lag is None and not drain.never_reached
    return (unknown, drain.lag or 0, drain.open_transaction, -drain.quiet_s, drain.cluster, drain.topic)


def _token(summary: Mapping[str, Any]) -> str:
    return f"{summary['lineage']}/{summary['revision']}" if summary.get("lineage") else ""
