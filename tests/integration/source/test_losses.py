"""Records that are lost, and records that only seem lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from dynamic_kafka.driver import observer
from dynamic_kafka.errors import ClusterUnreachableError, DataLossError, OffsetDocumentError, ReadTimeoutError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading import native_connection
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.splits import SplitRange
from dynamic_kafka.state.store import StateLocation
from tests.support import source_run
from tests.support.fixtures import Brokers, FreshCluster, Topic
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, read
from tests.support.streams import Row, Rows, assert_rows, cluster, produce, stream, write_metadata

DEEP = pytest.mark.deep("each way to lose a record, or not to")

pytestmark = pytest.mark.both_readers


def reading(path: Path, **options: object) -> AbstractContextManager[SourceRun]:
    """Return a query on the stream `orders` with a short `readTimeout`."""
    return source_run.reading(path, **{"readTimeout": "3s", **options})


# -- epochs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def task(elected: KafkaCluster, path: Path) -> ReadTask:
    """Return a task of that log, for tests to change its range, with a timeout for busy machines."""
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"])))
    with reading(path, readTimeout="30s") as run:
        run.batch(crash="partitioned")
        [made] = run.tasks
    return made


@pytest.fixture
def newest(elected: KafkaCluster) -> int:
    """Return the leader epoch at the log's end."""
    split = TopicPartition("orders", 0)
    epoch = elected.admin.list_offsets({split: OffsetSpec.latest()})[split].result(20).leader_epoch
    assert epoch is not None
    return int(epoch)


def offsets_read(task: ReadTask, start: int, end: int, epoch: int) -> list[int]:
    part = SplitRange(task.part.split, start, end, epoch)
    return [row.offset for row in read(replace(task, part=part))]


@pytest.fixture(params=["cold", "warm"])
def consumer(request: pytest.FixtureRequest, task: ReadTask) -> None:
    """Use a new consumer, and one that has read the partition before."""
    CONSUMERS.close()
    if request.param == "warm":
        assert offsets_read(task, 0, 30, -1) == list(range(30))


@DEEP
@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize("identified", [True, False], ids=["identified", "unidentified"])
@pytest.mark.sampled
def test_a_truncated_log_is_noticed_by_its_leader_epoch(task: ReadTask, identified: bool) -> None:
    # Given a range that was planned while epoch 0 had offsets up to 20, and a log in which it ends at 10
    task = task if identified else replace(task, kafka_id=None)

    with pytest.raises(DataLossError, match=r"east/orders\[0\] 20\.\.30 .*offset 20:"):
        offsets_read(task, 20, 30, 0)


@DEEP
@pytest.mark.usefixtures("consumer")
def test_a_truncated_range_is_left_to_the_next_plan(task: ReadTask) -> None:
    # The next plan goes back to offset 10, and reads 20..30 then
    assert offsets_read(replace(task, fail_on_data_loss=False), 20, 30, 0) == []


@DEEP
@pytest.mark.usefixtures("consumer")
@pytest.mark.sampled
def test_records_of_a_later_leader_end_a_range(task: ReadTask) -> None:
    # Given a range that was planned in epoch 0, in a log that was truncated at 10 since
    part = SplitRange(task.part.split, 5, 20, 0, end_epoch=0)
    with pytest.raises(DataLossError, match=r"offset 10: .*truncated: offset 10 is"):
        list(read(replace(task, part=part)))
    accepted = replace(task, part=part, fail_on_data_loss=False)
    assert [row.offset for row in read(accepted)] == list(range(5, 10))


@DEEP
@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize(("start", "end"), [(0, 10), (5, 15), (9, 10), (10, 20), (10, 30)])
@pytest.mark.sampled
def test_a_leader_change_alone_is_no_truncation(task: ReadTask, start: int, end: int) -> None:
    # Epoch 0 ends at 10: ranges that start there or before are unchanged
    assert offsets_read(task, start, end, 0) == list(range(start, end))


@DEEP
@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize("start", [10, 20, 29])
@pytest.mark.sampled
def test_the_present_leaders_epoch_is_no_truncation(task: ReadTask, newest: int, start: int) -> None:
    assert newest > 0
    assert offsets_read(task, start, 30, newest) == list(range(start, 30))


@DEEP
def test_one_consumer_reads_many_ranges_at_once(task: ReadTask, newest: int) -> None:
    # A client refuses to seek until it has processed the assignment
    offsets = [offset for start in range(10, 30) for offset in offsets_read(task, start, start + 1, newest)]
    assert offsets == list(range(10, 30))


class Unready(Consumer):
    """A consumer that refuses some seeks, as if its threads had not processed the assignment yet."""

    refusals = 0
    code = KafkaError._STATE

    def seek(self, partition: TopicPartition) -> None:
        if Unready.refusals:
            Unready.refusals -= 1
            raise KafkaException(KafkaError(self.code))
        super().seek(partition)


@pytest.fixture
def unready(task: ReadTask, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Unready]]:
    """Yield the class of the cached consumer, which has read the partition before."""
    CONSUMERS.close()
    monkeypatch.setattr(native_connection, "Consumer", Unready)
    assert offsets_read(task, 0, 30, -1) == list(range(30))
    yield Unready
    Unready.refusals = 0
    CONSUMERS.close()


@DEEP
@pytest.mark.parametrize("code", [KafkaError._STATE, KafkaError._PREV_IN_PROGRESS], ids=["state", "in progress"])
def test_a_truncation_is_noticed_after_refused_seeks(
    task: ReadTask, unready: type[Unready], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unready, "code", code)
    unready.refusals = 3
    with pytest.raises(DataLossError, match="from offset 20"):
        offsets_read(task, 20, 30, 0)
    assert unready.refusals == 0


@DEEP
def test_a_client_that_refuses_every_seek_times_out(task: ReadTask, unready: type[Unready]) -> None:
    unready.refusals = 1_000_000
    with pytest.raises(ReadTimeoutError, match="cluster=east"):
        offsets_read(replace(task, read_timeout_s=0.5), 20, 30, 0)


def test_restarts_of_a_broker_lose_nothing(fresh_cluster: FreshCluster, path: Path) -> None:
    # Given a query whose saved offsets have leader epochs
    broker = fresh_cluster("restarting")
    broker.create_topic("orders")
    write_metadata(path, stream("orders", cluster("east", broker, ["orders"])))
    wanted = produce("east", broker, "orders", 10)
    with reading(path, readTimeout="20s") as run:
        run.until_rows(wanted)
        # When the broker restarts: once before a record, then twice before the next one
        for restarts in (1, 2, 1):
            for _ in range(restarts):
                broker.restart()
                run.restart()
            wanted += produce("east", broker, "orders", 5)
            run.until_rows(wanted)
        saved = run.document.clusters["east"].topics["orders"].epochs

    # Then the epochs increase, and no record is lost or reported as lost
    assert saved[0] > 1


# -- transactions ------------------------------------------------------------------------------------------------------


@DEEP
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_replay_waits_for_an_open_transaction(brokers: Brokers, orders: str, path: Path, fail: str) -> None:
    # Given a batch that ends behind an open transaction, and is replayed under read_committed
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    transaction = brokers.a.transaction()
    transaction.produce(orders, [f"open-{number}" for number in range(5)])
    wanted += Rows(Row("east", orders, 0, 5 + number, f"open-{number}") for number in range(5))
    with reading(path, readTimeout="5s", failOnDataLoss=fail, **{"kafka.socket.timeout.ms": 20_000}) as run:
        run.batch(crash="logged")
        run.restart(**{"kafka.isolation.level": "read_committed"})

        # When it is replayed before and after the end of the transaction
        with pytest.raises(ReadTimeoutError, match="A very large aborted transaction"):
            run.batch()
        assert run.rows() == Rows()
        transaction.commit()
        run.restart(readTimeout="20s")

        # Then no record of it is lost
        run.until_rows(wanted)


@DEEP
def test_an_accepted_cut_below_the_planned_end_ends_the_range(brokers: Brokers, orders: str, path: Path) -> None:
    # Given a range that was planned up to 40, in a log that ends at 8 now, within an open transaction
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    produce("east", brokers.a, orders, 5)
    more = {"failOnDataLoss": "false", "kafka.isolation.level": "read_committed", "kafka.socket.timeout.ms": 20_000}
    with reading(path, **more) as run:
        run.batch(crash="partitioned")
        [task] = run.tasks
    transaction = brokers.a.transaction()
    transaction.produce(orders, ["open"] * 3)
    patient = replace(task, read_timeout_s=8.0)

    # Then the wait for the transaction has its limit, and behind it the range is read up to the log's end
    with pytest.raises(ReadTimeoutError, match="A very large aborted transaction"):
        offsets_read(patient, 0, 40, -1)
    transaction.commit()
    assert offsets_read(patient, 0, 40, -1) == list(range(8))

    # And so it is if the log was cut at both ends
    brokers.a.delete_records(orders, 0, 5)
    assert offsets_read(patient, 0, 40, -1) == [5, 6, 7]


# -- topics that are gone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["with the topic only", "with another topic"])
def test_a_replay_of_a_deleted_topic_is_data_loss(brokers: Brokers, topic: Topic, path: Path, how: str) -> None:
    gone, kept = (brokers.a.create_topic(topic(name)) for name in ("gone", "kept"))
    topics = [gone, kept] if how == "with another topic" else [gone]
    write_metadata(path, stream("orders", cluster("east", brokers.a, topics)))
    for name in topics:
        produce("east", brokers.a, name, 5)
    with reading(path) as run:
        run.batch(crash="logged")
        brokers.a.delete_topic(gone)

        with pytest.raises(DataLossError, match=rf"east/{gone}\[0\].*topic no longer"):
            run.batch()


# -- the first plan ----------------------------------------------------------------------------------------------------


@pytest.fixture
def away(shaky: KafkaCluster, orders: str, monkeypatch: pytest.MonkeyPatch) -> KafkaCluster:
    """Return a cluster with 20 records in `orders` that hangs; plans wait for it only shortly."""
    produce("west", shaky, orders, 20)
    shaky.pause()
    monkeypatch.setattr(observer, "FIRST_GRACE_S", 0.5)
    return shaky


STALL: dict[str, object] = {"clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 1000}


@DEEP
@pytest.mark.parametrize(
    "starts",
    [
        {"startingOffsets": json.dumps({"west": {"TOPIC": {"0": 15}}})},
        {"startingOffsets": "latest"},
        {"startingTimestamp": "1"},
        {"endingOffsets": "latest"},
    ],
    ids=["offsets", "latest", "timestamp", "bounded"],
)
def test_stall_refuses_a_first_plan_that_would_miss_a_start(
    brokers: Brokers, orders: str, path: Path, away: KafkaCluster, starts: dict[str, str]
) -> None:
    # Given a start that applies to the first plan only; later clusters start at earliest
    near = cluster("east", brokers.a, [orders], startingOffsets="earliest")
    write_metadata(path, stream("orders", near, cluster("west", away, [orders])))
    with reading(path, **STALL, **{name: value.replace("TOPIC", orders) for name, value in starts.items()}) as run:
        try:
            # When the cluster that the start is for does not answer
            with pytest.raises(ClusterUnreachableError, match="cluster=west"):
                run.batch()
            assert run.offsets == []
        finally:
            away.resume()


@DEEP
def test_stall_starts_at_earliest_without_an_absent_cluster(
    brokers: Brokers, orders: str, path: Path, away: KafkaCluster
) -> None:
    wanted = produce("east", brokers.a, orders, 3)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("west", away, [orders])))
    with reading(path, **STALL) as run:
        try:
            run.until_rows(wanted)
        finally:
            away.resume()
        run.until(lambda: run.rows().total() == 23, "the other cluster's records from their beginning")


# -- the end of a bounded run ------------------------------------------------------------------------------------------


@DEEP
def test_a_bounded_run_reads_left_out_ranges_before_it_ends(brokers: Brokers, topic: Topic, path: Path) -> None:
    # Given the last batch of a bounded run, and an amendment that leaves out a range of it
    one, two = (brokers.a.create_topic(topic("orders")) for _ in range(2))
    wanted = produce("east", brokers.a, one, 5) + produce("east", brokers.a, two, 5)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [one, two])))
    with reading(path, endingOffsets="latest") as run:
        run.batch(crash="logged")
        start, end = OffsetDocument(), run.document
        left_out = tuple(part for part in ranges_between(start, end) if part.split.topic == two)
        StateLocation(str(path.parent / "state")).save_amendment(
            Amendment(end.query, end.number, fingerprint(start), fingerprint(end), left_out, {"east": "abandoned"}, 1)
        )

        # When that batch is done, and the one after it
        run.batch()
        after_one = (run.rows().total(), run.document.finished, run.report().get("finished"))
        run.batch()
        after_two = (run.rows().total(), run.document.finished, run.report().get("finished"))
        more = run.batch()

        # Then the planner reports the run as finished only after the left-out range
        assert after_one == (5, True, None)
        assert after_two == (10, True, True)
        assert_rows(run.rows(), wanted)
        assert not more


# -- documents that lead nowhere ---------------------------------------------------------------------------------------


@DEEP
def test_the_same_start_and_end_have_no_tasks(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.batch()
        run.restart()
        saved = json.loads(run.offsets[-1])

        assert run.enumerator.tasks(saved, saved) == []


@DEEP
def test_documents_that_do_not_follow_are_refused(brokers: Brokers, orders: str, path: Path) -> None:
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    with reading(path) as run:
        for _ in range(3):
            produce("east", brokers.a, orders, 5)
            run.batch()
        run.restart()
        first, _, third = map(json.loads, run.offsets)

        with pytest.raises(OffsetDocumentError, match="does not follow"):
            run.enumerator.tasks(first, third)
