"""`kubectl kafkastream plan` says what the operator then does: in single cases, and in random stories."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkastream_operator.core.document import Key, draining_in, entries
from kafkastream_operator.core.preview import Preview, preview
from kafkastream_operator.core.render import renamed_to, renames
from kafkastream_operator.core.rollout.step import Timing
from tests.unit.operator.checked_world import CheckedWorld, OverError
from tests.unit.operator.recorded_states import SAFE_WEST, SECRET
from tests.unit.operator.test_stories import a_story
from tests.unit.operator.world import World, cluster, running

EAST, WEST = Key("east", "orders"), Key("west", "orders")


def planned(world: World, apply: Callable[[World], object]) -> Preview:
    """Return the preview of a change, and apply the change."""
    now = world.view()
    apply(world)
    return preview(now, world.view())


CASES: dict[str, tuple[Callable[[], World], Callable[[World], object], Preview]] = {
    "the same again": (running, lambda world: world.stream("orders", cluster("east")), Preview()),
    "a cluster more": (
        running,
        lambda world: world.stream("orders", cluster("east"), cluster("west")),
        Preview("Live"),
    ),
    "a cluster less, by a restart": (
        lambda: running(updateStrategy="Restart"),
        lambda world: world.stream("orders", cluster("west")),
        Preview("Restart", drains=(EAST,)),
    ),
    "a cluster less, at once": (
        running,
        lambda world: world.stream("orders", cluster("west"), policy="Immediate"),
        Preview("Live", dropped=(EAST,)),
    ),
    "another name": (running, lambda world: world.stream("orders", cluster("e2", renamedFrom="east")), Preview("Live")),
    "a Secret to mount": (
        lambda: running(secrets=[SECRET]),
        lambda world: world.stream("orders", cluster("east"), SAFE_WEST),
        Preview("Restart"),
    ),
    "an application that is suspended": (
        lambda: running().application_is("Suspended").settle(),
        lambda world: world.stream("orders", cluster("east"), cluster("west")),
        Preview("AtStart"),
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_a_plan_says_what_a_change_does(what: str) -> None:
    made, apply, expected = CASES[what]
    assert planned(made(), apply) == expected


@pytest.mark.parametrize(
    ("apply", "kind", "text"),
    [
        (lambda world: world.stream("orders", cluster("e", startingOffsets="x")), "refused", "InvalidStream: "),
        (lambda world: world.stream("orders", cluster("east"), SAFE_WEST), "held", "SecretNotBound: "),
        (lambda world: world.changes(streams={"ids": ["other"]}), "held", "StreamMissing: "),
    ],
    ids=["a mistake", "a Secret without a binding", "a stream that is missing"],
)
def test_a_plan_says_what_stops_a_change(apply: Callable[[World], object], kind: str, text: str) -> None:
    plan = planned(running(), apply)
    assert getattr(plan, kind).startswith(text)


def test_a_plan_in_a_pause_is_held() -> None:
    world = running(pause={"reason": "freeze"})
    plan = planned(world, lambda world: world.stream("orders", cluster("east"), cluster("west")))
    assert plan.reach == "Nothing" and "paused: freeze" in plan.held
    assert planned(world, lambda world: world.stream("orders", cluster("east"), cluster("west"))).is_empty


def test_a_strategy_that_forbids_a_restart_holds_it() -> None:
    world = running(updateStrategy="Reload", secrets=[SECRET])
    plan = planned(world, lambda world: world.stream("orders", cluster("east"), SAFE_WEST))
    assert plan.reach == "Nothing" and plan.held.startswith("RestartRequired: ")


def test_a_new_subscription_takes_its_document_at_the_start() -> None:
    world = World().stream("orders", cluster("east"))
    assert preview(None, world.view()) == Preview("AtStart")


# -- stories ----------------------------------------------------------------------------------------------------------

MANIFESTS = ("apply", "apply_invalid", "delete", "config_map", "change", "pause", "unpause")


def done(world: CheckedWorld, act: Callable[[], None]) -> tuple[str, set[Key], set[Key], bool]:
    """Return what the operator does about an act.

    Returns:
        How it reaches the driver, what begins to drain, what is dropped, and whether there is a new revision.
    """
    old, writes = world.document, len(world.writes)
    act()
    world.rests()
    new, made = world.document, world.writes[writes:]
    effect = "Restart" if "patch" in made else "Live" if "refresh" in made else ""
    before, after = (document.streams if document is not None else {} for document in (old, new))
    drains = set(draining_in(after)) - set(draining_in(before))
    kept, carried = {key for _, key, _ in entries(after)}, renames(after)
    dropped = {key for _, key, _ in entries(before) if renamed_to(key, carried) not in kept} - kept
    revisions = [document.revision.token if document is not None else "" for document in (old, new)]
    return effect, drains, dropped, revisions[0] != revisions[1]


def follow(seed: int) -> int:
    """Play a story with a plan before each manifest, and return how many plans there were."""
    world = CheckedWorld(timing=Timing(between_restarts=timedelta(), gather=timedelta()))
    count = 0
    for what, *arguments in a_story(seed):
        act = getattr(world, what)
        if what not in MANIFESTS:
            act(*arguments)
            continue
        world.rests()
        now = world.view()

        def apply(act: Callable[..., None] = act, arguments: list[Any] = arguments) -> None:
            act(*arguments)

        later = applied(world, apply)
        plan = preview(now, later)
        effect, drains, dropped, changed = done(world, apply)
        assert (effect or plan.reach) == plan.reach, (seed, what, arguments, effect, plan)
        assert (set(plan.drains), set(plan.dropped)) == (drains, dropped), (seed, what, arguments, plan)
        assert plan.reach in ("Nothing", "AtStart") or effect == plan.reach, (seed, what, arguments, effect, plan)
        assert not (changed and plan.is_empty), (seed, what, arguments, plan)
        count += 1
    return count


def applied(world: CheckedWorld, apply: Callable[[], None]) -> Any:
    """Return the view with a manifest, and leave the world as it is."""
    kept = {name: getattr(world, name) for name in ("spec", "generation")}
    streams, texts = dict(world.streams), dict(world.config_maps)
    more = {name: dict(getattr(world, name)) for name in ("stands", "rules", "generations")}
    anew = set(world.anew)
    rules = {name: list(history) for name, history in world.rules.items()}
    apply()
    view = world.view()
    world.streams, world.config_maps, world.rules, world.anew = streams, texts, rules, anew
    world.stands, world.generations = more["stands"], more["generations"]
    world.spec, world.generation = kept["spec"], kept["generation"]
    return view


@pytest.mark.parametrize("seeds", [range(at, at + 10) for at in range(0, 40, 10)], ids=str)
def test_a_plan_says_what_the_operator_does(seeds: range) -> None:
    plans = 0
    for seed in seeds:
        try:
            plans += follow(seed)
        except OverError:
            continue
    assert plans > 30
