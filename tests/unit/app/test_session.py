"""Spark Connect is refused, before a session is made and after."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynamic_kafka.app.config.loading import load_config, parse_config
from dynamic_kafka.app.query.session import (
    EMPTY_CHECK,
    refuse_connect,
    refuse_other_disk,
    refuse_remote,
    spark_settings,
)
from dynamic_kafka.app.query.sinks import kafka_options, load_function
from dynamic_kafka.app.telemetry.logs import JsonFormatter, TextFormatter
from dynamic_kafka.errors import OptionError
from tests.support.places import ROOT

BEGUN = "name: orders\nmetadata: /etc/kafkastreams\nstreams: {ids: [orders]}\n"


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"spark.remote": "sc://host"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_REMOTE": "sc://host"}),
    ],
)
def test_settings_for_spark_connect_are_refused(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    with pytest.raises(OptionError, match="Spark Connect is not supported"):
        refuse_connect(settings, environment)


def test_a_remote_session_is_refused() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(OptionError, match="Spark Connect is not supported"):
        refuse_remote(remote())


def test_a_classic_session_is_fine() -> None:
    refuse_connect({"spark.master": "local[1]"}, {})
    refuse_remote(type("SparkSession", (), {"__module__": "pyspark.sql.session"})())


@pytest.mark.parametrize(
    ("checkpoint", "path", "wrong"),
    [("/ck", "hdfs:/out", "checkpoint: '/ck'"), ("hdfs:/ck", "out", r"sinks\[0\].options.path: 'out'")],
)
def test_a_path_that_is_elsewhere_to_spark_is_refused(checkpoint: str, path: str, wrong: str) -> None:
    app = f"{BEGUN}checkpoint: {checkpoint}\nsinks: [{{name: lake, type: parquet, options: {{path: {path}}}}}]\n"
    config = parse_config(app, source="app.yaml")
    refuse_other_disk(config, "file:///")
    with pytest.raises(OptionError, match=f"app.yaml: {wrong} .*scheme.*hdfs://namenode:8020"):
        refuse_other_disk(config, "hdfs://namenode:8020")


def test_a_path_with_its_scheme_is_the_same_to_both() -> None:
    app = f"{BEGUN}checkpoint: file:/ck\nsinks: [{{name: lake, type: parquet, options: {{path: 's3a://b/out'}}}}]\n"
    refuse_other_disk(parse_config(app, source="app.yaml"), "hdfs://namenode:8020")


def test_a_function_is_found_beside_the_file(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with open(f"{folder}/beside_app.py", "w") as file:
        file.write("import sys\n\n\ndef change(frame):\n    return frame\n")
    assert load_function("beside_app:change", f"{folder}/app.yaml")(1) == 1
    with pytest.raises(OptionError, match="has no 'other'"):
        load_function("beside_app:other", f"{folder}/app.yaml")
    with pytest.raises(OptionError, match=r"beside_app:sys\.path: is no function"):
        load_function("beside_app:sys.path", f"{folder}/app.yaml")
    with pytest.raises(OptionError, match="cannot be imported"):
        load_function("no_such_module_here:x", f"{folder}/app.yaml")


def test_kafkas_providers_resolve_a_kafka_sinks_references() -> None:
    options = kafka_options({"kafka.sasl.jaas.config": "${env:JAAS}", "topic": "out"})
    assert options["kafka.config.providers"] == "env"
    assert options["kafka.config.providers.env.class"].endswith("EnvVarConfigProvider")
    assert options["kafka.sasl.jaas.config"] == "${env:JAAS}"
    assert kafka_options({"topic": "out"}) == {"topic": "out"}


def test_the_documentation_states_every_sinks_guarantee() -> None:
    guarantees = {
        "parquet": "exactly once, for readers of its `_spark_metadata` log (Spark is one)",
        "kafka": "at least once: a batch that is repeated after a failure is sent again",
        "console": "none: for watching",
        "format": "what that format promises; Spark's own file formats as `parquet`",
        "foreachBatch": "as idempotent as your function is by (query id, batch id): a batch may come again, the same",
    }
    text = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
    for kind, promise in guarantees.items():
        assert f"| `{kind}` | {promise} |" in text


def test_a_json_line_has_the_event_and_its_fields() -> None:
    record = logging.makeLogRecord(
        {"name": "x", "levelname": "INFO", "msg": "batch %d", "args": (3,), "event": "batch"}
    )
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["event"], line["level"]) == ("batch 3", "batch", "INFO")


def test_a_reason_is_shown_to_people_once_in_the_last_line() -> None:
    def shown(event: str, reason: str | None) -> str:
        fields = {"levelname": "ERROR", "msg": "it failed", "event": event, "reason": reason}
        return TextFormatter().format(logging.makeLogRecord(fields)).partition(" ERROR ")[2]

    assert shown("failed", "no answer") == "it failed"
    assert shown("ended", "no answer") == "it failed: no answer"
    assert shown("restart", "no answer") == "it failed: no answer"
    assert shown("ended", None) == "it failed"


APP = """
name: orders
streams: {ids: [orders]}
metadata: /streams.yaml
checkpoint: /checkpoint
sinks: [{name: out, type: console}]
"""


def test_sparks_progress_bar_is_off_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    quiet = load_config(tmp_path / "app.yaml")
    (tmp_path / "app.yaml").write_text(APP + "spark: {spark.ui.showConsoleProgress: true}\n")
    asked = load_config(tmp_path / "app.yaml")
    bar = "spark.ui.showConsoleProgress"
    assert spark_settings(quiet, {})[bar] == "false"
    assert spark_settings(asked, {})[bar] == "true"
    assert bar not in spark_settings(quiet, {"PYSPARK_GATEWAY_PORT": "1"})  # spark-submit has its own default


def test_a_torn_file_of_a_first_plan_does_not_end_each_start(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    default = load_config(tmp_path / "app.yaml")
    (tmp_path / "app.yaml").write_text(APP + f"spark: {{{EMPTY_CHECK}: true}}\n")
    asked = load_config(tmp_path / "app.yaml")
    for environment in ({}, {"PYSPARK_GATEWAY_PORT": "1"}):
        assert spark_settings(default, environment)[EMPTY_CHECK] == "false"
        assert spark_settings(asked, environment)[EMPTY_CHECK] == "true"
