"""The clock of a stream, and how far each split may read past it."""

from __future__ import annotations

import random

import pytest

from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.clock import FUTURE_MS, Aligned
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.splits import Split
from tests.unit.planning.timed_logs import DRIFT, IDLE, NOW, STALLING, World, late, steps


def test_without_the_option_no_plan_asks_or_has_a_clock() -> None:
    world = World({"a": steps(0, 5), "b": steps(500, 5)}, drift=0)
    world.plan()
    assert (world.asked, world.clock, world.rows("b")) == ([], None, steps(500, 5))
    assert encode(world.logged)["version"] == 3


def test_the_fast_cluster_waits_for_the_slow_one() -> None:
    world = World({"slow": steps(1000, 100), "fast": steps(1050, 100)})
    world.plan()
    assert (world.clock, world.rows("slow")) == (1099, steps(1000, 100))
    # The slow cluster has no records behind 1099, and is not idle yet.
    assert world.rows("fast") == steps(1050, 1099 + DRIFT - 1050)
    world.plan()
    assert world.rows("fast") == steps(1050, 1099 + DRIFT - 1050)
    world.now_ms += IDLE
    world.plan()
    assert world.rows("fast") == steps(1050, 100)
    assert world.clock == 1149


def test_a_rate_limit_sets_the_goal_of_a_batch_back() -> None:
    world = World({"slow": steps(0, 1000), "fast": steps(500, 1000)}, limits=Limits(max_offsets=60))
    for _ in range(34):
        world.plan()
        assert sum(map(len, world.read[-1].values())) <= 60
        following = len(world.rows("slow"))
        assert max(world.rows("fast"), default=0) <= following + DRIFT
    assert len(world.rows("slow")) > 900


def test_no_row_is_late_for_a_delay_of_the_drift() -> None:
    logs = {"slow": steps(0, 300), "fast": steps(900, 300), "steady": steps(100, 300, 3)}
    limits = Limits(max_offsets=30)
    assert late(World(dict(logs), limits=limits)) == 0
    assert late(World(dict(logs), limits=limits, drift=0)) > 100


def test_a_driver_that_starts_finds_what_it_had_read() -> None:
    world = World({"slow": steps(0, 1000), "fast": steps(500, 1000)}, limits=Limits(max_offsets=30))
    for _ in range(20):
        world.plan()
    before = world.clock
    assert before is not None and 300 < before < 700
    world.restarts().plan()
    assert world.clock is not None and before < world.clock <= len(world.rows("slow"))
    world.plan()
    assert world.rows("slow") == steps(0, len(world.rows("slow")))
    assert max(world.rows("fast"), default=0) < world.clock + DRIFT


def test_records_out_of_order_hold_back_only_what_lies_ahead() -> None:
    world = World({"a": [100, 130, 101, 102, 140, 103], "b": [100, 101, 135, 136, 150]})
    for _ in range(30):
        world.plan()
        world.now_ms += 7
    assert {cluster: world.rows(cluster) for cluster in world.logs} == world.logs


def test_a_silent_cluster_with_unread_records_holds_the_clock() -> None:
    world = World({"a": steps(0, 100), "b": steps(0, 100)}, options=STALLING)
    world.limits = Limits(max_offsets=20)
    world.plan()
    world.silent.add("a")
    for _ in range(20):
        world.now_ms += IDLE
        world.plan()
    assert world.rows("b") == steps(0, len(world.rows("b")))
    assert len(world.rows("b")) <= len(world.rows("a")) + DRIFT + 1
    world.silent.clear()
    for _ in range(20):
        world.plan()
    assert world.rows("b") == world.logs["b"]


def test_a_cluster_silent_since_the_start_holds_the_clock() -> None:
    world = World({"a": steps(0, 100), "b": steps(0, 100)}, options=STALLING, limits=Limits(max_offsets=20))
    for _ in range(3):
        world.plan()
    world.restarts().silent.add("a")
    for _ in range(20):
        world.now_ms += IDLE
        planned = world.plan()
    assert planned.aligned.held_by == Split("a", "t", 0)
    assert world.clock is not None and max(world.rows("b")) < world.clock + DRIFT
    assert world.clock <= len(world.rows("a"))


def test_without_a_clock_nobody_reads_ahead_of_a_silent_cluster() -> None:
    """A checkpoint that began without alignment."""
    world = World({"a": steps(0, 100), "b": steps(0, 100)}, options=STALLING, drift=0, limits=Limits(max_offsets=20))
    world.plan()
    world.drift = DRIFT
    world.silent.add("a")
    read = len(world.rows("b"))
    assert world.plan().aligned.held_by == Split("a", "t", 0)
    assert (world.clock, len(world.rows("b"))) == (None, read)
    world.silent.clear()
    for _ in range(30):
        world.plan()
    assert world.rows("b") == world.logs["b"]


def test_an_unknown_newest_record_holds_nothing_back() -> None:
    """In an open transaction, or while too few replicas have it."""
    world = World({"a": steps(0, 200), "b": steps(0, 200)}, fenced={"a", "b"})
    batches = 0
    while world.rows("a") != world.logs["a"] or world.rows("b") != world.logs["b"]:
        world.plan()
        world.now_ms += 1
        batches += 1
    assert batches <= 3


def test_a_run_that_ends_waits_for_a_silent_cluster() -> None:
    """`Trigger.AvailableNow`."""
    world = World({"a": steps(0, 50), "b": steps(0, 200)}, options=STALLING, limits=Limits(max_offsets=20))
    world.plan()
    world.silent.add("a")
    world.limits = Limits(targets={Split("b", "t", 0): 200})
    for _ in range(5):
        world.now_ms += IDLE
        world.plan()
    assert len(world.rows("b")) < 100
    world.silent.clear()
    world.limits = Limits(targets={Split("a", "t", 0): 40, Split("b", "t", 0): 150})
    for _ in range(3):
        world.plan()
    assert (world.rows("a"), world.rows("b")) == (steps(0, 40), steps(0, 150))


def test_a_live_backlog_up_to_targets_takes_few_batches() -> None:
    world = World({"a": steps(0, 5000), "b": steps(2000, 5000)})
    world.limits = Limits(targets={Split("a", "t", 0): 4000, Split("b", "t", 0): 4000})
    for _ in range(3):
        world.plan()
    assert (len(world.rows("a")), len(world.rows("b"))) == (4000, 4000)


def test_a_backlog_in_small_batches_takes_few_questions() -> None:
    world = World({"a": steps(0, 140_000, 7), "b": steps(0, 70_000, 14)}, limits=Limits(max_offsets=1000))
    world.plan()
    world.asked.clear()
    for _ in range(40):
        world.plan()
        assert 900 <= sum(map(len, world.read[-1].values())) <= 1000
    assert len(world.asked) <= 1.2 * 40


def test_a_first_record_of_the_far_future_sets_no_clock_there() -> None:
    """Its broker does not name the newest record, so nothing else shows that the first one is too new."""
    world = World({"a": [10**18] * 5}, fenced={"a"})
    world.plan()
    assert world.clock is None or world.clock <= world.now_ms


def test_more_records_of_one_moment_than_a_batch_may_have() -> None:
    world = World({"a": [5] * 100 + steps(6, 10), "b": [5] * 50 + [900] * 100}, limits=Limits(max_offsets=10))
    assert late(world) == 0


def test_an_idle_cluster_that_answers_no_more_lets_go() -> None:
    world = World({"a": steps(0, 5), "b": steps(0, 100)}, options=STALLING)
    for _ in range(5):
        world.plan()
    world.silent.add("a")
    world.plan()
    assert len(world.rows("b")) < 100
    world.now_ms += IDLE
    for _ in range(20):
        world.plan()
    assert world.rows("b") == world.logs["b"]


def test_an_empty_cluster_joins_with_its_first_record() -> None:
    world = World({"empty": [], "b": steps(0, 40)})
    for _ in range(10):
        world.plan()
    assert world.rows("b") == world.logs["b"]
    world.logs["empty"] += [100, 101]
    world.logs["b"] += steps(100, 100)
    world.plan()
    assert world.rows("empty") == [100, 101]
    assert max(world.rows("b")) <= 101 + DRIFT


def test_old_records_do_not_move_the_clock_back() -> None:
    world = World({"a": steps(1000, 50), "old": steps(0, 50)}, named={"a"})
    for _ in range(10):
        world.plan()
    clock = world.clock
    world.named = {"a", "old"}
    for _ in range(10):
        world.plan()
        assert world.clock is not None and clock is not None and world.clock >= clock
    assert world.rows("old") == world.logs["old"]


def test_a_removed_cluster_lets_go() -> None:
    world = World({"a": steps(0, 50), "b": steps(0, 100)})
    world.plan()
    world.named = {"b"}
    for _ in range(15):
        world.plan()
    assert world.rows("b") == world.logs["b"]


def test_a_record_of_the_far_future_stops_its_split_alone() -> None:
    world = World({"a": [NOW - 100, NOW + 2 * FUTURE_MS, *steps(NOW - 99, 20)], "b": steps(NOW - 100, 100)})
    planned = world.plan()
    assert planned.aligned.beyond == {Split("a", "t", 0)}
    assert [text for text in planned.warnings.values() if text and "a/t[0] has a record" in text]
    for _ in range(20):
        world.plan()
    assert (world.rows("a"), world.rows("b")) == ([NOW - 100], world.logs["b"])
    world.now_ms += 2 * FUTURE_MS
    world.plan()
    assert world.rows("a") == world.logs["a"]


@pytest.mark.parametrize("limit", [10, None])
def test_a_split_past_a_record_of_the_future_is_not_aligned(limit: int | None) -> None:
    world = World({"a": [NOW - 100, NOW + 2 * FUTURE_MS], "b": steps(NOW - 100, 50)}, drift=0)
    world.plan()
    world.drift = DRIFT
    world.limits = Limits(max_offsets=limit)
    world.logs["a"] += steps(NOW, 100)
    world.logs["b"] += steps(NOW - 50, 50)
    for _ in range(20):
        planned = world.plan()
        assert limit is None or len(world.read[-1].get("a", ())) < limit
    assert planned.aligned.unaligned == {Split("a", "t", 0)}
    assert {cluster: world.rows(cluster) for cluster in world.logs} == world.logs


def test_rows_behind_a_record_of_the_near_future_are_not_late() -> None:
    """The user filters that record, so it does not move Spark's watermark."""
    world = World({"a": steps(NOW - 50, 50), "b": steps(NOW - 50, 50)})
    ahead, late, watermark = NOW + 20 * DRIFT, 0, 0
    for turn in range(500):
        world.logs["a"] += [ahead] * (turn == 0) + [world.now_ms]
        world.logs["b"] += [world.now_ms]
        world.plan()
        rows = [time for times in world.read[-1].values() for time in times if time != ahead or turn > 20 * DRIFT]
        late += sum(time <= watermark for time in rows)
        watermark = max([watermark, *(time - DRIFT for time in rows)])
        world.now_ms += 1
    assert late == 0
    assert {cluster: world.rows(cluster) for cluster in world.logs} == world.logs


def test_a_driver_whose_time_is_set_back_waits_no_longer() -> None:
    world = World({"a": steps(0, 5), "b": steps(0, 100)})
    for _ in range(2):
        world.plan()
    world.now_ms -= 10 * IDLE
    world.plan()
    assert len(world.rows("b")) < 100
    world.now_ms += IDLE
    world.plan()
    assert world.rows("b") == world.logs["b"]


def test_a_batch_waits_only_if_the_lag_is_small() -> None:
    world = World({"a": steps(0, 2000), "b": steps(1000, 2000)})
    world.limits = Limits(max_offsets=100, min_offsets=100, max_delay_ms=1_000_000)
    for _ in range(20):
        assert world.plan().plan.admitted > 50


def test_a_record_of_the_far_past_is_read_at_once() -> None:
    world = World({"a": [0, *steps(1000, 50)], "b": steps(1000, 50)})
    for _ in range(12):
        world.plan()
    assert {cluster: world.rows(cluster) for cluster in world.logs} == world.logs


def test_a_clock_alone_is_no_news() -> None:
    world = World({"a": steps(0, 5)})
    world.plan()
    document = world.logged
    assert world.plan().plan.document is document
    assert world.rows("a") == steps(0, 5)


def test_only_the_split_ahead_is_held_back() -> None:
    """Scenario 36: the others of its cluster and of its topic go on."""
    planned = World({"a": steps(0, 50), "b": steps(0, 60), "c": steps(50, 100)}).plan()
    assert planned.aligned.room == {Split("a", "t", 0): 50, Split("b", "t", 0): 59, Split("c", "t", 0): 9}
    assert planned.aligned.held_by == Split("a", "t", 0)


def test_the_lag_counts_what_alignment_holds_back() -> None:
    assert World({"a": steps(0, 100), "b": steps(70, 100)}).plan().plan.lag == {"a": 100, "b": 100}


@pytest.mark.parametrize("seed", range(30))
def test_over_random_speeds_and_kills_no_row_is_late(seed: int) -> None:
    source = random.Random(seed)
    logs = {name: sorted(source.choices(range(2000), k=source.randint(1, 200))) for name in "abc"}
    world = World({name: log[: len(log) // 2] for name, log in logs.items()}, options=STALLING)
    world.limits = Limits(max_offsets=source.choice([None, 5, 40]))
    watermark, clock = -1, -1
    for turn in range(1500):
        if all(world.rows(name) == log for name, log in logs.items()):
            break
        for name, log in logs.items():
            held = world.logs[name]
            held += log[len(held) : len(held) + source.randint(0, 3)]
        if source.random() < 0.1:
            world.restarts()
        is_complete = all(len(world.logs[name]) == len(log) for name, log in logs.items())
        world.unseen = {} if is_complete else {name: source.choice([0, 0, 1, 2, 30]) for name in logs}
        world.silent = set() if is_complete or turn == 0 else {name for name in logs if source.random() < 0.1}
        world.fenced = {name for name in logs if source.random() < 0.3}
        world.plan()
        assert (world.clock or 0) >= clock
        clock = world.clock if world.clock is not None else clock
        rows = [time for times in world.read[-1].values() for time in times]
        assert not [time for time in rows if time <= watermark], f"late at turn {turn}"
        watermark = max([watermark, *(time - DRIFT for time in rows)])
        if is_complete:
            world.now_ms += 1 if rows else IDLE
    assert {name: world.rows(name) for name in logs} == logs


def test_aligned_says_nothing_without_a_split() -> None:
    assert World({}).plan().aligned == Aligned()
