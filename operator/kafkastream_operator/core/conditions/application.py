"""The condition `ApplicationFound`: the state of the SparkApplication, and the cause of its failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.kubernetes_names import RELEASE_ANNOTATION
from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import FAILED, Application
from kafkastream_operator.core.conditions.rollout import GIVEN_UP
from kafkastream_operator.core.document import Document, Key, draining_in
from kafkastream_operator.core.last_failure import (
    failure_text,
    has_another_document,
    has_failed,
    is_steady,
    last_failure,
)
from kafkastream_operator.core.starter import BY_OPERATOR, Starter, next_starter
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition

IDLE = frozenset({"Suspended", "Completed", "ApplicationMissing", "Orphaned"})
"""Reasons of `ApplicationFound` for which nothing runs and nothing is wrong."""
TOPIC_CHANGED = MEANINGS[ExitCode.TOPIC_INTEGRITY].reason
_STARTS: Mapping[Starter, str] = {
    "Operator": "it is started again",
    "OperatorAfterPause": "it is started again when the pause ends",
    "SparkOperator": "its Spark operator starts it again",
}
_AFTER_ACCEPTANCE: Mapping[Starter, str] = {
    "Operator": "Once the streams name the new id, the operator starts it; once the tool has accepted it, start it"
    " with",
    "OperatorAfterPause": "Once the streams name the new id, the operator starts it when the pause ends; once the tool"
    " has accepted it, start it with",
    "SparkOperator": "Its Spark operator tries again by itself, and succeeds once the streams name the new id or the"
    " tool has accepted it. To try at once:",
    "User": "Then start it again:",
}


def application_found(view: View, document: Document, rolled_out: Condition, *, paused: bool = False) -> Condition:
    """Say whether the application exists, in which state it is, and why it has failed."""
    name, api_version = view.spec.application_ref.name, view.spec.application_ref.api_version
    life = view.application.life if view.application is not None else "Absent"
    if view.application is not None and view.verdict is not None:
        return _topic_changed(view, view.application, view.verdict, document, paused=paused)
    if view.application is not None and life in FAILED:
        return _failed(view, view.application, document, rolled_out, paused=paused)
    if life != "Absent":
        text = f"SparkApplication {name} is {life}, and no driver runs" if life in IDLE else ""
        if life not in IDLE and not is_steady(view):
            text = failure_text(view)
        return condition("ApplicationFound", life, text)
    if view.annotated:
        text = f"SparkApplication {name} is gone; the operator keeps its drains for {view.spec.orphan_retention}"
        return condition("ApplicationFound", "Orphaned", text)
    text = f"there is no SparkApplication {name} of {api_version} yet"
    return condition("ApplicationFound", "ApplicationMissing", text)


def _failed(
    view: View, application: Application, document: Document, rolled_out: Condition, *, paused: bool
) -> Condition:
    """Say that the application has failed, and why."""
    name, group = view.spec.application_ref.name, view.spec.application_ref.api_version.partition("/")[0]
    failure, ended = last_failure(view), application.life == "Failed"
    own = failure if failure is not None and failure.submission == application.failed_submission else None
    cause = (own.cause if own is not None else "") or application.failure.cause
    failed = has_failed(own.count if own is not None else 1)
    starter = next_starter(application, view.spec.update_strategy, ended=False, paused=paused)
    moves = rolled_out.status == "False" and rolled_out.reason not in GIVEN_UP
    if moves and starter in BY_OPERATOR and has_another_document(view, document.revision):
        text = f"SparkApplication {name} {failed}: {cause}. Its document has changed since: {_STARTS[starter]}"
        return condition("ApplicationFound", "Starting", text)
    state, restart = ("no driver runs", ", and start it again") if ended else ("its Spark operator tries again", "")
    text = (
        f"SparkApplication {name} {failed}, and {state}: {cause}{'. ' if cause else ''}`kubectl describe"
        f" sparkapplication.{group} {name}` and the driver's log show more. Correct the cause{restart}:"
        " docs/how-to/runbooks.md#kafkastreamapplicationfailing"
    )
    return condition("ApplicationFound", application.life, text)


def _topic_changed(
    view: View, application: Application, verdict: TopicVerdict, document: Document, *, paused: bool
) -> Condition:
    """Say that the driver has ended for good because of a topic, and how the application runs again."""
    name, kind = view.spec.application_ref.name, view.spec.application_ref.api_version.partition("/")[0]
    by_hand = "delete the SparkApplication and apply it again"
    if application.restarts_itself:
        patch = '{"spec":{"driver":{"annotations":{"restarted-at":"\'$(date -u +%FT%TZ)\'"}}}}'
        by_hand = f"`kubectl patch sparkapplication.{kind} {name} --type merge -p '{patch}'`"
    starter = next_starter(application, view.spec.update_strategy, ended=False, paused=paused)
    text, reason = f"SparkApplication {name} has ended for good: {verdict.text}", TOPIC_CHANGED
    if verdict.stands(document.streams):
        text += f". The operator starts nothing before that.{_to_release(verdict, document)}"
        text += f" {_AFTER_ACCEPTANCE[starter]} {by_hand}"
    elif starter == "User":
        text += f". The streams accept that. Start it: {by_hand}"
    else:
        text, reason = f"{text}. The streams accept that: {_STARTS[starter]}", "Starting"
    return condition("ApplicationFound", reason, text)


def _to_release(verdict: TopicVerdict, document: Document) -> str:
    """Say how a changed topic that was taken out leaves the document: without a driver, nothing drains."""
    changed = {Key(topic.cluster, topic.topic) for topic in verdict.changed}
    draining = sorted(changed.intersection(draining_in(document.streams)))
    if not draining:
        return ""
    return (
        f" {first_few(draining, 5)} was taken out and drains, so the next driver would still read it: to give up its"
        f" unread records, annotate the subscription: {RELEASE_ANNOTATION}={','.join(map(str, draining[:5]))}."
    )
