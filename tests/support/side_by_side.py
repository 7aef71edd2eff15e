"""Which file a worker of pytest-xdist takes next, as a plugin of pytest.

A test of the operator mostly waits; a test with Spark keeps a processor busy. So the last worker takes the tests with
an API server first, and the others those with Spark. A third worker with Spark would keep two cores too busy for
Spark's time limits, so the last one of three or more takes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.places import ROOT

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

Kind = Literal["kubernetes", "spark", "brokers", "unit"]

_KUBERNETES = tuple(f"tests/integration/{name}/" for name in ("operator", "kube", "release"))
_BROKERS = tuple(f"tests/integration/{name}/" for name in ("source", "internal_topics"))
_SPARK = re.compile(r"spark|AppRun|KilledStory", re.IGNORECASE)
LAST: tuple[Kind, ...] = ("kubernetes", "brokers", "unit", "spark")
"""The kinds of files for the last worker, in their order."""
OTHERS: tuple[Kind, ...] = ("spark", "brokers", "unit", "kubernetes")
"""The same for the other workers."""


@cache
def kind_of(file: str) -> Kind:
    """Return the kind of a file, by its folder and by whether it says anything about Spark."""
    if file.startswith("tests/unit/"):
        return "unit"
    if file.startswith(_KUBERNETES):
        return "kubernetes"
    return "brokers" if file.startswith(_BROKERS) and not _SPARK.search((ROOT / file).read_text()) else "spark"


def next_file(files: Iterable[str], kinds: tuple[Kind, ...]) -> str | None:
    """Return the first file of the first of these kinds that has any; None without one."""
    wanted = [file for file in files if kind_of(file) in kinds]
    return min(wanted, key=lambda file: kinds.index(kind_of(file)), default=None)


class KindFirst(LoadFileScheduling):  # type: ignore[misc]  # it ships no type information
    """Gives each worker its next file."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_last = node.gateway.id == f"gw{self.numnodes - 1}"
        kinds = LAST if is_last else OTHERS
        file = next_file(self.workqueue, kinds[:-1] if is_last and self.numnodes > 2 else kinds)
        if file is None:
            node.shutdown()  # once it has run what it has
            return
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> KindFirst | None:
    """Return our scheduler of whole files; None leaves another `--dist` as it is."""
    return KindFirst(config, log) if config.getoption("dist") == "loadfile" else None
