"""The decision about one subscription: from everything that the operator sees of it to the writes that follow. Pure.

`handlers.apply_plan` makes the writes in the order of `Plan`: document, status, effect on the application, status. The
operator may die after any of them. The next reconciliation then decides from what is there:

- after the document: the status is behind. The next reconciliation renders the same document and writes the status.
- after the status: a token without its effect is a roll-out that is `Pending`. The next reconciliation continues it.
- after the effect: the next reconciliation patches the same attempt again, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from dynamic_kafka.contract.kubernetes_names import config_map_name
from kafkastream_operator.core import orphan, recovery
from kafkastream_operator.core.conditions import subscription as conditions
from kafkastream_operator.core.conditions.events import events_of, is_retried, new_problems, unused_releases
from kafkastream_operator.core.conditions.rollout import awaits_another, patch_refused
from kafkastream_operator.core.contest import Contest, contest_over
from kafkastream_operator.core.document import Document
from kafkastream_operator.core.finished import last_finish
from kafkastream_operator.core.last_failure import has_another_document, last_failure
from kafkastream_operator.core.next_document import NextDocument, homes, next_document
from kafkastream_operator.core.resolve import resolve
from kafkastream_operator.core.rollout.next_step import next_step
from kafkastream_operator.core.rollout.step import Step, Wanted
from kafkastream_operator.core.starter import next_starter
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.core.topic_integrity import ended_for_topic
from kafkastream_operator.core.view import Plan, View
from kafkastream_operator.models.conditions import Condition, settled
from kafkastream_operator.models.subscription import MAX_DRAINING, DrainingTopic, Rendered, SubscriptionStatus

HELD_UP = frozenset({"Paused", "Rejected", "RestartRequired", "AwaitsAnother", "Queued", "RolloutPaused"})
"""Reasons of `RolledOut` for which the operator waits for a person, or for other restarts. The time of it is no part of
a roll-out's age."""
DRAINING_BYTES = 500 * 1024
"""The largest list of draining topics in a subscription's status: etcd takes 1.5 MB, with the spec in it."""
KEPT_BYTES = 200 * 1024
"""The largest copy of the streams in a subscription's status."""


def decide(view: View) -> Plan:
    """Return the writes that the subscription needs now."""
    name = config_map_name(view.spec.application_ref.name)
    if orphan.is_expired(view):
        return Plan(name, delete=True)
    if view.rival:
        return _only_conditions(view, name, conditions.application_taken(view.rival))
    if view.config_map is not None and not view.config_map.ours:
        return _only_conditions(view, name, conditions.config_map_taken(name))
    previous = view.config_map.document if view.config_map is not None else None
    older = previous if recovery.is_older_than_status(view, previous) else None
    if older is not None:
        previous = None
    served = previous or recovery.document_in_status(view) or older or recovery.document_in_report(view)
    unconfirmed = recovery.unconfirmed_renames(view, served)
    resolved = resolve(view.spec, view.catalog, served, unconfirmed=unconfirmed)
    paused, until = _pause(view)
    content = next_document(view, resolved, previous, older, paused)
    if content.document is None:
        return _only_conditions(view, name, content.conditions)
    contest = contest_over(view, content, older=older is not None)
    step = _step(view, content.document, paused)
    if contest.held_until is not None and step.effect is not None:
        step = Step(view.status.rollout, step.condition)  # a driver must not meet the other writer's document
    all_conditions = conditions.subscription_conditions(
        view,
        resolved,
        (*content.conditions, *(conditions.document_contested(name) if contest.is_contested else ())),
        step.condition,
        content.rendering,
        document=content.document,
        paused=paused,
    )
    status = _status(view, content, content.document, step, all_conditions, contest=contest)
    after = None
    restart = {"restarted_at": stamp(view.now)} if step.restarted else {}
    if step.after is not None:
        after = status.model_copy(update={"rollout": step.after, **restart})
    elif step.restarted:
        status = status.model_copy(update=restart)
    written = content.document if content.written and contest.held_until is None else None
    events = events_of(view, written, content.released, step, all_conditions, contest=contest)
    moments = (step.again, until, contest.again, orphan.deletion_time(view, status), conditions.next_deadline(view))
    return Plan(
        config_map=name,
        document=written,
        expected=view.config_map.resource_version if view.config_map is not None else "",
        status=status if status != view.status else None,
        effect=step.effect,
        after=after,
        events=events + unused_releases(content.unused_releases, status.draining),
        again=min((moment for moment in moments if moment is not None), default=None),
    )


def after_refusal(view: View, plan: Plan, why: str) -> SubscriptionStatus:
    """Return the status for when the API server refuses the plan's patch."""
    status = plan.status or view.status
    assert status.rollout is not None
    assert view.application is not None
    failed, rolled_out = patch_refused(status.rollout, view.application, why, view.now)
    others = [condition for condition in status.conditions if condition.type not in ("RolledOut", *conditions.SUMMARY)]
    all_conditions = conditions.with_summary((*others, rolled_out))
    done = settled(all_conditions, status.conditions, generation=view.generation, now=stamp(view.now))
    return status.model_copy(update={"rollout": failed, "conditions": done})


def without_document(view: View, plan: Plan, why: str) -> SubscriptionStatus:
    """Return the status for when the API server refuses the plan's document: nothing else of the plan has begun."""
    refused = conditions.document_refused(plan.config_map, why)
    return conditions.with_conditions(view.status, refused, generation=view.generation, now=stamp(view.now))


def without_status(view: View, why: str) -> SubscriptionStatus:
    """Return the status for when the API server refuses the plan's status: the last one, which it has accepted."""
    refused = conditions.status_refused(why)
    return conditions.with_conditions(view.status, refused, generation=view.generation, now=stamp(view.now))


def _step(view: View, document: Document, paused: str) -> Step:
    restarted = view.status.restarted_at
    reasons = {condition.reason for condition in view.status.conditions if condition.type == "RolledOut"}
    ended = ended_for_topic(view.verdict, document.streams)
    if ended is None and has_another_document(view, document.revision):
        ended = False
    step = next_step(
        Wanted(document.revision, document.secrets, view.uid),
        view.spec.update_strategy,
        view.status.rollout or recovery.last_rollout(view),
        view.application,
        view.driver,
        now=view.now,
        restarted_at=parse(restarted) if restarted else None,
        paused=paused,
        tries_again=view.generation != view.status.observed_generation or view.asks_for_retry,
        starter=next_starter(
            view.application,
            view.spec.update_strategy,
            ended=ended,
            paused=bool(paused),
        ),
        # After a restore without the status, no driver exists yet that could have an older document than this one.
        promised=not reasons.isdisjoint(("NotRunning", "Waiting"))
        or (view.status.rollout is None and view.driver is None),
        turn=view.turn,
        timing=view.timing,
    )
    waiting = awaits_another(document.revision, view.application, view.driver)
    return replace(step, condition=waiting) if waiting is not None and step.condition.status == "True" else step


def _status(
    view: View,
    content: NextDocument,
    document: Document,
    step: Step,
    all_conditions: tuple[Condition, ...],
    *,
    contest: Contest,
) -> SubscriptionStatus:
    rendering = content.rendering
    kept = document.streams if document.length <= KEPT_BYTES else {}
    draining = rendering.draining if rendering is not None else view.status.draining
    rendered = Rendered(
        config_map=config_map_name(view.spec.application_ref.name),
        lineage=document.revision.lineage or "",
        counter=document.revision.counter or 0,
        hash=document.hash,
    )
    return SubscriptionStatus(
        observed_generation=view.generation,
        rendered=contest.recorded(rendered),
        rollout=step.rollout,
        rolling_out_since=_rolling_out_since(view, step.condition),
        restarted_at=view.status.restarted_at,
        orphaned_at=orphan.orphaned_at(view),
        draining=tuple(_as_many_as_fit(draining[:MAX_DRAINING])),
        # A release that comes while nothing is rendered, as in a pause, counts afterwards.
        released=tuple(sorted(view.released & {*view.status.released, *(view.released if rendering else ())})),
        retried=view.retry if is_retried(view, step) else view.status.retried,
        homes=homes(view),
        kept=dict(kept),
        failure=last_failure(view),
        finished=last_finish(view),
        conditions=settled(all_conditions, view.status.conditions, generation=view.generation, now=stamp(view.now)),
    )


def _as_many_as_fit(draining: Iterable[DrainingTopic]) -> Iterator[DrainingTopic]:
    """Yield the first topics that fit into a status. Those beyond still drain: the document has them."""
    left = DRAINING_BYTES
    for topic in draining:
        left -= len(topic.model_dump_json(by_alias=True).encode())
        if left < 0:
            return
        yield topic


def _rolling_out_since(view: View, rolled_out: Condition) -> str | None:
    """Return since when the operator has been rolling changes out; None if nothing moves, or a person holds it up."""
    if rolled_out.status != "False" or rolled_out.reason in HELD_UP:
        return None
    return view.status.rolling_out_since or stamp(view.now)


def _only_conditions(view: View, name: str, new_conditions: tuple[Condition, ...]) -> Plan:
    done = settled(
        conditions.with_summary(new_conditions), view.status.conditions, generation=view.generation, now=stamp(view.now)
    )
    seen = {"orphaned_at": orphan.orphaned_at(view), "failure": last_failure(view), "finished": last_finish(view)}
    status = view.status.model_copy(update={"observed_generation": view.generation, "conditions": done, **seen})
    again = orphan.deletion_time(view, status)
    events = new_problems(view, new_conditions)
    return Plan(name, status=status if status != view.status else None, events=events, again=again)


def _pause(view: View) -> tuple[str, datetime | None]:
    """Return why nothing is rolled out ("" if it is), and until when."""
    pause = view.spec.pause
    if pause is None:
        return "", None
    reason = f": {pause.reason}" if pause.reason else ""
    if pause.until is None:
        return f"paused{reason}; take spec.pause out to go on", None
    try:
        until = parse(pause.until)
    except ValueError:
        return f"paused: spec.pause.until {pause.until!r} is no timestamp; write 2026-11-01T00:00:00Z", None
    return ("", None) if view.now >= until else (f"paused until {pause.until}{reason}", until)
