"""Stories of several applications that one change restarts: never more at a time than the budget, whatever happens."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kafkastream_operator.core.rollout.budget import Limits, Restart, Rules, StreamKey, Turn, restart_of, turns
from kafkastream_operator.models.stream import KafkaStreamStatus, RolloutRules
from tests.unit.operator.checked_world import BrokenPromiseError, CheckedWorld, OverError
from tests.unit.operator.test_stories import a_story
from tests.unit.operator.world import World, cluster, drained_of, revision_of, running

LIMIT = 2


class Wave:
    """Several applications of one namespace, under one budget. Nothing of it is kept beside their statuses.

    Attributes:
        released: {name: the revision whose failed restart a person has released}.
    """

    def __init__(self, worlds: dict[str, World], limit: int = LIMIT, rules: Rules | None = None) -> None:
        self.worlds, self.limit, self.rules = worlds, limit, rules or {}
        self.released: dict[str, str] = {}
        for name, world in worlds.items():
            world.turn = lambda name=name: self._turn_of(name)  # type: ignore[misc]

    def change(self, *names: str) -> Wave:
        """Give the stream these clusters, and reconcile each application until nothing more is written."""
        for world in self.worlds.values():
            world.stream("orders", cluster("east"), *map(cluster, names))
        return self.rest()

    def rest(self) -> Wave:
        for _ in range(3):
            for world in self.worlds.values():
                world.settle()
        return self

    def later(self, seconds: float) -> Wave:
        for world in self.worlds.values():
            world.later(seconds=seconds)
        return self.rest()

    def starts(self, *names: str, reports: bool = True) -> Wave:
        """Start the driver that each of these was patched for."""
        for name in names:
            self.worlds[name].driver_starts(reports=reports)
        return self.rest()

    @property
    def reasons(self) -> str:
        return " ".join(world.condition("RolledOut")[1] for world in self.worlds.values())

    def restarts(self) -> list[Restart]:
        restarts = [
            restart_of(
                "ns",
                name,
                world.document.streams if world.document is not None else world.status.kept,
                world.status,
                world.application,
                released=self.released.get(name, ""),
            )
            for name, world in self.worlds.items()
        ]
        return [restart for restart in restarts if restart is not None]

    def _turn_of(self, name: str) -> Turn | None:
        rollout = self.worlds[name].status.rollout
        if rollout is None or (rollout.method, rollout.phase) != ("Restart", "Pending"):
            return None
        for_now = [restart for restart in self.restarts() if restart.name != name]
        (own,) = [restart for restart in self.restarts() if restart.name == name]
        for_now.append(Restart(**{**vars(own), "waiting": True}))
        return next(
            turn for turn in turns(for_now, self.rules, Limits(self.limit, self.limit)) if turn.restart.name == name
        )


def wave(count: int = 5, **rules: object) -> Wave:
    """Return applications that run on cluster east, an hour after their start."""
    worlds = {f"app{number}": running(updateStrategy="Restart").later(hours=1) for number in range(count)}
    return Wave(worlds, rules={StreamKey("ns", "orders"): RolloutRules.model_validate(rules)})


def test_as_many_restarts_begin_as_the_budget_allows() -> None:
    fleet = wave().change("west")
    assert fleet.reasons == "RollingOut RollingOut Queued Queued Queued"
    assert re.search("number 1 of 3 .*: as many restarts", fleet.worlds["app2"].message("RolledOut"))
    assert "number 3 of 3" in fleet.worlds["app4"].message("RolledOut")
    fleet.starts("app1")
    assert fleet.reasons == "RollingOut Confirmed RollingOut Queued Queued"
    fleet.starts("app0", "app2").starts("app3", "app4")
    assert fleet.reasons == " ".join(["Confirmed"] * 5)
    assert [world.patches for world in fleet.worlds.values()] == [1] * 5


def test_a_waiting_restart_is_neither_stalled_nor_an_event() -> None:
    world = wave().change("west").worlds["app4"]
    assert [world.condition(kind) for kind in ("Ready", "Reconciling", "Stalled")] == [
        ("False", "Queued"),
        ("True", "Queued"),
        ("False", "Settled"),
    ]
    assert "Queued" not in {reason for reason, _ in world.events}
    assert world.status.rolling_out_since is None


def test_a_failed_restart_pauses_the_others() -> None:
    fleet = wave().change("west")
    fleet.worlds["app0"].driver_starts().driver_fails("bad servers")
    fleet.rest()
    assert fleet.reasons.split()[2:] == ["RolloutPaused"] * 3
    assert "subscription app0" in fleet.worlds["app2"].message("RolledOut")
    fleet.later(3600)
    assert sum(world.patches for name, world in fleet.worlds.items() if name not in ("app0", "app1")) == 0


def test_the_next_success_ends_the_pause() -> None:
    fleet = wave().change("west")
    fleet.worlds["app0"].driver_starts().driver_fails()
    fleet.rest().later(1)
    assert fleet.reasons.split()[2:] == ["RolloutPaused"] * 3
    fleet.starts("app1")
    assert fleet.reasons.split()[2:] == ["RollingOut", "Queued", "Queued"]


def test_a_person_ends_the_pause() -> None:
    fleet = wave().change("west")
    fleet.worlds["app0"].driver_starts().settle().driver_fails()
    fleet.rest()
    rollout = fleet.worlds["app0"].status.rollout
    assert rollout is not None
    fleet.released["app0"] = "fresh/1"  # an earlier revision
    assert fleet.rest().reasons.split()[2:] == ["RolloutPaused"] * 3
    fleet.released["app0"] = rollout.token
    assert fleet.rest().reasons.split()[2:] == ["RollingOut", "Queued", "Queued"]


def test_a_correction_of_the_stream_goes_on_after_a_failure() -> None:
    fleet = wave().change("west")
    fleet.worlds["app0"].driver_starts().driver_fails()
    fleet.rest().later(61)
    fleet.change("north").later(2)
    assert "RolloutPaused" not in fleet.reasons
    assert fleet.reasons.count("Queued") == 3


def test_a_restart_is_in_flight_until_its_driver_reports() -> None:
    fleet = wave().change("west").starts("app0", "app1", reports=False)
    assert fleet.reasons == "Confirmed Confirmed Queued Queued Queued"
    fleet.worlds["app0"].driver_reports()
    assert fleet.rest().reasons == "Confirmed Confirmed RollingOut Queued Queued"
    silent = fleet.worlds["app1"]
    assert silent.driver is not None
    silent.driver = replace(silent.driver, silent_s=121)  # it is taken for one that never reports
    assert fleet.rest().reasons == "Confirmed Confirmed RollingOut RollingOut Queued"


def test_a_rejection_under_another_strategy_frees_its_place() -> None:
    fleet = wave().change("west")
    world = fleet.worlds["app0"]
    assert world.driver is not None and world.driver.report is not None
    report = replace(world.driver.report, rejected=(revision_of(world).token, "west is another cluster"))
    world.driver = replace(world.driver, report=report)
    world.changes(updateStrategy="Reload")
    assert fleet.rest().reasons == "Rejected RollingOut RollingOut Queued Queued"
    assert world.status.rollout is not None and world.status.rollout.phase == "Patched"


def test_a_driver_that_fails_before_its_report_pauses_the_others() -> None:
    fleet = wave().change("west").starts("app0", "app1", reports=False)
    fleet.worlds["app0"].driver_fails()
    assert fleet.rest().reasons.split()[2:] == ["RolloutPaused"] * 3
    fleet.later(1).starts("app1", reports=False)  # its pod alone shows no success
    assert fleet.reasons.split()[2:] == ["RolloutPaused"] * 3
    assert [world.patches for world in fleet.worlds.values()] == [1, 1, 0, 0, 0]


def test_a_correction_goes_on_after_a_failure_for_good() -> None:
    fleet = wave().change("west").starts("app0", reports=False)
    fleet.worlds["app0"].driver_fails("exit code 10").application_is("Failed")
    assert fleet.rest().reasons.split()[2:] == ["RolloutPaused"] * 3
    fleet.later(61)
    assert fleet.change("north").reasons == "Queued Queued RollingOut RollingOut Queued"
    # The one that has failed is started, too, when its turn comes
    fleet.starts("app2", "app3").starts("app1", "app4")
    assert fleet.reasons == "RollingOut Confirmed Confirmed Confirmed Confirmed"
    fleet.worlds["app0"].application_is("Starting", submission="s9")
    assert fleet.starts("app0").reasons == " ".join(["Confirmed"] * 5)


def test_an_application_that_had_failed_before_pauses_nobody() -> None:
    fleet = wave(3)
    app0 = fleet.worlds["app0"]
    app0.driver_fails("exit code 10").application_is("Failed")
    fleet.rest().later(61)
    assert fleet.change("west").reasons == "RollingOut RollingOut Queued"
    app0.application_is("Starting", submission="s7")
    fleet.starts("app0", reports=False)
    app0.driver_fails("exit code 10").application_is("Failed")
    assert fleet.rest().reasons == "Confirmed RollingOut RollingOut"


def test_a_retry_goes_first_and_the_others_wait_for_it() -> None:
    fleet = wave(3).change("west")
    for _ in range(12):
        fleet.later(120)
    assert fleet.reasons == "Stalled Stalled RolloutPaused"
    fleet.worlds["app0"].retry = f"{revision_of(fleet.worlds['app0']).token}@quota raised"
    assert fleet.rest().reasons == "RollingOut Stalled RolloutPaused"
    fleet.later(1).starts("app0")
    assert fleet.reasons == "Confirmed Stalled RollingOut"


def test_a_suspended_application_ends_the_pause() -> None:
    fleet = wave().change("west").starts("app0", reports=False)
    fleet.worlds["app0"].driver_fails()
    assert fleet.rest().reasons.split()[2:] == ["RolloutPaused"] * 3
    fleet.worlds["app0"].application_is("Suspended")
    assert fleet.rest().reasons.split()[2:] == ["RollingOut", "Queued", "Queued"]


def test_a_given_up_restart_pauses_the_others() -> None:
    fleet = wave(3).change("west")
    for _ in range(12):
        fleet.later(120)
    assert fleet.reasons == "Stalled Stalled RolloutPaused"


def test_a_stream_may_take_one_restart_at_a_time() -> None:
    assert wave(3, maxParallel=1).change("west").reasons == "RollingOut Queued Queued"


def test_a_stream_may_go_on_after_a_failure() -> None:
    fleet = wave(4, pauseOnFailure=False).change("west")
    fleet.worlds["app0"].driver_starts().settle().driver_fails()
    assert fleet.rest().reasons.split() == ["Confirmed", "RollingOut", "RollingOut", "Queued"]


def test_a_waiting_restart_keeps_its_place_through_newer_changes() -> None:
    fleet = wave(4).change("west")
    for world in fleet.worlds.values():
        world.later(seconds=5)
    for name in ("app3", "app2"):  # the change reaches the last one first
        fleet.worlds[name].stream("orders", cluster("east"), cluster("west"), cluster("north")).settle()
    fleet.starts("app0")
    assert fleet.worlds["app2"].condition("RolledOut")[1] == "RollingOut"
    assert fleet.worlds["app3"].condition("RolledOut")[1] == "Queued"


@pytest.mark.parametrize("policy", ["WhenDrained", "Immediate"])
def test_nothing_drains_to_its_end_while_restarts_wait(policy: str) -> None:
    fleet = wave(3)
    before = KafkaStreamStatus()
    for world in fleet.worlds.values():
        world.stream("orders", cluster("east"), policy=policy)
    for removed in (False, True):
        if removed:
            for world in fleet.worlds.values():
                world.stream("orders", cluster("west"), policy=policy)
            fleet.rest()
        any_world = fleet.worlds["app0"]
        readers = [world.reader() for world in fleet.worlds.values()]
        before = any_world.stream_status("orders", readers, before, 1 + removed)
        assert drained_of(before)[0] == ("False" if removed else "True")
    assert fleet.reasons == "RollingOut RollingOut Queued"
    fleet.starts("app0", "app1")
    readers = [world.reader() for world in fleet.worlds.values()]
    assert drained_of(fleet.worlds["app0"].stream_status("orders", readers, before, 2))[0] == "False"


# -- random stories ---------------------------------------------------------------------------------------------------

ENDS_A_FLIGHT = frozenset({"life", "vanishes", "reverts", "lose", "change", "starts"})
"""Happenings after which the last patch of an application has no effect to wait for, or its trace is lost."""


def play(seed: int) -> int:
    """Play one story with several applications at once, and return the most restarts in flight."""
    dice = random.Random(seed)
    stories = {f"app{number}": a_story(4 * seed + number) for number in range(4)}
    worlds = {name: CheckedWorld() for name in stories}
    fleet, patched, most = Wave(dict(worlds)), dict[str, datetime](), 0
    for world in worlds.values():
        world.changes(orphanRetention="1d")
    while any(stories.values()):
        name = dice.choice([application for application, left in stories.items() if left])
        what, *arguments = stories[name].pop(0)
        world, before = worlds[name], worlds[name].patches
        if what == "change":
            arguments[0].pop("updateStrategy", None)
            arguments[0]["updateStrategy"] = "Restart"
        if what == "passes":
            for fleet_world in worlds.values():
                fleet_world.passes(*arguments)
        else:
            try:
                getattr(world, what)(*arguments)
            except OverError:
                del stories[name], worlds[name], fleet.worlds[name]
                patched.pop(name, None)
                continue
        if what in ENDS_A_FLIGHT:
            patched.pop(name, None)
        if world.patches > before:
            patched[name] = world.now
        flying = {application for application, at in patched.items() if world.now - at < timedelta(seconds=60)}
        most = max(most, len(flying))
        if len(flying) > LIMIT:
            raise BrokenPromiseError(f"story {seed}: {sorted(flying)} are restarted at once, after {what} of {name}")
    return most


def test_no_random_story_exceeds_the_budget() -> None:
    assert max(play(seed) for seed in range(30)) == LIMIT
