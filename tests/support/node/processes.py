"""The processes of a container, as the node sees them in /proc."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Process(NamedTuple):
    """A process with its command line and its resident memory in MiB."""

    pid: int
    command: tuple[str, ...]
    resident_mib: float


def tree(first: int, proc: Path = _PROC) -> list[Process]:
    """Return a process and all below it, without those that end meanwhile."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # pid (name) state ppid …; the name may hold anything.
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children[int(parent)].append(int(entry.name))
    processes = []
    for pid in _below(first, children):
        with suppress(OSError, StopIteration):
            command = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            status = (proc / str(pid) / "status").read_text().splitlines()
            kib = next(line.split()[1] for line in status if line.startswith("VmRSS:"))  # a zombie has none
            processes.append(Process(pid, tuple(command), int(kib) / 1024))
    return processes


def _below(first: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield first
    for child in children[first]:
        yield from _below(child, children)
