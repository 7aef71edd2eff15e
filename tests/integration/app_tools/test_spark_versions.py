"""A checkpoint goes from the oldest supported Spark to the newest, and back, with a batch pending."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.app_tools.spark_run import delivered, run_spark
from tests.support.fixtures import Brokers, Topic
from tests.support.spark_kafka import SPARK42_PYTHON
from tests.support.streams import Row, Rows, assert_rows, cluster, produce, write_metadata

pytestmark = pytest.mark.deep("the oldest supported Spark")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("first", "then", "versions"),
    [
        pytest.param(SPARK42_PYTHON, Path(sys.executable), ("4.2", "4.3"), id="4.2 to 4.3"),
        pytest.param(Path(sys.executable), SPARK42_PYTHON, ("4.3", "4.2"), id="4.3 to 4.2"),
    ],
)
def test_a_checkpoint_is_continued_by_another_spark(  # noqa: PLR0917
    brokers: Brokers,
    topic: Topic,
    tmp_path: Path,
    first: Path,
    then: Path,
    versions: tuple[str, str],
) -> None:
    # given a query over two clusters whose second batch is pending under one version of Spark
    name = topic("orders")
    for broker in (brokers.a, brokers.b):
        broker.create_topic(name, 2)
    path = write_metadata(
        tmp_path / "streams.json",
        {
            "streamId": "orders",
            "clusterMetadataList": [cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name])],
        },
    )
    options = {
        "streamIds": "orders",
        "metadataPath": str(path),
        "startingOffsets": "earliest",
        "stateLocation": str(tmp_path / "state"),
        "maxOffsetsPerTrigger": "12",
    }
    wanted = produce("a", brokers.a, name, 10) + produce("b", brokers.b, name, 10, partition=1)
    assert run_spark(first, "dynamic-kafka", options, tmp_path, fails_at=1).startswith(versions[0])
    assert rows(tmp_path).total() == 12

    # when another version of Spark continues it, with more records
    wanted += produce("b", brokers.b, name, 5)
    assert run_spark(then, "dynamic-kafka", options, tmp_path).startswith(versions[1])

    # then everything is there exactly once
    assert_rows(rows(tmp_path), wanted)


def rows(folder: Path) -> Rows:
    """Return the rows that were delivered so far."""
    tuples = delivered(folder, "kafka_cluster", "topic", "partition", "offset", "value")
    return Rows(Row(*row[:4], row[4].decode()) for row in tuples)
