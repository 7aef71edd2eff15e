"""The end of commands: an error outside of our code becomes one line and an exit code, never a traceback."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.outcome import Outcome
from dynamic_kafka.app.telemetry.logs import JsonFormatter
from dynamic_kafka.contract.exit_codes import ExitCode
from tests.support.places import ROOT

CLI = (sys.executable, "-m", "dynamic_kafka.app")
APP = """\
name: orders
metadata: {folder}/streams.yaml
streams: {{ids: [orders]}}
checkpoint: {folder}/checkpoint
sinks: [{{name: out, type: console}}]
"""
STREAMS = """\
- streamId: orders
  clusterMetadataList: [{clusterId: east, bootstrapServers: "e:9092", topics: [orders]}]
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "streams.yaml").write_text(STREAMS)
    path = tmp_path / "app.yaml"
    path.write_text(APP.format(folder=tmp_path))
    return path


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "spark_app"), **changes}


def test_without_java_the_application_ends_with_exit_code_6(app: Path) -> None:
    command = [*CLI, "run", str(app)]
    without = environment(JAVA_HOME="/nowhere")
    ended = subprocess.run(command, env=without, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 6, ended.stderr
    assert "SparkStartError: Spark could not" in ended.stderr
    assert "Check JAVA_HOME (JDK >= 17)" in ended.stderr
    assert "Traceback" not in ended.stderr
    [ended_event] = [line for line in map(json.loads, events_in(ended.stderr)) if line["event"] == "ended"]
    assert ended_event["code"] == 6
    assert ended_event["reason"].startswith("SparkStartError: Spark could not be started: ")


def events_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if '"event": ' in line]


def test_a_taken_metrics_port_is_reported_before_spark_starts(app: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        app.write_text(app.read_text() + f"metrics: {{port: {port}, host: 127.0.0.1}}\n")
        command = [*CLI, "run", str(app)]
        without = environment(JAVA_HOME="/nowhere")
        ended = subprocess.run(command, env=without, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "metrics: cannot listen" in ended.stderr
    assert f"127.0.0.1:{port}: Address already in use" in ended.stderr


def test_the_end_tells_its_reason_once_and_kubernetes_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dynamic_kafka")
    file = tmp_path / "termination-log"
    outcome = Outcome(ExitCode.CLUSTER, "ReadTimeoutError: " + "x" * 5000)
    outcome.report(file)
    assert not file.exists()  # made by Kubernetes, or not wanted
    file.touch()
    outcome.report(file)
    written = json.loads(file.read_text())
    assert written["code"] == 5 and written["reason"].startswith("ReadTimeoutError: xxx")
    assert len(file.read_text()) < 4096
    event = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert (event["event"], event["code"], event["reason"]) == ("ended", 5, outcome.reason)
    assert event["message"] == "ended with exit code 5"


UNEXPECTED = """\
import sys
from dynamic_kafka.app import cli, run
def fails(path):
    raise {error}
run.load_config = fails
sys.exit(cli.main(["run", "app.yaml", "--log-format", {form!r}]))
"""


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        ("RuntimeError('password=hunter2')", 6, "RuntimeError: password=***"),
        ("SystemExit(3)", 6, "SystemExit: 3"),
        ("ImportError('no', name='rich')", 2, "lacks rich: run pip install"),
    ],
)
def test_an_unexpected_error_ends_with_the_logged_code(form: str, error: str, code: int, reason: str) -> None:
    command = [sys.executable, "-c", UNEXPECTED.format(error=error, form=form)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert f"ended with exit code {code}" in ended.stderr
    assert reason in ended.stderr
    assert ("in fails" in ended.stderr) == (code == 6)  # the traceback
    assert "hunter2" not in ended.stderr


def test_a_reason_that_cannot_be_encoded_is_still_written(tmp_path: Path) -> None:
    """A name of a file may hold anything; what comes after this must not be left out."""
    file = tmp_path / "termination-log"
    file.touch()
    Outcome(ExitCode.QUERY, "cannot read /data/\udcff").report(file)
    assert json.loads(file.read_text(encoding="utf-8")) == {"code": 6, "reason": "cannot read /data/?"}


def test_a_file_that_cannot_be_written_is_a_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text('v1\n{}\n{"orders":{"0":4}}')
    out = tmp_path / "no" / "such" / "folder.yaml"
    assert main(["import-checkpoint", str(tmp_path), "--cluster", "east", "-o", str(out)]) == 2
    assert str(out) in capsys.readouterr().err


def test_an_import_of_a_checkpoint_overwrites_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text('v1\n{}\n{"orders":{"0":4}}')
    out = tmp_path / "streams.yaml"
    command = ["import-checkpoint", str(tmp_path), "--cluster", "east", "-o", str(out)]
    assert main(command) == 0
    written = out.read_text()
    assert "startingOffsets" in written
    assert main(command) == 2
    refusal = capsys.readouterr().err
    assert f"{out} exists" in refusal and "another file to -o" in refusal
    assert out.read_text() == written


def test_an_early_interrupt_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    assert main(["plan", "app.yaml"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_the_command_line_imports_little_before_it_takes_ctrl_c() -> None:
    program = "import sys, dynamic_kafka.app.cli; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert "dynamic_kafka.app.cli" in ended.stdout.split()
    assert not {"pydantic", "yaml", "pyarrow", "pyspark", "confluent_kafka"} & set(ended.stdout.split())


def test_a_reader_that_goes_away_is_no_error(app: Path) -> None:
    tool = subprocess.Popen(
        [*CLI, "validate", str(app)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert tool.stdout is not None and tool.stderr is not None
    tool.stdout.close()
    assert tool.stderr.read() == ""
    assert tool.wait(60) == 141


@pytest.mark.parametrize("command", ["run", "validate", "plan"])
@pytest.mark.parametrize("kind", ["checkpoint", "folder"])
def test_a_folder_is_no_app_yaml(command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if kind == "checkpoint":
        (tmp_path / "offsets").mkdir()
    assert main([command, str(tmp_path)]) == 2
    output = "".join(capsys.readouterr())
    assert str(tmp_path) in output and "app.yaml" in output and "inspect takes a checkpoint" in output
    if command == "plan" and kind == "checkpoint":
        assert "is a checkpoint; plan needs" in output


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "command: run, validate, plan, inspect, " in capsys.readouterr().err


def test_a_misspelt_command_is_reported_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["valdate", "app.yaml"])
    assert ended.value.code == 2
    refusal = capsys.readouterr().err
    assert "no command 'valdate'" in refusal and "mean 'validate'?" in refusal


def test_the_package_names_its_command_line() -> None:
    command = [sys.executable, "-m", "dynamic_kafka"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "python -m dynamic_kafka.app --help" in ended.stderr


def test_a_missing_metadata_path_is_reported_once_and_whole(
    app: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(app.parent)
    app.write_text(app.read_text().replace(f"{app.parent}/streams.yaml", "none.yaml"))
    assert main(["plan", str(app)]) == 3
    output = capsys.readouterr().err.splitlines()[-1]
    assert f"{app.parent}/none.yaml: cannot be read" in output and "`metadata` in app.yaml" in output
    assert output.count("check") == 1


@pytest.mark.parametrize(
    ("given", "near"),
    [(["validate", "--jsno", "app.yaml"], "--json"), (["accept", "--identiy=east", "app.yaml"], "--identity")],
)
def test_a_misspelt_flag_is_reported_with_the_nearest_one(
    given: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert f"did you mean {near!r}?" in output
    assert f"usage: python -m dynamic_kafka.app {given[0]}" in output


def test_the_console_script_is_the_same_command_line(
    app: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["dynamic-kafka"] == "dynamic_kafka.app.cli:main"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dynamic-kafka", "validate", str(app)])
    assert main() == 0
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dynamic-kafka", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "usage: dynamic-kafka [-h] COMMAND" in capsys.readouterr().out
