"""What the driver reports to the operator, and when. Pure; `reporter.py` gathers it, `pod.py` writes it.

The report is an annotation of the driver's own pod, as JSON (`kafkastream_operator.core.drain_evidence` reads it):

    contract, reader    editions of this form, and of the documents that this image reads
    abilities           `live`: takes a new revision up without a restart
    applied, hash       the revision in force, in this process and in the planners of all queries
    rejected            the newest revision that is not in force, and why
    subscription, pod   UIDs: of whom the document was rendered for, and of the pod that reports
    beat                counts up with each report
    draining            how far each topic is that drains (`drain_tracker.py`)
    streams             what is in force, word for word, while it is small

It names streams, clusters, topics and servers, as the document does, and never a secret: a document has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.app.telemetry.drain_tracker import TopicDrain
from dynamic_kafka.metadata.document import CONTRACT
from dynamic_kafka.metadata.kubernetes_names import REPORT_BEAT_S
from dynamic_kafka.metadata.model import Revision

FORM = 1
LIVE = "live"
PAUSE_S = 30.0
"""The least time between two reports while nothing drains; while something does, they come every `REPORT_BEAT_S`."""
SOON_S = 60.0
"""How long after the last report of a drain news are still told after a beat."""
PLANNERS_S = 60.0
"""How long the first report waits for the planners, which tell what is applied: queries have to start, and to plan."""
MAX_BYTES = 160 * 1024
"""All annotations of a pod may take 256 KiB together."""
MAX_REASON = 1000
REVISIONS = 16
"""How many revisions are remembered: a planner may still go by an earlier one."""


@dataclass(frozen=True)
class Situation:
    """What there is to report, but for how far drains are: what of it changes is news.

    Attributes:
        applied: the revision in force everywhere; None while a planner has not planned yet.
        rejected: (revision, reason) of what is not in force; the revision is empty if it is not known.
        subscription: UID of the subscription that the document was rendered for.
        draining: (cluster, topic) of what drains.
    """

    applied: Revision | None
    rejected: tuple[str, str] | None
    subscription: str
    draining: tuple[tuple[str, str], ...] = ()


class Applied:
    """Which revision the application goes by: the oldest that this process or a planner has in force.

    Planners have discoveries of their own, in processes of their own: each tells its revision with its progress.
    """

    def __init__(self) -> None:
        self._known: dict[str, Revision] = {}
        self._applied: Revision | None = None

    def take(self, own: Revision, planners: Iterable[Mapping[str, Any]]) -> Revision | None:
        """The revision as of now; None while a planner has said nothing yet.

        Args:
            own: in force in this process.
            planners: the last summary of each planner; empty before its first.
        """
        self._known[own.token] = own
        while len(self._known) > REVISIONS:
            del self._known[next(iter(self._known))]
        tokens = {own.token, *(_token(summary) for summary in planners)}
        versions = [token.rpartition("/") for token in tokens]
        if all(versions[0][0] == lineage and counter.isdecimal() for lineage, _, counter in versions):
            oldest = min(tokens, key=lambda token: int(token.rpartition("/")[2]))
            # Of several lineages, or one that only a planner knows, none is older: what was applied stays, until
            # they agree.
            self._applied = self._known.get(oldest, self._applied)
        return self._applied


def abilities_of(discovery_interval_ms: int) -> tuple[str, ...]:
    """What the application can do. Without look-ups after the start it takes nothing up, and must not promise to."""
    return (LIVE,) if discovery_interval_ms > 0 else ()


def rejection(own: tuple[str | None, str], planners: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """(revision, reason) of what is not in force, here (`own`: reason and revision) or in a planner."""
    found = [(own[1], own[0])] if own[0] else []
    found += [
        (str(summary.get("rejectedRevision", "")), str(summary["rejected"]))
        for summary in planners
        if summary.get("rejected")
    ]
    if not found:
        return None
    token, reason = found[0]
    return token, reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 1] + "…"


class Pace:
    """When to report: on news at once, but not more often than every `PAUSE_S`; while something drains after each beat.

    What is new soon after a drain is told after a beat, too: that it is over, and that the document without it is in
    force, is what people wait for who want to shut a cluster down.

    All times are monotonic seconds.
    """

    def __init__(self, started_s: float) -> None:
        self._said: Situation | None = None
        self._started_s, self._at_s = started_s, float("-inf")
        self._drained_s = float("-inf")

    def is_due(self, situation: Situation, now_s: float) -> bool:
        """Whether to report now."""
        if situation.draining:
            return now_s - self._at_s >= REPORT_BEAT_S
        if situation.applied is None and now_s - self._started_s < PLANNERS_S:
            return False
        pause_s = REPORT_BEAT_S if now_s - self._drained_s < SOON_S else PAUSE_S
        return situation != self._said and now_s - self._at_s >= pause_s

    def tried(self, situation: Situation, now_s: float, *, succeeded: bool) -> None:
        """A report was made; one that did not get through is made again."""
        self._said, self._at_s = (situation if succeeded else None), now_s
        if situation.draining:
            self._drained_s = now_s


def report_text(
    situation: Situation, drains: Sequence[TopicDrain], *, pod: str, beat: int, abilities: Sequence[str] = (LIVE,)
) -> str:
    """The report as JSON, not larger than `MAX_BYTES`. `pod` is the UID of the pod that reports.

    What is furthest comes first. If that is all that fits, it is drained and gone first, and makes room.
    """
    applied = situation.applied
    content: dict[str, Any] = {
        "contract": FORM,
        "reader": CONTRACT,
        "abilities": list(abilities),
        "applied": applied.token if applied is not None else None,
        "hash": applied.hash if applied is not None else "",
        "rejected": None,
        "subscription": situation.subscription,
        "pod": pod,
        "beat": beat,
        "draining": [],
    }
    if situation.rejected is not None:
        content["rejected"] = dict(zip(("revision", "reason"), situation.rejected, strict=True))
    if applied is not None and applied.rendering is not None and applied.rendering.streams is not None:
        content["streams"] = applied.rendering.streams
    left = MAX_BYTES - len(_json(content))
    for each in sorted(drains, key=_distance):
        entry = {
            "cluster": each.cluster,
            "topic": each.topic,
            "lag": each.lag,
            "quiet": round(each.quiet_s, 1),
            "openTransaction": each.open_transaction,
            "kafkaId": each.kafka_id,
        }
        left -= len(_json(entry)) + 1
        if left < 0:
            break
        content["draining"].append(entry)
    return _json(content)


def _distance(each: TopicDrain) -> tuple[Any, ...]:
    return (each.lag is None, each.lag or 0, each.open_transaction, -each.quiet_s, each.cluster, each.topic)


def _token(summary: Mapping[str, Any]) -> str:
    return f"{summary['lineage']}/{summary['revision']}" if summary.get("lineage") else ""


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))
