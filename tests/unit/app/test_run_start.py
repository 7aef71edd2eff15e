"""Checks of an application before Spark starts, by its metadata and its checkpoints."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dynamic_kafka.app import run
from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.errors import MetadataInvalidError
from tests.support.waiting import eventually


@pytest.fixture
def config(tmp_path: Path) -> AppConfig:
    """An application with two sinks that subscribes two streams, of which metadata names one."""
    clusters = [{"clusterId": "east", "bootstrapServers": "e1:9092", "topics": ["orders"]}]
    (tmp_path / "streams.json").write_text(json.dumps([{"streamId": "orders", "clusterMetadataList": clusters}]))
    content = {
        "name": "shop",
        "metadata": str(tmp_path / "streams.json"),
        "streams": {"ids": ["orders", "returns"]},
        "checkpoint": str(tmp_path / "checkpoint"),
        "sinks": [
            {"name": name, "type": "parquet", "options": {"path": str(tmp_path / name)}} for name in ("lake", "copy")
        ],
    }
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(content))
    return load_config(tmp_path / "app.yaml")


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    made = StopRequest()
    yield made
    made.ask("the test is over")


def has_metadata(config: AppConfig, stop: StopRequest) -> bool:
    with contextlib.ExitStack() as resources:
        return run._wait_for_metadata(run._prepare(config, resources), stop, config)


def test_a_missing_stream_is_refused_before_the_first_batch(config: AppConfig, stop: StopRequest) -> None:
    with pytest.raises(MetadataInvalidError, match=r"'returns' does not exist; .*orders"):
        has_metadata(config, stop)


def test_a_started_application_starts_again_without_a_stream(
    config: AppConfig, stop: StopRequest, tmp_path: Path
) -> None:
    begun = tmp_path / "checkpoint" / "copy" / "offsets"
    begun.mkdir(parents=True)
    (begun / "0").write_text("v1")
    assert has_metadata(config, stop)


def test_a_signal_is_logged_before_spark_is_up(
    config: AppConfig, stop: StopRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    begun = tmp_path / "checkpoint" / "copy" / "offsets"
    begun.mkdir(parents=True)
    (begun / "0").write_text("v1")
    assert has_metadata(config, stop)

    stop.ask("SIGINT")

    assert eventually(lambda: "SIGINT: will stop" in caplog.text)
