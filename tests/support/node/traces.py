"""The traces that a node may leave on the machine: the end-to-end tests compare them before and after a run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.node.box import INSIDE, Box

_SAVERS = ("iptables-save", "iptables-legacy-save", "ip6tables-save", "ip6tables-legacy-save")
_MOUNTED = ("/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/run/containerd", "/run/netns", "/run/kept")


def traces(box: Box) -> set[str]:
    """Return what a box could leave, each with its kind, such as `interface` or `mount`."""
    return {
        *(f"interface {name}" for name in os.listdir("/sys/class/net")),
        *(f"rule {rule}" for rule in _rules()),
        *(f"mount {point}" for point in mounts(Path("/proc/self/mountinfo").read_text(), box.folder)),
        *(f"control group {group}" for group in box.cgroups()),
        *(f"process {pid}" for pid in _processes(str(box.folder))),
        *([f"folder {box.folder}"] if box.folder.exists() else []),
    }


def mounts(mountinfo: str, folder: Path) -> Iterator[str]:
    """Yield the mount points in /proc/self/mountinfo that a node makes, or that are below `folder`."""
    for line in mountinfo.splitlines():
        point = line.split()[4]
        if any(point == mount or point.startswith(f"{mount}/") for mount in (*_MOUNTED, str(folder))):
            yield point


def rules(saved: str) -> Iterator[str]:
    """Yield the rules and chains in the output of `iptables-save`, without its times and counters."""
    for line in saved.splitlines():
        if line and not line.startswith("#"):
            yield line.partition(" [")[0] if line.startswith(":") else line


def _rules() -> Iterator[str]:
    for program in _SAVERS:
        if shutil.which(program):
            done = subprocess.run([program], capture_output=True, text=True, check=False)
            yield from (f"of {program}: {rule}" for rule in rules(done.stdout))


def _processes(folder: str) -> Iterator[int]:
    """Yield the processes of a box, by the variable that only their environment has."""
    mark = f"{INSIDE}={folder}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
