"""The figures of one stream and of one subscription for the metrics, from their statuses. Pure.

`handlers.metrics` keeps the figures of each version of an object, so they hold moments instead of ages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import SHOULD_RUN
from kafkastream_operator.core.recovery import revision_of
from kafkastream_operator.core.timestamps import parse
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus

HELD_UP = frozenset({"Paused", "Queued", "RolloutPaused"})
"""Reasons of `RolledOut` with which a roll-out waits and its application runs on, so that it has no age."""


@dataclass(frozen=True)
class StreamFigures:
    """The figures of a stream.

    Attributes:
        generation_lag: changes of the spec that the status does not cover yet.
        moving_since, draining_since: seconds since the epoch; None if nothing moves, or drains.
    """

    ready: bool
    generation_lag: int
    subscriptions: int
    draining_clusters: int
    moving_since: float | None
    draining_since: float | None


@dataclass(frozen=True)
class SubscriptionFigures:
    """The figures of a subscription.

    Attributes:
        rendered: the newest revision; None if there is no document yet.
        confirmed: the revision of the last roll-out, if it was confirmed.
        method: how an unfinished roll-out reaches the driver; "" if there is none.
        moving_since: when the roll-out began, in seconds since the epoch; None if nothing is rolled out, in a pause,
            and while a restart waits for others.
            A newer revision does not set it back.
        draining_since: seconds since the epoch; None if nothing drains.
        wave_paused: a restart waits, since the restart of another application has failed.
        without_driver: a roll-out waits for a driver (`RolledOut` is Unknown), although the application should run:
            it is not suspended, completed or absent.
        down: no driver runs, although the application should run.
        topic_lost: internal topics of the application were deleted or re-created, and reading goes on.
        reporting: None if no driver runs, or it may still report for the first time.
    """

    ready: bool
    stalled: bool
    rendered: Revision | None
    confirmed: Revision | None
    rejected: bool
    method: str
    moving_since: float | None
    wave_paused: bool
    without_driver: bool
    down: bool
    topic_lost: bool
    draining: int
    draining_since: float | None
    overdue: bool
    reporting: bool | None

    def revision_lag(self, applied: Revision | None) -> int | None:
        """Return how many revisions the newest one is ahead of the one in force; None without a document.

        Args:
            applied: the revision in the driver's own report; None if it reports none.
        """
        if self.rendered is None:
            return None
        newest = self.rendered.counter or 0
        in_force = [
            revision.counter or 0
            for revision in (self.confirmed, applied)
            if revision is not None and revision.lineage == self.rendered.lineage
        ]
        return max(0, newest - max(in_force)) if in_force else 1


def stream_figures(status: KafkaStreamStatus, generation: int) -> StreamFigures:
    """Return the figures of a stream.

    Args:
        generation: the generation of its spec.
    """
    conditions = {condition.type: condition for condition in status.conditions}
    return StreamFigures(
        ready=_is(conditions, "Ready", "True"),
        generation_lag=max(0, generation - status.observed_generation),
        subscriptions=len(status.subscribers),
        draining_clusters=sum(cluster.state == "Draining" for cluster in status.clusters),
        moving_since=_since(conditions, "Reconciling", "True"),
        draining_since=_since(conditions, "Drained", "False"),
    )


def subscription_figures(status: SubscriptionStatus) -> SubscriptionFigures:
    """Return the figures of a subscription."""
    conditions = {condition.type: condition for condition in status.conditions}
    reasons = {condition.type: condition.reason for condition in status.conditions}
    rollout, rendered = status.rollout, status.rendered
    newest = revision_of(rendered) if rendered is not None else None
    unfinished = (
        rollout is not None and newest is not None and rollout.token == newest.token and rollout.phase != "Confirmed"
    )
    moves = unfinished and reasons.get("RolledOut") not in HELD_UP
    since = status.rolling_out_since
    began = parse(since).timestamp() if since else _since(conditions, "RolledOut", "False")
    should_run = reasons.get("ApplicationFound") in SHOULD_RUN
    reporting = conditions.get("Reporting")
    return SubscriptionFigures(
        ready=_is(conditions, "Ready", "True"),
        stalled=_is(conditions, "Stalled", "True"),
        rendered=newest,
        confirmed=Revision.parse(rollout.token) if rollout is not None and rollout.phase == "Confirmed" else None,
        rejected=reasons.get("RolledOut") == "Rejected",
        method=rollout.method if rollout is not None and unfinished else "",
        moving_since=began if moves else None,
        wave_paused=reasons.get("RolledOut") == "RolloutPaused",
        without_driver=should_run and _is(conditions, "RolledOut", "Unknown"),
        down=should_run and reasons.get("Reporting") == "NoDriver",
        topic_lost=reasons.get("TopicsReady") == "InternalTopicLost",
        draining=len(status.draining),
        draining_since=min((parse(topic.since).timestamp() for topic in status.draining), default=None),
        overdue=reasons.get("Drained") == "DrainTimedOut",
        reporting=reporting.status == "True" if reporting is not None and reporting.status != "Unknown" else None,
    )


def seconds_to_apply(before: SubscriptionStatus, after: SubscriptionStatus, now: datetime) -> float | None:
    """Return how long the roll-out took that `after` is the first to show as confirmed; None if it shows no such one.

    It counts from the time at which `RolledOut` became False, which the status keeps if the operator dies. While no
    driver runs, the condition is Unknown, so that such a time does not count.
    """
    was, is_now = (
        next((condition for condition in those.conditions if condition.type == "RolledOut"), None)
        for those in (before, after)
    )
    if was is None or is_now is None or (was.status, is_now.reason) != ("False", "Confirmed"):
        return None
    return max(0.0, (now - parse(was.last_transition_time)).total_seconds())


def _is(conditions: Mapping[str, Condition], kind: str, status: str) -> bool:
    return kind in conditions and conditions[kind].status == status


def _since(conditions: Mapping[str, Condition], kind: str, status: str) -> float | None:
    """Return since when a condition has this status; None if it has another."""
    return parse(conditions[kind].last_transition_time).timestamp() if _is(conditions, kind, status) else None
