"""Processes that never outlive us: not after Ctrl-C, SIGTERM or kill -9 of the test session or the demo.

Linux ties a child's parent-death signal to the thread that started it, not to the process; so one thread,
which lives as long as the process, starts them all.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_LAUNCH = Path(__file__).with_name("launch.py")
_STOP_SECONDS = 30.0


@functools.cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")


def spawn(
    command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to the file `output`; `environment` replaces ours.

    It has a session of its own, so that Ctrl-C reaches us and not it: whoever started it decides how it ends.
    """
    return _starter().submit(_spawn, command, output, environment).result()


def dying_with_us(command: Sequence[str]) -> list[str]:
    """Return `command` such that it dies with the thread that starts it. Its program may be one on the path."""
    return [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]


def _spawn(command: Sequence[str], output: Path, environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    with output.open("ab") as sink:
        return subprocess.Popen(
            dying_with_us(command),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )


def kill_session(process: subprocess.Popen[bytes], marked: str = "") -> int:
    """kill -9 to all that a spawned process and its children consist of; returns how many, once they are gone.

    A child may leave the process group, as Spark's worker daemon does. One that leaves the session too, as the JVM of
    the application, is found by `marked`: text that only its environment has, and of all that it starts.
    """
    session, mark = process.pid, marked.encode()
    members = seen = _members(session, mark, frozenset())
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)  # nearly all of them at one stroke; the rest below
    deadline = time.monotonic() + _STOP_SECONDS
    # Again until none is left: a process may have forked while we looked.
    while members:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        seen |= members
        process.poll()
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {sorted(members)} of session {session} do not die")
        time.sleep(0.005)
        members = _members(session, mark, seen)
    process.wait()
    return len(seen)


def _members(session: int, mark: bytes, seen: Set[int]) -> set[int]:
    """Return the processes of a session, or with a mark in their environment, their children, and those seen before.

    A zombie is none.
    """
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            # pid (name) state ppid pgrp session …; the name may hold anything.
            state, parent, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            ours = int(entry.name) in seen or int(sid) == session or (mark and mark in (entry / "environ").read_bytes())
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
                members |= {int(entry.name)} if ours else set()
    # A child has no environment for a moment, while it becomes another program.
    return members | {pid for pid, parent in parents.items() if parent in members}


class Process:
    """A server that tests start, stop, kill and pause, over all its lives.

    Attributes:
        log: what it prints, one life after the other.
    """

    def __init__(self, name: str, log: Path) -> None:
        """`name` is how messages call it. Starts nothing."""
        self.log = log
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    @property
    def running(self) -> bool:
        """Whether it lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id. Raises `RuntimeError` when it does not run."""
        return self._alive().pid

    def launch(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it; return at once."""
        self._process = spawn(command, self.log, environment)
        self._paused = False

    def stop(self) -> None:
        """Stop in order (SIGTERM, also when paused), and by force when that takes too long."""
        if not self.running:
            return
        process = self._alive()
        process.send_signal(signal.SIGTERM)
        self.resume()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, which reaches a paused one too; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._paused = False

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers. Returns when it stands still."""
        process = self._alive()
        if not self._paused:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            self._paused = True

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        if self._paused:
            self._alive().send_signal(signal.SIGCONT)
            self._paused = False

    def _alive(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"{self._name} is not running: start it first. Its log: {self.log}")
        return self._process


def last_lines(*logs: Path, lines: int = 15) -> str:
    """Return the last lines of the log files that exist, for messages."""
    tails: list[str] = []
    for log in logs:
        if log.exists():
            tails += log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(tails)
