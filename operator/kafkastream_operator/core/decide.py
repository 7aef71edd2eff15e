"""One subscription: from everything that is seen of it to the writes that bring it on. Pure.

The order of the writes is the order of `Plan`: document, status, effect on the application, status. Whatever the
operator dies after, the next look decides from what is there:

- after the document: its status is behind; the same document is found, and the status follows;
- after the status: a token without effect is a roll-out that is `Pending`, and goes on;
- after the effect: patching the same attempt again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dynamic_kafka.metadata.kubernetes_names import config_map_name
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.conditions import subscription as verdicts
from kafkastream_operator.core.conditions.rollout import not_taken, waits_in_vain
from kafkastream_operator.core.document import MAX_BYTES, Document, Key, make_document, misfit, pack, size
from kafkastream_operator.core.drain_evidence import has_applied, missing_evidence, own_report
from kafkastream_operator.core.in_force import Wanted
from kafkastream_operator.core.release import in_vain, let_go
from kafkastream_operator.core.render import Rendering, known, renames, render
from kafkastream_operator.core.resolve import Resolved, resolve, secret_problem
from kafkastream_operator.core.rollout import Step, next_step
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.core.view import Plan, View
from kafkastream_operator.models.conditions import Condition, settled
from kafkastream_operator.models.subscription import MAX_DRAINING, Rendered, Rollout, SubscriptionStatus

KEPT_BYTES = 200 * 1024
"""Largest copy of the streams in a subscription's status."""
MAX_SAID = 10**12
"""Largest revision that others are believed to have seen: near the largest that can be read, none would be left."""


@dataclass(frozen=True)
class _Content:
    """What the document should be, and what came of making it."""

    document: Document | None
    written: bool
    rendering: Rendering | None
    conditions: tuple[Condition, ...]
    released: Mapping[Key, str] = field(default_factory=dict)
    in_vain: tuple[str, ...] = ()


def decide(view: View) -> Plan:
    """What to do for a subscription now."""
    name = config_map_name(view.spec.application_ref.name)
    if _outlived(view):
        return Plan(name, delete=True)
    if view.rival:
        return _only_conditions(view, name, verdicts.refused(view.rival))
    if view.config_map is not None and not view.config_map.ours:
        return _only_conditions(view, name, verdicts.foreign(name))
    previous = view.config_map.document if view.config_map is not None else None
    older = previous if _is_older_than_status(view, previous) else None
    if older is not None:
        previous = None
    served = previous or _remembered(view) or older or _reported(view)
    resolved = resolve(view.spec, view.catalog, served, unseen=_unseen(view, served))
    paused, until = _pause(view)
    content = _content(view, resolved, previous, older, paused)
    if content.document is None:
        return _only_conditions(view, name, content.conditions)
    step = _step(view, content.document, paused)
    secrets = verdicts.secrets_of(content.document)
    conditions = verdicts.all_of(
        view, resolved, content.conditions, step.condition, content.rendering, secrets=secrets, paused=paused
    )
    status = _status(view, content, step, conditions)
    after = None
    restart = {"restarted_at": stamp(view.now)} if step.restarted else {}
    if step.after is not None:
        after = status.model_copy(update={"rollout": step.after, **restart})
    elif step.restarted:
        status = status.model_copy(update=restart)
    events = verdicts.events(
        view, content.document if content.written else None, content.released, step, conditions
    ) + verdicts.released_in_vain(content.in_vain, status.draining)
    moments = (step.again, until, _gone_at(view, status), verdicts.next_look(view))
    return Plan(
        config_map=name,
        document=content.document if content.written else None,
        expected=view.config_map.resource_version if view.config_map is not None else "",
        status=status if status != view.status else None,
        effect=step.effect,
        after=after,
        events=events,
        again=min((each for each in moments if each is not None), default=None),
    )


def after_refusal(view: View, plan: Plan, why: str) -> SubscriptionStatus:
    """The status when the API server has not taken the plan's patch."""
    status = plan.status or view.status
    assert status.rollout is not None
    assert view.application is not None
    failed, said = not_taken(status.rollout, view.application, why, view.now)
    others = [each for each in status.conditions if each.type not in ("RolledOut", *verdicts.SUMMARY)]
    conditions = verdicts.summed_up((*others, said))
    done = settled(conditions, status.conditions, generation=view.generation, now=stamp(view.now))
    return status.model_copy(update={"rollout": failed, "conditions": done})


def without_document(view: View, plan: Plan, why: str) -> SubscriptionStatus:
    """The status when the API server has not taken the plan's document: of all else nothing has begun either."""
    said = verdicts.not_written(plan.config_map, why)
    return verdicts.beside(view.status, said, generation=view.generation, now=stamp(view.now))


def _is_older_than_status(view: View, document: Document | None) -> bool:
    """Whether somebody has put an earlier document back, as from a backup: what was rendered since is not in it.

    The status is written after the document, so by itself the document is never behind.
    """
    rendered = view.status.rendered
    if document is None or rendered is None:
        return False
    return document.revision.is_older_than(_revision_in(rendered))


def _is_behind_its_driver(view: View, document: Document) -> bool:
    """Whether the driver goes by a later revision than there is, as when etcd comes back from a backup.

    It leaves the document aside then, until that has a number of its own; and what it reads may be in no other place.
    """
    report = own_report(view.driver, view.uid)
    if report is None or report.applied is None or report.hash == document.hash:
        return False
    return document.revision.is_older_than(report.applied) and _is_believed(report.applied)


def _content(
    view: View, resolved: Resolved, previous: Document | None, older: Document | None, paused: str
) -> _Content:
    reported = view.driver.report.streams if view.driver is not None and view.driver.report is not None else None
    copies = (view.status.kept or None, reported, older.streams if older is not None else None)
    before = known(previous, view.status.draining, *copies)
    if previous is None and not before.entries and _waits(view, resolved):
        # Nothing is served until everything that is asked for is there: the driver's pod waits for the document.
        return _Content(None, False, None, verdicts.unresolved(resolved, first=True))
    drifted = view.config_map is None or view.config_map.drifted
    if previous is not None and (paused or resolved.problem):
        return _Content(previous, drifted, None, ())
    behind = previous is not None and _is_behind_its_driver(view, previous)
    if previous is not None and behind:
        before = replace(known(None, view.status.draining, previous.streams, reported), drain=previous.drain)
    remembered = _remembered(view)
    if remembered is not None:
        again: Document | None = make_document(remembered.revision, remembered.streams, {}, view.uid)
    else:
        again = _reported(view)
    if (paused or resolved.problem) and again is not None:
        return _Content(again, True, None, ())
    counter = _next_counter(view, previous)
    lineage = _lineage(view, previous)
    rendering = render(
        resolved,
        before,
        next_counter=counter,
        now=stamp(view.now),
        waits_for=lambda key, revision, quiet_s: missing_evidence(
            key,
            since=Revision(lineage=lineage, counter=revision),
            quiet_s=quiet_s,
            subscription=view.uid,
            life=view.application.life if view.application is not None else "Absent",
            driver=view.driver,
        ),
        may_have=lambda cluster, content: secret_problem(cluster, content, view.spec.secrets),
        # Without a status nobody knows which have counted already: then none does, and a person says it again.
        released=let_go(view.released if view.status.rendered else (), view.status.released, before.drains),
    )
    document = make_document(Revision(lineage=lineage, counter=counter), rendering.streams, rendering.drain, view.uid)
    if previous is not None and document.hash == previous.hash and not behind:
        document = replace(document, revision=previous.revision)
    elif previous is None and view.status.rendered is not None and document.hash == view.status.rendered.hash:
        # The document was lost or edited: what is put right is no new revision.
        document = replace(document, revision=_revision_in(view.status.rendered))
    elif why := misfit(document.streams):
        # A driver that runs would reject it, and one that starts would end: neither gets it.
        return _Content(previous or again, previous is None or drifted, None, verdicts.do_not_fit(why))
    stored = size(pack(document))
    if stored > MAX_BYTES:
        return _Content(previous or again, previous is None or drifted, None, verdicts.too_large(stored))
    vain = in_vain(view.released, view.status.released, before.drains) if view.status.rendered else ()
    return _Content(document, document != previous or drifted, rendering, (), rendering.released, vain)


def _waits(view: View, resolved: Resolved) -> bool:
    """Whether the first document has to wait: a bounded run would be over without what it lacks."""
    if resolved.missing or resolved.problem or not resolved.streams:
        return True
    # With a pattern, what is wrong holds up no other stream: but nothing is left to begin with.
    empty = not any(found["clusters"] for found in resolved.streams.values())
    return bool(resolved.held) and (view.spec.streams.ids is not None or empty)


def _step(view: View, document: Document, paused: str) -> Step:
    wanted = Wanted(document.revision, verdicts.secrets_of(document))
    restarted = view.status.restarted_at
    said = {each.reason for each in view.status.conditions if each.type == "RolledOut"}
    step = next_step(
        wanted,
        view.spec.update_strategy,
        view.status.rollout or _rollout_seen(view),
        view.application,
        view.driver,
        now=view.now,
        restarted_at=parse(restarted) if restarted else None,
        paused=paused,
        asked_anew=view.generation != view.status.observed_generation,
        # Where all is restored but the status, no driver is there that could have an older document than this.
        promised=not said.isdisjoint(("NotRunning", "Waiting"))
        or (view.status.rollout is None and view.driver is None),
        timing=view.timing,
    )
    in_vain = waits_in_vain(document.revision, view.application, view.driver)
    return replace(step, condition=in_vain) if in_vain is not None and step.condition.status == "True" else step


def _rollout_seen(view: View) -> Rollout | None:
    """What was rolled out last, when the status is lost; None if this is the very first document."""
    driver = view.driver
    started = Revision.parse(driver.token) if driver is not None else None
    if started is None and view.application is not None and (driver is None or not driver.running):
        # What its next driver starts with; one that runs may be from before the last patch.
        started = Revision.parse(view.application.token)
    if started is not None:
        return Rollout(token=started.token, method="Restart", phase="Confirmed", at=stamp(view.now))
    if driver is not None and driver.report is not None and driver.report.applied is not None:
        return Rollout(token=driver.report.applied.token, method="Reload", phase="Confirmed", at=stamp(view.now))
    document = view.config_map.document if view.config_map is not None else None
    if document is not None and document.revision.counter == 1:
        # Nothing came after the first one, which every driver begins with: what comes now has yet to reach it.
        return Rollout(token=document.revision.token, method="Adopt", phase="Confirmed", at=stamp(view.now))
    if document is not None:
        # Whether it reached the driver, nobody knows any more.
        unknown = replace(document.revision, counter=0).token
        return Rollout(token=unknown, method="Adopt", phase="Confirmed", at=stamp(view.now))
    return None


def _status(view: View, content: _Content, step: Step, conditions: tuple[Condition, ...]) -> SubscriptionStatus:
    document, rendering = content.document, content.rendering
    assert document is not None
    kept = document.streams if len(document.text()) <= KEPT_BYTES else {}
    draining = rendering.draining if rendering is not None else view.status.draining
    return SubscriptionStatus(
        observed_generation=view.generation,
        rendered=Rendered(
            config_map=config_map_name(view.spec.application_ref.name),
            lineage=document.revision.lineage or "",
            counter=document.revision.counter or 0,
            hash=document.hash,
        ),
        rollout=step.rollout,
        restarted_at=view.status.restarted_at,
        orphaned_at=_orphaned_at(view),
        # What does not fit in here still drains in the document.
        draining=draining[:MAX_DRAINING],
        # Those that have come while nothing is let go, as in a pause, count afterwards.
        released=tuple(sorted(view.released & {*view.status.released, *(view.released if rendering else ())})),
        kept=dict(kept),
        conditions=settled(conditions, view.status.conditions, generation=view.generation, now=stamp(view.now)),
    )


def _only_conditions(view: View, name: str, conditions: tuple[Condition, ...]) -> Plan:
    done = settled(
        verdicts.summed_up(conditions), view.status.conditions, generation=view.generation, now=stamp(view.now)
    )
    update = {"observed_generation": view.generation, "conditions": done, "orphaned_at": _orphaned_at(view)}
    status = view.status.model_copy(update=update)
    events = verdicts.worse(view, conditions)
    return Plan(name, status=status if status != view.status else None, events=events, again=_gone_at(view, status))


def _gone_at(view: View, status: SubscriptionStatus) -> datetime | None:
    """When a subscription that came of annotations has outlived its application."""
    return parse(status.orphaned_at) + _retention(view) if status.orphaned_at else None


def _orphaned_at(view: View) -> str | None:
    if view.application is not None or not view.made:
        return None
    return view.status.orphaned_at or stamp(view.now)


def _outlived(view: View) -> bool:
    since = view.status.orphaned_at
    if view.application is not None or not view.made or since is None:
        return False
    return view.now - parse(since) >= _retention(view)


def _retention(view: View) -> timedelta:
    return timedelta(milliseconds=parse_duration_ms(view.spec.orphan_retention, where="spec.orphanRetention"))


def _remembered(view: View) -> Document | None:
    """The document as the status remembers it, when the ConfigMap is lost or was edited."""
    rendered = view.status.rendered
    if rendered is None or not view.status.kept:
        return None
    return Document(_revision_in(rendered), view.status.kept)


def _reported(view: View) -> Document | None:
    """The document that the driver has in force, for when neither the ConfigMap nor the status tells any more.

    Only as it was rendered, by the driver's own report, and where each cluster may still have its Secret: what is held
    by it is served again as it stands there.
    """
    driver = view.driver
    report = driver.report if driver is not None else None
    if driver is None or report is None or report.applied is None or report.streams is None:
        return None
    if not driver.owned or (report.pod, report.subscription) != (driver.uid, view.uid):
        return None
    clusters = [each for found in report.streams.values() for each in found["clusters"].items()]
    if any(secret_problem(name, content, view.spec.secrets) for name, content in clusters) or misfit(report.streams):
        return None
    document = make_document(report.applied, report.streams, {}, view.uid)
    return document if document.hash == report.hash else None


def _unseen(view: View, document: Document | None) -> Mapping[str, str]:
    """{new id: old id} of the document's renames, as long as no driver has shown that it has them."""
    if document is None or has_applied(document.revision, subscription=view.uid, driver=view.driver):
        return {}
    return {new: old for old, new in renames(document.streams).items()}


def _revisions(view: View, previous: Document | None) -> list[Revision]:
    """Every revision that anybody has seen: ours, and what others say, if it is one that can have been."""
    rendered, rollout = view.status.rendered, view.status.rollout
    driver = view.driver if view.driver is not None and view.driver.owned else None
    report = driver.report if driver is not None and driver.report is not None else None
    ours = [
        previous.revision if previous is not None else None,
        _revision_in(rendered) if rendered is not None else None,
    ]
    said = [
        Revision.parse(rollout.token) if rollout is not None else None,
        Revision.parse(view.application.token) if view.application is not None else None,
        Revision.parse(driver.token) if driver is not None else None,
        report.applied if driver is not None and report is not None and report.pod == driver.uid else None,
    ]
    believed = [each for each in said if each is not None and _is_believed(each)]
    return [*(each for each in ours if each is not None), *believed]


def _is_believed(revision: Revision) -> bool:
    return (revision.counter or 0) <= MAX_SAID


def _revision_in(rendered: Rendered) -> Revision:
    return Revision(rendered.hash, rendered.counter, rendered.lineage)


def _lineage(view: View, previous: Document | None) -> str:
    seen = _revisions(view, previous)
    return (seen[0].lineage if seen else None) or view.fresh_lineage


def _next_counter(view: View, previous: Document | None) -> int:
    return 1 + max((each.counter or 0 for each in _revisions(view, previous)), default=0)


def _pause(view: View) -> tuple[str, datetime | None]:
    """Why nothing is rolled out, and until when."""
    pause = view.spec.pause
    if pause is None:
        return "", None
    if pause.until is None:
        return f"paused{f': {pause.reason}' if pause.reason else ''}; take spec.pause out to go on", None
    try:
        until = parse(pause.until)
    except ValueError:
        return f"paused: spec.pause.until {pause.until!r} is no moment; write 2026-11-01T00:00:00Z", None
    if view.now >= until:
        return "", None
    return f"paused until {pause.until}{f': {pause.reason}' if pause.reason else ''}", until
