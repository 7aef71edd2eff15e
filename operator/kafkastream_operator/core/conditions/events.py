"""The Events of a subscription: (reason, message) pairs, each once. Pure; `core.decide` calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dynamic_kafka.contract.kubernetes_names import config_map_name
from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import SHOULD_RUN, Patch
from kafkastream_operator.core.conditions.subscription import SUMMARY, TRANSIENT
from kafkastream_operator.core.contest import Contest
from kafkastream_operator.core.document import Document, Key
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.last_failure import failure_text, is_new, last_failure
from kafkastream_operator.core.rollout.step import Step
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.subscription import DrainingTopic

EVENT_TYPES = frozenset({"StreamsResolved", "RolledOut", "TopicsReady"})
"""Conditions that are worth an Event with whatever reason they become False."""
EVENT_REASONS = frozenset(
    {"DrainTimedOut", "NotMounted", "SecretsNotMounted", "NoReport", "ReportUnreadable", "ImageTooOld", "NeverReached"}
    | {"Finished", "RunsAgain"}
)
"""Reasons that are worth an Event, of the other conditions."""
SILENT = frozenset({"Queued"})
"""Reasons without an Event: a wave of many restarts would have as many."""
PROBLEMS_IF_TRUE = frozenset({"ClusterNeverReached", "Finished"})
"""Conditions with an Event when they become True; the others have one when they become False."""

Events = tuple[tuple[str, str], ...]


def events_of(
    view: View,
    document: Document | None,
    released: Mapping[Key, str],
    step: Step,
    conditions: Iterable[Condition],
    *,
    contest: Contest,
) -> Events:
    """Return the Events of one plan.

    Args:
        document: the document that is written; None if it stays as it is.
        released: {topic that leaves the document: why}.
        contest: has an Event for each restoration, until its condition says that there are many.
    """
    events = []
    if document is not None:
        name = config_map_name(view.spec.application_ref.name)
        revision = f"revision {document.revision.counter}"
        if contest.restores and not contest.is_contested:
            text = f"ConfigMap {name} was edited or deleted; the operator wrote {revision} again"
            events.append(("Restored", text))
        elif not contest.restores:
            events.append(("Rendered", f"{revision}: {', '.join(sorted(document.streams))}"))
    events += [
        ("Released", f"{key} leaves the document: {why}{_kafka_cluster(view, key)}")
        for key, why in sorted(released.items())
    ]
    if is_retried(view, step):
        events.append(("Retried", f"the operator tries revision {view.retry.partition('@')[0]} again, as asked"))
    if _is_confirmed(view, step):
        events.append((step.condition.reason, step.condition.message))
    if isinstance(step.effect, Patch):
        events.append(("Restarting", f"for revision {step.effect.token}, attempt {step.effect.attempt}"))
    return (*events, *new_problems(view, conditions))


def is_retried(view: View, step: Step) -> bool:
    """Return whether this step begins a roll-out again since a user asks for it."""
    before, after = view.status.rollout, step.after or step.rollout
    if not view.asks_for_retry or before is None or after is None:
        return False
    return after.token == before.token and after.phase not in ("Failed", "Confirmed")


def _is_confirmed(view: View, step: Step) -> bool:
    """Return whether this step is the first to show the revision in force; a lost status shows nothing new."""
    before, after = view.status.rollout, step.after or step.rollout
    if before is None or after is None or step.condition.reason != "Confirmed":
        return False
    return (before.token, before.phase) != (after.token, after.phase)


def _kafka_cluster(view: View, key: Key) -> str:
    """Name the Kafka cluster that the driver drained: its servers may belong to another one when somebody reads it."""
    report = own_report(view.driver, view.uid)
    topic_report = report.draining.get(key) if report is not None else None
    return f" (cluster.id {topic_report.kafka_id})" if topic_report is not None and topic_report.kafka_id else ""


def unused_releases(releases: Iterable[str], draining: Sequence[DrainingTopic]) -> Events:
    """Return an Event for each release that names nothing that drains, with what can be released."""
    possible = first_few([f"{topic.cluster}/{topic.topic}" for topic in draining], 20) or "nothing"
    text = "names nothing that drains, and does not count for later drains either"
    return tuple(
        ("NothingReleased", f"the release {release[:300]} {text}; draining now: {possible}") for release in releases
    )


def new_problems(view: View, conditions: Iterable[Condition]) -> Events:
    """Return an Event for each new failure, and for each condition that has become a problem since the last status.

    A problem with another reason is a new one.
    """
    before, now = ({known.type: known for known in those} for those in (view.status.conditions, conditions))
    was_moving, is_moving = ("RolledOut" in those and those["RolledOut"].reason in TRANSIENT for those in (before, now))
    events = _new_failure(view)
    for present in (present for present in now.values() if present.type not in SUMMARY):
        old = before.get(present.type)
        # The messages of a roll-out or a drain change all the time. A message about streams changes only with them.
        same = old is not None and old.reason == present.reason
        if present.type == "StreamsResolved":
            same = same and old is not None and old.message == present.message
        if present.reason == "SecretsNotMounted":
            # A restart on its way mounts them. If it fails, the Event of `RolledOut` has the reason.
            same = is_moving or (same and not was_moving)
        problem = "True" if present.type in PROBLEMS_IF_TRUE else "False"
        if (
            present.reason not in SILENT
            and present.status == problem
            and not same
            and (present.type in EVENT_TYPES or present.reason in EVENT_REASONS)
        ):
            events.append((present.reason, present.message))
    if _waits_in_vain(now) and not _waits_in_vain(before):
        events.append(("RolloutWithoutDriver", f"the application has no driver: {now['RolledOut'].message}"))
    return tuple(events)


def _waits_in_vain(conditions: Mapping[str, Condition]) -> bool:
    """Return whether a roll-out waits for a driver that does not run, although it should."""
    reasons = {condition.type: condition.reason for condition in conditions.values()}
    waits = "RolledOut" in conditions and conditions["RolledOut"].status == "Unknown"
    return waits and reasons.get("Reporting") == "NoDriver" and reasons.get("ApplicationFound") in SHOULD_RUN


def _new_failure(view: View) -> list[tuple[str, str]]:
    """Return an Event for a failure that the status does not have, or has with a less exact cause."""
    failure, known = last_failure(view), view.status.failure
    corrected = failure is not None and known is not None and failure.cause != known.cause
    return [("ApplicationFailed", failure_text(view))] if is_new(view) or corrected else []
