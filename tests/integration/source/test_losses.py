"""Records that are gone, and records that only seem to be: what a reader and a planner make of a log that was cut off,
of one that has merely had other leaders, and of a batch whose cluster or topic is no more what it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from dynamic_kafka.driver import observer
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import ClusterUnreachableError, DataLossError, OffsetDocumentError, ReadTimeoutError
from dynamic_kafka.executor import consumer_cache
from dynamic_kafka.executor.consumer_cache import CONSUMERS
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import SplitRange
from tests.support import source_run
from tests.support.fixtures import Brokers, FreshCluster
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, read
from tests.support.streams import Row, Rows, assert_rows, cluster, produce, stream, write_metadata

Topic = Callable[[str], str]


def reading(path: Path, **options: object) -> AbstractContextManager[SourceRun]:
    """A query on the stream `orders` that soon loses patience."""
    return source_run.reading(path, **{"readTimeout": "3s", **options})


# -- epochs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def task(elected: KafkaCluster, path: Path) -> ReadTask:
    """A task of that log, to be given other ranges, with all the patience that a busy machine asks for."""
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"])))
    with reading(path, readTimeout="30s") as run:
        run.batch(crash="partitioned")
        [made] = run.tasks
    return made


@pytest.fixture
def newest(elected: KafkaCluster) -> int:
    """The epoch at the log's end, as the cluster tells it."""
    split = TopicPartition("orders", 0)
    found = elected.admin.list_offsets({split: OffsetSpec.latest()})[split].result(20).leader_epoch
    assert found is not None
    return int(found)


def offsets_read(task: ReadTask, start: int, end: int, epoch: int) -> list[int]:
    part = SplitRange(task.part.split, start, end, epoch)
    return [row.offset for row in read(replace(task, part=part))]


@pytest.fixture(params=["cold", "warm"])
def consumer(request: pytest.FixtureRequest, task: ReadTask) -> None:
    """A consumer that knows nothing, and one that has read the partition before."""
    CONSUMERS.close()
    if request.param == "warm":
        assert offsets_read(task, 0, 30, -1) == list(range(30))


@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize("identified", [True, False], ids=["identified", "unidentified"])
def test_a_log_that_was_truncated_and_has_grown_again_is_noticed_by_its_epoch(task: ReadTask, identified: bool) -> None:
    # Given a range that was planned when epoch 0 went up to 20, and a log in which it ended at 10
    task = task if identified else replace(task, kafka_id=None)

    with pytest.raises(DataLossError, match=r"data loss: cannot read east/orders\[0\] 20\.\.30 from offset 20"):
        offsets_read(task, 20, 30, 0)


@pytest.mark.usefixtures("consumer")
def test_after_a_truncation_that_is_accepted_all_that_the_log_still_holds_is_read(task: ReadTask) -> None:
    assert offsets_read(replace(task, fail_on_data_loss=False), 20, 30, 0) == list(range(20, 30))


@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize(("start", "end"), [(0, 10), (5, 15), (9, 10), (10, 20), (10, 30)])
def test_a_log_that_has_only_had_other_leaders_is_whole(task: ReadTask, start: int, end: int) -> None:
    # Epoch 0 ended at 10: what starts there, or before, is what was planned
    assert offsets_read(task, start, end, 0) == list(range(start, end))


@pytest.mark.usefixtures("consumer")
@pytest.mark.parametrize("start", [10, 20, 29])
def test_the_epoch_of_today_s_leader_is_no_truncation(task: ReadTask, newest: int, start: int) -> None:
    assert newest > 0
    assert offsets_read(task, start, 30, newest) == list(range(start, 30))


def test_one_consumer_goes_from_range_to_range_at_any_pace(task: ReadTask, newest: int) -> None:
    # A client that is not through with one assignment refuses to seek in the next
    found = [offset for start in range(10, 30) for offset in offsets_read(task, start, start + 1, newest)]
    assert found == list(range(10, 30))


class Unready(Consumer):
    """A consumer whose threads are not through with an assignment for so many seeks, as they now and then are."""

    refusals = 0
    code = KafkaError._STATE

    def seek(self, partition: TopicPartition) -> None:
        if Unready.refusals:
            Unready.refusals -= 1
            raise KafkaException(KafkaError(self.code))
        super().seek(partition)


@pytest.fixture
def unready(task: ReadTask, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Unready]]:
    """The class of the consumer that reads now; it has read the partition before."""
    CONSUMERS.close()
    monkeypatch.setattr(consumer_cache, "Consumer", Unready)
    assert offsets_read(task, 0, 30, -1) == list(range(30))
    yield Unready
    Unready.refusals = 0
    CONSUMERS.close()


@pytest.mark.parametrize("code", [KafkaError._STATE, KafkaError._PREV_IN_PROGRESS], ids=["state", "in progress"])
def test_a_truncation_is_noticed_by_a_client_that_refuses_to_seek_at_first(
    task: ReadTask, unready: type[Unready], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unready, "code", code)
    unready.refusals = 3
    with pytest.raises(DataLossError, match="from offset 20"):
        offsets_read(task, 20, 30, 0)
    assert unready.refusals == 0


def test_a_client_that_refuses_to_seek_for_good_is_given_up_in_time(task: ReadTask, unready: type[Unready]) -> None:
    unready.refusals = 1_000_000
    with pytest.raises(ReadTimeoutError, match="cluster=east"):
        offsets_read(replace(task, read_timeout_s=0.5), 20, 30, 0)


def test_a_query_over_restarts_of_its_broker_loses_nothing(fresh_cluster: FreshCluster, path: Path) -> None:
    # Given a query whose saved offsets carry the epochs of their time
    broker = fresh_cluster("restarting")
    broker.create_topic("orders")
    write_metadata(path, stream("orders", cluster("east", broker, ["orders"])))
    wanted = produce("east", broker, "orders", 10)
    with reading(path, readTimeout="20s") as run:
        run.until_rows(wanted)
        # When the broker restarts: before anything is produced, and twice before the next record
        for restarts in (1, 2, 1):
            for _ in range(restarts):
                broker.restart()
                run.restart()
            wanted += produce("east", broker, "orders", 5)
            run.until_rows(wanted)
        saved = run.document.clusters["east"].topics["orders"].epochs

    # Then the epochs went up, and no record was lost or called lost
    assert saved[0] > 1


# -- transactions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_pending_batch_waits_for_a_transaction_that_it_may_not_see_yet(
    brokers: Brokers, topic: Topic, path: Path, fail: str
) -> None:
    # Given a batch that was planned up to behind an open transaction, and is replayed under read_committed
    orders = brokers.a.create_topic(topic("orders"))
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    wanted = produce("east", brokers.a, orders, 5)
    transaction = brokers.a.transaction()
    transaction.produce(orders, [f"open-{number}" for number in range(5)])
    wanted += Rows(Row("east", orders, 0, 5 + number, f"open-{number}") for number in range(5))
    with reading(path, readTimeout="5s", failOnDataLoss=fail, **{"kafka.socket.timeout.ms": 20_000}) as run:
        run.batch(crash="logged")
        run.restart(**{"kafka.isolation.level": "read_committed"})

        # When it is replayed before the transaction is decided, and after it
        with pytest.raises(ReadTimeoutError, match="A very large aborted transaction"):
            run.batch()
        assert run.rows() == Rows()
        transaction.commit()
        run.restart(readTimeout="20s")

        # Then nothing of it is lost
        run.until_rows(wanted)


# -- topics that are gone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["with the topic only", "with another topic"])
def test_a_pending_batch_whose_topic_was_deleted_says_so(brokers: Brokers, topic: Topic, path: Path, how: str) -> None:
    gone, kept = (brokers.a.create_topic(topic(name)) for name in ("gone", "kept"))
    topics = [gone, kept] if how == "with another topic" else [gone]
    write_metadata(path, stream("orders", cluster("east", brokers.a, topics)))
    for name in topics:
        produce("east", brokers.a, name, 5)
    with reading(path) as run:
        run.batch(crash="logged")
        brokers.a.delete_topic(gone)

        with pytest.raises(DataLossError, match=rf"east/{gone}\[0\].*the topic no longer exists"):
            run.batch()


def test_a_pending_batch_whose_topic_was_deleted_goes_on_with_the_rest_when_losses_are_accepted(
    brokers: Brokers, topic: Topic, path: Path
) -> None:
    gone, kept = (brokers.a.create_topic(topic(name)) for name in ("gone", "kept"))
    write_metadata(path, stream("orders", cluster("east", brokers.a, [gone, kept])))
    produce("east", brokers.a, gone, 5)
    wanted = produce("east", brokers.a, kept, 5)
    with reading(path, failOnDataLoss="false") as run:
        run.batch(crash="logged")
        brokers.a.delete_topic(gone)

        assert run.batch()
        assert_rows(run.rows(), wanted)


# -- the first plan ----------------------------------------------------------------------------------------------------


@pytest.fixture
def away(fresh_cluster: FreshCluster, monkeypatch: pytest.MonkeyPatch) -> KafkaCluster:
    """A cluster with 20 records in `orders` that hangs, and plans that do not wait for it long."""
    made = fresh_cluster("away")
    made.create_topic("orders")
    produce("west", made, "orders", 20)
    made.pause()
    monkeypatch.setattr(observer, "FIRST_GRACE_S", 0.5)
    return made


STALL: dict[str, object] = {"clusterFailurePolicy": "stall", "kafka.socket.timeout.ms": 1000}


@pytest.mark.parametrize(
    "starts",
    [
        {"startingOffsets": json.dumps({"west": {"orders": {"0": 15}}})},
        {"startingOffsets": "latest"},
        {"startingTimestamp": "1"},
        {"endingOffsets": "latest"},
    ],
    ids=["offsets", "latest", "timestamp", "bounded"],
)
def test_under_stall_a_first_plan_that_would_miss_a_start_is_refused_by_name(
    brokers: Brokers, topic: Topic, path: Path, away: KafkaCluster, starts: dict[str, object]
) -> None:
    # Given that what is found later starts at earliest
    orders = brokers.a.create_topic(topic("orders"))
    near = cluster("east", brokers.a, [orders], startingOffsets="earliest")
    write_metadata(path, stream("orders", near, cluster("west", away, ["orders"])))
    with reading(path, **STALL, **starts) as run:
        try:
            # When the cluster that the start is for does not answer
            with pytest.raises(ClusterUnreachableError, match="cluster=west"):
                run.batch()
            assert run.offsets == []
        finally:
            away.resume()


def test_under_stall_a_first_plan_that_starts_at_earliest_goes_on_without_the_one_that_is_away(
    brokers: Brokers, topic: Topic, path: Path, away: KafkaCluster
) -> None:
    orders = brokers.a.create_topic(topic("orders"))
    wanted = produce("east", brokers.a, orders, 3)
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders]), cluster("west", away, ["orders"])))
    with reading(path, **STALL) as run:
        try:
            run.until_rows(wanted)
        finally:
            away.resume()
        run.until(lambda: run.rows().total() == 23, "the other cluster's records from their beginning")


# -- the end of a bounded run ------------------------------------------------------------------------------------------


def test_a_bounded_run_is_not_finished_while_its_last_batch_has_left_something_out(
    brokers: Brokers, topic: Topic, path: Path
) -> None:
    # Given the last batch of a bounded run, and an amendment that takes a range out of it
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

        # Then the planner says that it is finished only when nothing is left
        assert after_one == (5, True, None)
        assert after_two == (10, True, True)
        assert_rows(run.rows(), wanted)
        assert not more


# -- documents that lead nowhere ---------------------------------------------------------------------------------------


def test_a_document_leads_nowhere_by_itself(brokers: Brokers, topic: Topic, path: Path) -> None:
    orders = brokers.a.create_topic(topic("orders"))
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    produce("east", brokers.a, orders, 5)
    with reading(path) as run:
        run.batch()
        run.restart()
        saved = json.loads(run.offsets[-1])

        assert run.enumerator.tasks(saved, saved) == []


def test_documents_that_do_not_follow_each_other_are_refused(brokers: Brokers, topic: Topic, path: Path) -> None:
    orders = brokers.a.create_topic(topic("orders"))
    write_metadata(path, stream("orders", cluster("east", brokers.a, [orders])))
    with reading(path) as run:
        for _ in range(3):
            produce("east", brokers.a, orders, 5)
            run.batch()
        run.restart()
        first, _, third = map(json.loads, run.offsets)

        with pytest.raises(OffsetDocumentError, match="does not follow"):
            run.enumerator.tasks(first, third)
