"""The processes of a container, read from a folder like /proc, and from the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.node.processes import tree


def process(proc: Path, pid: int, parent: int, *command: str, kib: int | None = 1024) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a (strange) name) S {parent} 1 1 0")
    (folder / "cmdline").write_bytes("".join(f"{part}\0" for part in command).encode())
    (folder / "status").write_text("Name:\tx\n" + (f"VmRSS:\t{kib} kB\n" if kib is not None else ""))


def test_only_the_process_and_those_below_it_are_found(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "init")
    process(tmp_path, 7, 1, "tini", "-s")
    process(tmp_path, 9, 7, "java", "-cp", kib=2048)
    process(tmp_path, 11, 9, "python")
    process(tmp_path, 12, 9, "zombie", kib=None)
    process(tmp_path, 13, 1, "another container")
    (tmp_path / "meminfo").write_text("")

    assert [(member.pid, member.command, member.resident_mib) for member in tree(7, tmp_path)] == [
        (7, ("tini", "-s"), 1.0),
        (9, ("java", "-cp"), 2.0),
        (11, ("python",), 1.0),
    ]


def test_a_container_that_has_ended_has_no_process(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "init")

    assert tree(7, tmp_path) == []


def test_a_child_of_this_process_is_found() -> None:
    # The child writes a line when it runs. Until then it has little memory, or still the command of this process.
    command = (sys.executable, "-c", "input(print('runs', flush=True))")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "runs\n"
        children = [member for member in tree(os.getpid()) if member.pid == child.pid]
        child.communicate("end\n")

    assert [member.command for member in children] == [command]
    assert children[0].resident_mib > 1
