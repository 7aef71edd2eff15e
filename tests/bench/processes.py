"""CPU time of a whole session of processes, by `/proc`."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def session_cpu_seconds() -> float:
    """Return the CPU seconds so far of all processes of this process's session, with those of ended children.

    For a Spark session they are the driver's Python, its JVM, the planners and Python's workers with their daemon. A
    broker that `spawn` started has a session of its own. An ended child counts once its parent has waited for it.
    """
    session, total = str(os.getsid(0)), 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state ppid pgrp session … utime stime cutime cstime; the name may hold anything.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        if fields[3] == session:
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of one process so far, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
