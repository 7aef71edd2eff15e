"""Processes that never outlive us: not after Ctrl-C, SIGTERM or kill -9 of the test session or the demo.

Linux ties a child's parent-death signal to the thread that started it, not to the process; so one thread,
which lives as long as the process, starts them all.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_LAUNCH = Path(__file__).with_name("launch.py")


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker-starter")


def spawn(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to the file `output`.

    It has a session of its own, so that Ctrl-C reaches us and not it: whoever started it decides how it ends.
    """
    return _starter().submit(_spawn, command, output).result()


def _spawn(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    launch = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]
    with output.open("ab") as sink:
        return subprocess.Popen(
            launch, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
