"""The end of the demo's day: its job, as its manifests have it, reads up to the last records and ends by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pyarrow import parquet

from demo import producers
from demo.settings import PARTITIONS
from tests.integration.app.driving import RunApp
from tests.support.fixtures import Brokers, Topic
from tests.support.places import ROOT
from tests.support.streams import cluster, stream, write_metadata

pytestmark = pytest.mark.deep("the demo's job without Kubernetes")


def test_the_demos_job_ends_at_the_end_of_the_day(
    brokers: Brokers, topic: Topic, tmp_path: Path, run_app: RunApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a day of records on two clusters, its end in each partition, and a record behind each end
    name = topic("day")
    monkeypatch.setattr(producers, "TOPIC", name)
    at = {"A": brokers.a, "B": brokers.b}
    for broker in at.values():
        broker.create_topic(name, PARTITIONS)
    day = producers.Producers("A", {cluster_id: broker.bootstrap for cluster_id, broker in at.items()}, seed=1)
    for cluster_id, count in (("A", 30), ("B", 12)):
        day.burst(cluster_id, count)
    day.pause()
    for cluster_id in at:
        day.end_day(cluster_id)
    write_metadata(tmp_path / "streams.json", stream("orders", *(cluster(c, at[c], [name]) for c in at)))

    # When the demo's job reads it
    text = (ROOT / "examples" / "demo" / "manifests" / "app.yaml").read_text(encoding="utf-8")
    text = text.replace("/etc/kafkastreams", str(tmp_path / "streams.json")).replace("/data/", f"{tmp_path}/")
    config = tmp_path / "app.yaml"
    config.write_text(text, encoding="utf-8")
    assert [sink["name"] for sink in yaml.safe_load(text)["sinks"]] == ["parquet", "aggregate"]
    monkeypatch.setenv("AGGREGATE_FILE", str(tmp_path / "counts.json"))
    with run_app(config) as run:
        # Then both queries end by themselves, with each record of the day and nothing behind its end
        assert run.wait_exit() == 0, run.last_lines()
    windows = json.loads((tmp_path / "counts.json").read_text())
    assert windows["counts"] == day.counts() == {"A": 30, "B": 12}
    assert windows["late"] == {"A": 0, "B": 0}
    values = [json.loads(value) for value in delivered(tmp_path / "sink")]
    assert len(values) == 42
    assert len({(value["cluster"], value["partition"], value["sequence"]) for value in values}) == 42


def delivered(folder: Path) -> list[str]:
    """Return the values in the files that the sink's log names."""
    log = folder / "_spark_metadata"
    lines = [line for batch in log.iterdir() if batch.name.isdigit() for line in batch.read_text().splitlines()[1:]]
    files = [json.loads(line)["path"].removeprefix("file://") for line in lines]
    return [value for file in files for value in parquet.read_table(file)["value"].to_pylist()]
