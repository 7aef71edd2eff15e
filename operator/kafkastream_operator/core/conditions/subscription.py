"""What is said of a subscription: its conditions, for a person at 3 a.m., and its events. Pure.

| Type | Says |
|---|---|
| ApplicationFound | the SparkApplication is there |
| StreamsResolved | every stream that is asked for is there, valid and agreed on |
| RolledOut | the newest revision is in force |
| Mounted | the driver mounts the document |
| Reporting | the driver reports, so that drains can end |
| Drained | nothing waits to be drained |
| Ready, Reconciling, Stalled | all of it together, as kstatus and GitOps tools read it |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from dynamic_kafka.metadata.kubernetes_names import config_map_name
from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.application import Patch
from kafkastream_operator.core.conditions.driver import mounted, reporting, time_to_report
from kafkastream_operator.core.document import MAX_BYTES, Document, Key
from kafkastream_operator.core.drain_evidence import FRESH_S, own_report
from kafkastream_operator.core.release import spent_on
from kafkastream_operator.core.render import Rendering
from kafkastream_operator.core.resolve import Resolved
from kafkastream_operator.core.rollout import Step
from kafkastream_operator.core.timestamps import parse
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.subscription import DrainingTopic, SubscriptionStatus

SUMMARY = ("Ready", "Reconciling", "Stalled")
WAITING = frozenset({"NotRunning", "Waiting", "Paused", "RollingOut", "Coalescing", "Starting", "Reverted"})
"""Reasons of `RolledOut` that pass by themselves, or that a person chose."""
TOLD = frozenset(
    {"StreamsResolved", "RolledOut", "DrainTimedOut"}
    | {"NotMounted", "SecretsNotMounted", "NoReport", "ReportUnreadable", "ImageTooOld"}
)
"""Conditions, and reasons of others, that are worth an Event when they are bad."""


def secrets_of(document: Document) -> frozenset[str]:
    """The Secrets that a document needs mounted."""
    return frozenset(
        cluster["secretFolder"]
        for stream in document.streams.values()
        for cluster in stream["clusters"].values()
        if "secretFolder" in cluster
    )


def all_of(
    view: View,
    resolved: Resolved,
    content: Iterable[Condition],
    rolled_out: Condition,
    rendering: Rendering | None,
    *,
    secrets: frozenset[str],
    paused: str = "",
) -> tuple[Condition, ...]:
    """All conditions of a subscription that has a document."""
    found = [
        *unresolved(resolved),
        *content,
        _held_up(rolled_out, "nothing newer is rolled out", paused),
        _application(view),
        mounted(view, secrets),
        reporting(view),
        _held_up(_drained(view, rendering), "no drain ends", paused),
    ]
    return summed_up(tuple({each.type: each for each in found}.values()))


def _held_up(found: Condition, what: str, paused: str) -> Condition:
    """A condition with what a pause holds up, which would else be seen nowhere."""
    if not paused or paused in found.message:
        return found
    return found.model_copy(update={"message": f"{found.message}; {what}: {paused}".removeprefix("; ")})


def unresolved(resolved: Resolved, *, first: bool = False) -> tuple[Condition, ...]:
    """Whether every stream is there and can be used; `first`: the first document waits for that."""
    if resolved.problem:
        return (condition("StreamsResolved", False, "InvalidSubscription", resolved.problem),)
    if resolved.held:
        text = "; ".join(each.message for each in resolved.held)
        text += "; nothing is rendered before that is mended" if first else ""
        return (condition("StreamsResolved", False, resolved.held[0].reason, text),)
    if resolved.missing:
        names = ", ".join(resolved.missing)
        text = f"no KafkaStream and no labelled ConfigMap of this namespace has {names}: apply it, or take it out"
        text += _perhaps_in(resolved)
        return (condition("StreamsResolved", False, "StreamMissing", text),)
    if not resolved.streams:
        text = "no stream matches spec.streams.pattern yet" + _perhaps_in(resolved)
        return (condition("StreamsResolved", False, "NothingMatches", text),)
    return (condition("StreamsResolved", True, "Resolved", f"{len(resolved.streams)} streams"),)


def _perhaps_in(resolved: Resolved) -> str:
    """What cannot be read, and may have what is not found."""
    return f". It may be in what cannot be read: {'; '.join(resolved.broken)}" if resolved.broken else ""


def too_large(size: int) -> tuple[Condition, ...]:
    """The document does not fit."""
    text = (
        f"the document takes {size} bytes, a ConfigMap holds {MAX_BYTES}: the last one that did stays in force. Split"
        " the streams over several applications, or name fewer topics"
    )
    return (condition("StreamsResolved", False, "TooLarge", text),)


def do_not_fit(why: str) -> tuple[Condition, ...]:
    """What is asked for cannot be read together."""
    text = f"no driver reads this together, and the last document stays in force: {why}"
    return (condition("StreamsResolved", False, "Conflict", text),)


def refused(rival: str) -> tuple[Condition, ...]:
    """Another subscription has the application."""
    text = f"subscription {rival} is older and is for an application of this name, too: delete one of the two"
    return (condition("StreamsResolved", False, "ApplicationTaken", text),)


def foreign(config_map: str) -> tuple[Condition, ...]:
    """The ConfigMap's name is taken."""
    text = (
        f"ConfigMap {config_map} was not made by the operator for this subscription and is left alone: delete it, if"
        " no job reads it, nor may start with it"
    )
    return (condition("StreamsResolved", False, "ConfigMapTaken", text),)


def not_written(config_map: str, why: str) -> tuple[Condition, ...]:
    """The API server refuses the document."""
    text = (
        f"the API server does not take ConfigMap {config_map}, and what there is of it stays in force: {why[:1024]}."
        " Make room for it (a quota, a policy, the operator's role; `immutable` on it: delete it, if no job reads it)."
        " It is tried again every minute"
    )
    return (condition("StreamsResolved", False, "DocumentRefused", text),)


def beside(
    before: SubscriptionStatus, found: tuple[Condition, ...], *, generation: int, now: str
) -> SubscriptionStatus:
    """The status with these conditions, and what sums them up, where all else stays as it was."""
    said = summed_up(found)
    types = {each.type for each in said}
    others = [each for each in before.conditions if each.type not in types]
    done = settled((*others, *said), before.conditions, generation=generation, now=now)
    return before.model_copy(update={"observed_generation": generation, "conditions": done})


def summed_up(found: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions, with kstatus's three."""
    by_type = {each.type: each for each in found}
    bad = [
        each for each in found if each.status == "False" and each.type in ("StreamsResolved", "RolledOut", "Mounted")
    ]
    stuck = [each for each in bad if not (each.type == "RolledOut" and each.reason in WAITING)]
    going = by_type.get("RolledOut")
    moving = going is not None and going.reason in ("RollingOut", "Coalescing", "Starting", "Reverted")
    first = next(iter(stuck or bad), None)
    if first is None:
        # Not in force where nothing runs, which is not bad: somebody may have stopped it on purpose.
        idle = going is not None and going.status == "Unknown"
        said = going.message if going is not None else ""
        ready = condition("Ready", True, going.reason if going is not None and idle else "InForce", said)
    else:
        ready = condition("Ready", False, first.reason, first.message)
    return (
        *found,
        ready,
        condition("Reconciling", moving, going.reason if moving and going is not None else "Settled"),
        condition("Stalled", bool(stuck), stuck[0].reason if stuck else "Settled", stuck[0].message if stuck else ""),
    )


def next_look(view: View) -> datetime | None:
    """When something becomes true by the passing of time alone."""
    waits = (timedelta(seconds=FRESH_S) if view.status.draining else None, time_to_report(view))
    return min((view.now + each for each in waits if each is not None), default=None)


def events(
    view: View, document: Document | None, released: Mapping[Key, str], step: Step, conditions: Iterable[Condition]
) -> tuple[tuple[str, str], ...]:
    """What is worth an Event."""
    found = []
    if document is not None:
        last, name = view.status.rendered, config_map_name(view.spec.application_ref.name)
        revision = f"revision {document.revision.counter}"
        if last is not None and f"{last.lineage}/{last.counter}" == document.revision.token:
            found.append(("Restored", f"ConfigMap {name} was edited or deleted, and is made again as {revision} was"))
        else:
            found.append(("Rendered", f"{revision}: {', '.join(sorted(document.streams))}"))
    found += [
        ("Released", f"{key} leaves the document: {why}{_on(view, key)}") for key, why in sorted(released.items())
    ]
    if isinstance(step.effect, Patch):
        found.append(("Restarting", f"for revision {step.effect.token}, attempt {step.effect.attempt}"))
    return (*found, *worse(view, conditions))


def _on(view: View, key: Key) -> str:
    """Which Kafka cluster the driver listed: its servers may stand for another one by the time somebody reads it."""
    report = own_report(view.driver, view.uid)
    found = report.draining.get(key) if report is not None else None
    return f" (cluster.id {found.kafka_id})" if found is not None and found.kafka_id else ""


def released_in_vain(releases: Iterable[str], draining: Sequence[DrainingTopic]) -> tuple[tuple[str, str], ...]:
    """Releases that are spent on nothing, with what there is to release: nothing else tells of a slip of the pen."""
    there = ", ".join(f"{each.cluster}/{each.topic}" for each in draining[:20]) or "nothing"
    there += f" and {len(draining) - 20} more" if len(draining) > 20 else ""
    text = "names nothing that drains, and counts no more, not even for what drains later"
    return tuple(
        ("NothingReleased", f"the release {each[:300]} {text}; there is to release: {there}") for each in releases
    )


def worse(view: View, conditions: Iterable[Condition]) -> tuple[tuple[str, str], ...]:
    """The conditions that have become bad, or bad in another way, since they were written last."""
    before, now = ({each.type: each for each in those} for those in (view.status.conditions, conditions))
    waited, waits = ("RolledOut" in those and those["RolledOut"].reason in WAITING for those in (before, now))
    found = []
    for each in (each for each in now.values() if each.type not in SUMMARY):
        old = before.get(each.type)
        # What is said of streams changes only with them; what is said of a roll-out or a drain goes on changing.
        same = old is not None and old.reason == each.reason
        if each.type == "StreamsResolved":
            same = same and old is not None and old.message == each.message
        if each.reason == "SecretsNotMounted":
            # A restart that is on its way mounts them, and what comes in its way is told of the roll-out.
            same = waits or (same and not waited)
        if each.status == "False" and not same and (each.type in TOLD or each.reason in TOLD):
            found.append((each.reason, each.message))
    return tuple(found)


def _application(view: View) -> Condition:
    if view.application is not None:
        return condition("ApplicationFound", True, view.application.life)
    name, kind = view.spec.application_ref.name, view.spec.application_ref.api_version
    if view.made:
        text = f"SparkApplication {name} is gone; what it drains is kept for {view.spec.orphan_retention}"
        return condition("ApplicationFound", False, "Orphaned", text)
    return condition(
        "ApplicationFound", False, "ApplicationMissing", f"there is no SparkApplication {name} of {kind} yet"
    )


def _drained(view: View, rendering: Rendering | None) -> Condition:
    waiting = rendering.draining if rendering is not None else view.status.draining
    if not waiting:
        return condition("Drained", True, "NothingDrains")
    late = [each for each in waiting if _is_late(each.since, each.timeout, view.now)]
    text = "; ".join(f"{each.cluster}/{each.topic}: {each.message or 'waits'}" for each in waiting[:20])
    text += f"; and {len(waiting) - 20} more" if len(waiting) > 20 else ""
    for each in waiting:
        if spent := spent_on(Key(each.cluster, each.topic), view.released, view.status.released):
            text += f". The release {spent} came before this: to release it again, write {each.cluster}/{each.topic}@2"
            break
    if late:
        text += (
            f". It takes longer than drain.timeout for {len(late)} of them: nothing is removed because of it. To let"
            f" one go unread, annotate the subscription: kafkastream.dev/release={late[0].cluster}/{late[0].topic}"
        )
        return condition("Drained", False, "DrainTimedOut", text)
    return condition("Drained", False, "Draining", text)


def _is_late(since: str, timeout: str, now: datetime) -> bool:
    return now - parse(since) > timedelta(milliseconds=parse_duration_ms(timeout, where="drain.timeout"))
