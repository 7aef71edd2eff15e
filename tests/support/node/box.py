"""A box: the namespaces of Linux in which the end-to-end tests run, so that nothing of them stays on the machine.

Everything runs in the box: the node, the control plane, the brokers and pytest itself. Its network namespace has only
addresses that exist nowhere else. When the first process of its pid namespace ends, the kernel ends all others, and
with them go the interfaces, the rules of iptables and the mounts. That process dies with ours, also after kill -9.

Two things outlive the processes: control groups, which have the box's name, and the files in its folder. `Box.clear`
removes both: after each run, before the next one, and by `python -m tests.support.node.box` (`make e2e-clean`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import BUILD, ROOT
from tests.support.supervise import dying_with_us
from tests.support.waiting import wait_until

ADDRESS = "10.200.0.1"
"""The address of the node in the box: of its API server and of the brokers outside the cluster."""

CGROUPS = Path("/sys/fs/cgroup")
INSIDE = "DYNAMIC_KAFKA_BOX"
"""The environment variable that names the box's folder to all processes in it."""

_NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts")
_GONE_S = 60.0


class BoxError(RuntimeError):
    """The box cannot be used, or does not go away; the message says what to do."""


@dataclass(frozen=True)
class Box:
    """The box of one clone of the repository.

    Attributes:
        folder: all files of the node. It exists only while a box does.
    """

    folder: Path

    @property
    def name(self) -> str:
        """The name of the box's control groups, which no other clone on the machine uses."""
        return f"dynamic-kafka-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}"

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run a command in a new box, clear the box afterwards, and return the command's exit code.

        Raises:
            BoxError: another process uses the box.
        """
        with self.locked():
            self._clear()
            self.folder.mkdir(parents=True)
            unshare = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc"]
            first = [sys.executable, "-m", "tests.support.node.first", str(self.folder), self.name, *command]
            # A session of its own: Ctrl-C reaches only us, and we end the box.
            process = subprocess.Popen(
                dying_with_us([*unshare, *first]),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**environment, INSIDE: str(self.folder)},
            )
            try:
                pid = wait_until(lambda: _child(process.pid), "the box", failed=lambda: _ended(process), error=BoxError)
                self.record(pid)
                return process.wait()
            finally:
                process.kill()  # with it goes the box, also one that is not recorded yet
                process.wait()
                self._clear()

    def clear(self) -> None:
        """End a box that a killed run left, and remove its control groups and files.

        Raises:
            BoxError: a run is under way.
        """
        with self.locked():
            self._clear()

    def cgroups(self) -> list[Path]:
        """Return the box's control groups that exist, one in each hierarchy."""
        return [path for path in (hierarchy / self.name for hierarchy in hierarchies()) if path.is_dir()]

    def record(self, pid: int) -> None:
        """Record the first process of the box, for the next run in case that this one is killed."""
        self._record.write_text(json.dumps({"pid": pid, "started": _started(pid)}))

    @property
    def _record(self) -> Path:
        return self.folder / "first-process.json"

    def _clear(self) -> None:
        with suppress(FileNotFoundError, ValueError):
            record = json.loads(self._record.read_text())
            _end(record["pid"], record["started"])
        wait_until(lambda: not remove_cgroups(self.cgroups()), f"control groups {self.name} to be free", error=BoxError)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs off. Raises `BoxError` when another one uses the box."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self.folder.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BoxError(f"Another run uses {self.folder}: wait for its end, or stop it.") from None
            yield


def own_box() -> Box:
    """Return the box of this clone."""
    return Box(BUILD / "e2e" / "box")


def inside() -> Path | None:
    """Return the folder of the box that this process is in; None outside of one."""
    folder = os.environ.get(INSIDE)
    return Path(folder) if folder else None


def hierarchies(root: Path = CGROUPS) -> list[Path]:
    """Return the roots of the control groups: one with version 2, else one for each set of controllers."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(hierarchy for hierarchy in root.iterdir() if hierarchy.is_dir() and not hierarchy.is_symlink())


def remove_cgroups(roots: Sequence[Path]) -> list[Path]:
    """Remove control groups with all below them; return those that still have processes."""
    left = []
    for root in roots:
        for folder, _, _ in os.walk(root, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(Path(folder))
    return left


def _end(pid: int, started: str) -> None:
    """Kill the first process of a box, and wait until all of the box has ended."""
    if _started(pid) != started:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    # The kernel lets the first process of a pid namespace become a zombie only after all others have ended.
    wait_until(lambda: _started(pid) != started, f"process {pid} to end", timeout_s=_GONE_S, error=BoxError)


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; nothing when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _child(parent: int) -> int | None:
    """Return the child of a process, if there is one already."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    return int(entry.name)
    return None


def _ended(process: subprocess.Popen[bytes]) -> str | None:
    return None if process.poll() is None else f"it has ended with {process.returncode}"


def main() -> None:
    """Clear the box of this clone; exit with 1 and the reason if another run uses it."""
    try:
        own_box().clear()
    except BoxError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
