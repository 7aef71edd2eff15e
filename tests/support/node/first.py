"""The first process of a box: `python -m tests.support.node.first FOLDER NAME COMMAND…`. Only `box.py` starts it.

It prepares mounts, network and control groups, runs the command, and collects the processes that lost their parent.
When it ends, the kernel ends everything in the box.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.node.box import ADDRESS, hierarchies

_RUN = Path("/run")
# containerd, the CNI plugins and the kubelet write below these, some to fixed paths.
_OVERLAID = (Path("/var/lib"), Path("/var/log"), Path("/opt"))
_SYSCTLS = Path("/proc/sys")
# The kubelet insists on setting these, which are the whole machine's. It gets files of the box in their place.
_KUBELETS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
_KUBELETS_KEYS = ("kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys")


def main() -> int:
    """Prepare the box, run the command, and return its exit code."""
    folder, name, command = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    _prepare_mounts(folder)
    _prepare_network()
    for hierarchy in hierarchies():
        _make_cgroup(hierarchy / name)
    child = subprocess.Popen(command)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)


def _prepare_mounts(folder: Path) -> None:
    """Make what the node writes private: /run, /var, and the system controls that are not the network's."""
    _mount("-t", "tmpfs", "tmpfs", _RUN)
    kept = _RUN / "kept"
    kept.mkdir()
    _mount("--bind", folder, kept)
    for path in _OVERLAID:
        layer = _RUN / "overlaid" / path.name
        for part in ("upper", "work"):
            (layer / part).mkdir(parents=True)
        options = f"lowerdir={path},upperdir={layer / 'upper'},workdir={layer / 'work'}"
        _mount("-t", "overlay", "overlay", "-o", options, path)
    # The folder itself may lie below an overlaid one, whose files are in memory.
    folder.mkdir(parents=True, exist_ok=True)
    _mount("--bind", kept, folder)
    # Those of the network belong to the box, and the others to the machine.
    _mount("--bind", _SYSCTLS, _SYSCTLS)
    _mount("-o", "remount,bind,ro", _SYSCTLS)
    network = _SYSCTLS / "net"
    _mount("--bind", network, network)
    _mount("-o", "remount,bind,rw", network)
    for name in (*_KUBELETS, *_KUBELETS_KEYS):
        own = _RUN / "system-controls" / name
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text((_SYSCTLS / name).read_text())
        _mount("--bind", own, _SYSCTLS / name)
    # The kubelet passes mounts on to containers. Ours are already apart from the machine's.
    _mount("--make-rshared", "/")


def _prepare_network() -> None:
    """Give the box its only address. Pods and the node reach nothing beyond the box."""
    _call("ip", "link", "set", "lo", "up")
    _call("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    (_SYSCTLS / "net" / "ipv4" / "ip_forward").write_text("1")


def _make_cgroup(path: Path) -> None:
    path.mkdir(exist_ok=True)
    # Version 1 starts with an empty set of processors; version 2 passes on no controller by itself.
    for name in ("cpuset.cpus", "cpuset.mems"):
        with suppress(OSError):
            (path / name).write_text((path.parent / name).read_text())
    for group in (path.parent, path):
        with suppress(OSError):
            controllers = (group / "cgroup.controllers").read_text().split()
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def _mount(*arguments: str | Path) -> None:
    _call("mount", *map(str, arguments))


def _call(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
