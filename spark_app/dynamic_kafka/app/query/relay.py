"""Lets what a child process writes come out of this process, line by line, so that a live table is drawn below it.

Lines that reach the terminal on their own would be drawn over, or push the table's head up each time. Driver.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def relayed() -> Iterator[dict[str, int]]:
    """Arguments of `Popen` for a child that is started within: its standard error, and its standard output where ours
    is a terminal, too. The lines come for as long as the child, or a child of its own, has its end open.

    If it cannot be started, what it has said about that is out before the error is.
    """
    names = ["stderr", "stdout"] if sys.stdout.isatty() else ["stderr"]
    ends, threads = {}, []
    for name in names:
        theirs, ends[name] = os.pipe()
        threads.append(threading.Thread(target=_copy, args=(theirs, name), name=f"relay-{name}", daemon=True))
        threads[-1].start()
    try:
        yield dict(ends)
    except BaseException:
        _close(ends)
        for thread in threads:
            thread.join(timeout=1.0)
        raise
    _close(ends)


def _close(ends: dict[str, int]) -> None:
    """Ours; the child has its own copies."""
    while ends:
        os.close(ends.popitem()[1])


def _copy(source: int, name: str) -> None:
    """Each line to what `sys.stderr` or `sys.stdout` is when it comes: a live table puts itself there."""
    with open(source, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stream = getattr(sys, name)
            # In one piece, line end included: others write there as well.
            stream.write(line if line.endswith("\n") else line + "\n")
            stream.flush()
