"""`abandon` where files alone decide: a batch that the file sink has already."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
import yaml

from dynamic_kafka.app.cli import main
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.store import StateLocation
from tests.unit.app_tools.test_plan import FIRST, make_app, sink_has


def test_a_batch_that_the_file_sink_has_is_not_abandoned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a pending batch whose file is in the sink's log
    app = make_app(tmp_path)
    sink_has(tmp_path, 0)

    # Then nothing is left out of it, and the message says why
    assert main(["abandon", str(app), "east", "--yes", "--stopped"]) == 2
    assert "file sink has batch 0: " in capsys.readouterr().err
    assert not list(tmp_path.rglob("amendments"))


def test_a_batch_that_the_file_sink_lacks_is_abandoned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = make_app(tmp_path)
    assert main(["abandon", str(app), "east", "--yes", "--stopped"]) == 0
    assert len(list(tmp_path.rglob("amendments/*.json"))) == 1
    assert "4 records are read when" in capsys.readouterr().out


def test_a_sink_that_cannot_be_opened_may_have_the_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a file sink in a file system that only Spark can reach
    app = make_app(tmp_path)
    content = yaml.safe_load(app.read_text())
    content["sinks"][0]["options"]["path"] = "viewfs://lake/orders"
    app.write_text(yaml.safe_dump(content))

    # Then nothing is left out before the user has looked
    assert main(["abandon", str(app), "east", "--yes", "--stopped"]) == 2
    refusal = capsys.readouterr().err
    assert "sink path 'viewfs://lake/orders'" in refusal and "cannot be opened" in refusal
    assert "neither batch 0 nor" in refusal and "add --undelivered" in refusal
    assert not list(tmp_path.rglob("amendments"))
    assert main(["abandon", str(app), "east", "--yes", "--stopped", "--undelivered"]) == 0
    assert len(list(tmp_path.rglob("amendments/*.json"))) == 1


def test_a_batch_that_the_sink_shows_is_not_undelivered(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    sink_has(tmp_path, 0)
    assert main(["abandon", str(app), "east", "--yes", "--stopped", "--undelivered"]) == 2


def test_a_driver_that_has_just_started_may_be_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a checkpoint without a write for an hour, and a driver that starts
    app, checkpoint = make_app(tmp_path), tmp_path / "checkpoint" / "out"
    an_hour_ago = time.time() - 3600
    os.utime(checkpoint / "offsets" / "0", (an_hour_ago, an_hour_ago))
    Incarnation(StateLocation(str(checkpoint / "dynamic-kafka"))).begin(FIRST)

    # Then abandon refuses, and names its host
    assert main(["abandon", str(app), "east", "--yes"]) == 2
    refusal = capsys.readouterr().err
    assert "a driver started" in refusal and f"s ago on {socket.gethostname()} and may be running" in refusal
    assert not list(tmp_path.rglob("amendments"))

    # And it does not once that start is an hour ago, too
    (claim,) = (checkpoint / "dynamic-kafka" / "q" / "drivers").iterdir()
    os.utime(claim, (an_hour_ago, an_hour_ago))
    assert main(["abandon", str(app), "east", "--yes"]) == 0
