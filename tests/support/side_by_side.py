"""Which file a worker of pytest-xdist takes next, as a plugin of pytest.

A test of the operator mostly waits; a test with Spark keeps a processor busy. So the last worker takes the tests with
an API server first, and the others those with Spark. A third worker with Spark would keep two cores too busy for
Spark's time limits, so the last one of three or more takes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WITH_KUBERNETES = tuple(f"tests/integration/{name}/" for name in ("operator", "kube", "release"))
UNIT = "tests/unit/"


def next_file(files: Iterable[str], *, kubernetes_first: bool, only: bool = False) -> str | None:
    """Return the first file of a worker's own kind; without one, the first unit test; else, unless `only`, another."""

    def rank(file: str) -> int:
        if file.startswith(UNIT):
            return 1
        return 0 if file.startswith(WITH_KUBERNETES) == kubernetes_first else 2

    file = min(files, key=rank)
    return None if only and rank(file) == 2 else file


class KindFirst(LoadFileScheduling):  # type: ignore[misc]  # it ships no type information
    """Gives each worker its next file."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_last = node.gateway.id == f"gw{self.numnodes - 1}"
        file = next_file(self.workqueue, kubernetes_first=is_last, only=is_last and self.numnodes > 2)
        if file is None:
            node.shutdown()  # once it has run what it has
            return
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> KindFirst | None:
    """Return our scheduler of whole files; None leaves another `--dist` as it is."""
    return KindFirst(config, log) if config.getoption("dist") == "loadfile" else None
