"""A truncated log that has grown again: the leader epoch of the last read record reveals the truncation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import encode, fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.store import StateLocation
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, reading
from tests.support.streams import cluster, produce, stream, write_metadata

pytestmark = [pytest.mark.both_readers, pytest.mark.deep("a truncation at each moment")]


@pytest.fixture
def truncated(elected: KafkaCluster, brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """Yield a query that has read 20 records of epoch 0; the log was then truncated at 10, and has grown again."""
    east, west = cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", east, west))
    with reading(path, readTimeout="10s", clusterFailurePolicy="stall") as run:
        run.batch(crash="partitioned")
        document = run.document
        save(run, with_next_offset(document, 20))
        yield run


def with_next_offset(document: OffsetDocument, following: int, **more: object) -> OffsetDocument:
    topic = replace(document.clusters["east"].topics["orders"], next={0: following}, epochs={0: 0}, starts={})
    east = replace(document.clusters["east"], topics={"orders": topic})
    return replace(document, clusters={**document.settled().clusters, "east": east}, **more)  # type: ignore[arg-type]


def save(run: SourceRun, *documents: OffsetDocument, committed: int = 1) -> None:
    run.stop()
    run.offsets = [json.dumps(encode(document)) for document in documents]
    run.commits = committed


def test_a_truncation_is_noticed(truncated: SourceRun) -> None:
    with pytest.raises(DataLossError, match=r"truncated at 10, .*next offset 20\b"):
        truncated.batch()


def records_from_10(truncated: SourceRun) -> list[int]:
    rows = truncated.rows()
    assert set(rows.values()) == {1}
    return sorted(row.offset for row in rows if row.cluster == "east")


def test_reading_resumes_where_the_log_was_truncated(truncated: SourceRun) -> None:
    # Given a user who accepts all losses; records 10..20 of the new log have not been read
    truncated.restart(failOnDataLoss="false")
    truncated.until(lambda: truncated.next["east", "orders"] == {0: 30}, "the end of the log")
    assert records_from_10(truncated) == list(range(10, 30))
    assert truncated.document.clusters["east"].topics["orders"].epochs[0] > 0


def test_an_accepted_truncation_is_resumed_where_it_was(truncated: SourceRun, path: Path) -> None:
    # Given an acceptance, as the tool writes it
    with pytest.raises(DataLossError):
        truncated.batch()
    document = truncated.document
    topic_id = document.clusters["east"].topics["orders"].topic_id
    loss = {"kind": "data-loss", "cluster": "east", "topic": "orders", "partition": 0, "topicId": topic_id}
    accepted = {**loss, "from": 20, "to": 10, "document": document.number, "epoch": 0}
    StateLocation(str(path.parent / "state")).write(f"{document.query}/accepted/000001-x.json", accepted)

    truncated.until(lambda: truncated.next["east", "orders"] == {0: 30}, "the end of the log")
    assert records_from_10(truncated) == list(range(10, 30))


def test_a_truncation_between_plan_and_reading_is_resumed(truncated: SourceRun) -> None:
    # Given a pending batch that was planned in epoch 0 up to offset 25, before the log was truncated at 10
    first = truncated.document
    save(truncated, first, with_next_offset(first, 25, number=first.number + 1, previous=fingerprint(first)))
    truncated.restart(failOnDataLoss="false")

    truncated.until(lambda: truncated.next["east", "orders"] == {0: 30}, "the end of the log")

    # Then nothing of the new log is lost or read twice
    assert records_from_10(truncated) == list(range(10, 30))


def test_an_abandoned_range_shows_its_truncation(truncated: SourceRun, path: Path) -> None:
    # Given a pending batch whose range was truncated since, and which a user abandons
    first = truncated.document
    pending = with_next_offset(first, 25, number=first.number + 1, previous=fingerprint(first))
    save(truncated, first, pending)
    with pytest.raises(DataLossError, match=r"abandon app\.yaml east/orders/0"):
        truncated.batch()
    left_out = tuple(ranges_between(first, pending))
    key = (fingerprint(first), fingerprint(pending))
    made = Amendment(pending.query, pending.number, *key, left_out, {"east": "abandoned"}, 1)
    truncated.stop()
    StateLocation(str(path.parent / "state")).save_amendment(made)
    truncated.batch()

    with pytest.raises(DataLossError, match=r"truncated at 10, .*next offset 20\b"):
        truncated.batch()


def test_a_truncation_is_noticed_when_its_cluster_comes_back(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    # Given a cluster that was removed before the next batch
    write_metadata(path, stream("orders", cluster("west", brokers.b, [orders])))
    truncated.until(lambda: bool(truncated.parked), "east to be parked")
    assert truncated.parked == {("east", "orders"): {0: 20}}

    # When it is added back
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])))

    # Then the query fails, since it would skip the new records 10..20
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def test_a_truncation_is_noticed_when_its_cluster_is_renamed(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    named = cluster("eastern", elected, ["orders"], renamedFrom="east"), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", *named))
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def test_a_truncation_is_noticed_after_a_left_out_range(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    # Given a pending batch up to offset 25 of the old log, and the removal of its cluster
    first = truncated.document
    pending = with_next_offset(first, 25, number=first.number + 1, previous=fingerprint(first))
    save(truncated, first, pending)
    write_metadata(path, stream("orders", cluster("west", brokers.b, [orders])))
    truncated.batch()
    truncated.until(lambda: truncated.parked == {("east", "orders"): {0: 20}}, "east to be parked at its start")

    # When it is added back, with its log truncated at 10 and grown again
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])))
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def accept_loss(truncated: SourceRun, elected: KafkaCluster, path: Path) -> int:
    """Accept the loss, as the tool `accept` recorded it before it knew where the log was cut; return the log's end."""
    end = elected.end_offsets("orders")[0]
    save(truncated, with_next_offset(truncated.document, end + 10))
    with pytest.raises(DataLossError, match="truncated"):
        truncated.batch()
    truncated.stop()
    document = truncated.document
    topic_id = document.clusters["east"].topics["orders"].topic_id
    loss = {"kind": "data-loss", "cluster": "east", "topic": "orders", "partition": 0, "topicId": topic_id}
    StateLocation(str(path.parent / "state")).write(
        f"{document.query}/accepted/000001-x.json", {**loss, "from": end + 10, "to": end, "document": document.number}
    )
    return end


def test_an_accepted_truncation_is_reported_once(truncated: SourceRun, elected: KafkaCluster, path: Path) -> None:
    # Given a log that is shorter than the saved offset, and an accepted loss
    end = accept_loss(truncated, elected, path)
    truncated.until(lambda: truncated.next["east", "orders"] == {0: end}, "reading to continue at the end")

    # When records arrive afterwards
    produce("east", elected, "orders", 3)

    # Then they are read, after the records since the truncation
    truncated.until(lambda: truncated.next["east", "orders"] == {0: end + 3}, "the new records")
    assert records_from_10(truncated) == list(range(10, end + 3))
