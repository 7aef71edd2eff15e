"""The CPU time of a session has that of its living processes and of those that have ended."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, subprocess, sys, time
from tests.bench.processes import session_cpu_seconds

burn = "import time\\nwhile time.process_time() < {}: pass\\nprint('done', flush=True)\\n{}"
before = session_cpu_seconds()
subprocess.run([sys.executable, "-c", burn.format(0.3, "")], stdout=subprocess.DEVNULL, check=True)
ended = session_cpu_seconds()
living = subprocess.Popen([sys.executable, "-c", burn.format(0.3, "input()")], stdin=-1, stdout=-1)
living.stdout.readline()
seen = session_cpu_seconds()
command = [sys.executable, "-c", burn.format(0.3, "input()")]
stranger = subprocess.Popen(command, stdin=-1, stdout=-1, start_new_session=True)
stranger.stdout.readline()
last = session_cpu_seconds()
for process in (living, stranger):
    process.communicate(b"\\n")
print(ended - before, seen - ended, last - seen)
"""


def test_children_count_ended_or_not_and_strangers_do_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], text=True, stdout=subprocess.PIPE, check=True, start_new_session=True
    )

    ended, living, stranger = map(float, done.stdout.split())
    # Clock ticks are hundredths of a second.
    assert ended >= 0.28 and living >= 0.28
    assert stranger < 0.2
