"""kill -9 of the demo reaches everything that a driver consists of."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.driver import Driver, DriverError

FAMILY = """
import os, subprocess, sys, time
from pathlib import Path
# A child as the JVM is, and one that leaves the process group as Spark's daemon of workers does.
sleep = "import time; time.sleep(300)"
jvm = subprocess.Popen([sys.executable, "-c", sleep])
daemon = subprocess.Popen([sys.executable, "-c", sleep], process_group=0)
draft = Path(sys.argv[1] + ".draft")
draft.write_text(f"{jvm.pid} {daemon.pid}")
draft.rename(sys.argv[1])
time.sleep(300)
"""


class Family(Driver):
    """A driver whose job is a small family of processes."""

    def start(self) -> None:
        self.children = self._folder / "children"
        self._process = subprocess.Popen([sys.executable, "-c", FAMILY, str(self.children)], start_new_session=True)
        self.starts.append(self._process.pid)
        deadline = time.monotonic() + 30
        while not self.children.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    driver = Family(tmp_path)
    driver.start()
    yield driver
    driver.close()


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_a_kill_leaves_none_alive(family: Family) -> None:
    pids = [*family.starts, *map(int, family.children.read_text().split())]
    assert all(alive(pid) for pid in pids)

    assert family.kill() == 3

    assert not any(alive(pid) for pid in pids)
    assert not family.running


def test_starts_and_kills_are_counted_as_they_happen(family: Family) -> None:
    assert family.restarts_beyond_kills == 0
    family.kill()
    assert family.restarts_beyond_kills == -1
    family.children.unlink()
    family.start()
    assert family.restarts_beyond_kills == 0


def test_a_driver_that_ends_by_itself_is_noticed(family: Family) -> None:
    family.log.write_text("why it ended\n")
    family.close()

    with pytest.raises(DriverError, match=r"(?s)ended by itself.*why it ended"):
        family.check()
