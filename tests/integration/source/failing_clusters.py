"""Parts of the tests of clusters that fail: options, queries whose clients give up soon, and saved amendments."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.support import source_run
from tests.support.source_run import SourceRun

PATIENT = {"kafka.socket.timeout.ms": 20_000, "readTimeout": "20s"}
"""Options for a cluster that does answer, on a busy machine."""


def reading(path: Path, **options: object) -> AbstractContextManager[SourceRun]:
    """Return a query on the stream `orders` whose clients give up after two seconds."""
    return source_run.reading(path, **{"kafka.socket.timeout.ms": 2000, "readTimeout": "2s", **options})


def saved_amendments(path: Path) -> list[tuple[Any, Any]]:
    """Return the left-out ranges and the reasons of each amendment."""
    return [(amendment["leftOut"], amendment["reasons"]) for amendment in source_run.amendments(path)]
