"""Announced clusters: the clock waits for their first records."""

from __future__ import annotations

import pytest

from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.awaited import must_answer
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import Split
from tests.unit.planning.plans import OPTIONS
from tests.unit.planning.timed_logs import DRIFT, IDLE, NOW, STALLING, World, late, steps

HOUR = 3_600_000


def joining(limits: Limits | None = None) -> World:
    """Return a world that has read `a`, and whose cluster `old` is announced but does not answer."""
    world = World({"a": steps(0, 100), "old": []}, named={"a"}, limits=limits or Limits())
    for _ in range(20):
        world.plan()
    assert (world.clock, world.rows("a")) == (99, steps(0, 100))
    world.logs["a"] += steps(100, 900)
    world.named, world.silent, world.announced = {"a", "old"}, {"old"}, {"old"}
    return world


@pytest.mark.parametrize("limits", [Limits(), Limits(max_offsets=30)], ids=["no limit", "limit"])
def test_the_clock_waits_for_an_announced_cluster(limits: Limits) -> None:
    world = joining(limits)
    for _ in range(20):
        world.now_ms += IDLE
        planned = world.plan()
        assert planned.aligned.waits_for == ("old",)
    assert (world.clock, len(world.rows("a"))) == (99, 99 + DRIFT)

    # Its brokers are there, but not its records
    world.silent.clear()
    for _ in range(20):
        world.now_ms += IDLE
        world.plan()
    assert (world.clock, len(world.rows("a"))) == (99, 99 + DRIFT)

    world.logs["old"] += steps(99, 901)
    assert late(world) == 0
    assert world.plan().aligned.waits_for == ()


def test_nobody_waits_for_a_cluster_that_joins_unannounced() -> None:
    world = joining()
    world.announced.clear()
    for _ in range(20):
        world.now_ms += IDLE
        assert world.plan().aligned.waits_for == ()
    assert world.clock == 999


def test_the_wait_has_an_end_that_no_restart_moves() -> None:
    world = joining()
    world.now_ms = begin = NOW
    for minute in range(60):
        world.now_ms = begin + minute * 60_000
        planned = world.restarts().plan()
        assert (world.clock, planned.aligned.given_up) == (99, ())
    world.now_ms = begin + HOUR
    planned = world.restarts().plan()
    assert (planned.aligned.waits_for, planned.aligned.given_up) == ((), ("old",))
    assert "no record of 'old' has come within announcedTimeout" in str(planned.warnings["announced",])
    world.now_ms += IDLE
    world.plan()
    assert world.clock == 999

    # The warning ends when it comes
    world.silent.clear()
    world.logs["old"] += [5]
    world.plan()
    assert world.plan().warnings["announced",] is None


def test_a_timeout_of_the_user() -> None:
    world = joining()
    world.options["announcedTimeout"] = "1m"
    world.plan()
    world.now_ms += 60_000
    assert world.plan().aligned.given_up == ("old",)


def test_an_announcement_is_logged_before_any_record_comes() -> None:
    world = joining()
    world.logs["a"] = steps(0, 100)
    before = world.logged.number
    world.plan()
    world.plan()
    assert (world.logged.number, world.logged.announced) == (before + 1, {"old": NOW + HOUR})


def test_a_cluster_that_has_come_holds_the_clock_as_others_do() -> None:
    world = joining()
    world.silent.clear()
    world.logs["old"] += [99]
    world.plan()
    assert world.logged.announced == {"old": 0}
    world.now_ms += IDLE
    world.plan()  # first seen to have nothing to read
    world.now_ms += IDLE
    world.plan()
    assert world.clock == 999
    # Announced anew, it is waited for again
    world.announced.clear()
    world.plan()
    assert world.logged.announced == {}
    world.announced.add("old")
    assert world.plan().aligned.waits_for == ("old",)


@pytest.mark.parametrize("is_first", [True, False])
def test_without_a_clock_nothing_is_read_before_it_comes(is_first: bool) -> None:
    world = World({"a": steps(500, 10), "old": []}, silent={"old"}, announced={"old"})
    world.silent = {"old"} if is_first else set()
    for _ in range(3):
        planned = world.plan()
        assert (world.rows("a"), planned.aligned.waits_for) == ([], ("old",))
    world.silent.clear()
    world.logs["old"] += steps(0, 520)
    assert late(world) == 0


def test_a_run_that_ends_by_itself_waits_for_nobody() -> None:
    """`Trigger.AvailableNow`, and a bounded run."""
    world = joining()
    world.limits = Limits(targets={Split("a", "t", 0): 1000})
    assert world.plan().aligned.waits_for == ()
    assert (world.rows("a"), world.logged.announced) == (steps(0, 1000), {})


def test_without_alignment_an_announcement_changes_nothing() -> None:
    world = joining()
    world.plan()
    world.drift = 0
    assert world.plan().aligned.waits_for == ()
    assert (world.rows("a"), world.logged.announced) == (steps(0, 1000), {})


@pytest.mark.parametrize("policy", ["fail", "stall"])
def test_a_first_plan_does_without_an_announced_cluster(policy: str) -> None:
    world = World({"a": [], "old": []}, announced={"old"})
    subscription = Subscription({cluster: world.metadata(cluster) for cluster in world.logs}, ("s",))
    options = parse_options({**OPTIONS, **STALLING, "clusterFailurePolicy": policy}, mode="streaming")
    assert must_answer(options, subscription, OffsetDocument()) == ({"a"} if policy == "fail" else set())
