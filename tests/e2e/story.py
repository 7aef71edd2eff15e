"""One story: the changes that were made and the things that broke, their times, and the proof at the end."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demo.proof import Verdict

SECONDS = ("apply_to_rendered", "rendered_to_applied", "applied_to_first_record", "restart_total")


@dataclass
class Change:
    """One change of the stream, as one application took it up; times are seconds, None if there was none.

    Attributes:
        at: when the tool called kubectl, in seconds since the epoch.
        apply_to_rendered: until the document was in its ConfigMap.
        rendered_to_applied: from then until a driver had it in force.
        applied_to_first_record: from then until the sink had a row of an added cluster; it may come before the report.
        apply_to_first_record: all of it.
        restart_total: without a new row in the sink, because the driver was restarted.
        way: of the change to the driver: `Reload`, `Restart` or `by hand`.
        disturbed: something was broken meanwhile, so its times say nothing about changes in general.
    """

    what: str
    application: str
    at: float
    apply_to_rendered: float | None = None
    rendered_to_applied: float | None = None
    applied_to_first_record: float | None = None
    apply_to_first_record: float | None = None
    restart_total: float | None = None
    way: str = ""
    disturbed: bool = False


@dataclass(frozen=True)
class Mark:
    """An event on the time axis: one line of the story."""

    at: float
    text: str


@dataclass
class Result:
    """The result of one application in one story.

    Attributes:
        restarts: starts of its driver beyond the first.
        longest_pause_s: the longest time without a new row in the sink.
    """

    application: str
    strategy: str
    produced: int
    delivered: int
    lost: int
    duplicated: int
    restarts: int
    longest_pause_s: float


@dataclass
class Story:
    """A story and its results.

    Attributes:
        name: of its file in build/e2e.
        title: one sentence.
        began, ended: seconds since the epoch.
        problems: in words; a good story has none.
        memory: of a driver over the story's changes (`memory.summary`); empty if it was not measured.
    """

    name: str
    title: str
    began: float = field(default_factory=time.time)
    ended: float = 0.0
    changes: list[Change] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)

    def check(self, result: Result, verdict: Verdict, counted: Mapping[str, int]) -> None:
        """Add the result of an application, and what is wrong with it.

        Args:
            verdict: the comparison record by record, of everything since the first story.
            counted: the running count by cluster.
        """
        self.results.append(result)
        if not verdict.holds:
            examples = "; ".join(verdict.examples)
            self.problems.append(
                f"{result.application}: {verdict.lost} lost, {verdict.duplicated} duplicated,"
                f" {verdict.unknown} unknown, {verdict.misplaced} misplaced, {verdict.gaps} gaps: {examples}"
            )
        produced = {cluster: count for cluster, (count, _) in verdict.per_cluster.items() if count}
        if dict(counted) != produced:
            self.problems.append(f"{result.application}: {produced} were produced, and Spark's state counts {counted}")

    def as_json(self) -> dict[str, Any]:
        """Return the content of its file; the seconds are medians over the changes, without those by hand."""
        names = {result.application for result in self.results}
        return {
            "story": self.name,
            "title": self.title,
            "holds": not self.problems,
            "problems": self.problems,
            "produced": max((result.produced for result in self.results), default=0),
            "delivered": min((result.delivered for result in self.results), default=0),
            "lost": sum(result.lost for result in self.results),
            "duplicated": sum(result.duplicated for result in self.results),
            "restarts": sum(result.restarts for result in self.results),
            "seconds": medians([change for change in self.changes if change.application in names]),
            "began": self.began,
            "ended": self.ended,
            "applications": {
                result.application: {**asdict(result), "seconds": medians(self._changes_of(result.application))}
                for result in self.results
            },
            "changes": [asdict(change) for change in self.changes],
            "marks": [asdict(mark) for mark in self.marks],
            "memory": self.memory,
        }

    def write(self, folder: Path) -> Path:
        """Write its file, and return the path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        return path

    def _changes_of(self, application: str) -> Sequence[Change]:
        return [change for change in self.changes if change.application == application]


def medians(changes: Sequence[Change]) -> dict[str, float | None]:
    """Return the median of each time, over the changes that have it."""
    by_name: dict[str, float | None] = {}
    for name in SECONDS:
        values = [value for change in changes if (value := getattr(change, name)) is not None]
        by_name[name] = round(statistics.median(values), 2) if values else None
    return by_name
