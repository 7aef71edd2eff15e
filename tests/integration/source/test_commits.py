"""Offsets in the consumer groups: they serve lag tools, come one batch late, and never delay reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka.errors import GroupInUseError, StaleCheckpointError
from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.kafka.commits import GroupCommitter
from tests.integration.source.simulated_spark import Query, at, document, numbered, query, static, values
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.streams import produce, start_query
from tests.support.waiting import eventually


def committer(reading: Query) -> GroupCommitter:
    """Return the committer of a running query."""
    current = reading.reader._enumerator._committer  # type: ignore[union-attr]
    assert current is not None
    return current


def wait_for_commits(reading: Query) -> None:
    """Wait for pending commits."""
    assert committer(reading).flush(20)


def read_in_batches(reading: Query, at: KafkaCluster, name: str, count: int) -> None:
    """Read `count` batches of one record each, and wait for their commits."""
    for number in range(count):
        at.produce(name, [str(number)])
        reading.batch()
    wait_for_commits(reading)


def marks(cluster: KafkaCluster, group: str) -> list[CommitMark | None]:
    return [CommitMark.parse(at.metadata or "") for at in cluster.committed(group)]


@pytest.mark.scenario(43)
def test_each_batch_is_committed_to_each_cluster_one_batch_late(brokers: Brokers, topic: Topic) -> None:
    # Given two clusters and a group
    name, group = topic("orders"), topic("group")
    for cluster in (brokers.a, brokers.b):
        cluster.create_topic(name)
        cluster.produce(name, numbered(5))
    text = document(east=at(brokers.a, name), west=at(brokers.b, name))

    with query(static(text, startingOffsets="earliest", kafka__group__id=group)) as reading:
        # When the first batch is done
        reading.batch()
        after_one = brokers.a.committed_offsets(group)
        # and the second is constructed
        brokers.a.produce(name, numbered(2))
        reading.batch()
        wait_for_commits(reading)
        after_two = [cluster.committed_offsets(group) for cluster in (brokers.a, brokers.b)]
        # and a third, without records of the second cluster
        brokers.a.produce(name, numbered(1))
        reading.batch()
        wait_for_commits(reading)
        counts = committer(reading).counts()
        after_three = [cluster.committed_offsets(group) for cluster in (brokers.a, brokers.b)]

    # Then each cluster's group has its offsets of the batch before, without needless commits
    assert after_one == {}
    assert after_two == [{(name, 0): 5}, {(name, 0): 5}]
    assert after_three == [{(name, 0): 7}, {(name, 0): 5}]
    assert (counts["east"].succeeded, counts["west"].succeeded) == (2, 1)
    assert reading.offsets() == {("east", name): {0: 8}, ("west", name): {0: 5}}


@pytest.mark.scenario(43)
def test_empty_batches_commit_nothing_and_a_later_one_does(brokers: Brokers, topic: Topic) -> None:
    # Given a query that has nothing to read for a while
    name, group = brokers.a.create_topic(topic("orders"), 2), topic("group")
    with query(
        static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    ) as reading:
        # When it starts, idles, then reads
        first = reading.batch()
        idle = [reading.plan() for _ in range(3)]
        brokers.a.produce(name, ["x"], partition=1)
        reading.batch()
        wait_for_commits(reading)
        where_it_began = brokers.a.committed_offsets(group)
        brokers.a.produce(name, ["y"], partition=1)
        reading.batch()
        wait_for_commits(reading)

    # Then an empty plan makes no batch, and the group has the offsets of the batch before
    assert (first, idle) == ([], [False] * 3)
    assert where_it_began == {(name, 0): 0, (name, 1): 0}
    assert brokers.a.committed_offsets(group) == {(name, 0): 0, (name, 1): 1}


@pytest.mark.scenario(43)
def test_a_split_is_not_committed_beyond_its_read_records(brokers: Brokers, topic: Topic) -> None:
    # Given a limit that lets a batch read only one of two splits
    name, group = brokers.a.create_topic(topic("orders"), 2), topic("group")
    for partition in range(2):
        brokers.a.produce(name, numbered(3), partition=partition)
    options = static(
        document(east=at(brokers.a, name)),
        startingOffsets="earliest",
        kafka__group__id=group,
        maxOffsetsPerTrigger=1,
    )

    # When two batches were planned
    with query(options) as reading:
        first = reading.batch()
        reading.plan()
        wait_for_commits(reading)

    # Then the group has the offsets of the first batch, and not one record more
    read = {(name, row["partition"]): row["offset"] + 1 for row in first}
    assert len(read) == 1
    assert brokers.a.committed_offsets(group) == {(name, 0): 0, (name, 1): 0} | read


@pytest.mark.scenario(43)
@pytest.mark.parametrize("setting", [{"commitOffsets": "false"}, {"kafka.group.id": ""}], ids=["off", "no group"])
def test_nothing_is_committed_without_the_option(brokers: Brokers, topic: Topic, setting: dict[str, str]) -> None:
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = (
        static(document(east=at(brokers.a, name)), startingOffsets="earliest") | {"kafka.group.id": group} | setting
    )
    if not options["kafka.group.id"]:
        del options["kafka.group.id"]

    with query(options) as reading:
        for number in range(3):
            brokers.a.produce(name, [str(number)])
            reading.batch()
        quiet = reading.reader._enumerator._committer is None  # type: ignore[union-attr]

    assert quiet
    assert brokers.a.committed_offsets(group) == {}


def test_a_failed_commit_is_counted_and_reading_continues(
    brokers: Brokers, fresh_cluster: FreshCluster, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster that refuses commits, since it has no group coordinator
    monkeypatch.setattr("dynamic_kafka.kafka.commits.DEADLINE_S", 2.0)
    broken = fresh_cluster("no-groups", overrides={"offsets.topic.replication.factor": "3"})
    name, group = topic("orders"), topic("group")
    for cluster in (brokers.a, broken):
        cluster.create_topic(name)
        cluster.produce(name, ["0"])
    text = document(fine=at(brokers.a, name), broken=at(broken, name))

    # When several batches are read
    with query(static(text, startingOffsets="earliest", kafka__group__id=group, readTimeout="2s")) as reading:
        rows = reading.batch()
        for number in range(1, 4):
            for cluster in (brokers.a, broken):
                cluster.produce(name, [str(number)])
            rows += reading.batch()
        wait_for_commits(reading)
        counts = committer(reading).counts()

    # Then every record is read, and the other cluster's commits succeed
    assert values(rows) == {str(number).encode(): 2 for number in range(4)}
    assert counts["broken"].failed >= 1
    assert counts["broken"].succeeded == 0
    assert "[CLUSTER" in str(counts["broken"].last_error) and "broken" in str(counts["broken"].last_error)
    assert counts["fine"].failed == 0
    assert brokers.a.committed_offsets(group) == {(name, 0): 3}


def test_a_hanging_commit_delays_neither_caller_nor_clusters(
    fresh_cluster: FreshCluster, brokers: Brokers, topic: Topic
) -> None:
    # Given a pending commit to a cluster that hangs
    hanging = fresh_cluster("hanging")
    name, group = topic("orders"), topic("group")
    for cluster in (brokers.a, hanging):
        cluster.create_topic(name)
        cluster.produce(name, ["0"])
    text = document(fine=at(brokers.a, name), hanging=at(hanging, name))
    with query(static(text, startingOffsets="earliest", kafka__group__id=group)) as reading:
        reading.batch()
        saved = reading.log[-1]
        hanging.pause()

        # When more offsets are committed
        reading.reader.commit(json.loads(saved))
        pending = not committer(reading).counts()["hanging"].failed
        arrived = eventually(lambda: brokers.a.committed_offsets(group) == {(name, 0): 1})
        hanging.resume()

    # Then neither the caller nor the other cluster waits for it
    assert pending and arrived


def test_a_commit_that_takes_long_holds_up_no_reading(
    fresh_cluster: FreshCluster, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster without a group coordinator, so that a commit waits for it
    monkeypatch.setattr("dynamic_kafka.kafka.commits.DEADLINE_S", 300.0)
    late = fresh_cluster("late-groups", overrides={"offsets.topic.replication.factor": "3"})
    name, group = late.create_topic(topic("orders")), topic("group")
    options = static(
        document(late=at(late, name)), startingOffsets="earliest", kafka__group__id=group, readTimeout="2s"
    )
    with query(options) as reading:
        # When several batches are read
        rows = []
        for number in range(4):
            late.produce(name, [str(number)])
            rows += reading.batch()
        counts = committer(reading).counts()["late"]
        waiting = (counts.succeeded, counts.failed) == (0, 0)
        # And the coordinator comes
        late.create_topic("__consumer_offsets", 4)
        arrived = eventually(lambda: late.committed_offsets(group) == {(name, 0): 3})

    # Then all are read while the first commit waits, and the newest offsets are committed in the end
    assert values(rows) == {str(number).encode(): 1 for number in range(4)}
    assert waiting and arrived


def test_two_queries_on_one_group_are_refused(brokers: Brokers, topic: Topic) -> None:
    # Given a query that commits to a group
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    with query(options) as first, query(options) as second:
        brokers.a.produce(name, ["0"])
        first.batch()
        second.batch()
        brokers.a.produce(name, ["1"])
        first.batch()
        wait_for_commits(first)

        # When another query does the same
        def refusal() -> str:
            brokers.a.produce(name, ["x"])
            try:
                second.batch()
            except GroupInUseError as error:
                return str(error)
            wait_for_commits(second)
            return ""

        texts: list[str] = []
        refused = eventually(lambda: bool(texts.append(refusal()) or texts[-1]))

    # Then it fails and names the first query, whose offsets stay
    assert refused
    assert f"query {first.saved.query} uses group {group!r} of 'east'" in texts[-1]
    assert {mark.query for mark in marks(brokers.a, group) if mark} == {first.saved.query}


def test_a_restarted_query_continues_to_commit(brokers: Brokers, topic: Topic) -> None:
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)

    with query(options) as reading:
        for number in range(4):
            brokers.a.produce(name, [str(number)])
            reading.batch()
            if number == 1:
                wait_for_commits(reading)
                reading.restart()
        wait_for_commits(reading)

    assert brokers.a.committed_offsets(group) == {(name, 0): 3}


def test_a_checkpoint_older_than_the_group_is_refused(brokers: Brokers, topic: Topic) -> None:
    # Given a query that continued after a backup of its checkpoint
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    with query(options) as reading:
        read_in_batches(reading, brokers.a, name, 6)
        backup = reading.log[:2]

        # When the backup is restored
        def restored(**more: str) -> str:
            reading.restart(**more)
            reading.log, reading.committed = list(backup), len(backup)
            try:
                for _ in range(3):
                    brokers.a.produce(name, ["again"])
                    reading.batch()
                    if reading.reader._enumerator._committer is not None:  # type: ignore[union-attr]
                        wait_for_commits(reading)
            except StaleCheckpointError as error:
                return str(error)
            return ""

        message = restored()
        allowed = restored(allowOldCheckpoint="true")

    # Then the query fails and names the option that overrides the check
    assert "from a backup" in message
    assert "allowOldCheckpoint=true" in message
    assert f"group {group!r} of cluster 'east'" in message
    assert allowed == ""


def test_a_backup_with_a_pending_batch_is_not_replayed(brokers: Brokers, topic: Topic) -> None:
    # Given a backup with a pending batch, and a group with later offsets
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    with query(options) as reading:
        read_in_batches(reading, brokers.a, name, 6)

        # When the backup is restored
        reading.restart()
        del reading.log[3:]
        reading.committed = 2
        with pytest.raises(StaleCheckpointError, match="from a backup"):
            reading.read()

        # Then only the override delivers the batch
        again = reading.restart(allowOldCheckpoint="true").run()

    assert values(again) == {b"2": 1}


def test_a_pending_batch_of_the_newest_checkpoint_is_replayed(brokers: Brokers, topic: Topic) -> None:
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    with query(options) as reading:
        read_in_batches(reading, brokers.a, name, 3)
        brokers.a.produce(name, ["pending"])
        assert reading.plan()
        wait_for_commits(reading)

        assert values(reading.restart().run()) == {b"pending": 1}


def test_commits_of_a_spark_query_are_one_batch_late(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given a running Spark query
    name, group = brokers.a.create_topic(topic("orders")), topic("group")
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", kafka__group__id=group)
    wanted = produce("east", brokers.a, name, 3)
    with start_query(spark, options, tmp_path) as running:
        running.wait_rows(wanted)
        idle = brokers.a.committed_offsets(group)

        # When another batch comes
        wanted += produce("east", brokers.a, name, 4)
        running.wait_rows(wanted)

        # Then the group has the offsets of the batch before
        running.wait_until(lambda: brokers.a.committed_offsets(group) == {(name, 0): 3}, "the first batch's commit")

    assert idle == {}


def test_a_groups_offsets_of_other_topics_stay(brokers: Brokers, topic: Topic) -> None:
    mine, other, group = brokers.a.create_topic(topic("mine")), brokers.a.create_topic(topic("other")), topic("group")
    brokers.a.commit_offsets(group, {(other, 0): 7})

    with query(
        static(document(east=at(brokers.a, mine)), startingOffsets="earliest", kafka__group__id=group)
    ) as reading:
        read_in_batches(reading, brokers.a, mine, 2)

    assert brokers.a.committed_offsets(group) == {(other, 0): 7, (mine, 0): 1}
