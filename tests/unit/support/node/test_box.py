"""The box clears control groups and files, and no two runs use it at once. No namespace is made here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node import box
from tests.support.node.box import Box, BoxError, hierarchies, remove_cgroups


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return folders that stand for the control groups of version 1, with two hierarchies."""
    root = tmp_path / "cgroup"
    for name in ("cpu", "memory"):
        (root / name).mkdir(parents=True)
    monkeypatch.setattr(box, "hierarchies", lambda: hierarchies(root))
    return root


def test_version_2_has_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "cgroup.controllers").write_text("cpu memory")

    assert hierarchies(tmp_path) == [tmp_path]


def test_version_1_has_one_for_each_controller(groups: Path) -> None:
    (groups / "cpu,cpuacct").symlink_to("cpu")

    assert hierarchies(groups) == [groups / "cpu", groups / "memory"]


def test_clear_removes_groups_with_all_below(groups: Path, tmp_path: Path) -> None:
    own = Box(tmp_path / "e2e" / "box")
    (groups / "cpu" / own.name / "kubepods" / "pod-1").mkdir(parents=True)
    (groups / "memory" / own.name).mkdir()
    (groups / "cpu" / "of-somebody-else").mkdir()
    own.folder.mkdir(parents=True)
    (own.folder / "left").write_text("by a killed run")

    own.clear()

    assert (own.cgroups(), own.folder.exists()) == ([], False)
    assert (groups / "cpu" / "of-somebody-else").is_dir()


def test_groups_with_processes_are_reported(tmp_path: Path) -> None:
    busy = tmp_path / "box" / "kubepods"
    busy.mkdir(parents=True)
    (busy / "tasks").write_text("1")  # like a control group with a process, a folder with a file is not removed

    assert remove_cgroups([tmp_path / "box"]) == [busy, tmp_path / "box"]


def test_clear_ends_the_box_of_a_killed_run(groups: Path, tmp_path: Path) -> None:
    own = Box(tmp_path / "e2e" / "box")
    own.folder.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as first:
        own.record(first.pid)

        own.clear()

        assert first.wait(10) == -9


def test_an_interrupted_start_ends_the_box(groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lived_on = tmp_path / "lived-on"
    unshare = tmp_path / "unshare"
    unshare.write_text(f"#!/bin/sh\nsleep 3\ntouch {lived_on}\n")
    unshare.chmod(0o755)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(box, "_child", interrupt)
    own = Box(tmp_path / "e2e" / "box")

    with pytest.raises(KeyboardInterrupt):
        own.run(["true"], {"PATH": f"{tmp_path}:{os.environ['PATH']}"})

    assert (lived_on.exists(), own.folder.exists()) == (False, False)


def test_another_process_of_the_same_number_lives(groups: Path, tmp_path: Path) -> None:
    own = Box(tmp_path / "e2e" / "box")
    own.folder.mkdir(parents=True)
    own.record(os.getpid())
    recorded = next(own.folder.glob("*.json"))
    recorded.write_text(recorded.read_text().replace('"started": "', '"started": "9'))

    own.clear()

    assert not own.folder.exists()


def test_no_two_runs_use_one_box(groups: Path, tmp_path: Path) -> None:
    own = Box(tmp_path / "e2e" / "box")
    with own.locked(), pytest.raises(BoxError, match="Another run uses"):
        own.clear()


def test_clones_have_boxes_of_their_own(tmp_path: Path) -> None:
    assert Box(tmp_path / "one").name != Box(tmp_path / "other").name
