"""The effect of manifests on one subscription, before anybody applies them. Pure; `kubectl.py` calls it.

`decide` is played until nothing more is written, once with what there is and once with the manifests. The difference of
the two is the effect. Restarts are not kept apart in it, and wait for no others: it says what happens, not when.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from kafkastream_operator.core.application import Patch, Refresh
from kafkastream_operator.core.catalog import Catalog
from kafkastream_operator.core.decide import decide
from kafkastream_operator.core.document import Document, Key, draining_in, entries
from kafkastream_operator.core.patterns import PatternError
from kafkastream_operator.core.render import renamed_to, renames
from kafkastream_operator.core.resolve import asks_for
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.view import ConfigMap, View
from kafkastream_operator.models.conditions import Condition

Reach = Literal["Nothing", "Live", "Restart", "AtStart"]
"""How the newest document reaches the application: not at all, live, by a restart, or when it starts by itself."""
REFUSED = frozenset({"InvalidStream", "InvalidSubscription", "InvalidConfigMap", "TooLarge"})
"""Reasons of `StreamsResolved` for a mistake in the manifests. For any other the operator holds the change back."""
_AT_ONCE = Timing(between_restarts=timedelta(), gather=timedelta())
_LOOKS = 20
"""More looks than a subscription takes until nothing more is written."""


@dataclass(frozen=True)
class Preview:
    """The effect on one application.

    Attributes:
        held: why a change does not reach it; "" if nothing is held.
        refused: the mistake in the manifests; "" if there is none.
        drains: the topics that begin to drain.
        dropped: the topics that are not read any more from now on, without a drain.
    """

    reach: Reach = "Nothing"
    held: str = ""
    refused: str = ""
    drains: tuple[Key, ...] = ()
    dropped: tuple[Key, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the manifests change nothing for the application."""
        return self == Preview()


def preview(now: View | None, then: View) -> Preview:
    """Return the effect of manifests on a subscription.

    Args:
        now: what there is; None if the manifests make the subscription.
        then: the same with the specs of the manifests.
    """
    before = _at_rest(now)[0] if now is not None else None
    if before is not None:
        then = replace(then, status=before.status, config_map=before.config_map, application=before.application)
    after, effects = _at_rest(then)
    old, new = _document(before), _document(after)
    drains = _new(draining_in(new.streams) if new is not None else (), draining_in(old.streams) if old else ())
    effect = Preview(_reach(old, new, after, effects), drains=drains, dropped=_dropped(old, new))
    why, known = _condition(after, "StreamsResolved"), _condition(before, "StreamsResolved")
    if why is not None and why.status == "False" and (known is None or _text(known) != _text(why)):
        is_mistake = why.reason in REFUSED
        return replace(effect, refused=_text(why)) if is_mistake else replace(effect, held=_text(why))
    rolled_out = _condition(after, "RolledOut")
    if effect.reach == "Nothing" and rolled_out is not None and _hash(old) != _hash(new):
        return replace(effect, held=_text(rolled_out))
    if then.spec.pause is not None and effect.reach == "Nothing" and now is not None:
        waiting = [_document(_at_rest(_without_pause(state))[0]) for state in (now, then)]
        if _hash(waiting[0]) != _hash(waiting[1]):
            return replace(effect, held=_text(rolled_out) if rolled_out is not None else "paused")
    return effect


def changed_streams(now: Catalog, then: Catalog) -> set[str]:
    """Return the streams that two catalogs do not have alike."""
    names = {*now.streams, *then.streams}
    return {name for name in names if now.streams.get(name) != then.streams.get(name)}


def is_concerned(now: View | None, then: View, changed: Collection[str]) -> bool:
    """Return whether manifests that change these streams may have an effect on a subscription."""
    if now is None or now.spec != then.spec:
        return True
    document = _document(now)
    try:
        asked = any(asks_for(now.spec, stream) for stream in changed)
    except PatternError:
        asked = False  # its document stays as it is, whatever the streams are
    return asked or (document is not None and not document.streams.keys().isdisjoint(changed))


def _at_rest(view: View) -> tuple[View, list[Patch | Refresh]]:
    """Return the view when nothing more is written, and the effects on the way."""
    view, effects = replace(view, turn=None, timing=_AT_ONCE), list[Patch | Refresh]()
    for _ in range(_LOOKS):
        plan = decide(view)
        if plan.delete or (plan.document, plan.status, plan.effect, plan.after) == (None, None, None, None):
            break
        if plan.document is not None:
            view = replace(view, config_map=ConfigMap(plan.expected, True, plan.document))
        if plan.effect is not None:
            effects.append(plan.effect)
        if isinstance(plan.effect, Patch) and view.application is not None:
            done = plan.effect
            patched = replace(view.application, token=done.token, attempt=done.attempt, mounts=done.secrets)
            view = replace(view, application=patched, driver=None if done.pod_to_delete is not None else view.driver)
        view = replace(view, status=plan.after or plan.status or view.status)
    return view, effects


def _reach(old: Document | None, new: Document | None, after: View, effects: Iterable[Patch | Refresh]) -> Reach:
    kinds = {type(effect) for effect in effects}
    if Patch in kinds:
        return "Restart"
    if Refresh in kinds:
        return "Live"
    rolled_out = _condition(after, "RolledOut")
    reaches = rolled_out is not None and rolled_out.status != "False"
    return "AtStart" if reaches and _hash(old) != _hash(new) else "Nothing"


def _dropped(old: Document | None, new: Document | None) -> tuple[Key, ...]:
    if old is None or new is None:
        return ()
    carried = renames(new.streams)
    kept = {key for _, key, _ in entries(new.streams)}
    return _new((key for _, key, _ in entries(old.streams) if renamed_to(key, carried) not in kept), kept)


def _new(current: Iterable[Key], known: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(sorted(set(current) - set(known)))


def _document(view: View | None) -> Document | None:
    return view.config_map.document if view is not None and view.config_map is not None else None


def _hash(document: Document | None) -> str:
    return document.hash if document is not None else ""


def _condition(view: View | None, kind: str) -> Condition | None:
    return (
        next((condition for condition in view.status.conditions if condition.type == kind), None)
        if view is not None
        else None
    )


def _text(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _without_pause(view: View) -> View:
    return replace(view, spec=view.spec.model_copy(update={"pause": None}))
