"""The preflight names each thing that a machine lacks, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.node import preflight
from tests.support.node.preflight import lacking, missing_controllers, missing_plugins, missing_programs, too_small


def test_a_missing_program_is_named_with_its_package() -> None:
    missing = missing_programs(lambda name: None if name == "ctr" else f"/usr/bin/{name}")

    assert [str(lack) for lack in missing] == ["program ctr: apt-get install containerd"]


def test_plugins_must_be_in_one_folder(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "ptp").touch()
    assert [plugin.remedy for plugin in missing_plugins([one, other])] == [
        "apt-get install containernetworking-plugins"
    ]

    (other / "host-local").touch()
    (other / "loopback").touch()

    assert missing_plugins([one, other]) == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_missing_controller_is_named(tmp_path: Path, version: int) -> None:
    if version == 2:
        (tmp_path / "cgroup.controllers").write_text("cpu cpuset memory io")
    else:
        for name in ("cpu,cpuacct", "cpuset", "memory"):
            (tmp_path / name).mkdir()

    assert [controller.what for controller in missing_controllers(tmp_path)] == ["controller pids of control groups"]


def test_no_control_groups_at_all_are_reported(tmp_path: Path) -> None:
    assert [controller.what for controller in missing_controllers(tmp_path / "absent")] == ["control groups"]


def test_a_small_machine_is_reported() -> None:
    assert too_small(memory_gib=32, disk_gib=100) == []
    assert [lack.what.split(",")[0] for lack in too_small(memory_gib=4, disk_gib=100)] == ["10 GiB of free memory"]


def test_without_root_nothing_else_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.os, "geteuid", lambda: 1000)

    assert [lack.what for lack in lacking()] == ["root on Linux"]
