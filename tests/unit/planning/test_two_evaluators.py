"""Two drivers on one checkpoint, with two record evaluators: a stop record of one of them may be none for the other.

The first driver hangs at any point, also amid a task, around its report. Another driver starts in its place, and may
die at any point. Then the first resumes, and a last driver reads everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from dynamic_kafka.state import purge as state_purge
from tests.unit.planning.simulation import SEEDS, Record, Simulation
from tests.unit.planning.test_two_drivers import Driver, Killed, SplitRange, add_records, world_with

Evaluator = Callable[[Record], bool]


def ends_at(offset: int | None) -> Evaluator:
    return lambda record: record.offset == offset


class EvaluatingDriver(Driver):
    """A driver with its own evaluator, whose executors have pauses, too."""

    def __init__(
        self,
        world: Simulation,
        end: int | None,
        hangs_at: int | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(world, None, hangs_at, meanwhile)
        self.evaluator = ends_at(end)

    def pause(self) -> None:
        world = self.world
        kept = world.evaluator, world.process, world.state
        super().pause()
        world.evaluator, world.process, world.state = kept

    def read(self, ranges: list[SplitRange]) -> list[Record]:
        world, shared = self.world, self.world.state
        assert self.replays._state is not None
        world.evaluator, world.process, world.state = self.evaluator, self.replays, self.replays._state
        try:
            return super().read(ranges)
        finally:
            world.state = shared


def after_a_hang(ends: tuple[int | None, int | None], hangs_at: int, dies_at: int) -> tuple[Simulation, int | None]:
    """Return the world after all drivers, and how many pauses the second had; None if the first did not hang."""
    world = world_with("nothing is planned", evaluator=ends_at(None))
    EvaluatingDriver(world, ends[0]).run(2)
    add_records(world)
    others: list[EvaluatingDriver] = []

    def killed() -> None:
        raise Killed

    def meanwhile() -> None:
        others.append(EvaluatingDriver(world, ends[1], dies_at, killed))
        others[0].run(4)

    EvaluatingDriver(world, ends[0], hangs_at, meanwhile).run(4)
    for _ in range(2):
        add_records(world)
        EvaluatingDriver(world, ends[1]).run(12)
    return world, others[0].pauses if others else None


@pytest.mark.parametrize("ends", [(3, None), (None, 3), (2, 3), (3, 2)], ids=str)
def test_no_row_is_lost_or_comes_twice(ends: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_purge, "KEPT_S", float("inf"))  # no driver hangs for 30 days
    for hangs_at in itertools.count():
        step = 18 // SEEDS  # all pairs of points would take minutes
        for dies_at in itertools.count(hangs_at % step, step):
            world, pauses = after_a_hang(ends, hangs_at, dies_at)
            check(world, strict=ends[0] is not None)
            if pauses is None or pauses <= dies_at:
                break
        if pauses is None:
            assert hangs_at > 20, "the first driver hung at every point, also amid its tasks"
            return


def check(world: Simulation, *, strict: bool) -> None:
    """Check that what was delivered of each split has no gap, no row twice, and reaches its stop record.

    Args:
        strict: whether nothing behind that was delivered, either. A driver whose evaluator finds no stop record may
            have delivered more than the next driver, which repeats its batch and finds one.
    """
    last = world.document(len(world.log) - 1)
    for split in last.splits():
        log = world.topic_of(split)
        delivered = sorted(row.offset for row in world.delivered.elements() if row.topic_id == log.topic_id)
        assert delivered == list(range(len(delivered))), f"{split}: {delivered}"
        topic = last.clusters[split.cluster].topics[split.topic]
        end = topic.ended.get(0, log.ends[0])
        assert len(delivered) >= end and (len(delivered) == end or not strict), f"{split} ends at {end}: {delivered}"
