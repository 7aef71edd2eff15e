"""The conditions of a subscription, for a person at 3 a.m. Pure; `core.decide` calls it.

| Type | True if |
|---|---|
| ApplicationFound | the SparkApplication exists |
| StreamsResolved | every subscribed stream exists, is valid, and agrees with the others |
| RolledOut | the newest revision is in force |
| Mounted | the driver mounts the document |
| Reporting | the driver reports, so that drains can end |
| Finished | the application has read everything, and has ended by itself |
| ClusterNeverReached | the driver has never read a cluster, since it does not answer; the others are read |
| TopicsReady | – (False while a topic is missing, lost or wrong; else the condition is not there) |
| Drained | nothing drains |
| Ready, Reconciling, Stalled | the summary that kstatus and GitOps tools read |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dynamic_kafka.options.durations import parse_duration_ms
from dynamic_kafka.wording import counted, first_few
from kafkastream_operator.core.application import FAILED
from kafkastream_operator.core.conditions.application import IDLE, TOPIC_CHANGED, application_found
from kafkastream_operator.core.conditions.driver import (
    awaited_report,
    mounted,
    never_reached,
    reporting,
    standing_clocks,
    time_to_report,
)
from kafkastream_operator.core.conditions.finished import finished
from kafkastream_operator.core.conditions.topics import topics_ready
from kafkastream_operator.core.document import MAX_BYTES, Document, Key
from kafkastream_operator.core.drain_evidence import FRESH_S
from kafkastream_operator.core.last_failure import row_ends_at
from kafkastream_operator.core.release import spent_release_of
from kafkastream_operator.core.render import Rendering
from kafkastream_operator.core.resolve import Resolved
from kafkastream_operator.core.timestamps import parse
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.subscription import SubscriptionStatus

SUMMARY = ("Ready", "Reconciling", "Stalled")
MOVING = frozenset({"RollingOut", "Coalescing", "Starting", "Reverted", "Queued", "RolloutPaused"})
"""Reasons of `RolledOut` while a revision is on its way."""
TRANSIENT = frozenset({"NotRunning", "Waiting", "Paused", *MOVING})
"""Reasons of `RolledOut` that pass by themselves, or that a person chose."""
PASSING = frozenset({("ApplicationFound", "Failing"), *(("RolledOut", reason) for reason in TRANSIENT)})
"""Types and reasons of what is wrong for now, and needs nobody yet."""
ENDED_BY_A_ROLL_OUT = frozenset({("Mounted", "SecretsNotMounted"), ("StreamsResolved", "RenamePending")})
"""Types and reasons of what a roll-out that is under way ends by itself."""


def subscription_conditions(
    view: View,
    resolved: Resolved,
    overriding: Iterable[Condition],
    rolled_out: Condition,
    rendering: Rendering | None,
    *,
    document: Document,
    paused: str = "",
) -> tuple[Condition, ...]:
    """Return all conditions of a subscription that has a document.

    Args:
        overriding: conditions that replace the ones of the same type: why the next document was not written.
        rendering: None if the document was left as it was.
        document: the newest document.
    """
    conditions = [
        *streams_resolved(resolved),
        *overriding,
        _with_pause(rolled_out, "nothing newer is rolled out", paused),
        *topics_ready(view),
        application_found(view, document, rolled_out, paused=bool(paused)),
        mounted(view, document.secrets),
        reporting(view, document),
        never_reached(view, document),
        finished(view),
        _with_pause(_drained(view, rendering), "no drain ends", paused),
    ]
    by_type = {new_condition.type: new_condition for new_condition in conditions}
    return with_summary(tuple(by_type.values()), awaited=awaited_report(view), standing=standing_clocks(view))


def _with_pause(original: Condition, effect: str, paused: str) -> Condition:
    """Add a pause's effect to a condition, because no condition of its own shows a pause."""
    if not paused or paused in original.message:
        return original
    return original.model_copy(update={"message": f"{original.message}; {effect}: {paused}".removeprefix("; ")})


def streams_resolved(resolved: Resolved, *, first: bool = False) -> tuple[Condition, ...]:
    """Say whether every stream exists and can be used.

    Args:
        first: whether the first document waits for that.
    """
    if resolved.problem:
        return (condition("StreamsResolved", "InvalidSubscription", resolved.problem),)
    if resolved.held:
        text = "; ".join(refusal.message for refusal in resolved.held)
        text += "; the first document waits until that is corrected" if first else ""
        return (condition("StreamsResolved", resolved.held[0].reason, text),)
    if resolved.missing:
        names = first_few(resolved.missing, 20)
        text = f"no KafkaStream and no labelled ConfigMap in this namespace has stream {names}: apply it, or remove it"
        text += " from the subscription" + _unreadable(resolved)
        return (condition("StreamsResolved", "StreamMissing", text),)
    if not resolved.streams:
        text = "no stream matches spec.streams.pattern yet" + _unreadable(resolved)
        return (condition("StreamsResolved", "NothingMatches", text),)
    return (condition("StreamsResolved", "Resolved", counted(len(resolved.streams), "stream")),)


def _unreadable(resolved: Resolved) -> str:
    """Name the objects that cannot be read, since they may have the missing stream."""
    return f". It may be in an object that cannot be read: {'; '.join(resolved.broken)}" if resolved.broken else ""


def too_large(size: int) -> tuple[Condition, ...]:
    """Say that the document does not fit into a ConfigMap."""
    text = (
        f"the document takes {size} bytes, and a ConfigMap holds {MAX_BYTES}: the last document that fitted stays in"
        " force. Split the streams over several applications, or name fewer topics"
    )
    return (condition("StreamsResolved", "TooLarge", text),)


def streams_conflict(why: str) -> tuple[Condition, ...]:
    """Say that no driver could read the streams together."""
    text = f"a driver would reject these streams together, so the last document stays in force: {why}"
    return (condition("StreamsResolved", "Conflict", text),)


def application_taken(rival: str) -> tuple[Condition, ...]:
    """Say that another subscription has the application."""
    text = f"subscription {rival} is older and serves an application of the same name: delete one of the two"
    return (condition("StreamsResolved", "ApplicationTaken", text),)


def config_map_taken(config_map: str) -> tuple[Condition, ...]:
    """Say that somebody else's ConfigMap has the document's name."""
    text = (
        f"the operator did not make ConfigMap {config_map} for this subscription, and does not change it: delete it if"
        " no job reads it or may start with it"
    )
    return (condition("StreamsResolved", "ConfigMapTaken", text),)


def document_contested(config_map: str) -> tuple[Condition, ...]:
    """Say that another writer takes the document back again and again. The text stays the same while that goes on."""
    text = (
        f"another writer keeps changing or deleting ConfigMap {config_map}, and no restart begins. To find the writer:"
        f" `kubectl get configmap {config_map} -o yaml --show-managed-fields`. See"
        " docs/reference/conditions.md"
    )
    return (condition("StreamsResolved", "DocumentContested", text),)


def document_refused(config_map: str, why: str) -> tuple[Condition, ...]:
    """Say that the API server refuses the document."""
    text = (
        f"the API server refuses ConfigMap {config_map}, so its last content stays in force: {why[:1024]}. Remove the"
        " obstacle, such as a quota or a policy: docs/reference/conditions.md"
    )
    return (condition("StreamsResolved", "DocumentRefused", text),)


def status_refused(why: str) -> tuple[Condition, ...]:
    """Say that the API server refuses the newest status, so that this one is behind."""
    text = (
        f"the API server refuses the newest status, and nothing is rolled out: {why[:1024]}. If it is too large,"
        " shorten spec.secrets or spec.streams. See docs/reference/conditions.md"
    )
    return (condition("StreamsResolved", "StatusRefused", text),)


def with_conditions(
    before: SubscriptionStatus, fresh: tuple[Condition, ...], *, generation: int, now: str
) -> SubscriptionStatus:
    """Return the status with these conditions and their summary; everything else stays as it was.

    The other conditions are about the spec of before, and keep its generation.
    """
    new = settled(with_summary(fresh), before.conditions, generation=generation, now=now)
    types = {new_condition.type for new_condition in new}
    others = [old_condition for old_condition in before.conditions if old_condition.type not in types]
    conditions = tuple(sorted((*others, *new), key=lambda any_condition: any_condition.type))
    return before.model_copy(update={"observed_generation": generation, "conditions": conditions})


def with_summary(conditions: tuple[Condition, ...], *, awaited: str = "", standing: str = "") -> tuple[Condition, ...]:
    """Return the conditions together with kstatus's three.

    Args:
        awaited: the report that has to come before the document counts as in force; "" if none has to.
        standing: which clocks stand although there are unread records; "" without any.
    """
    by_type = {new_condition.type: new_condition for new_condition in conditions}
    bad = [
        new_condition
        for new_condition in conditions
        if (new_condition.status == "False" and new_condition.type in ("StreamsResolved", "RolledOut", "Mounted"))
        or (new_condition.type == "TopicsReady" and new_condition.reason != "InternalTopicLost")
        or (new_condition.type == "ApplicationFound" and new_condition.reason in (*FAILED, TOPIC_CHANGED))
    ]
    rolled_out = by_type.get("RolledOut")
    under_way = rolled_out is not None and rolled_out.reason in MOVING
    passing = PASSING | ENDED_BY_A_ROLL_OUT if under_way else PASSING
    stuck = [bad_condition for bad_condition in bad if (bad_condition.type, bad_condition.reason) not in passing]
    moving = under_way and not stuck  # GitOps tools take a stalled object for failed, or for moving, as they please
    first = next(iter(stuck or bad), None)
    return (
        *conditions,
        condition("Ready", first.reason, first.message) if first is not None else _ready(by_type, awaited, standing),
        condition("Reconciling", rolled_out.reason if moving and rolled_out is not None else "Settled"),
        condition("Stalled", stuck[0].reason if stuck else "Settled", stuck[0].message if stuck else ""),
    )


def _ready(by_type: Mapping[str, Condition], awaited: str, standing: str) -> Condition:
    """Say that nothing is wrong: an application may be stopped on purpose, is not there yet, or is about to start."""
    rolled_out, application, end = map(by_type.get, ("RolledOut", "ApplicationFound", "Finished"))
    if application is not None and application.reason in IDLE and end is not None and end.status == "True":
        return condition("Ready", end.reason, end.message)
    if rolled_out is not None and rolled_out.status == "Unknown":
        return condition("Ready", rolled_out.reason, rolled_out.message)
    if application is not None and application.reason in IDLE:
        return condition("Ready", "NotRunning", application.message)
    if awaited:
        return condition("Ready", "AwaitsReport", awaited)
    unreached = by_type.get("ClusterNeverReached")
    if unreached is not None and unreached.status == "True":
        # The others are read. The reason is a column of `kubectl get`.
        return condition("Ready", unreached.reason, unreached.message)
    if standing:
        return condition("Ready", "ClockStands", standing)
    return condition("Ready", "InForce", rolled_out.message if rolled_out is not None else "")


def next_deadline(view: View) -> datetime | None:
    """Return when a condition may change by the passing of time alone."""
    waits = (timedelta(seconds=FRESH_S) if view.status.draining else None, time_to_report(view))
    moments = (*(view.now + wait for wait in waits if wait is not None), row_ends_at(view))
    return min((moment for moment in moments if moment is not None), default=None)


def _drained(view: View, rendering: Rendering | None) -> Condition:
    waiting = rendering.draining if rendering is not None else view.status.draining
    if not waiting:
        return condition("Drained", "NothingDrains")
    late = [topic for topic in waiting if _is_late(topic.since, topic.timeout, view.now)]
    topics = (f"{topic.cluster}/{topic.topic}: {topic.message or 'waits'}" for topic in waiting)
    text = first_few(topics, 20, separator="; ")
    for topic in waiting:
        if spent := spent_release_of(Key(topic.cluster, topic.topic), view.released, view.status.released):
            text += f". The release {spent} is from before this drain and does not count: to release the topic again,"
            text += f" write {topic.cluster}/{topic.topic}@2"
            break
    if late:
        text += (
            f". {len(late)} of them drain for longer than drain.timeout. The operator removes nothing because of that:"
            " to release a topic unread, annotate the subscription:"
            f" kafkastream.dev/release={late[0].cluster}/{late[0].topic}"
        )
        return condition("Drained", "DrainTimedOut", text)
    return condition("Drained", "Draining", text)


def _is_late(since: str, timeout: str, now: datetime) -> bool:
    return now - parse(since) > timedelta(milliseconds=parse_duration_ms(timeout, where="drain.timeout"))
