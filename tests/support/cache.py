"""The user's cache: what is fetched or built once per machine, so that a fresh clone does not do it again."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/dynamic-kafka`, by default below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dynamic-kafka"


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; `make` makes it the first time. The name has to say all that it depends on.

    Safe against interruption and against a second process: `make` writes to a path beside it, which does not
    exist yet and is renamed when complete; others wait meanwhile. What `make` raises comes through.
    """
    target = cache_folder() / name
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{name}.lock").open("w") as lock:
        _wait_for(lock, name)
        if not target.is_dir():
            for left_over in target.parent.glob(f".{name}.*/"):  # by a process that was killed
                shutil.rmtree(left_over, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=target.parent) as scratch:
                arriving = Path(scratch) / "arriving"
                make(arriving)
                arriving.rename(target)
    return target


def _wait_for(lock: TextIO, name: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"Another process is making {name}: waiting for it", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
