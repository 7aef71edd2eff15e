"""The resident memory of a driver's processes over many changes of metadata, and whether it is flat. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.node.processes import Process

ROLES = ("jvm", "driver", "planners")
"""The processes of a driver pod: Spark's JVM, the application's Python process, and the planners of its queries."""
BOUND_MIB = {"driver": 20.0, "planners": 20.0}
"""The most that a median may grow from the first quarter of the changes to the last.

Between the middles of the two quarters lie three quarters of the changes. So with 100 changes the bound finds a leak of
0.27 MiB a change. The planner's memory goes up and down by 9 MB in 360 changes (docs/contributing/performance.md). The
JVM has no bound: its heap grows up to its limit before it is collected.
"""
_REVISION = re.compile(r"metadata (\S+/\d+) \(sha256:.{0,30}?\) (was read|is in force);")


def by_role(processes: Iterable[Process]) -> dict[str, float]:
    """Return the resident memory of the processes of a driver pod in MiB, as a sum by role."""
    totals = dict.fromkeys(ROLES, 0.0)
    for process in processes:
        if role := _role(process.command):
            totals[role] += process.resident_mib
    return totals


def summary(samples: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the medians of the first and the last quarter, their difference, and all samples, in MiB by role.

    Args:
        samples: the memory by role after each change, in their order; at least four.
    """
    quarter = len(samples) // 4
    figures: dict[str, Any] = {}
    for role in ROLES:
        values = [round(sample[role], 1) for sample in samples]
        first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        figures[role] = {
            "first_quarter_mib": round(first, 1),
            "last_quarter_mib": round(last, 1),
            "growth_mib": round(last - first, 1),
            "bound_mib": BOUND_MIB.get(role),
            "samples_mib": values,
        }
    return figures


def problems(figures: Mapping[str, Any]) -> list[str]:
    """Return what is wrong in a summary: roles that have grown beyond their bound, or that were not there."""
    grown = [
        f"the memory of {role} grew by {figures[role]['growth_mib']} MiB, more than {bound:.0f}"
        for role, bound in BOUND_MIB.items()
        if figures[role]["growth_mib"] > bound
    ]
    absent = [f"no process of {role} was seen" for role in ROLES if not all(figures[role]["samples_mib"])]
    return [*grown, *absent]


class TakenRevisions:
    """The revisions that a driver has taken up, by its log.

    Attributes:
        read: those that the application's process has read.
        in_force: those that a planner has planned with.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.read: set[str] = set()
        self.in_force: set[str] = set()

    def add(self, lines: Iterable[str]) -> None:
        """Add the revisions of these lines."""
        for revision, what in _REVISION.findall("\n".join(lines)):
            (self.read if what == "was read" else self.in_force).add(revision)

    def has(self, revision: str) -> bool:
        """Return whether the driver and a planner have a revision."""
        return revision in self.read & self.in_force


def _role(command: Sequence[str]) -> str:
    program = Path(command[0]).name
    if program == "java":
        return "jvm"
    if not program.startswith("python"):
        return ""
    return "driver" if any(part.endswith("/__main__.py") for part in command) else "planners"
