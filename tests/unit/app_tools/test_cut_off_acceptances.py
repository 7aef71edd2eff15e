"""`accept` is killed at each step of its writes: the verdict stands or is accepted, and the next `accept` works."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.state.verdicts import save_change, saved_changes
from tests.support.places import ROOT
from tests.unit.app_tools.saved_app import saved_app
from tests.unit.app_tools.test_accept_topics import RECREATED, SAVED, look, stands, state_of

pytestmark = pytest.mark.deep("a kill at each step")


def test_a_killed_acceptance_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for step in range(1, 50):
        app = saved_app(tmp_path / str(step), SAVED)
        save_change(state_of(app), "q", "verdict", RECREATED)
        command = [sys.executable, "-m", "tests.unit.app_tools.cut_off_accept", str(step), "accept", str(app), "--yes"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr

        # Then the acceptance is there whole, with its audit record, or the start ends with the same verdict
        accepted = list(saved_changes(state_of(app), "q", "accepted").values())
        audited = state_of(app).list_folder("audit")
        outcomes.append(bool(accepted))
        assert accepted in ([], [RECREATED])
        assert audited or not accepted
        assert stands(app) == ([] if accepted else [RECREATED])

        # And the command works again
        look(monkeypatch, RECREATED)
        assert main(["accept", str(app), "--topic", "east/orders", "--yes"]) == 0
        assert stands(app) == []
    else:
        raise AssertionError("it never came to its end")
    assert outcomes == sorted(outcomes) and {False, True} == set(outcomes), outcomes
