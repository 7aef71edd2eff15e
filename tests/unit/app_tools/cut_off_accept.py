"""`accept` in a process of its own that is killed right after its n-th step on disk. Arguments: n, then the command.

A topic was re-created, as in `test_cut_off_acceptances`; no broker is asked. The steps are all calls that put, rename,
remove or sync a file.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.state import folder
from tests.unit.app_tools.test_accept_topics import RECREATED, look


def kill_after(last: int) -> None:
    """Let this process be killed after that many steps, without a chance to clean up."""
    steps = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            result = original(*arguments, **named)
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return step

    for owner, names in ((Path, ("open", "replace", "unlink")), (os, ("fsync", "link"))):
        for name in names:
            setattr(owner, name, counted(getattr(owner, name)))


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        look(patch, RECREATED)
        write_local = folder._write_local

        def write(*arguments: Any, **named: Any) -> None:
            if not hasattr(write, "counts"):
                write.counts = True  # type: ignore[attr-defined]
                kill_after(int(sys.argv[1]))
            write_local(*arguments, **named)

        patch.setattr(folder, "_write_local", write)
        sys.exit(main(sys.argv[2:]))
