"""`abandon` where files alone decide: a batch that the file sink has already."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from tests.unit.app_tools.test_plan import make_app, sink_has


def test_a_batch_that_the_file_sink_has_is_not_abandoned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a pending batch whose file is in the sink's log
    app = make_app(tmp_path)
    sink_has(tmp_path, 0)

    # Then nothing is left out of it, and the message says why
    assert main(["abandon", str(app), "east", "--yes", "--stopped"]) == 2
    assert "its file sink has pending batch 0 already: a start commits" in capsys.readouterr().err
    assert not list(tmp_path.rglob("amendments"))


def test_a_batch_that_the_file_sink_lacks_is_abandoned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = make_app(tmp_path)
    assert main(["abandon", str(app), "east", "--yes", "--stopped"]) == 0
    assert len(list(tmp_path.rglob("amendments/*.json"))) == 1
    assert "4 records are read when their cluster can be read again" in capsys.readouterr().out
