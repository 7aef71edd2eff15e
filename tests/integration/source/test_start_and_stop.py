"""The starts and stops of a query by cluster: rows, saved offsets and messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynamic_kafka import register, stop_when_finished
from dynamic_kafka.errors import ClusterError, DataLossError, OptionError
from dynamic_kafka.metadata import LATEST, ClusterMetadata, KafkaMetadataService, KafkaStream
from tests.integration.source.simulated_spark import Query, at, document, numbered, query, read_batch, static, values
from tests.support.fixtures import Brokers, Topic
from tests.support.kafka import KafkaCluster, Record


def create_filled(cluster: KafkaCluster, name: str, prefix: str, count: int = 10, partitions: int = 1) -> str:
    """Create a topic with `count` numbered records in each partition, a second apart, that never expire."""
    cluster.create_topic(name, partitions, {"retention.ms": "-1"})
    for partition in range(partitions):
        contents = [f"{prefix}{partition}.{number}" for number in range(count)]
        cluster.produce(
            name,
            [
                Record(t.encode(), partition=partition, timestamp_ms=timestamp_ms(number))
                for number, t in enumerate(contents)
            ],
        )
    return name


def timestamp_ms(second: int) -> int:
    return 1_700_000_000_000 + second * 1000


def expected_values(prefix: str, start: int, end: int, partition: int = 0) -> Counter[bytes | None]:
    return Counter(f"{prefix}{partition}.{number}".encode() for number in range(start, end))


def commit(cluster: KafkaCluster, group: str, name: str, offsets: dict[int, int]) -> None:
    cluster.commit_offsets(group, {(name, partition): offset for partition, offset in offsets.items()})


# Earliest and latest


def test_earliest_reads_old_and_new_records(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 3)

    with query(static(document(east=at(brokers.a, name)), startingOffsets="earliest")) as reading:
        first = reading.batch()
        brokers.a.produce(name, ["later"])
        second = reading.batch()
        third = reading.plan()

    assert values(first) == expected_values("r", 0, 3)
    assert values(second) == Counter([b"later"])
    assert third is False
    assert reading.offsets() == {("east", name): {0: 4}}


def test_latest_is_the_default_and_reads_only_new_records(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 3)

    with query(static(document(east=at(brokers.a, name)))) as reading:
        first = reading.batch()
        brokers.a.produce(name, ["later"])
        second = reading.batch()

    assert first == []
    assert values(second) == Counter([b"later"])


def test_latest_is_fixed_in_the_first_document(brokers: Brokers, topic: Topic) -> None:
    # Given a first batch that was planned at "latest" and never committed
    name = create_filled(brokers.a, topic("orders"), "r", 3)
    reading = Query(static(document(east=at(brokers.a, name))))
    assert reading.plan()
    anchored = reading.offsets()

    # When records arrive, and the process restarts twice
    brokers.a.produce(name, ["while down"])
    reading.restart()
    replayed = reading.read()
    reading.restart()
    replayed_again = reading.run()
    rows = reading.batch()
    reading.stop()

    # Then no record after the first plan is lost
    assert anchored == {("east", name): {0: 3}}
    assert replayed == replayed_again == []
    assert values(rows) == Counter([b"while down"])


# Committed


def test_committed_starts_at_the_groups_offsets(brokers: Brokers, topic: Topic) -> None:
    name, group = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2), topic("group")
    commit(brokers.a, group, name, {0: 4, 1: 9})

    options = static(
        document(east=at(brokers.a, name)), startingOffsets="committed", kafka__group__id=group, commitOffsets=False
    )
    with query(options) as reading:
        rows = reading.batch()

    assert values(rows) == expected_values("r", 4, 10) + expected_values("r", 9, 10, partition=1)


@pytest.mark.scenario(45)
def test_committed_without_a_commit_names_the_partitions(brokers: Brokers, topic: Topic) -> None:
    name, group = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2), topic("group")
    commit(brokers.a, group, name, {0: 4})

    options = static(document(east=at(brokers.a, name)), startingOffsets="committed", kafka__group__id=group)
    with query(options) as reading, pytest.raises(OptionError) as refused:
        reading.plan()

    assert f"group {group!r} has no committed" in str(refused.value)
    assert f"for east/{name}[1]" in str(refused.value)
    assert "earliest" in str(refused.value)
    assert reading.log == []


# Timestamps


def test_a_timestamp_starts_at_the_first_record_not_older(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10)

    with query(static(document(east=at(brokers.a, name)), startingTimestamp=timestamp_ms(6))) as reading:
        rows = reading.batch()

    assert values(rows) == expected_values("r", 6, 10)


def test_a_timestamp_for_each_partition(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2)
    by_time = json.dumps({"east": {name: {"0": timestamp_ms(8), "1": timestamp_ms(2)}}})

    with query(static(document(east=at(brokers.a, name)), startingOffsetsByTimestamp=by_time)) as reading:
        rows = reading.batch()

    assert values(rows) == expected_values("r", 8, 10) + expected_values("r", 2, 10, partition=1)


def test_timestamps_must_name_every_partition(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2)
    by_time = json.dumps({"east": {name: {"0": timestamp_ms(8)}}})

    with (
        query(static(document(east=at(brokers.a, name)), startingOffsetsByTimestamp=by_time)) as reading,
        pytest.raises(OptionError, match="no timestamp for east/"),
    ):
        reading.plan()


@pytest.mark.scenario(45)
@pytest.mark.parametrize("written", [0, 5], ids=["empty partition", "none as new"])
def test_without_a_newer_record_the_strategy_decides(brokers: Brokers, topic: Topic, written: int) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", written)
    options = static(document(east=at(brokers.a, name)), startingTimestamp=timestamp_ms(100))

    with query(options) as strict, pytest.raises(OptionError) as refused:
        strict.plan()
    with query({**options, "startingOffsetsByTimestampStrategy": "latest"}) as lenient:
        first = lenient.batch()
        brokers.a.produce(name, ["later"])
        second = lenient.batch()

    assert f"no record of east/{name}[0] reaches" in str(refused.value)
    assert "startingOffsetsByTimestampStrategy=latest" in str(refused.value)
    assert (first, values(second)) == ([], Counter([b"later"]))


# Explicit


def test_explicit_offsets_by_cluster(brokers: Brokers, topic: Topic) -> None:
    name = topic("orders")
    for cluster, prefix in ((brokers.a, "a"), (brokers.b, "b")):
        create_filled(cluster, name, prefix, 10, partitions=2)
    starts = json.dumps({"east": {name: {"0": 7, "1": -2}}, "west": {name: {"0": -1, "1": 9}}})

    text = document(east=at(brokers.a, name), west=at(brokers.b, name))
    with query(static(text, startingOffsets=starts)) as reading:
        rows = reading.batch()

    assert values(rows) == expected_values("a", 7, 10) + expected_values("a", 0, 10, 1) + expected_values("b", 9, 10, 1)
    assert reading.offsets() == {("east", name): {0: 10, 1: 10}, ("west", name): {0: 10, 1: 10}}


def test_explicit_offsets_must_name_every_partition(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 1, partitions=2)
    starts = json.dumps({"east": {name: {"0": 1}}})

    with (
        query(static(document(east=at(brokers.a, name)), startingOffsets=starts)) as reading,
        pytest.raises(OptionError, match=r"no offset for east/.*\[1\]"),
    ):
        reading.plan()


@pytest.mark.parametrize("ends", [None, "latest", 9])
def test_an_offset_behind_the_end_of_the_log_is_data_loss(
    brokers: Brokers, topic: Topic, ends: str | int | None
) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 3)
    starts = json.dumps({"east": {name: {"0": 7}}})
    ending = {"endingOffsets": json.dumps({"east": {name: {"0": ends}}}) if isinstance(ends, int) else ends}

    with (
        query(
            static(document(east=at(brokers.a, name)), startingOffsets=starts, **(ending if ends else {}))
        ) as reading,
        pytest.raises(DataLossError, match=r"east/.*log ends at 3, .*next offset 7\b"),
    ):
        reading.plan()


@pytest.mark.parametrize(
    ("place", "message"), [(("eest", 0), "cluster 'eest'"), (("east", 1), r"east/orders-\d+\[1\]")]
)
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_offsets_of_missing_clusters_or_partitions_are_refused(
    brokers: Brokers, topic: Topic, option: str, place: tuple[str, int], message: str
) -> None:
    # Given a misspelt cluster, or a missing partition: an ignored start would skip records
    name = create_filled(brokers.a, topic("orders"), "r", 3)
    cluster, partition = place
    positions = json.dumps({cluster: {name: {"0": 1, str(partition): 1}}})
    options = static(document(east=at(brokers.a, name))) | {option: positions}

    with query(options) as reading, pytest.raises(OptionError, match=message):
        reading.plan()


def test_assigning_a_missing_partition_is_refused(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 1)
    options = {"kafka.bootstrap.servers": brokers.a.bootstrap, "assign": json.dumps({name: [0, 4]})}

    with query(options) as reading, pytest.raises(OptionError, match=r"partitions to assign.*\[4\]"):
        reading.plan()


def test_sparks_json_for_a_single_cluster(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2)
    options = {
        "kafka.bootstrap.servers": brokers.a.bootstrap,
        "subscribe": name,
        "startingOffsets": json.dumps({name: {"0": 8, "1": -2}}),
    }

    with query(options) as reading:
        rows = reading.batch()

    assert values(rows) == expected_values("r", 8, 10) + expected_values("r", 0, 10, partition=1)
    assert {(row["kafka_cluster"], row["kafka_stream"]) for row in rows} == {("default", name)}


def test_a_pattern_skips_kafkas_own_topics(brokers: Brokers, topic: Topic) -> None:
    # Given a cluster with groups and transactions
    name = brokers.a.create_topic(topic("orders"))
    commit(brokers.a, topic("group"), name, {0: 0})
    with brokers.a.transaction() as transaction:
        transaction.produce(name, ["x"])
    internal = {"__consumer_offsets", "__transaction_state"}
    assert internal <= set(brokers.a.admin.list_topics(timeout=10).topics)

    with query({"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribePattern": ".*"}) as reading:
        reading.plan()
        read = {topic_name for _, topic_name in reading.offsets()}

    assert name in read
    assert not read & internal


@pytest.mark.scenario(45)
def test_a_topic_that_does_not_exist_is_named(brokers: Brokers, topic: Topic) -> None:
    there, missing = create_filled(brokers.a, topic("orders"), "r", 1), topic("nowhere")

    with (
        query(static(document(east=at(brokers.a, there, missing)), startingOffsets="earliest")) as reading,
        pytest.raises(ClusterError) as refused,
    ):
        reading.plan()

    assert refused.value.cluster == "east"
    assert f"has no topic {missing!r}" in str(refused.value)
    assert there not in str(refused.value)


# Per cluster


@pytest.mark.scenario(5)
def test_each_cluster_starts_as_its_metadata_says(brokers: Brokers, topic: Topic) -> None:
    # Given three clusters with starts of their own, which override the option
    name = topic("orders")
    for cluster, prefix in zip(brokers, "abc", strict=True):
        create_filled(cluster, name, prefix, 10)
    text = document(
        east=at(brokers.a, name, startingOffsets="earliest"),
        west=at(brokers.b, name, startingOffsets={name: {"0": 4}}),
        south=at(brokers.c, name, startingOffsets={"timestamp": timestamp_ms(7)}),
    )

    # When the stream is read without an end
    with query(static(text, startingOffsets="latest")) as reading:
        first = reading.batch()
        for cluster in brokers:
            cluster.produce(name, ["more"])
        second = reading.batch()

    # Then each cluster starts at its own
    assert values(first) == expected_values("a", 0, 10) + expected_values("b", 4, 10) + expected_values("c", 7, 10)
    assert values(second) == Counter({b"more": 3})
    assert reading.offsets() == {(cluster, name): {0: 11} for cluster in ("east", "west", "south")}
    assert not reading.saved.bounded


@pytest.mark.parametrize("option", ["endingOffsets", "endingOffsetsByTimestamp"])
def test_explicit_ends_must_name_every_partition(brokers: Brokers, topic: Topic, option: str) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2)
    given = {"kafka.bootstrap.servers": brokers.a.bootstrap, "subscribe": name, option: json.dumps({name: {"0": 5}})}

    with pytest.raises(OptionError, match=r"endingOffsets name no.*default/.*\[1\].*every partition"):
        read_batch(given)


@pytest.mark.parametrize("by", ["option", "metadata"])
def test_reading_may_end_at_the_groups_offsets(brokers: Brokers, topic: Topic, by: str) -> None:
    name, group = create_filled(brokers.a, topic("orders"), "r", 10), topic("group")
    commit(brokers.a, group, name, {0: 7})
    more = {"stoppingOffsets": "committed"} if by == "metadata" else {}
    given = static(document(east=at(brokers.a, name, **more)), kafka__group__id=group)

    rows = read_batch(given | ({"endingOffsets": "committed"} if by == "option" else {}))

    assert values(rows) == expected_values("r", 0, 7)


@pytest.mark.scenario(6)
@pytest.mark.parametrize("limit", [None, 4], ids=["at once", "over many batches"])
def test_each_cluster_reads_its_exact_range(brokers: Brokers, topic: Topic, limit: int | None) -> None:
    # Given starts and stops for each cluster
    name = topic("orders")
    for cluster, prefix in zip(brokers, "abc", strict=True):
        create_filled(cluster, name, prefix, 10)
    text = document(
        east=at(brokers.a, name, startingOffsets="earliest", stoppingOffsets={name: {"0": 3}}),
        west=at(brokers.b, name, startingOffsets={name: {"0": 4}}, stoppingOffsets={"timestamp": timestamp_ms(8)}),
        south=at(brokers.c, name, startingOffsets={"timestamp": timestamp_ms(7)}, stoppingOffsets="latest"),
    )
    options = static(text) | ({"maxOffsetsPerTrigger": str(limit)} if limit else {})

    # When it is read, and records arrive meanwhile
    with query(options) as reading:
        batches = [reading.batch()]
        for cluster in brokers:
            cluster.produce(name, ["too late"])
        batches += reading.drain()
        report = reading.reader.reportLatestOffset()

    # Then exactly the ranges are read, and the document is finished
    rows = [row for batch in batches for row in batch]
    assert values(rows) == expected_values("a", 0, 3) + expected_values("b", 4, 8) + expected_values("c", 7, 10)
    assert reading.offsets() == {("east", name): {0: 3}, ("west", name): {0: 8}, ("south", name): {0: 10}}
    assert reading.saved.finished
    assert report["finished"] is True


def test_a_batch_reads_the_exact_range_of_each_cluster(brokers: Brokers, topic: Topic) -> None:
    name = topic("orders")
    for cluster, prefix in ((brokers.a, "a"), (brokers.b, "b")):
        create_filled(cluster, name, prefix, 10)
    text = document(
        east=at(brokers.a, name, startingOffsets={name: {"0": 2}}, stoppingOffsets={name: {"0": 5}}),
        west=at(brokers.b, name),
    )

    assert values(read_batch(static(text))) == expected_values("a", 2, 5) + expected_values("b", 0, 10)


# Bounded streams


@pytest.mark.scenario(34)
def test_a_bounded_stream_finishes_with_its_last_split(brokers: Brokers, topic: Topic) -> None:
    # Given a short and a long split
    name = brokers.a.create_topic(topic("orders"), 2)
    brokers.a.produce(name, numbered(2, "short"), partition=0)
    brokers.a.produce(name, numbered(20, "long"), partition=1)
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", endingOffsets="latest")

    # When it is read in small batches
    with query({**options, "maxOffsetsPerTrigger": "6"}) as reading:
        states = []
        rows = []
        while reading.plan():
            rows += reading.run()
            done = reading.saved.clusters["east"].topics[name]
            states.append((done.finished(0), done.finished(1), reading.saved.finished))

    # Then the end of the first split does not end the stream
    assert (True, False, False) in states
    assert states[-1] == (True, True, True)
    assert [state[2] for state in states].count(True) == 1
    assert len(rows) == 22


def test_a_bounded_stream_discovers_nothing(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 5)
    options = static(
        document(east=at(brokers.a, name)),
        startingOffsets="earliest",
        endingOffsets="latest",
        maxOffsetsPerTrigger=2,
        partitionDiscoveryInterval="1ms",
    )

    with query(options) as reading:
        rows = reading.batch()
        brokers.a.create_partitions(name, 2)
        brokers.a.produce(name, ["new partition"], partition=1)
        reading.restart()
        rows += [row for batch in reading.drain() for row in batch]

    assert values(rows) == expected_values("r", 0, 5)
    assert reading.offsets() == {("east", name): {0: 5}}
    assert reading.saved.finished


class TakesWestOut(KafkaMetadataService):
    """A service that names `east` and `west`; after the first plan, `west` only in a process's first lookup."""

    planned = False

    def __init__(self, options: Mapping[str, str]) -> None:
        east, west, topic = options["metadataservice.named"].split()
        self._named = {"east": bounded(east, topic), "west": bounded(west, topic)}
        self._looked_up = False

    def get_all_streams(self) -> list[KafkaStream]:
        gone = self.planned and self._looked_up
        named = {"east": self._named["east"]} if gone else self._named
        self._looked_up = True
        return [KafkaStream("orders", named)]

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        return {stream.stream_id: stream for stream in self.get_all_streams()}


def bounded(servers: str, name: str) -> ClusterMetadata:
    return ClusterMetadata((name,), {"bootstrap.servers": servers}, stopping_offsets=LATEST)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_run_bounded_by_metadata_reads_all_that_it_found(
    brokers: Brokers, topic: Topic, monkeypatch: pytest.MonkeyPatch, *, crashes: bool
) -> None:
    name = create_filled(brokers.a, topic("orders"), "a")
    create_filled(brokers.b, name, "b")
    options = {
        "metadataService": f"{__name__}:TakesWestOut",
        "metadataService.named": f"{brokers.a.bootstrap} {brokers.b.bootstrap} {name}",
        "streamIds": "orders",
        "startingOffsets": "earliest",
        "metadataDiscoveryInterval": "1ms",
        "maxOffsetsPerTrigger": "2",
    }
    with query(options) as reading:
        rows = reading.batch()
        monkeypatch.setattr(TakesWestOut, "planned", True)
        if crashes:
            reading.restart()
        rows += [row for batch in reading.drain() for row in batch]

    assert values(rows) == expected_values("a", 0, 10) + expected_values("b", 0, 10)
    assert reading.saved.finished and not reading.saved.parked


def test_a_bounded_stream_without_records_finishes_at_once(brokers: Brokers, topic: Topic) -> None:
    name = brokers.a.create_topic(topic("orders"), 2)
    options = static(document(east=at(brokers.a, name)), startingOffsets="earliest", endingOffsets="latest")

    with query(options) as reading:
        rows = reading.batch()

    assert rows == []
    assert reading.saved.finished


def test_a_stream_may_end_by_time_or_by_offset(brokers: Brokers, topic: Topic) -> None:
    name = create_filled(brokers.a, topic("orders"), "r", 10, partitions=2)
    text = document(east=at(brokers.a, name))
    by_time = json.dumps({"east": {name: {"0": timestamp_ms(3), "1": timestamp_ms(99)}}})
    by_offset = json.dumps({"east": {name: {"0": 1, "1": -1}}})

    read: list[Any] = [
        values(read_batch(static(text, **ending)))
        for ending in (
            {"endingTimestamp": timestamp_ms(5)},
            {"endingOffsetsByTimestamp": by_time},
            {"endingOffsets": by_offset},
        )
    ]

    assert read == [
        expected_values("r", 0, 5) + expected_values("r", 0, 5, 1),
        expected_values("r", 0, 3) + expected_values("r", 0, 10, 1),
        expected_values("r", 0, 1) + expected_values("r", 0, 10, 1),
    ]


@pytest.mark.scenario(34)
def test_stop_when_finished_ends_a_bounded_query(
    brokers: Brokers, topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    # Given a bounded query over two clusters that needs several batches
    name = topic("orders")
    create_filled(brokers.a, name, "a", 30)
    create_filled(brokers.b, name, "b", 10)
    register(spark)
    text = document(east=at(brokers.a, name), west=at(brokers.b, name))
    options = static(text, startingOffsets="earliest", endingOffsets="latest", maxOffsetsPerTrigger=15)
    running = (
        spark.readStream.format("dynamic-kafka")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )

    # When its owner waits for its end
    finished = stop_when_finished(running, timeout_s=120)

    # Then it is stopped after everything was read
    assert finished
    assert not running.isActive
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert Counter(bytes(row.value) for row in rows) == expected_values("a", 0, 30) + expected_values("b", 0, 10)
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) >= 3
