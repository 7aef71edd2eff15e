"""Clusters, topics, streams and partitions are added and removed while a query runs, or while it is stopped.

Most tests drive the source without Spark (`SourceRun`); a few run Spark to check that both agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.errors import MetadataInvalidError
from tests.support.fixtures import Brokers, Topic
from tests.support.source_run import SourceRun, reading
from tests.support.streams import (
    Collected,
    Rows,
    assert_rows,
    cluster,
    next_offsets,
    parked_offsets,
    produce,
    renamed,
    start_query,
    stream,
    write_metadata,
)


def parked(run: SourceRun, cluster_id: str, name: str) -> Callable[[], bool]:
    return lambda: (cluster_id, name) in run.parked


def active(run: SourceRun, cluster_id: str, name: str) -> Callable[[], bool]:
    return lambda: (cluster_id, name) in run.next


# -- on Spark ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(1)
@pytest.mark.scenario(2)
@pytest.mark.scenario(10)
def test_a_stream_migrates_to_two_clusters_and_back(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path, path: Path
) -> None:
    orders = brokers.a.create_topic(topic("orders"), 2)
    brokers.b.create_topic(orders, 1)
    only_a, both = cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", only_a))
    wanted = produce("a", brokers.a, orders, 20)
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest"}

    with start_query(spark, options, tmp_path, sink="parquet") as query:
        query.wait_rows(wanted)
        wanted += produce("b", brokers.b, orders, 30)
        write_metadata(path, stream("orders", only_a, both))
        query.wait_rows(wanted)
        wanted += produce("a", brokers.a, orders, 5, partition=1) + produce("b", brokers.b, orders, 5)
        query.wait_rows(wanted)
        write_metadata(path, stream("orders", both))
        query.wait_document(lambda document: ("a", orders) in parked_offsets(document), "a to be parked")
        produce("a", brokers.a, orders, 7)  # too late: metadata no longer names this cluster
        wanted += produce("b", brokers.b, orders, 5)
        query.wait_rows(wanted)

        document = query.document()
        assert next_offsets(document) == {("b", orders): {0: 40}}
        assert parked_offsets(document) == {("a", orders): {0: 20, 1: 5}}
        report = query.wait_report(lambda found: "parked" in found, "the report of the parked splits")
        assert (list(report["clusters"]), report["parked"]) == (["b"], {"a": 2})
        assert_rows(query.rows(), wanted)


@pytest.mark.scenario(28)
def test_a_restart_with_other_parallelism_is_exact(
    spark: SparkSession, brokers: Brokers, topic: Topic, tmp_path: Path, path: Path
) -> None:
    orders = brokers.a.create_topic(topic("orders"), 3)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = Rows()
    for partition in range(3):
        wanted += produce("a", brokers.a, orders, 40, partition=partition)
    options = {"streamIds": "orders", "metadataPath": path, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 60}
    once, sink = {"availableNow": True}, Collected()
    start_query(spark, options, tmp_path, trigger=once, sink=sink).query.awaitTermination()
    assert_rows(sink.rows(), wanted)

    more = produce("a", brokers.a, orders, 50)
    options |= {"minPartitions": 8, "maxOffsetsPerTrigger": 1000}
    again = start_query(spark, options, tmp_path, trigger=once, sink=sink)
    again.query.awaitTermination()

    assert_rows(sink.rows(), wanted + more)
    assert next_offsets(again.document()) == {("a", orders): {0: 90, 1: 40, 2: 40}}
    assert again.error() == ""


# -- added and removed while running -----------------------------------------------------------------------------------


@pytest.mark.scenario(13)
@pytest.mark.scenario(23)
def test_only_the_splits_of_a_new_cluster_or_topic_are_added(
    brokers: Brokers, topic: Topic, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    one, two = topic("one"), topic("two")
    for name in (one, two):
        brokers.a.create_topic(name, 2)
    brokers.b.create_topic(one, 1)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [one])))
    wanted = produce("a", brokers.a, one, 10)
    with reading(path) as run:
        run.until_rows(wanted)
        more = produce("a", brokers.a, two, 4, partition=1) + produce("b", brokers.b, one, 3)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [one, two]), cluster("b", brokers.b, [one])))
        run.until_rows(wanted + more)

        assert run.next == {("a", one): {0: 10, 1: 0}, ("a", two): {0: 0, 1: 4}, ("b", one): {0: 3}}
        assert [r.getMessage() for r in caplog.records if "new splits" in r.getMessage()] == [
            f"2 new splits: topic {one!r} of cluster 'a'",
            f"2 new splits: topic {two!r} of cluster 'a'",
            f"1 new splits: topic {one!r} of cluster 'b'",
        ]


@pytest.mark.scenario(3)
def test_a_pattern_picks_up_a_new_stream_while_running(brokers: Brokers, topic: Topic, path: Path) -> None:
    first, second, other = topic("first"), topic("second"), topic("other")
    for name in (first, second, other):
        brokers.a.create_topic(name)
    write_metadata(path, stream("orders-eu", cluster("a", brokers.a, [first])))
    wanted = produce("a", brokers.a, first, 5)
    produce("a", brokers.a, other, 5)
    with reading(path, streamIds=None, streamPattern="orders-..") as run:
        run.until_rows(wanted)
        wanted += produce("a", brokers.a, second, 6)
        write_metadata(
            path,
            stream("orders-eu", cluster("a", brokers.a, [first])),
            stream("orders-us", cluster("a", brokers.a, [second])),
            stream("all-orders-eu", cluster("a", brokers.a, [other])),
        )
        run.until_rows(wanted)

        assert run.next == {("a", first): {0: 5}, ("a", second): {0: 6}}
        assert {task.stream for task in run.tasks} == {"orders-us"}
        assert run.report()["clusters"]["a"]["splits"] == 2


@pytest.mark.scenario(18)
@pytest.mark.scenario(32)
def test_a_removed_topic_leaves_the_others_offsets_alone(
    brokers: Brokers, topic: Topic, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    kept, gone = topic("kept"), topic("gone")
    for name in (kept, gone):
        brokers.a.create_topic(name)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [kept, gone])))
    wanted = produce("a", brokers.a, kept, 8) + produce("a", brokers.a, gone, 9)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [kept])))
        run.until(parked(run, "a", gone), "the topic to be parked")
        produce("a", brokers.a, gone, 3)
        wanted += produce("a", brokers.a, kept, 2)
        run.until_rows(wanted)

        assert run.next == {("a", kept): {0: 10}}
        assert run.parked == {("a", gone): {0: 9}}
        assert run.report()["parked"] == {"a": 1}
        assert re.search(rf"{gone!r} of cluster 'a' .*offsets are kept", caplog.text)


def test_a_cluster_back_within_retention_resumes_at_its_offset(brokers: Brokers, orders: str, path: Path) -> None:
    both = stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders]))
    write_metadata(path, both)
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("b", brokers.b, [orders])))
        run.until(parked(run, "a", orders), "a to be parked")
        away = produce("a", brokers.a, orders, 4)
        run.until_rows(wanted)
        write_metadata(path, both)
        run.until_rows(wanted + away)

        assert run.next == {("a", orders): {0: 9}, ("b", orders): {0: 5}}
        assert run.parked == {}
        assert any("continues at its parked offsets" in note.text for note in run.enumerator.status.notes)
        assert "parked" not in run.report()


def test_a_cluster_back_after_retention_starts_as_new(
    brokers: Brokers, orders: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    both = stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders]))
    write_metadata(path, both)
    first = produce("a", brokers.a, orders, 5)
    wanted = first + produce("b", brokers.b, orders, 5)
    with reading(path, removedClusterRetention="1ms") as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("b", brokers.b, [orders])))
        run.until(lambda: ("a", orders) not in run.next and not run.parked, "the offsets of a to expire")
        write_metadata(path, both)
        run.until_rows(wanted + first)  # from the start again

        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 5}}
        assert "past its retention" in caplog.text


def test_a_topic_re_created_while_parked_starts_as_new(
    brokers: Brokers, topic: Topic, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders, other = topic("orders"), topic("other")
    for name in (orders, other):
        brokers.a.create_topic(name)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [other])))
        run.until(parked(run, "a", orders), "the topic to be parked")
        brokers.a.delete_topic(orders)
        brokers.a.create_topic(orders)
        wanted += produce("a", brokers.a, orders, 7, prefix="new")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders, other])))
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 7}, ("a", other): {0: 0}}
        assert run.parked == {}
        assert re.search(rf"{orders!r} of cluster 'a' .*re-created .*parked", caplog.text)


def test_added_partitions_start_at_their_beginning(brokers: Brokers, orders: str, path: Path) -> None:
    produce("a", brokers.a, orders, 5)
    # A start in metadata applies to the partitions found at first. Partitions added later must not skip records.
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders], startingOffsets="latest")))
    with reading(path) as run:
        run.until(active(run, "a", orders), "the first plan")
        wanted = produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)
        brokers.a.create_partitions(orders, 3)
        wanted += produce("a", brokers.a, orders, 4, partition=2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 7, 1: 0, 2: 4}}
        assert any(
            note.text == f"2 new splits: topic {orders!r} of cluster 'a'" for note in run.enumerator.status.notes
        )


def test_starting_offsets_hold_for_the_first_plan_only(brokers: Brokers, orders: str, path: Path) -> None:
    produce("a", brokers.a, orders, 5)
    before = produce("b", brokers.b, orders, 6)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with reading(path, startingOffsets="latest") as run:
        run.until(active(run, "a", orders), "the first plan")
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
        run.until_rows(before)

        assert run.next == {("a", orders): {0: 5}, ("b", orders): {0: 6}}
        assert run.report()["clusters"]["a"]["lag"] == 0


@pytest.mark.scenario(33)
def test_without_any_split_the_stream_is_idle_and_does_not_end(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("others", cluster("a", brokers.a, [orders])))
        run.until(parked(run, "a", orders), "the topic to be parked")
        assert (run.next, run.batch()) == ({}, False)
        assert run.report()["clusters"] == {} and "finished" not in run.report()
        wanted += produce("a", brokers.a, orders, 1)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 6}}


@pytest.mark.scenario(12)
def test_discovery_repeats_at_its_interval(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    with reading(path, metadataDiscoveryInterval="50ms") as run:
        run.until(active(run, "a", orders), "the first plan")
        brokers.a.create_partitions(orders, 2)  # the document is unchanged: only a new discovery can find the partition
        run.until(lambda: len(run.next["a", orders]) == 2, "the added partition")

        assert run.rows() == Rows()
        assert run.report()["clusters"]["a"]["splits"] == 2


@pytest.mark.scenario(11)
def test_without_discovery_nothing_is_found_later(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path, metadataDiscoveryInterval="0") as run:
        run.until_rows(wanted)
        revision = run.report()["revision"]
        produce("b", brokers.b, orders, 3)
        brokers.a.create_partitions(orders, 2)
        produce("a", brokers.a, orders, 3, partition=1)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
        wanted += produce("a", brokers.a, orders, 2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5}}
        assert run.report()["revision"] == revision


# -- streams that share, ids that change -------------------------------------------------------------------------------


def test_a_topic_shared_by_two_streams_is_read_once(brokers: Brokers, topic: Topic, path: Path) -> None:
    shared, mine, yours = topic("shared"), topic("mine"), topic("yours")
    for name in (shared, mine, yours):
        brokers.a.create_topic(name)
    write_metadata(
        path,
        stream("payments", cluster("a", brokers.a, [shared, yours])),
        stream("orders", cluster("a", brokers.a, [mine, shared])),
    )
    wanted = Rows()
    for name in (shared, mine, yours):
        wanted += produce("a", brokers.a, name, 4)
    with reading(path, streamIds="payments;orders") as run:
        run.until_rows(wanted)

        assert run.next == {("a", name): {0: 4} for name in (shared, mine, yours)}
        streams = {name: progress.stream for name, progress in run.document.clusters["a"].topics.items()}
        assert streams == {mine: "orders", shared: "orders", yours: "payments"}
        assert run.report()["clusters"]["a"]["splits"] == 3


def test_two_definitions_of_one_cluster_are_refused(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(
        path,
        stream("payments", cluster("a", brokers.b, [orders])),
        stream("orders", cluster("a", brokers.a, [orders])),
    )
    with reading(path, streamIds="payments;orders") as run:
        with pytest.raises(MetadataInvalidError) as refused:
            run.batch()

        message = "streams 'orders' and 'payments' disagree about cluster 'a': bootstrapServers differ"
        assert message in str(refused.value)
        assert (run.offsets, run.rows()) == ([], Rows())


def test_a_renamed_cluster_continues_under_its_new_id(
    brokers: Brokers, topic: Topic, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    orders = brokers.a.create_topic(topic("orders"), 2)
    write_metadata(path, stream("orders", cluster("old", brokers.a, [orders])))
    wanted = produce("old", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("new", brokers.a, [orders], renamedFrom="old")))
        run.until(active(run, "new", orders), "the new id")
        assert run.next == {("new", orders): {0: 5, 1: 0}}
        wanted += produce("new", brokers.a, orders, 3) + produce("new", brokers.a, orders, 2, partition=1)
        run.until_rows(wanted)

        assert run.next == {("new", orders): {0: 8, 1: 2}}
        assert run.parked == {}
        assert "cluster 'old' is now 'new'" in caplog.text


def test_a_cluster_that_was_renamed_while_it_was_parked_resumes(brokers: Brokers, orders: str, path: Path) -> None:
    stays = cluster("b", brokers.b, [orders])
    write_metadata(path, stream("orders", cluster("old", brokers.a, [orders]), stays))
    wanted = produce("old", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", stays))
        run.until(parked(run, "old", orders), "the old id to be parked")
        wanted += produce("new", brokers.a, orders, 3)
        write_metadata(path, stream("orders", cluster("new", brokers.a, [orders], renamedFrom="old"), stays))
        run.until_rows(wanted)

        assert run.next == {("new", orders): {0: 8}, ("b", orders): {0: 0}}
        assert run.parked == {}
        assert any(note.kind == "renamed" for note in run.enumerator.status.notes)


def test_a_pending_batch_of_a_renamed_cluster_is_replayed_whole(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("old", brokers.a, [orders])))
    wanted = produce("old", brokers.a, orders, 5)
    with reading(path) as run:
        run.batch(crash="reading")
        write_metadata(path, stream("orders", cluster("new", brokers.a, [orders], renamedFrom="old")))
        wanted += renamed(produce("old", brokers.a, orders, 3), "new")
        run.until_rows(wanted)  # rows of a pending batch keep the old id

        assert run.next == {("new", orders): {0: 8}}
        assert any(note.kind == "renamed" for note in run.enumerator.status.notes)


def test_active_progress_overrides_parked_progress(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 10)
    with reading(path) as run:
        run.until_rows(wanted)
        # A document with the split both active and parked; the parked offset is larger.
        saved = json.loads(run.offsets[-1])
        topic_of_a = saved["clusters"]["a"]["topics"][orders]
        topic_of_a["next"] = 6
        saved["parked"] = {"a": {"topics": {orders: {**topic_of_a, "next": 9, "until": 1 << 50}}}}
        run.offsets[-1] = json.dumps(saved)
        run.restart()
        run.until_rows(wanted + Rows({row: 1 for row in wanted if row.offset >= 6}))

        assert run.next == {("a", orders): {0: 10}}
        assert run.parked == {}


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario(16)
@pytest.mark.scenario(17)
@pytest.mark.scenario(19)
def test_a_restart_continues_at_the_saved_offsets(
    brokers: Brokers, topic: Topic, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dynamic_kafka")
    orders = brokers.a.create_topic(topic("orders"), 3)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
    wanted = produce("a", brokers.a, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        # The document has all splits, read or not.
        assert run.next == {("a", orders): {0: 5, 1: 0, 2: 0}}
        caplog.clear()
        run.restart()
        assert not run.batch()
        assert "new splits" not in caplog.text
        assert f"offsets of a/{orders}: {{0: 5, 1: 0, 2: 0}}" in caplog.text
        wanted += produce("a", brokers.a, orders, 2, partition=2)
        run.until_rows(wanted)

        assert run.next == {("a", orders): {0: 5, 1: 0, 2: 2}}


@pytest.mark.scenario(20)
@pytest.mark.scenario(31)
def test_a_restart_with_one_cluster_removed_and_another_added(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("a", brokers.a, [orders]), cluster("b", brokers.b, [orders])))
    wanted = produce("a", brokers.a, orders, 5) + produce("b", brokers.b, orders, 5)
    with reading(path) as run:
        run.until_rows(wanted)
        run.stop()
        produce("a", brokers.a, orders, 3)
        wanted += produce("b", brokers.b, orders, 3) + produce("c", brokers.c, orders, 3)
        write_metadata(path, stream("orders", cluster("b", brokers.b, [orders]), cluster("c", brokers.c, [orders])))
        run.until_rows(wanted)

        assert run.next == {("b", orders): {0: 8}, ("c", orders): {0: 3}}
        assert run.parked == {("a", orders): {0: 5}}
        assert {task.part.split.cluster for task in run.tasks} == {"b", "c"}  # the removed cluster is never opened
        assert run.report()["parked"] == {"a": 1}


@pytest.mark.scenario(27)
def test_removals_then_other_parallelism_then_a_crash(brokers: Brokers, topic: Topic, path: Path) -> None:
    one, two = topic("one"), topic("two")
    for at in (brokers.a, brokers.b):
        for name in (one, two):
            at.create_topic(name, 2)
    write_metadata(path, stream("orders", cluster("a", brokers.a, [one, two]), cluster("b", brokers.b, [one, two])))
    wanted = Rows()
    for name in (one, two):
        wanted += produce("a", brokers.a, name, 30) + produce("b", brokers.b, name, 30, partition=1)
    with reading(path, maxOffsetsPerTrigger=70) as run:
        run.until_rows(wanted)
        write_metadata(path, stream("orders", cluster("a", brokers.a, [one])))
        run.until(parked(run, "b", two), "the others to be parked")
        wanted += produce("a", brokers.a, one, 40)
        run.restart(minPartitions=6, maxOffsetsPerTrigger=None)
        run.batch(crash="reading")
        assert len(run.tasks) == 6
        run.restart(minPartitions=2)
        run.until_rows(wanted)

        assert run.next == {("a", one): {0: 70, 1: 0}}
        assert run.parked == {("a", two): {0: 30, 1: 0}, ("b", one): {0: 0, 1: 30}, ("b", two): {0: 0, 1: 30}}
        assert run.report()["parked"] == {"a": 2, "b": 4}


def test_properties_take_effect_without_a_restart(brokers: Brokers, orders: str, path: Path) -> None:
    hidden = cluster("a", brokers.a, [orders], properties={"isolation.level": "read_committed"})
    write_metadata(path, stream("orders", hidden))
    wanted = produce("a", brokers.a, orders, 3)
    with reading(path) as run:
        run.until_rows(wanted)
        transaction = brokers.a.transaction()
        transaction.produce(orders, ["open"], partition=0)
        assert not run.batch()
        write_metadata(path, stream("orders", cluster("a", brokers.a, [orders])))
        run.until(lambda: run.rows().total() == 4, "the record of the open transaction")
        transaction.abort()

        assert [row.value for row in run.rows() - wanted] == ["open"]
        assert run.next["a", orders][0] >= 4
