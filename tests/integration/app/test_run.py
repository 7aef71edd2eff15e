"""The application from its file to its exit code, on real brokers, each run a process of its own."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.app.driving import AppRun, RunApp, run_to_end, write_app
from tests.support.fixtures import Brokers, Topic
from tests.support.ports import reserve_ports
from tests.support.streams import assert_rows, cluster, produce, stream, write_metadata


@pytest.mark.timeout(600)
def test_available_now_delivers_and_commits_all_and_exits_0(brokers: Brokers, topic: Topic, tmp_path: Path) -> None:
    name = topic("run")
    for at in brokers[:2]:
        at.create_topic(name, partitions=2)
    wanted = produce("a", brokers.a, name, 300) + produce("a", brokers.a, name, 100, partition=1)
    wanted += produce("b", brokers.b, name, 200)
    write_metadata(
        tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    )
    config = write_app(
        tmp_path,
        trigger={"availableNow": True},
        options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": 250, "kafka.group.id": name},
    )
    run = AppRun(config)
    run_to_end(run, wanted)
    assert brokers.a.committed_offsets(name) == {(name, 0): 300, (name, 1): 100}
    assert brokers.b.committed_offsets(name)[name, 0] == 200
    assert len(run.events("batch")) >= 3
    assert (tmp_path / "checkpoints" / "lake" / "offsets" / "0").exists()


SINK = """
import json
import re
from pathlib import Path

def keep(frame, batch):
    rows = [[r.kafka_cluster, r.offset, r.by] for r in frame.collect()]
    (Path(__file__).parent / f"kept-{batch}.json").write_text(json.dumps(rows))
"""


def scrape(port: int) -> str:
    """The metrics as text; empty until they are served."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


@pytest.mark.scenario(8)
@pytest.mark.scenario(35)
@pytest.mark.timeout(600)
def test_two_sinks_have_separate_queries_groups_and_metrics(
    brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp
) -> None:
    name = topic("two")
    for at in brokers[:2]:
        at.create_topic(name)
    wanted = produce("a", brokers.a, name, 40) + produce("b", brokers.b, name, 20)
    both = (cluster("a", brokers.a, [name]), cluster("b", brokers.b, [name]))
    metadata = write_metadata(tmp_path / "streams.json", stream("st", *both))
    (tmp_path / "my_sink.py").write_text(SINK)
    (port,) = reserve_ports(1)
    config = write_app(
        tmp_path,
        transformation={"sql": "SELECT * FROM stream WHERE offset >= 0"},
        sinks=[
            {"name": "lake", "type": "parquet", "options": {"path": str(tmp_path / "lake")}, "groupId": f"{name}-lake"},
            {
                "name": "mine",
                "foreachBatch": "my_sink:keep",
                "groupId": f"{name}-mine",
                "transformation": {"sql": "SELECT kafka_cluster, offset, 'mine' AS by FROM stream"},
                "trigger": {"interval": "200ms"},
            },
        ],
        metrics={"port": port, "host": "127.0.0.1"},
    )

    def kept() -> int:
        return sum(len(json.loads(file.read_text())) for file in tmp_path.glob("kept-*.json"))

    with run_app(config) as run:
        run.wait_rows(wanted)
        run.wait_until(lambda: kept() == 60, "60 rows in the function")
        split = f'dynamic_kafka_split_committed_offset{{cluster="b",partition="0",sink="mine",topic="{name}"}} 20.0'
        run.wait_until(lambda: split in scrape(port), "the committed offset of cluster b")
        size = sum(len(row.value) for row in wanted if row.cluster == "a")
        read = f'{{cluster="a",partition="0",sink="lake",topic="{name}"}} '
        for metric, value in (("offsets", 40), ("records", 40), ("bytes", size)):
            line = f"dynamic_kafka_split_{metric}_read_total{read}{float(value)}"
            run.wait_until(lambda line=line: line in scrape(port), line)  # type: ignore[misc]
        assert f"dynamic_kafka_split_event_time_lag_seconds{read}" in scrape(port)

        def counted() -> bool:
            nonlocal wanted
            wanted += produce("a", brokers.a, name, 1)  # a client takes its statistics when it reads
            return 'dynamic_kafka_cluster_client_bytes_received_total{cluster="a",sink="lake"}' in scrape(port)

        run.wait_until(counted, "the statistics of the clients")
        write_metadata(metadata, stream("st", both[0]))
        run.wait_until(lambda: 'cluster="b"' not in scrape(port) and 'cluster="a"' in scrape(port), "b's series to go")
        run.wait_until(lambda: 'parked_splits{sink="lake",stream="st"} 1.0' in scrape(port), "the parked split")
        run.wait_rows(wanted)
        run.terminate()
        assert run.wait_exit() == 0, run.last_lines()
        assert_rows(run.rows(), wanted)
    assert brokers.a.committed_offsets(f"{name}-lake") == {(name, 0): wanted.total() - 20}
    assert 40 <= brokers.a.committed_offsets(f"{name}-mine")[name, 0] <= wanted.total() - 20
    for sink in ("lake", "mine"):
        assert (tmp_path / "checkpoints" / sink / "commits" / "0").exists()


@pytest.mark.timeout(600)
def test_a_bounded_run_ends_by_itself(brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp) -> None:
    name = brokers.a.create_topic(topic("bounded"))
    wanted = produce("a", brokers.a, name, 50)
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", brokers.a, [name])))
    config = write_app(tmp_path, options={"startingOffsets": "earliest", "endingOffsets": "latest"})
    run_to_end(run_app(config), wanted)


@pytest.mark.parametrize(
    ("change", "code", "expected"),
    [
        ({"sinks": [{"name": "lake", "type": "parqet"}]}, 2, "sinks[0].type: must be"),
        ({"streams": {"ids": ["other"]}}, 3, "other"),
        ({"spark": {"spark.remote": "sc://localhost"}}, 2, "Spark Connect is not supported"),
    ],
)
def test_mistakes_are_reported_without_starting_spark(
    change: dict[str, Any], code: int, expected: str, tmp_path: Path, run_app: RunApp
) -> None:
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    with run_app(write_app(tmp_path, **change)) as run:
        assert run.wait_exit() == code
        assert expected in run.text()
        assert not run.asked_for_spark


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_log_has_the_form_that_was_asked_for(form: str, tmp_path: Path, run_app: RunApp) -> None:
    write_metadata(tmp_path / "streams.json", stream("st", cluster("a", "127.0.0.1:1", ["t"])))
    with run_app(write_app(tmp_path, streams={"ids": ["other"]}), arguments=("--log-format", form)) as run:
        assert run.wait_exit() == 3
        first = run.text().splitlines()[0]
    if form == "json":
        line = json.loads(first)
        assert (line["level"], line["event"], line["message"]) == ("INFO", "application", "application test")
    else:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO application test", first)
