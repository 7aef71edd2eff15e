"""The user's cache of downloads and built programs, shared by all clones on a machine."""

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
    """Return `$XDG_CACHE_HOME/dynamic-kafka`, by default below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dynamic-kafka"


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache, and let `make` fill it the first time.

    The name must contain all that the content depends on, such as a hash of its pins. `make` writes to a path that does
    not exist yet, and the folder is renamed when it is complete: an interruption leaves nothing half made. A second
    process waits meanwhile. Errors of `make` are raised.
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
