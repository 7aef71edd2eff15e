"""`make brokers` writes an application and its metadata, and produces records."""

from __future__ import annotations

import re
from pathlib import Path

import brokers
import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.metadata.document import parse_document
from tests.support.places import ROOT

SERVERS = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}


def test_the_tutorials_files_are_valid_and_new_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "tutorial"
    (folder / "checkpoint").mkdir(parents=True)
    brokers.write_files(folder, SERVERS)
    assert not (folder / "checkpoint").exists()
    assert load_config(folder / "app.yaml").file.metadata == str(folder / "streams.yaml")
    for name, clusters in (("streams", ["east"]), ("both", ["east", "west"]), ("west", ["west"])):
        stream = parse_document((folder / f"{name}.yaml").read_text(), source=name).streams["orders"]
        assert list(stream.clusters) == clusters


def test_the_tutorial_names_files_that_are_written(tmp_path: Path) -> None:
    brokers.write_files(tmp_path, SERVERS)
    text = (ROOT / "docs" / "start" / "tutorial.md").read_text()
    named = {word.rpartition("/")[2] for word in text.split() if word.startswith("build/tutorial/")} - {"next"}
    assert named == {"app.yaml", "both.yaml", "west.yaml", "streams.yaml"}
    assert named <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("arguments", [["produce"], ["produce", "127.0.0.1:1"], ["start"]])
def test_other_arguments_print_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert brokers.main(arguments) == 2
    assert "make produce TO=east|west|HOST:PORT TEXT=" in capsys.readouterr().err


def test_a_second_run_does_not_touch_the_files_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(brokers, "BUILD", tmp_path)
    monkeypatch.setattr(brokers, "run", lambda: brokers.main([]))
    assert brokers.main([]) == 2
    assert capsys.readouterr().err.startswith("`make brokers` runs already: use its clusters")


def test_records_go_to_a_cluster_by_its_name(tmp_path: Path) -> None:
    assert brokers.find("east", tmp_path / "not-there") is None
    brokers.write_files(tmp_path, SERVERS)
    assert {name: brokers.find(name, tmp_path) for name in ("east", "west", "EAST", "h:9092")} == {
        "east": SERVERS["east"],
        "west": SERVERS["west"],
        "EAST": None,
        "h:9092": "h:9092",
    }


def test_an_unknown_cluster_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(brokers, "FOLDER", tmp_path)
    assert brokers.main(["produce", "EAST", "one"]) == 2
    assert re.fullmatch(r"EAST: .*`east`.*`west`.*`make brokers`.*HOST:PORT\n", capsys.readouterr().err)
