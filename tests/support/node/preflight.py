"""The preflight of the end-to-end tests: what the machine lacks for a node, and how to add it.

`python -m tests.support.node.preflight` prints it. The kernel's abilities are tried in namespaces that end at once, not
guessed from its version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.node.box import CGROUPS, hierarchies
from tests.support.places import BUILD

PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
PLUGINS = ("ptp", "host-local", "loopback")
_PACKAGES = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "mount": "mount",
    "git": "git",
}
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_MEMORY_GIB = 10
_DISK_GIB = 15
_RULES = """
set -e
ip link add one type veth peer name other
iptables -w -t nat -N TRIED
iptables -w -t nat -A TRIED -m comment --comment tried -m statistic --mode random --probability 0.5 -j RETURN
iptables -w -t nat -A TRIED -p tcp -m conntrack --ctstate NEW -j DNAT --to-destination 10.200.0.1:1
iptables -w -t nat -A TRIED -m mark --mark 0x4000/0x4000 -j MASQUERADE
"""


class Lack(NamedTuple):
    """Something that the machine lacks.

    Attributes:
        what: the missing thing, with the kernel's own message where there is one.
        remedy: what to do about it.
    """

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def lacking() -> list[Lack]:
    """Return everything that the machine lacks; without root, only that."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return [Lack("root on Linux", "run it as root; it changes nothing outside its own namespaces")]
    lacks = [
        *missing_programs(shutil.which),
        *missing_plugins(PLUGIN_FOLDERS),
        *missing_controllers(CGROUPS),
        *too_small(_memory_gib(), _disk_gib()),
    ]
    return lacks or [*_refused_by_the_kernel()]


def missing_programs(which: Callable[[str], str | None]) -> list[Lack]:
    """Return the programs that are not on the path."""
    missing = {program: package for program, package in _PACKAGES.items() if which(program) is None}
    return [Lack(f"program {program}", f"apt-get install {package}") for program, package in missing.items()]


def missing_plugins(folders: Iterable[Path]) -> list[Lack]:
    """Return a lack unless one of the folders has all network plugins."""
    if plugin_folder(folders) is not None:
        return []
    return [Lack(f"network plugins {', '.join(PLUGINS)}", "apt-get install containernetworking-plugins")]


def plugin_folder(folders: Iterable[Path] = PLUGIN_FOLDERS) -> Path | None:
    """Return the folder with all network plugins that a node needs, if there is one."""
    return next((folder for folder in folders if all((folder / plugin).exists() for plugin in PLUGINS)), None)


def missing_controllers(root: Path) -> list[Lack]:
    """Return the control groups' controllers that the machine lacks; `root` is where they are mounted."""
    if not root.is_dir():
        return [Lack("control groups", f"mount them at {root}")]
    version_2 = root / "cgroup.controllers"
    if version_2.exists():
        present = set(version_2.read_text().split())
    else:
        present = {name for hierarchy in hierarchies(root) for name in hierarchy.name.split(",")}
    absent = [name for name in _CONTROLLERS if name not in present]
    return [Lack(f"controller {name} of control groups", "enable it in the kernel's command line") for name in absent]


def too_small(memory_gib: float, disk_gib: float) -> list[Lack]:
    """Return what is too small for a node with two Spark applications."""
    lacks = []
    if memory_gib < _MEMORY_GIB:
        lacks.append(Lack(f"{_MEMORY_GIB} GiB of free memory, here {memory_gib:.0f}", "end other programs"))
    if disk_gib < _DISK_GIB:
        lacks.append(Lack(f"{_DISK_GIB} GiB of free disk at {BUILD}, here {disk_gib:.0f}", "free some"))
    return lacks


def _refused_by_the_kernel() -> Iterable[Lack]:
    """Try what needs the kernel's help, in namespaces that end with the attempt."""
    refused = _attempt("--net", "sh", "-c", _RULES)
    if refused:
        yield Lack(f"a network namespace with veth and iptables ({refused})", "run on a kernel with both")
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        for name in ("lower", "upper", "work", "merged"):
            (Path(folder) / name).mkdir()
        options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        refused = _attempt("--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{folder}/merged")
    if refused:
        yield Lack(f"overlayfs at {BUILD} ({refused})", "name another folder by DYNAMIC_KAFKA_BUILD")
    refused = _attempt("--pid", "--fork", "--mount-proc", "mount", "--bind", "/proc/sys", "/proc/sys")
    if refused:
        yield Lack(f"a pid namespace with its own /proc ({refused})", "run outside of a container")
    for hierarchy in hierarchies():
        tried = hierarchy / f"dynamic-kafka-tried-{os.getpid()}"
        try:
            tried.mkdir()
            tried.rmdir()
        except OSError as error:
            yield Lack(f"a control group of its own ({error})", "run where control groups may be written")


def _attempt(*command: str) -> str:
    """Run `unshare`; return its message when it fails, else nothing."""
    done = subprocess.run(["unshare", *command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or f"exit code {done.returncode}"


def _memory_gib() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 2**20


def _disk_gib() -> float:
    BUILD.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(BUILD).free / 2**30


def main() -> int:
    """Print what is missing; return 1 if anything is."""
    lacks = lacking()
    for lack in lacks:
        print(f"The machine lacks {lack}", file=sys.stderr)
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main())
