"""A terminal session that ends while servers run in it, to test that no process outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT
from tests.support.waiting import eventually


def ended_session(script: str, how: signal.Signals, build: Path) -> tuple[list[int], list[bool]]:
    """Run a Python script that prints process ids and waits; end it so. The ids, and whether each was alive before.

    Args:
        how: sent to the whole group, as a terminal does.
        build: the folder for its servers, instead of the project's.
    """
    session = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"DYNAMIC_KAFKA_BUILD": str(build)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert session.stdout is not None
    with session.stdout as output:
        pids = [int(pid) for pid in output.readline().split()]
        alive_before = [is_alive(pid) for pid in pids]
        os.killpg(session.pid, how)
        session.wait(20)
    return pids, alive_before


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie has ended, whether or not its parent has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the second when it ends between opening and reading
        return False


def all_end(pids: list[int], seconds: float = 20) -> bool:
    """Whether all of them end in time."""
    return eventually(lambda: not any(is_alive(pid) for pid in pids), seconds)
