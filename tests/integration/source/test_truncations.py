"""A log that was cut off and has grown again under a query, wherever the range that it would read next begins: with the
leader epoch of what was read the broker tells; without it the new records before the offset are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import DataLossError
from dynamic_kafka.planning.codec import encode, fingerprint
from dynamic_kafka.planning.progress import OffsetDocument
from tests.support.fixtures import Brokers
from tests.support.kafka import KafkaCluster
from tests.support.source_run import SourceRun, reading
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata


@pytest.fixture
def truncated(elected: KafkaCluster, brokers: Brokers, orders: str, path: Path) -> Iterator[SourceRun]:
    """A query that had read up to 20 while epoch 0 went up to there: an unclean election has cut the log off at 10, and
    it has grown again. Its next batch has to say so."""
    east, west = cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", east, west))
    with reading(path, readTimeout="10s", clusterFailurePolicy="stall") as run:
        run.batch(crash="partitioned")
        found = run.document
        saved(run, moved(found, 20))
        yield run


def moved(found: OffsetDocument, following: int, **more: object) -> OffsetDocument:
    topic = replace(found.clusters["east"].topics["orders"], next={0: following}, epochs={0: 0}, starts={})
    east = replace(found.clusters["east"], topics={"orders": topic})
    return replace(found, clusters={**found.settled().clusters, "east": east}, **more)  # type: ignore[arg-type]


def saved(run: SourceRun, *documents: OffsetDocument, committed: int = 1) -> None:
    run.stop()
    run.offsets = [json.dumps(encode(document)) for document in documents]
    run.commits = committed


def test_a_truncation_is_noticed(truncated: SourceRun) -> None:
    with pytest.raises(DataLossError):
        truncated.batch()


def test_a_truncation_is_noticed_when_its_cluster_comes_back(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    # Given a cluster that was taken out, in time before anybody read on
    write_metadata(path, stream("orders", cluster("west", brokers.b, [orders])))
    truncated.until(lambda: bool(truncated.parked), "east to be parked")
    assert truncated.parked == {("east", "orders"): {0: 20}}

    # When it is back
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])))

    # Then the records of 10..20, which nobody has read, are not passed over in silence
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def test_a_truncation_is_noticed_when_its_cluster_is_renamed(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    named = cluster("eastern", elected, ["orders"], renamedFrom="east"), cluster("west", brokers.b, [orders])
    write_metadata(path, stream("orders", *named))
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def test_a_truncation_is_noticed_after_a_batch_that_has_left_the_cluster_out(
    truncated: SourceRun, elected: KafkaCluster, brokers: Brokers, orders: str, path: Path
) -> None:
    # Given a pending batch up to 25 of the old log, whose cluster has gone (an unclean election is why, usually)
    first = truncated.document
    pending = moved(first, 25, number=first.number + 1, previous=fingerprint(first))
    saved(truncated, first, pending)
    write_metadata(path, stream("orders", cluster("west", brokers.b, [orders])))
    truncated.batch()
    truncated.until(lambda: truncated.parked == {("east", "orders"): {0: 20}}, "east to be parked at its start")

    # When it is back, cut off at 10 and grown again
    write_metadata(path, stream("orders", cluster("east", elected, ["orders"]), cluster("west", brokers.b, [orders])))
    with pytest.raises(DataLossError):
        truncated.until(lambda: truncated.rows().total() > 0, "rows")


def accepted(truncated: SourceRun, elected: KafkaCluster, path: Path) -> int:
    """A person accepts, as `accept` records it, that reading goes on at the log's end, which is returned."""
    end = elected.end_offsets("orders")[0]
    saved(truncated, moved(truncated.document, end + 10))
    with pytest.raises(DataLossError, match="truncated"):
        truncated.batch()
    truncated.stop()
    found = truncated.document
    topic_id = found.clusters["east"].topics["orders"].topic_id
    said = {"kind": "data-loss", "cluster": "east", "topic": "orders", "partition": 0, "topicId": topic_id}
    StateLocation(str(path.parent / "state")).write(
        f"{found.query}/accepted/000001-x.json", {**said, "from": end + 10, "to": end}
    )
    return end


def test_a_truncation_that_was_accepted_is_told_once(truncated: SourceRun, elected: KafkaCluster, path: Path) -> None:
    # Given a log that is shorter by now than what was read of it, and a person who has accepted that
    end = accepted(truncated, elected, path)
    truncated.until(lambda: truncated.next["east", "orders"] == {0: end}, "reading to go on at the end")

    # When records come after that
    wanted = produce("east", elected, "orders", 3)

    # Then they are read
    truncated.until_rows(wanted)
    assert_rows(truncated.rows(), wanted)
