"""Runs a command that the kernel kills when the process that asked for it ends, however that ends.

A program of its own (`python -I -S launch.py PARENT_PID COMMAND…`) that becomes the command, because code
between fork and exec is not safe in a process with threads. Only `supervise.py` starts it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Ask for SIGKILL at the parent's death, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    # SIGKILL, since a paused process would not notice any other signal.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
