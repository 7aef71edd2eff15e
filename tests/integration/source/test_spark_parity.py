"""A job over Spark's `kafka` source also runs over ours, after a change of the format, or with a metadata file.

Both read the same topics in one session of the oldest supported Spark; the tests compare rows and schema.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.source.simulated_spark import at, document
from tests.support.fixtures import Brokers
from tests.support.kafka import Record
from tests.support.places import ROOT
from tests.support.spark_kafka import SPARK42_PYTHON, connector_jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.deep("a comparison with Spark's own source")]

NAME, SECOND = "parity-orders", "parity-returns"
BASE = 1_700_000_000_000
ONE = json.dumps({NAME: {"0": 5, "1": -2, "2": 3}})
ENDS = json.dumps({NAME: {"0": 9, "1": -1, "2": 4}})
TIMES = json.dumps({NAME: {"0": BASE + 5_000, "1": BASE, "2": BASE + 2_000}})

# Options of a user's job, besides the servers.
JOBS: dict[str, tuple[str, dict[str, str]]] = {
    "subscribe-two": ("batch", {"subscribe": f"{NAME},{SECOND}"}),
    "headers": ("batch", {"subscribe": NAME, "includeHeaders": "true"}),
    "pattern": ("batch", {"subscribePattern": "parity-.*"}),
    "assign": ("batch", {"assign": json.dumps({NAME: [0, 2]})}),
    "offsets": ("batch", {"subscribe": NAME, "startingOffsets": ONE, "endingOffsets": ENDS}),
    "ending-timestamp": ("batch", {"subscribe": NAME, "endingTimestamp": str(BASE + 4_000)}),
    "timestamps": ("batch", {"subscribe": NAME, "startingOffsetsByTimestamp": TIMES}),
    "committed-only": ("batch", {"subscribe": SECOND, "kafka.isolation.level": "read_committed"}),
    "java-settings": (
        "batch",
        {"subscribe": NAME, "kafka.max.poll.records": "3", "kafka.fetch.max.wait.ms": "50", "minPartitions": "7"},
    ),
    "stream": ("stream", {"subscribe": NAME, "startingOffsets": "earliest", "includeHeaders": "true"}),
    "stream-limited": ("stream", {"subscribe": NAME, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "12"}),
    "stream-offsets": ("stream", {"subscribe": NAME, "startingOffsets": ONE}),
    "stream-assign": ("stream", {"assign": json.dumps({NAME: [1]}), "startingOffsets": "earliest"}),
    "stream-latest": ("stream", {"subscribePattern": "parity-.*"}),
}
PART_OF_A_NAME = {"pattern-part": ("batch", {"subscribePattern": "parity-ret"})}
REFUSED: dict[str, tuple[str, dict[str, str]]] = {
    "two-ways": ("batch", {"subscribe": NAME, "assign": json.dumps({NAME: [0]})}),
    "no-way": ("batch", {}),
    "batch-from-latest": ("batch", {"subscribe": NAME, "startingOffsets": "latest"}),
    "some-partitions": ("stream", {"subscribe": NAME, "startingOffsets": json.dumps({NAME: {"0": 1}})}),
    "too-many-partitions": (
        "stream",
        {"subscribe": NAME, "startingOffsets": json.dumps({NAME: {str(p): 1 for p in range(4)}})},
    ),
    "forbidden": ("batch", {"subscribe": NAME, "kafka.auto.offset.reset": "latest"}),
    "no-record-as-new": ("stream", {"subscribe": NAME, "startingTimestamp": str(BASE + 10_000_000)}),
    "unknown-topic": ("batch", {"subscribe": "parity-nowhere"}),
}
WITH_A_FILE = ("subscribe-two", "headers", "stream-limited")


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, brokers: Brokers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """Yield the results of both sources' runs in one Spark: of those that this session's tests look at."""
    cases = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    named = {*WITH_A_FILE, *PART_OF_A_NAME, *(case.params["name"] for case in cases if case)}
    if not SPARK42_PYTHON.exists():
        pytest.fail("the oldest supported Spark is not installed: make setup-spark42")
    connector_jars()
    fill(brokers)
    folder = tmp_path_factory.mktemp("parity")
    runs = {}
    for name, (mode, options) in (JOBS | PART_OF_A_NAME | REFUSED).items():
        if name not in named:
            continue
        servers = {"kafka.bootstrap.servers": brokers.a.bootstrap}
        runs[f"kafka-{name}"] = {"mode": mode, "format": "kafka", "options": options | servers}
        runs[f"ours-{name}"] = {"mode": mode, "format": "dynamic-kafka", "options": options | servers}
    for name in WITH_A_FILE:
        mode, options = JOBS[name]
        rest = {key: value for key, value in options.items() if key != "subscribe"}
        path = folder / f"{name}.json"
        path.write_text(document("the-stream", east=at(brokers.a, *options["subscribe"].split(","))))
        ours = {"streamIds": "the-stream", "metadataPath": str(path)}
        runs[f"file-{name}"] = {"mode": mode, "format": "dynamic-kafka", "options": rest | ours}
    (folder / "runs.json").write_text(json.dumps(runs))
    done = subprocess.run(
        [
            SPARK42_PYTHON,
            "-m",
            "tests.integration.source.compare_sources",
            folder / "runs.json",
            folder / "results.json",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'spark_app'}", "SPARK_LOCAL_IP": "127.0.0.1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    results = json.loads((folder / "results.json").read_text())
    assert results["version"].startswith("4.2.")
    yield results["outcomes"]


def fill(brokers: Brokers) -> None:
    """Produce records of every kind, and transactions."""
    keep = {"retention.ms": "-1"}
    brokers.a.create_topic(NAME, 3, keep)
    for partition in range(3):
        plain = [
            Record(f"v{partition}.{n}".encode(), key=f"k{n % 4}".encode(), timestamp_ms=BASE + n * 1000)
            for n in range(10)
        ]
        brokers.a.produce(NAME, plain, partition=partition)
    odd = [
        Record(None, key=b"tombstone", timestamp_ms=BASE + 10_000),
        Record(b"no key", timestamp_ms=BASE + 10_001),
        Record(b"", key=b"", timestamp_ms=BASE + 10_002, headers=[("h", b"1"), ("h", None), ("", b"\xff")]),
    ]
    brokers.a.produce(NAME, odd, partition=1)
    brokers.a.create_topic(SECOND, 1, keep | {"message.timestamp.type": "LogAppendTime"})
    with brokers.a.transaction() as kept:
        kept.produce(SECOND, [Record(b"kept", key=b"k")])
    aborted = brokers.a.transaction()
    aborted.produce(SECOND, [Record(b"aborted", key=b"k")])
    aborted.abort()


@pytest.mark.sampled
@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_after_changing_only_the_format(outcomes: dict[str, Any], name: str) -> None:
    kafka, ours = outcomes[f"kafka-{name}"], outcomes[f"ours-{name}"]

    assert "refused" not in kafka, kafka
    assert "refused" not in ours, ours
    assert ours["rows"] == kafka["rows"]
    assert ours["job"] == kafka["job"]


def test_a_pattern_must_match_the_whole_name_unlike_sparks(outcomes: dict[str, Any]) -> None:
    # The one intended difference: Spark's source also takes topics that match only partly.
    assert {row[0] for row in outcomes["kafka-pattern-part"]["rows"]} == {SECOND}
    assert outcomes["ours-pattern-part"]["rows"] == []


@pytest.mark.parametrize("name", WITH_A_FILE)
def test_a_job_runs_with_the_format_and_one_metadata_file(outcomes: dict[str, Any], name: str) -> None:
    kafka, ours = outcomes[f"kafka-{name}"], outcomes[f"file-{name}"]

    assert "refused" not in ours, ours
    assert kafka["rows"] != []
    assert ours["rows"] == kafka["rows"]
    assert ours["job"] == kafka["job"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", JOBS)
def test_sparks_columns_come_first_with_the_same_types(outcomes: dict[str, Any], name: str) -> None:
    kafka, ours = (outcomes[f"{source}-{name}"]["schema"]["fields"] for source in ("kafka", "ours"))

    assert ours[: len(kafka)] == kafka
    assert [field["name"] for field in ours[len(kafka) :]] == ["kafka_cluster", "kafka_stream"]


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_sparks_source_refuses_are_refused(outcomes: dict[str, Any], name: str) -> None:
    assert "refused" in outcomes[f"kafka-{name}"]
    assert "refused" in outcomes[f"ours-{name}"]


def test_a_limit_makes_as_many_batches_as_in_spark(outcomes: dict[str, Any]) -> None:
    kafka, ours = (outcomes[f"{source}-stream-limited"]["batches"] for source in ("kafka", "ours"))

    # Spark rounds each partition's share separately; ours never exceeds the limit.
    assert sum(ours) == sum(kafka) == 33
    assert max(ours) <= 12
