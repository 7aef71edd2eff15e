"""The source in a session of Spark Connect. (`tests/unit/app/test_session.py`: the application refuses one.)"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.support.fixtures import Brokers, Topic
from tests.support.places import ROOT
from tests.support.spark_connect import connect_server
from tests.support.spark_kafka import SPARK42_PYTHON
from tests.support.streams import Row, Rows, assert_rows, cluster, produce, write_metadata

pytestmark = pytest.mark.deep("a server of Spark Connect")

TIMEOUT_S = 240


@pytest.mark.timeout(600)
def test_a_query_of_a_remote_session_follows_metadata(brokers: Brokers, topic: Topic, tmp_path: Path) -> None:
    # given a stream of one cluster, and of one more later
    name = topic("orders")
    for broker in (brokers.a, brokers.b):
        broker.create_topic(name, 2)
    a, b = cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name])
    of_a = produce("a", brokers.a, name, 10)
    of_b = produce("b", brokers.b, name, 7, partition=1)
    first, then = [
        {
            "streamIds": "orders",
            "metadataPath": str(
                write_metadata(tmp_path / f"{len(named)}.json", {"streamId": "orders", "clusterMetadataList": named})
            ),
            "startingOffsets": "earliest",
            "stateLocation": str(tmp_path / "state"),
        }
        for named in ([a], [a, b])
    ]

    # when a query of a remote session reads it in several batches, with an end in between
    with connect_server(SPARK42_PYTHON) as url:
        counts = run(url, tmp_path, first, then | {"maxOffsetsPerTrigger": "4"})

    # then everything is there exactly once
    assert counts == [10, 17]
    table = parquet.read_table(sorted((tmp_path / "output").glob("*.parquet")))
    places = zip(
        *(table[key].to_pylist() for key in ("kafka_cluster", "topic", "partition", "offset", "value")), strict=True
    )
    assert_rows(Rows(Row(*place[:4], place[4].decode()) for place in places), of_a + of_b)


def run(url: str, folder: Path, *runs: dict[str, str]) -> list[int]:
    """The query's runs; how many rows there are after each."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    program = [SPARK42_PYTHON, "-m", "tests.integration.app_tools.connect_run", url, folder]
    done = subprocess.run(
        [*map(str, program), *map(json.dumps, runs)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": f"{ROOT / 'spark_app'}{os.pathsep}{ROOT}"},
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[:6000]
    return [int(line) for line in done.stdout.split()]
