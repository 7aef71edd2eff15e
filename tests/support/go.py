"""Go programs from pinned modules, built once per machine into the user's cache.

A program's folder in the cache is named after its version and a hash of all that it is built from: other pins
are another folder. A program need not have source of its own: `package` may be a command of a pinned module.
Runs in `make setup-kube`, and in a test session that comes first; never again while the pins stand.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.cache import cache_folder, made_once
from tests.support.supervise import dying_with_us

# From this release on, Go fetches the newer one that a go.mod asks for by itself.
_OLDEST_GO = (1, 21)
# Where its installation instructions put it, on no path by itself.
_GO_HOME = "/usr/local/go/bin"
_PROGRESS_SECONDS = 10.0
# From this share of the packages on, the time so far is a measure of what is left.
_MEASURABLE = 0.1
_PINS = ("go.mod", "go.sum", "*.go")


class GoUnavailableError(RuntimeError):
    """Go is missing, too old or failed; the message says what to do, or ends with what it printed."""


@dataclass(frozen=True)
class GoProgram:
    """A Go program and the pinned modules that it is built from.

    Attributes:
        name: of the executable.
        source: the folder with `go.mod`, `go.sum` and any source.
        module: the pinned module that gives the program its version; empty if it needs no module.
        package: what to build, as seen from `source`.
        processor_seconds: about what it takes to build when nothing is compiled yet.
        tags: build tags.
        version_variables: Go variables that the linker sets to the version, `v` included.
        complete: adds other files to the folder of the executable.
    """

    name: str
    source: Path
    module: str
    package: str = "."
    processor_seconds: int = 60
    tags: tuple[str, ...] = ()
    version_variables: tuple[str, ...] = ()
    complete: Callable[[Path], None] | None = None

    @property
    def version(self) -> str:
        """The version of `module` in `go.mod`, such as `v1.2.3`."""
        if not self.module:
            return "v0"
        pins = (self.source / "go.mod").read_text()
        pinned = re.search(rf"^(?:require)?\s+{re.escape(self.module)} (v\S+)", pins, re.MULTILINE)
        if pinned is None:
            raise GoUnavailableError(f"{self.source}/go.mod does not require {self.module}: add it.")
        return pinned[1]

    @property
    def cache_name(self) -> str:
        """The name of its folder in the cache."""
        digest = hashlib.sha256(repr([[*self._options(), self.package], platform.machine()]).encode())
        for pattern in _PINS:
            for path in sorted(self.source.glob(pattern)):
                digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
        return f"{self.name}-{self.version.removeprefix('v')}-{digest.hexdigest()[:12]}"

    def _options(self) -> list[str]:
        flags = ["-s", "-w", *(f"-X={variable}={self.version}" for variable in self.version_variables)]
        # The linker drops debug information anyway (-s -w); without it the compiler needs a quarter less time. Inlining
        # takes a sixth of the rest. Only the standard library keeps it: its maps and allocator need it most.
        compiler = ["-gcflags=all=-dwarf=false -l", "-gcflags=std=-dwarf=false"]
        return [f"-tags={','.join(self.tags)}", *compiler, f"-ldflags={' '.join(flags)}"]

    def _command(self, verb: str, *flags: str, package: str = "") -> list[str]:
        # nice: minutes of all processors, on a machine that somebody works on.
        start = ["nice", "-n", "15", _find_go(), verb, "-mod=readonly", "-trimpath", "-buildvcs=false"]
        return [*start, *flags, *self._options(), package or self.package]


@functools.cache
def executable(program: GoProgram) -> Path:
    """Return the executable of `program`; see `built`, whose folder is looked up once in a process."""
    return built(program) / program.name


def built(program: GoProgram) -> Path:
    """Return the folder with the executable of `program`; build it the first time, which takes minutes.

    Raises:
        GoUnavailableError: Go is missing, too old, or failed.
    """

    def make(arriving: Path) -> None:
        arriving.mkdir()
        _build(program, arriving / program.name)
        if program.complete is not None:
            program.complete(arriving)

    return made_once(program.cache_name, make)


def module_folder(program: GoProgram, module: str) -> Path:
    """Return where Go keeps the files of a module that `program` is built from. Raises `GoUnavailableError`."""
    command = [_find_go(), "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(command, cwd=program.source, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoUnavailableError(f"Go does not find {module}:\n{done.stderr}")
    return Path(done.stdout.strip())


def _build(program: GoProgram, target: Path) -> None:
    name, scratch = f"{program.name} {program.version}", target.parent.parent
    processors = len(os.sched_getaffinity(0))
    takes_s = program.processor_seconds / processors
    takes = f"about {math.ceil(takes_s / 60)} min on {processors} processors"
    print(f"Building {name} into {cache_folder()}, once per machine: {takes}", file=sys.stderr)
    # Which packages there are is known only when the modules are here; what was compiled before is not named again.
    progress = _Progress(f"{name}: fetched {{}} modules")
    # Meanwhile the standard library is compiled, which needs no module.
    with ThreadPoolExecutor(1, "std") as pool:
        std = pool.submit(_run, program, program._command("build", package="std"), scratch, _Progress("std"))
        listed = _run(program, program._command("list", "-deps"), scratch, progress)
        std.result()
    packages = sum(not line.startswith("go: ") for line in listed)
    progress = _Progress(f"{name}: compiled {{}} packages of at most {packages}", packages, takes_s)
    _run(program, program._command("build", "-v", f"-o={target}"), scratch, progress)
    print(f"Built {name} in {progress.seconds:.0f} s", file=sys.stderr)


class _Progress:
    """Says now and then how far a command is, by counting the lines it prints.

    On a terminal it rewrites its line. Other programs of a set-up write there, too: theirs go on where ours ends.
    """

    def __init__(self, what: str, total: int = 0, takes_s: float = 0.0) -> None:
        self._what, self._total, self._takes_s = what, total, takes_s
        self._begin = self._printed_at = time.monotonic()
        self._lines = 0
        self._start, self._end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def line(self) -> None:
        self._lines += 1
        if time.monotonic() - self._printed_at < _PROGRESS_SECONDS:
            return
        self._printed_at = time.monotonic()
        text = self._what.format(self._lines)
        if self._total:
            done = self._lines / self._total
            # Where the first lines come slowly, most was compiled before and is never named.
            whole_s = self._takes_s if done < _MEASURABLE else self.seconds / done
            text += f", about {max(1, math.ceil((whole_s - self.seconds) / 60))} min left"
        print(f"{self._start}  {text} … ", end=self._end, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End a line that would have been rewritten."""
        print(self._start, end="", file=sys.stderr, flush=True)


def _run(program: GoProgram, command: list[str], scratch: Path, progress: _Progress) -> list[str]:
    """Run a command and return the lines it printed.

    The command gets the terminal's signals, so Ctrl-C ends it too, and the kernel kills it when this process is killed.
    Its files are in `scratch` until then.
    """
    lines: list[str] = []
    last = deque[str](maxlen=30)
    with subprocess.Popen(
        dying_with_us(command),
        cwd=program.source,
        env=_environment() | {"GOTMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            lines.append(line)
            last.append(line)
            progress.line()
    progress.close()
    if running.returncode != 0:
        raise GoUnavailableError(f"Go could not build {program.name} in {program.source}:\n{''.join(last)}")
    return lines


def _environment() -> dict[str, str]:
    ours = {
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        # The compiler collects less garbage, and takes more memory.
        "GOGC": "400",
    }
    # Distributions set `local`, which refuses the newer release that a go.mod asks for.
    return {"GOTOOLCHAIN": "auto", **os.environ, **ours}


def _find_go() -> str:
    go = shutil.which("go") or shutil.which("go", path=_GO_HOME)
    if go is None:
        raise GoUnavailableError("No Go: install Go >= 1.21 (https://go.dev/doc/install), or `golang` of your system.")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < _OLDEST_GO:
        raise GoUnavailableError(
            f"{go} is {version or 'no working Go'}: >= 1.21 is needed (https://go.dev/doc/install)."
        )
    return go
