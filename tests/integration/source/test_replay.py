"""A pending batch is replayed exactly, except for the ranges that an amendment leaves out.

A crash after Spark has logged the offsets leaves a batch pending. Then metadata changes, and the query restarts.
Left-out ranges are never lost: their splits are parked at the start of the range.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dynamic_kafka.errors import (
    DriverReplacedError,
    OptionError,
    PendingRangesError,
    StaleCheckpointError,
    StateMismatchError,
)
from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import amendments, reading
from tests.support.streams import (
    Collected,
    Rows,
    assert_rows,
    cluster,
    next_offsets,
    parked_offsets,
    produce,
    start_query,
    stream,
    write_metadata,
    write_text,
)

DEEP = pytest.mark.deep("each replay")

# -- on Spark ----------------------------------------------------------------------------------------------------------


def test_spark_replays_a_pending_batch_without_left_out_ranges(
    spark: SparkSession, brokers: Brokers, orders: str, tmp_path: Path, path: Path
) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 8), produce("b", brokers.b, orders, 9)
    options = {
        "streamIds": "orders",
        "metadataPath": path,
        "startingOffsets": "earliest",
        "stateLocation": tmp_path / "state",
    }

    class Broken(Collected):
        def __call__(self, frame: DataFrame, batch: int) -> None:
            raise RuntimeError("the sink broke before it had the batch")

    with start_query(spark, options, tmp_path, sink=Broken()) as query:
        assert "the sink broke" in query.wait_failed()
    write_metadata(path, stream("orders", b))
    sink = Collected()
    with start_query(spark, options, tmp_path, sink=sink) as query:
        query.wait_rows(of_b)
        document = query.wait_document(lambda found: bool(parked_offsets(found)), "a to be parked")
        assert (next_offsets(document), parked_offsets(document)) == ({("b", orders): {0: 9}}, {("a", orders): {0: 0}})
        report = query.wait_report(lambda found: "parked" in found, "the report of the parked splits")
        assert report["parked"] == {"a": 1}
        write_metadata(path, stream("orders", a, b))
        query.wait_rows(of_a + of_b)

        assert next_offsets(query.document()) == {("a", orders): {0: 8}, ("b", orders): {0: 9}}
    assert [found["leftOut"] for found in amendments(path)] == [[["a", orders, 0, 0, 8]]]


# -- the same ranges ---------------------------------------------------------------------------------------------------


@DEEP
@pytest.mark.scenario(22)
def test_a_replay_reads_the_same_ranges_after_any_change(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    a = cluster("a", brokers.a, [orders])
    write_metadata(path, stream("orders", a))
    wanted = produce("a", brokers.a, orders, 10)
    with reading(path, maxOffsetsPerTrigger=6) as run:
        run.batch(crash="reading")
        planned = run.tasks
        later = produce("a", brokers.a, orders, 10) + produce("b", brokers.b, orders, 3)
        write_metadata(path, stream("orders", a, cluster("b", brokers.b, [orders])))
        run.restart(maxOffsetsPerTrigger=None)
        run.batch()

        assert [task.part for task in run.tasks] == [task.part for task in planned]
        assert_rows(run.rows(), Rows({row: 1 for row in wanted if row.offset < 6}))
        assert run.next == {("a", orders): {0: 6}}
        assert "replaying batch of document 1: 1 ranges" in caplog.text
        run.until_rows(wanted + later)
        assert amendments(path) == []


@DEEP
def test_a_start_at_latest_survives_a_crash_of_the_first_batch(brokers: Brokers, orders: str, path: Path) -> None:
    produce("a", brokers.a, orders, 5)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with reading(path, startingOffsets="latest") as run:
        run.batch(crash="logged")
        wanted = produce("a", brokers.a, orders, 4)
        run.restart()
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 9}}
        assert run.report()["document"] == 2


@DEEP
def test_a_draining_cluster_is_replayed_whole(brokers: Brokers, orders: str, path: Path) -> None:
    servers = {"a": brokers.a.bootstrap, "b": brokers.b.bootstrap}

    def write(state: str) -> None:
        clusters: dict[str, Any] = {i: {"bootstrapServers": s, "topics": [orders]} for i, s in servers.items()}
        clusters["a"]["state"] = state
        write_text(path, json.dumps({"contract": 1, "revision": 1, "streams": {"orders": {"clusters": clusters}}}))

    write("Active")
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.batch(crash="reading")
        write("Draining")
        run.restart()
        run.batch()

        assert_rows(run.rows(), wanted)
        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 5}}
        assert amendments(path) == []


# -- left out ----------------------------------------------------------------------------------------------------------


def test_a_replay_parks_a_removed_cluster_at_its_ranges_start(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    early = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(early)
        pending, of_b = produce("a", brokers.a, orders, 5), produce("b", brokers.b, orders, 6)
        run.batch(crash="reading")
        assert run.next == {("a", orders): {0: 8}, ("b", orders): {0: 6}}
        write_metadata(path, stream("orders", b))
        run.until_rows(early + of_b)

        assert run.next == {("b", orders): {0: 6}}
        assert run.parked == {("a", orders): {0: 3}}
        message = f"left out of the pending batch, possibly delivered by an earlier attempt: a/{orders}[0] 3..8"
        assert f"{message} (cluster removed)" in caplog.text
        assert [(amendment["leftOut"], amendment["reasons"]) for amendment in amendments(path)] == [
            ([["a", orders, 0, 3, 8]], {"a": "removed"})
        ]
        write_metadata(path, stream("orders", a, b))
        run.until_rows(early + of_b + pending)
        assert run.next == {("a", orders): {0: 8}, ("b", orders): {0: 6}}


@DEEP
def test_a_replay_leaves_out_only_the_removed_topic(brokers: Brokers, orders: str, topic: Topic, path: Path) -> None:
    other = brokers.a.create_topic(topic("other"))
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
    gone, wanted = produce("a", brokers.a, orders, 5), produce("a", brokers.a, other, 6)
    with reading(path) as run:
        run.batch(crash="partitioned")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [other])))
        run.until_rows(wanted)
        run.until(lambda: bool(run.parked), "the topic to be parked")

        # The topic was new in that batch, so it goes back to its starting offset.
        assert (run.next, run.parked) == ({("a", other): {0: 6}}, {("a", orders): {0: 0}})
        assert run.report()["parked"] == {"a": 1}
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
        run.until_rows(wanted + gone)


@DEEP
def test_a_replay_without_any_cluster_left_is_empty(brokers: Brokers, orders: str, path: Path) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a))
    pending = produce("a", brokers.a, orders, 5)
    with reading(path) as run:
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        wanted = produce("b", brokers.b, orders, 2)
        run.until_rows(wanted)

        assert run.delivered[0] == Rows()
        assert (run.next, run.parked) == ({("b", orders): {0: 2}}, {("a", orders): {0: 0}})
        write_metadata(path, stream("orders", a, b))
        run.until_rows(wanted + pending)
        assert [amendment["number"] for amendment in amendments(path)] == [1]


def test_left_out_ranges_are_read_with_a_later_batch(brokers: Brokers, orders: str, path: Path) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 5), produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        run.batch(crash="partitioned")  # the amendment is written, but the batch is not done
        write_metadata(path, stream("orders", a, b))
        run.batch()
        assert_rows(run.rows(), of_b)
        assert len(amendments(path)) == 1
        run.until_rows(of_a + of_b)

        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 5}}
        assert {task.part.split.cluster for task in run.tasks} == {"a"}


@DEEP
def test_a_second_removal_makes_a_second_amendment(brokers: Brokers, orders: str, path: Path) -> None:
    a, b, c = (cluster(name, at, [orders]) for name, at in zip("abc", brokers, strict=True))
    write_metadata(path, stream("orders", a, b, c))
    of_a, of_b, of_c = (produce(name, at, orders, 5) for name, at in zip("abc", brokers, strict=True))
    with reading(path) as run:
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b, c))
        run.batch(crash="reading")
        write_metadata(path, stream("orders", c))
        run.until_rows(of_c)
        run.until(lambda: len(run.parked) == 2, "both to be parked")

        assert (run.next, run.parked) == (
            {("c", orders): {0: 5}},
            {("a", orders): {0: 0}, ("b", orders): {0: 0}},
        )
        assert [amendment["leftOut"] for amendment in amendments(path)] == [
            [["a", orders, 0, 0, 5]],
            [["b", orders, 0, 0, 5]],
        ]
        assert len({amendment["end"] for amendment in amendments(path)}) == 1
        run.restart()
        write_metadata(path, stream("orders", a, b, c))
        run.until_rows(of_a + of_b + of_c)
        assert run.report()["clusters"].keys() == {"a", "b", "c"}


@DEEP
def test_delivered_ranges_that_are_left_out_are_read_again(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 5), produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.batch(crash="sunk")
        write_metadata(path, stream("orders", b))
        run.until(lambda: bool(run.parked), "a to be parked")
        assert "possibly delivered" in caplog.text
        write_metadata(path, stream("orders", a, b))
        run.until_rows(of_a + of_b + of_a)

        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 5}}


# -- refused -----------------------------------------------------------------------------------------------------------


@DEEP
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"stateLocation": None}, "not left out without a stateLocation"),
        ({"pendingRemovedRanges": "refuse"}, "pendingRemovedRanges=refuse"),
    ],
    ids=["without a state location", "asked to"],
)
def test_pending_ranges_fail_with_the_choices_if_kept(
    brokers: Brokers, orders: str, path: Path, options: dict[str, Any], why: str
) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path, **options) as run:
        run.batch(crash="logged")
        saved = list(run.offsets)
        write_metadata(path, stream("orders", b))
        with pytest.raises(PendingRangesError) as refused:
            run.batch()

        message = str(refused.value)
        assert f"a/{orders}[0] 0..5" in message and f"b/{orders}" not in message and why in message
        assert all(choice in message for choice in ("Draining", "pendingRemovedRanges=filter", "abandon"))
        assert (run.rows(), run.offsets, amendments(path)) == (Rows(), saved, [])
        # The first choice: add the cluster back until the batch is done.
        write_metadata(path, stream("orders", a, b))
        run.restart()
        run.until_rows(wanted)


@DEEP
def test_leaving_ranges_out_needs_a_state_location(path: Path) -> None:
    with reading(path, stateLocation=None, pendingRemovedRanges="filter") as run, pytest.raises(OptionError) as refused:
        run.batch()

    assert "stateLocation" in str(refused.value)


# -- an old checkpoint -------------------------------------------------------------------------------------------------


@DEEP
def test_a_checkpoint_older_than_an_amendment_is_refused(brokers: Brokers, orders: str, path: Path) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        backup = list(run.offsets)
        produce("a", brokers.a, orders, 3)
        again = produce("b", brokers.b, orders, 3)
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        run.until_rows(wanted + again)
        assert len(amendments(path)) == 1

        run.offsets, run.commits = backup, len(backup)
        run.restart()
        with pytest.raises(StaleCheckpointError) as refused:
            run.batch()
        assert f"ends at document {len(backup)}" in str(refused.value)
        assert all(word in str(refused.value) for word in ("restored from a backup", "allowOldCheckpoint=true"))
        assert run.offsets == backup
        del run.delivered[len(backup)]
        run.restart(allowOldCheckpoint="true")
        run.until_rows(wanted + again)

        assert run.next == {("b", orders): {0: 8}}
        assert run.parked == {("a", orders): {0: 5}}


@pytest.mark.parametrize("how", ["emptied", "dropped", "moved without its files"])
def test_a_lost_state_is_refused_before_ranges_are_lost(brokers: Brokers, orders: str, path: Path, how: str) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 5), produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        run.batch()
        assert_rows(run.rows(), of_b)
        state, elsewhere = path.parent / "state", path.parent / "elsewhere"
        if how == "emptied":
            state.rename(elsewhere)
        run.restart(
            stateLocation={"emptied": state, "dropped": None, "moved without its files": path.parent / "new"}[how]
        )
        saved = list(run.offsets)
        with pytest.raises(StateMismatchError, match="the query has used the state"):
            run.batch()
        assert run.offsets == saved

        # Moved together with its files, the state is the same.
        if how != "emptied":
            state.rename(elsewhere)
        run.restart(stateLocation=elsewhere)
        write_metadata(path, stream("orders", a, b))
        run.until_rows(of_a + of_b)


@DEEP
def test_a_driver_that_was_replaced_plans_no_more(brokers: Brokers, orders: str, path: Path) -> None:
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    of_a, of_b = produce("a", brokers.a, orders, 5), produce("b", brokers.b, orders, 5)
    with reading(path) as hung, reading(path) as other:
        assert hung.enumerator.latest({"version": 3})  # it has planned, and hangs before Spark has logged that
        other.batch(crash="logged")
        hung.restart()
        hung.offsets, hung.commits = other.offsets, 0
        assert hung.batch(crash="partitioned")  # a replay of all ranges: the next one hangs, too
        stalled = hung.enumerator
        stalled.tasks({"version": 3}, json.loads(hung.offsets[0]))
        write_metadata(path, stream("orders", b))
        other.batch()
        assert_rows(other.rows(), of_b)

        # The old driver resumes, commits the batch, and plans: without the amendment, it would never read a again.
        # It may not have looked at the metadata again. Without any news, it would plan no new document.
        of_b += produce("b", brokers.b, orders, 1)
        with pytest.raises(DriverReplacedError, match="driver has started"):
            stalled.latest(json.loads(hung.offsets[0]))
        write_metadata(path, stream("orders", a, b))
        other.until_rows(of_a + of_b)


@DEEP
def test_left_out_ranges_are_not_committed_to_the_group(
    brokers: Brokers, orders: str, topic: Topic, path: Path
) -> None:
    # Given a pending batch, and the removal of one of its topics
    other, group = brokers.a.create_topic(topic("other")), topic("group")
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
    produce("a", brokers.a, orders, 5)
    wanted = produce("a", brokers.a, other, 6)
    with reading(path, **{"kafka.group.id": group}) as run:
        run.batch(crash="partitioned")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [other])))

        # When the batch is done without it
        run.until_rows(wanted)
        run.until(lambda: bool(run.parked), "the topic to be parked")
        assert run.parked == {("a", orders): {0: 0}}
        assert run.enumerator._committer is not None and run.enumerator._committer.flush(20)

        # Then the group does not get the topic's offset
        assert brokers.a.committed_offsets(group).get((orders, 0), 0) == 0


@DEEP
def test_an_amendment_of_an_undone_batch_is_ignored(brokers: Brokers, orders: str, path: Path) -> None:
    # Given a query whose last batch left a cluster out, and a backup from before that batch
    a, b = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", a, b))
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        backup = list(run.offsets)
        of_a, of_b = produce("a", brokers.a, orders, 3), produce("b", brokers.b, orders, 3)
        run.batch(crash="logged")
        write_metadata(path, stream("orders", b))
        run.until_rows(wanted + of_b)

        # When a user restores checkpoint and sink, sets the override, and adds the cluster back
        write_metadata(path, stream("orders", a, b))
        run.offsets, run.commits = backup, len(backup)
        run.delivered = {number: rows for number, rows in run.delivered.items() if number < len(backup)}
        run.restart(allowOldCheckpoint="true")
        run.until_rows(wanted + of_a + of_b)

        # Then a later restart reads nothing again
        run.restart(allowOldCheckpoint=None)
        while run.batch():
            pass
        assert_rows(run.rows(), wanted + of_a + of_b)
