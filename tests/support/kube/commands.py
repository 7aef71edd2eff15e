"""Programs that a test runs to their end, such as kubectl."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.kube.errors import KubeError

_CHARACTERS = 4000


def run(*command: str, environment: Mapping[str, str] | None = None, stdin: str | None = None) -> str:
    """Run a program and return its output.

    Args:
        environment: replaces ours.

    Raises:
        KubeError: it failed; the text has the end of its messages.
    """
    done = subprocess.run(command, env=environment, input=stdin, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        called = " ".join([Path(command[0]).name, *command[1:]])
        raise KubeError(f"{called} failed:\n{(done.stdout + done.stderr)[-_CHARACTERS:]}")
    return done.stdout
