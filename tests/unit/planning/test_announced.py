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


def test_the_log_has_the_begin_and_the_end_of_a_wait() -> None:
    world = joining()
    [begins] = world.plan().notes[-1:]
    assert begins.text == (
        "cluster 'old' is announced: the clock waits for its first record, until 1970-01-01T01:16:40Z at the latest"
    )
    assert world.plan().notes == ()
    world.silent.clear()
    world.logs["old"] += [99]
    assert [note.text for note in world.plan().notes if note.kind == "announced"] == [
        "cluster 'old' has come: the clock waits for it no longer"
    ]
    assert world.plan().notes == ()


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


@pytest.mark.parametrize("waited_before", [False, True])
def test_a_run_that_ends_by_itself_waits_for_nobody(waited_before: bool) -> None:
    """`Trigger.AvailableNow`."""
    world = joining()
    if waited_before:
        world.plan()
    before = world.logged.announced
    world.limits = Limits(targets={Split("a", "t", 0): 1000})
    assert world.plan().aligned.waits_for == ()
    assert (world.rows("a"), world.logged.announced) == (steps(0, 1000), before)


def test_without_alignment_an_announcement_changes_nothing() -> None:
    world = joining()
    world.plan()
    world.drift = 0
    assert world.plan().aligned.waits_for == ()
    assert (world.rows("a"), world.logged.announced) == (steps(0, 1000), {})


@pytest.mark.parametrize(
    ("policy", "starting", "required"),
    [("fail", "earliest", {"a"}), ("stall", "earliest", set()), ("fail", "latest", {"a"}), ("stall", "latest", {"a"})],
)
def test_a_first_plan_does_without_an_announced_cluster(policy: str, starting: str, required: set[str]) -> None:
    world = World({"a": [], "old": []}, announced={"old"})
    subscription = Subscription({cluster: world.metadata(cluster) for cluster in world.logs}, ("s",))
    given = {**OPTIONS, **STALLING, "clusterFailurePolicy": policy, "startingOffsets": starting}
    options = parse_options(given, mode="streaming")
    assert must_answer(options, subscription, OffsetDocument()) == required
    assert must_answer(options, subscription, OffsetDocument(), everyone=True) == {"a", "old"}


def test_no_split_becomes_idle_before_its_cluster_has_come() -> None:
    """A mirror copies one partition after the other."""
    world = joining()
    world.silent.clear()
    world.partitions["old"] = 2
    for _ in range(3):
        world.now_ms += IDLE
        world.plan()
    world.logs["old"] += steps(99, 10)
    world.plan()
    assert world.clock == 99


def test_a_cluster_that_has_come_is_not_given_up() -> None:
    world = joining()
    world.silent.clear()
    world.logs["old"] += steps(5000, 10)  # beyond the horizon, so no batch takes them
    world.plan()
    world.now_ms += HOUR
    assert world.plan().aligned.given_up == ()


def test_only_a_shorter_timeout_counts_for_a_wait() -> None:
    world = joining()
    world.plan()
    for timeout, until_ms in (("5m", NOW + 300_000), ("2h", NOW + 300_000)):
        world.options["announcedTimeout"] = timeout
        world.plan()
        assert world.logged.announced == {"old": until_ms}


@pytest.mark.parametrize("has_come", [False, True])
def test_a_renamed_cluster_keeps_its_announcement(has_come: bool) -> None:
    world = joining()
    if has_come:
        world.silent.clear()
        world.logs["old"] += [99]
    world.plan()
    before = world.logged.announced["old"]
    world.now_ms += IDLE
    world.logs["new"] = world.logs["old"]
    world.read.append({"new": world.rows("old")})
    world.named, world.announced, world.renamed = {"a", "new"}, {"new"}, {"new": "old"}
    world.silent = set() if has_come else {"new"}
    world.plan()
    assert world.logged.announced == {"new": before}


def test_rejected_metadata_end_no_wait() -> None:
    world = joining()
    world.plan()
    world.named, world.announced = {"a"}, set()
    world.incomplete = "newer metadata is rejected"
    world.now_ms += IDLE
    assert world.plan().aligned.waits_for == ("old",)
    world.incomplete = ""
    assert world.plan().aligned.waits_for == ()
