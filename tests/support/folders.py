"""Folders of servers: `build/<kind>/<run>/<name>`, a kind being `brokers` or `kube`, a run being one process.

Runs that failed or were killed leave theirs behind; only the newest few are kept.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from tests.support.places import BUILD

_RUNS_KEPT = 8
_counter = itertools.count(1)


def new_folder(kind: str, name: str) -> Path:
    """Make an empty folder for a server of this run."""
    folder = _run(BUILD / kind) / f"{next(_counter):02d}-{name}"
    folder.mkdir(parents=True)
    return folder


def remove_folder(folder: Path, *, keep_logs: bool) -> None:
    """Delete a server's folder, or only `data` in it, where all is that is neither log nor configuration."""
    shutil.rmtree(folder / "data" if keep_logs else folder, ignore_errors=True)


@functools.cache
def _run(kind: Path) -> Path:
    _prune(kind)
    run = kind / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    run.mkdir(parents=True)
    atexit.register(_remove_if_empty, run)
    return run


def _remove_if_empty(run: Path) -> None:
    with suppress(OSError):
        run.rmdir()


def _prune(kind: Path) -> None:
    runs = sorted(kind.glob("*-*-*"))
    for run in runs[:-_RUNS_KEPT]:
        if not Path(f"/proc/{run.name.rpartition('-')[2]}").exists():
            shutil.rmtree(run, ignore_errors=True)
