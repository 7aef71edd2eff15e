"""`make bench` fails by the reader's ratios alone, and runs the reader alone if asked for its cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bench import __main__ as bench
from tests.bench.reader import run as reader


@pytest.mark.parametrize("fallen", [False, True])
def test_the_exit_code_is_that_of_the_comparison(monkeypatch: pytest.MonkeyPatch, fallen: bool) -> None:
    asked: list[tuple[Sequence[str], dict[str, Any]]] = []
    monkeypatch.setattr(reader, "run", lambda names, **sizes: asked.append((names, sizes)) or fallen)

    assert bench.main(["--rounds", "1", "--records", "200000", "--only", "raw_100B"]) == int(fallen)
    assert asked == [(["raw_100B"], {"rounds": 1, "records": 200_000})]


def test_a_small_run_is_not_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reader, "RESULT", tmp_path / "last.json")
    monkeypatch.setattr(reader, "RECORDED", tmp_path / "docs" / "recorded.json")
    reader.RESULT.write_text(json.dumps({"about": {}}))

    with pytest.raises(SystemExit, match="lacks raw_100B"):
        bench.main(["--record"])
    assert not reader.RECORDED.exists()


def test_a_whole_run_becomes_the_recorded_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reader, "ROOT", tmp_path)
    monkeypatch.setattr(reader, "RESULT", tmp_path / "last.json")
    monkeypatch.setattr(reader, "RECORDED", tmp_path / "docs" / "recorded.json")
    monkeypatch.setattr(reader, "not_whole", lambda result: [])
    reader.RESULT.write_text(json.dumps({"about": {"at": "noon"}, "idle_cpu_ratio": 1.5}))

    assert bench.main(["--record"]) == 0
    assert json.loads(reader.RECORDED.read_text())["idle_cpu_ratio"] == 1.5
