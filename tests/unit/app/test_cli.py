"""The command line's ends: whatever goes wrong outside is a line and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
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


def test_without_java_the_application_says_so_and_ends_with_exit_code_6(app: Path) -> None:
    command = [*CLI, "run", str(app)]
    without = environment(JAVA_HOME="/nowhere")
    ended = subprocess.run(command, env=without, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 6, ended.stderr
    assert "SparkStartError: Spark could not be started: " in ended.stderr
    assert "a JDK >= 17, which JAVA_HOME names" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_cannot_be_written_is_a_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text('v1\n{}\n{"orders":{"0":4}}')
    out = tmp_path / "no" / "such" / "folder.yaml"
    assert main(["import-checkpoint", str(tmp_path), "--cluster", "east", "-o", str(out)]) == 2
    assert str(out) in capsys.readouterr().err


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
    said = "".join(capsys.readouterr())
    assert str(tmp_path) in said and "app.yaml" in said and "inspect takes a checkpoint" in said
    if command == "plan" and kind == "checkpoint":
        assert "is a checkpoint; plan needs the app.yaml, since it asks metadata and clusters" in said


def test_a_misspelt_command_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["valdate", "app.yaml"])
    assert ended.value.code == 2
    assert "no command 'valdate'; did you mean 'validate'?" in capsys.readouterr().err


def test_the_package_itself_says_where_its_command_line_is() -> None:
    command = [sys.executable, "-m", "dynamic_kafka"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "python -m dynamic_kafka.app --help" in ended.stderr


def test_a_metadata_path_that_leads_nowhere_is_told_once_and_whole(
    app: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(app.parent)
    app.write_text(app.read_text().replace(f"{app.parent}/streams.yaml", "none.yaml"))
    assert main(["plan", str(app)]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{app.parent}/none.yaml: cannot be read" in said and "`metadata` in app.yaml" in said
    assert said.count("check") == 1
