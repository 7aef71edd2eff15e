"""Two drivers on one checkpoint: one hangs at any point, another one is started in its place, then the first resumes.

Both run the product's `Replays` and plans, on one state location, one log of Spark and one sink. Spark's log takes each
batch once, and the sink keeps the first attempt at a batch. The state location may move before the other one starts.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import DriverReplacedError, StateMismatchError
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import Observation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import run_steps
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.folder import StateFile
from tests.unit.planning.simulation import (
    SEEDS,
    MemoryState,
    Record,
    SimulatedCluster,
    SimulatedTopic,
    Simulation,
    text,
)

pytestmark = pytest.mark.deep("a driver that hangs at each step")


class Fenced(Exception):
    """Spark's own check: another driver has written this batch to the log."""


class Killed(Exception):
    """The end of a process."""


class HookedState(MemoryState):
    """The files of a state, with a hook before each call."""

    def __init__(self, files: dict[str, str], hook: Callable[[], None], made: Callable[[Amendment], None]) -> None:
        super().__init__()
        self.files, self.hook, self.made = files, hook, made

    def write(self, path: str, content: Mapping[str, Any], *, replace: bool = True) -> None:
        self.hook()
        super().write(path, content, replace=replace)
        if "/amendments/" in path:  # the driver logs its ranges as possibly delivered
            self.made(Amendment.from_wire(content))
        self.hook()

    def read_folder(
        self, path: str, names: Collection[str] | None = None, *, skip_damaged: bool = False
    ) -> dict[str, dict[str, Any]]:
        self.hook()
        return super().read_folder(path, names, skip_damaged=skip_damaged)

    def list_folder(self, path: str) -> list[StateFile]:
        self.hook()
        return super().list_folder(path)


class Driver:
    """One process with Spark's steps.

    Args:
        silent: the cluster that does not answer this driver.
        hangs_at: the number of its possible pauses at which `meanwhile` runs.
    """

    def __init__(
        self,
        world: Simulation,
        silent: str | None,
        hangs_at: int | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.world, self.silent, self.hangs_at, self.meanwhile = world, silent, hangs_at, meanwhile
        self.pauses = 0
        self.replays = Replays(world.options, HookedState(world.state.files, self.pause, self.report), self.observe)
        self.batch = len(world.log) - 1
        self.pending = len(world.log) > world.committed

    def pause(self) -> None:
        self.pauses += 1
        if self.pauses - 1 == self.hangs_at:
            self.meanwhile()

    def report(self, amendment: Amendment) -> None:
        for part in amendment.left_out:
            self.world.reported.update(self.world.records(self.batch, part))

    def observe(self, progress: OffsetDocument) -> Observation:
        seen = self.world.observe(progress)
        answers = {name: answer for name, answer in seen.answers.items() if name != self.silent}
        return replace(seen, answers=answers)

    def run(self, steps: int) -> None:
        """Run until Spark or the source ends this driver, at most so many steps."""
        try:
            for _ in range(steps):
                if self.pending:
                    self.run_batch()
                elif not self.plan():
                    return
        except (Fenced, DriverReplacedError, Killed):
            self.run = lambda steps: None  # type: ignore[method-assign]

    def plan(self) -> bool:
        world, logged = self.world, self.document(self.batch)
        self.replays.begin(logged)
        self.replays.batch_ended(logged)
        world.process = self.replays
        given = replace(world.plan_input(logged, Limits()), observation=self.observe(logged))
        end = run_steps(plan_batch(given), world.answer).plan.document
        if end is logged:
            return False
        saved = text(end)
        self.replays.planned(logged, end)
        self.pause()
        if len(world.log) != self.batch + 1:
            raise Fenced
        world.log.append(saved)
        world.lifetimes_of_batch.append(Counter(world.lifetimes))
        self.batch, self.pending = self.batch + 1, True
        return True

    def run_batch(self) -> None:
        world, start, end = self.world, self.document(self.batch - 1), self.document(self.batch)
        self.replays.begin(end)
        ranges = self.replays.ranges(start, end)
        self.pause()
        rows = self.read(ranges)
        self.pause()
        if self.batch not in world.sink:
            world.sink[self.batch] = rows
            world.delivered.update(rows)
        self.pause()
        if world.committed != self.batch:
            raise Fenced
        world.committed += 1
        self.pending = False

    def read(self, ranges: list[SplitRange]) -> list[Record]:
        return self.world.read(self.batch, ranges)

    def document(self, batch: int) -> OffsetDocument:
        return decode(self.world.log[batch]) if batch >= 0 else decode(text(OffsetDocument()))


def world_with(pending: str, evaluator: Callable[[Record], bool] | None = None) -> Simulation:
    world = Simulation(starting="earliest", evaluator=evaluator)
    for name in ("a", "b"):
        topic = SimulatedTopic(f"{name}/t/0", {0: 2})
        world.clusters[name] = SimulatedCluster(name, {"t": topic}, f"{name}-0", named={"t"})
    if pending == "nothing is planned":
        return world
    first = Driver(world, None)
    first.run(2)
    add_records(world)
    first.run(1)
    if pending == "delivered":
        world.sink[1] = world.read(1, first.replays.ranges(world.document(0), world.document(1)))
        world.delivered.update(world.sink[1])
    return world


def add_records(world: Simulation) -> None:
    for cluster in world.clusters.values():
        cluster.topics["t"].ends[0] += 2


def check(world: Simulation) -> None:
    """Let a last driver read everything: each record is there once, or was reported as possibly delivered."""
    add_records(world)
    last = Driver(world, None)
    last.run(12)
    for name, cluster in world.clusters.items():
        for offset in range(cluster.topics["t"].ends[0]):
            record = Record(f"{name}/t/0", 0, 0, offset)
            assert world.delivered[record] >= 1, f"lost: {record}"
            assert world.delivered[record] <= 1 + world.reported[record], f"{world.delivered[record]} times: {record}"


SILENT = [(None, "b-0"), ("b-0", None), ("a-0", "b-0"), (None, None)]


def move_state(world: Simulation) -> None:
    """Move the state location with its files. A driver that runs keeps the name of the old one, which is empty."""
    moved = dict(world.state.files)
    world.state.files.clear()
    world.state.files = moved


def after_a_hang(
    world: Simulation,
    silent: tuple[str | None, str | None],
    hangs_at: int,
    steps: int,
    dies_at: int | None = None,
    *,
    moves: bool = False,
) -> Driver | None:
    """Let a driver hang, and another one run a few steps meanwhile; then the first resumes, then the other goes on.

    Args:
        moves: whether the state location moves before the other driver starts there.

    Returns:
        The other driver; None if the first had no such point at which it might hang.
    """
    others: list[Driver] = []

    def killed() -> None:
        raise Killed

    def meanwhile() -> None:
        add_records(world)
        if moves:
            move_state(world)
        others.append(Driver(world, silent[1], dies_at, killed))
        others[0].run(steps)

    # A driver that loads its state from the old folder after the move refuses to start.
    with suppress(StateMismatchError) if moves else nullcontext():
        Driver(world, silent[0], hangs_at, meanwhile).run(4)
    if not others:
        return None
    add_records(world)
    others[0].run(3)
    return others[0]


@pytest.mark.parametrize("pending", ["nothing is planned", "logged", "delivered"])
@pytest.mark.parametrize("silent", SILENT, ids=["to the second", "to the first", "to each another", "none"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_driver_that_hung_and_resumes_loses_nothing(
    pending: str, silent: tuple[str | None, str | None], steps: int
) -> None:
    for hangs_at in itertools.count():
        world = world_with(pending)
        if after_a_hang(world, silent, hangs_at, steps) is None:
            assert hangs_at > 5, "the driver hung at every point"
            return
        check(world)


@pytest.mark.parametrize(
    ("pending", "moves"),
    [("logged", False), ("delivered", False), ("nothing is planned", True), ("logged", True), ("delivered", True)],
)
@pytest.mark.parametrize("silent", SILENT, ids=["to the second", "to the first", "to each another", "none"])
def test_nothing_is_lost_if_the_second_driver_dies_too(
    pending: str, moves: bool, silent: tuple[str | None, str | None]
) -> None:
    for hangs_at in itertools.count():
        # All pairs of points would take minutes. A first driver has few points to hang at.
        step = 1 if pending == "nothing is planned" else 12 // SEEDS
        for dies_at in itertools.count(hangs_at % step, step):
            world = world_with(pending)
            other = after_a_hang(world, silent, hangs_at, 3, dies_at, moves=moves)
            if other is None:
                return
            # A query's first driver may bind the old folder after the move: then a start in the new one is refused.
            with suppress(StateMismatchError) if moves and pending == "nothing is planned" else nullcontext():
                check(world)
            if other.pauses <= dies_at:
                break
