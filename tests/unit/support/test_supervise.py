"""SIGKILL ends all processes of a driver, and a program that is missing has its name in the log."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.support.sessions import is_alive
from tests.support.supervise import kill_session, spawn

FAMILY = """
import os, subprocess, sys, time
from pathlib import Path
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
# As Spark's daemon of workers, which leaves the process group, and as the application's JVM, which leaves the session.
# The last one has no environment, as while it becomes another program.
daemon = subprocess.Popen(sleep, process_group=0)
jvm = subprocess.Popen(sleep, start_new_session=True)
bare = subprocess.Popen(sleep, start_new_session=True, env={})
draft = Path(sys.argv[1] + ".draft")
draft.write_text(f"{daemon.pid} {jvm.pid} {bare.pid}")
draft.rename(sys.argv[1])
time.sleep(300)
"""


def test_a_kill_ends_every_process(tmp_path: Path) -> None:
    children, mark = tmp_path / "children", f"POD_FOLDER={tmp_path}"
    environment = {**os.environ, "POD_FOLDER": str(tmp_path)}
    other = spawn([sys.executable, "-c", "import time; time.sleep(300)"], tmp_path / "log", dict(os.environ))
    process = spawn([sys.executable, "-c", FAMILY, str(children)], tmp_path / "log", environment)
    deadline = time.monotonic() + 30
    while not children.exists():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.01)
    pids = [process.pid, *map(int, children.read_text().split())]
    assert all(is_alive(pid) for pid in pids)

    assert kill_session(process, marked=f"{mark}\0") == 4

    assert not any(is_alive(pid) for pid in pids)
    assert is_alive(other.pid)
    assert kill_session(other) == 1


def test_a_program_is_found_on_the_path_or_named(tmp_path: Path) -> None:
    assert spawn(["true"], tmp_path / "log").wait(30) == 0
    assert spawn(["no-such-program"], tmp_path / "log").wait(30) == 1
    assert (tmp_path / "log").read_text() == "no-such-program: No such file or directory\n"
