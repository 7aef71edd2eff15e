"""The clock of a stream whose times only executors see."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.advance import Limits, advance, ranges_between
from dynamic_kafka.planning.clock import FUTURE_MS
from dynamic_kafka.planning.document.amendments import Amendments, check_reported
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.planning.timed_logs import DRIFT, IDLE, NOW, STALLING, World, late, steps


def by_value(**logs: list[Any]) -> World:
    return World(logs, values=True)


def run(world: World, plans: int) -> None:
    for _ in range(plans):
        world.plan()


def test_the_first_batch_only_looks_for_the_first_times() -> None:
    world = by_value(slow=steps(1000, 30), fast=steps(1020, 30))
    world.plan()
    assert (world.clock, world.read[-1]) == (None, {"slow": [], "fast": []})
    assert encode(world.logged)["version"] == 6
    assert decode(encode(world.logged)) == world.logged and world.logged.drift_ms == DRIFT
    world.plan()
    assert (world.clock, world.read[-1]) == (1000, {"slow": steps(1000, DRIFT)})
    # The first record of the fast cluster is known to be too new: nobody reads it again.
    world.plan()
    assert (world.clock, world.read[-1]) == (1000 + DRIFT, {"slow": steps(1000 + DRIFT, DRIFT)})
    assert world.asked == []


def test_the_fast_cluster_waits_for_the_slow_one() -> None:
    world = by_value(slow=steps(1000, 30), fast=steps(1020, 30))
    run(world, 10)
    # The slow cluster has no records behind 1029, and is not idle yet.
    assert (world.clock, world.rows("slow")) == (1029, steps(1000, 30))
    assert world.rows("fast") == steps(1020, 1029 + DRIFT - 1020)
    world.now_ms += IDLE
    run(world, 5)
    assert world.rows("fast") == steps(1020, 30)


@pytest.mark.parametrize("seed", range(12))
def test_no_row_is_late_whatever_the_speeds(seed: int) -> None:
    chance = random.Random(seed)
    logs = {
        name: sorted(chance.randrange(1000, 1000 + 40 * DRIFT) for _ in range(chance.randrange(1, 60)))
        for name in ("a", "b", "c")
    }
    world = World(logs, values=True, options=STALLING)
    run(world, chance.randrange(10))
    world.silent = {"c"}
    run(world.restarts(), 5)
    world.silent = set()
    assert late(world.restarts()) == 0


def test_records_without_a_time_are_read_and_move_no_clock() -> None:
    world = by_value(a=[None, 1000, None, 1005, None], b=[1002, None, 1030])
    run(world, 4)
    assert world.rows("a") == [1000, 1005] and world.rows("b") == [1002]
    assert world.clock == 1005


def test_a_range_without_times_holds_the_clock_until_it_is_idle() -> None:
    world = by_value(a=[None, None], b=steps(1000, 40))
    run(world, 6)
    assert (world.clock, world.rows("b")) == (None, [])
    world.now_ms += IDLE
    run(world, 10)
    assert world.rows("b") == steps(1000, 40)


def test_the_first_clock_waits_for_no_partition_without_records() -> None:
    world = by_value(a=[], b=steps(1000, 40))
    run(world, 10)
    assert world.rows("b") == steps(1000, DRIFT)
    world.now_ms += IDLE
    run(world, 10)
    assert world.rows("b") == steps(1000, 40)


def test_a_new_cluster_holds_the_clock_until_its_times_are_known() -> None:
    world = World({"a": steps(1000, 20), "b": steps(1000, 60)}, values=True, named={"a"})
    run(world, 6)
    clock = world.clock
    assert clock == 1010 and world.rows("a") == steps(1000, 20)
    world.named = {"a", "b"}
    world.logs["a"] += steps(1050, 10)
    planned = world.plan()
    assert planned.aligned.held_by == Split("b", "t", 0) and world.clock == clock
    assert world.read[-1] == {"a": [], "b": steps(1000, clock + DRIFT - 1000)}
    run(world, 20)
    assert world.rows("b") == steps(1000, 60) and world.rows("a")[-1] == 1059


def test_a_record_from_the_future_stops_its_split_alone() -> None:
    world = by_value(a=[1000, NOW + FUTURE_MS, 1001], b=steps(1000, 40))
    for _ in range(10):
        planned = world.plan()
    assert world.rows("a") == [1000] and world.rows("b") == steps(1000, 40)
    assert planned.aligned.beyond == {Split("a", "t", 0)}
    assert planned.warnings["future",] is not None
    # After a start, the record is looked at again: now the assigner gives it no time
    world.logs["a"][1] = None
    run(world.restarts(), 3)
    assert world.rows("a") == [1000, 1001]
    # And the records behind it are read as they come
    for time in (1041, 1042, 1043):
        world.logs["a"].append(time)
        world.logs["b"].append(time)
        run(world, 3)
    assert world.rows("a") == [1000, 1001, 1041, 1042, 1043]


def test_after_a_start_the_first_records_are_looked_at_again() -> None:
    # Given an assigner with a wrong unit: all first records are of the future
    world = by_value(a=[NOW * 1000, NOW * 1000 + 1], b=[NOW * 1000])
    run(world, 5)
    assert world.clock is None and not world.rows("a")
    # When it is mended
    world.logs = {"a": [1000, 1001], "b": [1002]}
    run(world.restarts(), 5)
    assert (world.rows("a"), world.rows("b")) == ([1000, 1001], [1002])


def test_without_the_option_the_times_are_forgotten() -> None:
    world = by_value(a=steps(1000, 5), b=steps(1000, 60))
    run(world, 4)
    world.values = False
    world.now_ms += IDLE
    run(world, 4)
    assert world.rows("b") == steps(1000, 60)
    assert encode(world.logged)["version"] == 5 and '"time"' not in str(encode(world.logged))


def test_the_clock_of_kafka_s_timestamps_is_another_one() -> None:
    world = World({"a": steps(1000, 20), "b": steps(1000, 20)})
    run(world, 2)
    assert world.clock == 1019
    # When times in the value are hours older
    world.values = True
    world.logs = {name: [*log, *steps(10, 20)] for name, log in world.logs.items()}
    run(world, 2)
    assert (world.clock, world.read[-1]) == (10, {"a": steps(10, DRIFT), "b": steps(10, DRIFT)})


def test_a_batch_without_reports_is_not_known_to_be_read() -> None:
    world = by_value(a=steps(1000, 5), b=steps(1000, 5))
    run(world, 2)
    assert world.logged.by_value == 2
    check_reported(world.found.after(world.logged), "/s")
    reported = [StopRecord(Split("a", "t", 0), 5, None, "whole", 1004)]
    with pytest.raises(OffsetDocumentError, match="1 ranges of the batch of document 2 have no report"):
        check_reported(Amendments().with_stop_records(world.logged, reported).after(world.logged), "/s")
    # Its document alone shows the others, so that a start can look for their ends
    known = Amendments().with_stop_records(world.logged, reported).known(world.logged)
    shown = ranges_between(world.logged, world.logged)
    assert [part for part in shown if part.split not in known] == [SplitRange(Split("b", "t", 0), 0, 5)]
    assert {part.split for part in shown} == world.found.known(world.logged)


def test_a_bounded_run_ends_when_all_is_known_to_be_read() -> None:
    topic = TopicProgress("s", {0: 5}, stops={0: 5})
    document = OffsetDocument("q", 3, clusters={"a": ClusterProgress({"t": topic})}, bounded=True, by_value=1)
    assert not document.finished
    cut = [StopRecord(Split("a", "t", 0), 4, None, "pause", 7)]
    assert not Amendments().with_stop_records(document, cut).after(document).finished
    whole = [StopRecord(Split("a", "t", 0), 5, None, "whole", 7)]
    progress = Amendments().with_stop_records(document, whole).after(document)
    assert progress.finished
    # A last document shows it
    given: Any = {"observed": {}, "limits": Limits(), "query": "q", "drift_ms": DRIFT}
    last = advance(document, progress, **given).document
    assert last is not document and last.finished
    assert advance(last, last.settled(), **given).document is last


def test_a_plan_without_news_writes_no_document() -> None:
    world = by_value(a=steps(1000, 5), b=steps(1000, 60))
    run(world, 6)
    number = world.logged.number
    run(world, 3)
    assert world.logged.number == number
