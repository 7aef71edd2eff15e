"""The page `build/e2e/report.html`: all stories on one time axis, and their figures. It needs no other file.

The style is the demo's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from demo import page
from tests.e2e.figures import FILE, Json, figures
from tests.e2e.memory import ROLES
from tests.e2e.story import SECONDS

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 1080, 190, 20, 46, 34
_STEPS = {"apply_to_rendered": "A", "rendered_to_applied": "B", "applied_to_first_record": "C"}
"""The colour of each step of a change, by the demo's names of colours."""


def write_report(folder: Path) -> Path:
    """Write the page and the figures of all stories whose files are in `folder`, and return the page's path."""
    stories = [json.loads(path.read_text()) for path in folder.glob("*.json") if path.name != FILE]
    stories.sort(key=lambda story: float(story["began"]))
    (folder / FILE).write_text(json.dumps(figures(stories), indent=2) + "\n")
    path = folder / "report.html"
    path.write_text(render(stories))
    return path


def render(stories: Sequence[Json]) -> str:
    """Return the page as text; the stories are in the order of their times."""
    good = bool(stories) and all(story["holds"] for story in stories)
    title = "Nothing lost, nothing duplicated, in pods" if good else "This run is wrong"
    problems = "".join(f"<li>{escape(problem)}</li>" for story in stories for problem in story["problems"])
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{_style()}
<main>
<header class="{"right" if good else "wrong"}"><h1>{title}</h1><ul>{problems}</ul></header>
<section><h2>All stories<small>in seconds since the first began; a row for each application</small></h2>
<div class="legend">{_legend()}</div><div class="scroll">{_chart(stories)}</div></section>
<section><h2>An added cluster<small>seconds to its first record and without rows; undisturbed changes</small></h2>
{_speed(stories)}</section>
<section><h2>Memory of a driver<small>resident MiB; medians of the first and the last quarter of changes</small></h2>
{_memory(stories)}</section>
<section><h2>Results<small>seconds are medians over the changes</small></h2>{_results(stories)}</section>
<section><h2>Changes<small>in seconds</small></h2>{_changes(stories)}</section>
<section><h2>Events</h2>{_marks(stories)}</section>
</main>
</html>
"""


def _style() -> str:
    style = re.search(r"<style>.*?</style>", Path(page.__file__).with_name("page.html").read_text(), re.DOTALL)
    assert style is not None
    return style[0]


def _legend() -> str:
    steps = "".join(
        f'<span><i class="dot {colour}"></i>{name.replace("_", " ")}</span>' for name, colour in _STEPS.items()
    )
    return f'{steps}<span>red: no new row during a restart</span><span><i class="badge">1</i> event, as listed</span>'


def _chart(stories: Sequence[Json]) -> str:
    if not stories:
        return ""
    began: float = stories[0]["began"]
    ended: float = max(story["ended"] for story in stories)

    def x(at: float) -> float:
        return _LEFT + (at - began) / max(1.0, ended - began) * (_WIDTH - _LEFT - _RIGHT)

    names = sorted({name for story in stories for name in story["applications"]})
    bottom = _TOP + _ROW * len(names)
    parts: list[str] = []
    for row, name in enumerate(names):
        middle = _TOP + _ROW * row + _ROW / 2
        parts.append(f'<text x="{_LEFT - 12}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{middle}" y2="{middle}"/>')
        for change in (entry for story in stories for entry in story["changes"] if entry["application"] == name):
            parts += _steps(change, x, middle)
    number = 0
    for story in stories:
        left, right = x(story["began"]), x(story["ended"])
        parts.append(f'<text class="title" x="{left:.1f}" y="12">{escape(story["story"])}</text>')
        parts.append(f'<line class="grid" x1="{right:.1f}" x2="{right:.1f}" y1="0" y2="{bottom}"/>')
        for mark in story["marks"]:
            number += 1
            at = x(mark["at"])
            parts.append(f'<line class="change" x1="{at:.1f}" x2="{at:.1f}" y1="38" y2="{bottom}"/>')
            parts.append(
                f'<g class="head change"><title>{escape(mark["text"])}</title><circle cx="{at:.1f}" cy="30" r="9"/>'
                f'<text x="{at:.1f}" y="34">{number}</text></g>'
            )
    step = next(interval for interval in (10, 30, 60, 120, 300, 600, 1200, 3600) if (ended - began) / interval < 16)
    for second in range(0, math.ceil(ended - began), step):
        parts.append(f'<text x="{x(began + second):.1f}" y="{bottom + 18}" text-anchor="middle">{second} s</text>')
    size = f'viewBox="0 0 {_WIDTH} {bottom + 26}"'
    return f'<svg {size} role="img" aria-label="All stories over time">{"".join(parts)}</svg>'


def _steps(change: Json, x: Any, middle: float) -> Iterable[str]:
    """Yield the bars of one change: its steps one after the other, and the pause of a restart below them."""
    at = change["at"]
    if change["restart_total"]:
        width = x(at + change["restart_total"]) - x(at)
        yield f'<rect class="down" x="{x(at):.1f}" width="{width:.1f}" y="{middle + 7}" height="6" style="opacity:.6"/>'
    for name, colour in _STEPS.items():
        seconds = max(0.0, change[name] or 0.0)
        width = max(1.5, x(at + seconds) - x(at))
        yield (
            f'<rect class="area {colour}" x="{x(at):.1f}" width="{width:.1f}" y="{middle - 7}" height="13" rx="2">'
            f"<title>{escape(change['what'])}: {name.replace('_', ' ')} {seconds:.1f} s</title></rect>"
        )
        at += seconds


def _speed(stories: Sequence[Json]) -> str:
    rows = [
        [
            way,
            speed["count"],
            _seconds(speed["goal"]),
            _seconds(speed["median"]["apply_to_first_record"]),
            _values(speed["changes"], "apply_to_first_record"),
            _seconds(speed["median"]["restart_total"]),
            _values(speed["changes"], "restart_total"),
        ]
        for way, speed in figures(stories).items()
    ]
    return _table(["way", "changes", "goal", "first record", "each", "without rows", "each"], rows)


def _values(changes: Iterable[Json], name: str) -> str:
    return ", ".join(_seconds(change[name]) for change in changes)


def _memory(stories: Iterable[Json]) -> str:
    rows = [
        [
            story["story"],
            story["memory"]["changes"],
            role,
            *(memory[key] for key in ("first_quarter_mib", "last_quarter_mib", "growth_mib")),
            "–" if memory["bound_mib"] is None else memory["bound_mib"],
        ]
        for story in stories
        if story["memory"]
        for role in ROLES
        for memory in (story["memory"][role],)
    ]
    return _table(["story", "changes", "process", "first quarter", "last quarter", "growth", "bound"], rows)


def _results(stories: Iterable[Json]) -> str:
    titles = ["story", "application", "strategy", "produced", "delivered", "lost", "duplicated", "restarts", "pause"]
    rows = [
        [
            story["story"],
            name,
            *(result[key] for key in ("strategy", "produced", "delivered", "lost", "duplicated", "restarts")),
            _seconds(result["longest_pause_s"]),
            *(_seconds(result["seconds"][column]) for column in SECONDS),
        ]
        for story in stories
        for name, result in story["applications"].items()
    ]
    return _table([*titles, *(column.replace("_", " ") for column in SECONDS)], rows)


def _changes(stories: Iterable[Json]) -> str:
    keys = [*SECONDS[:3], "apply_to_first_record", SECONDS[3]]
    rows = [
        [change["what"], change["application"], *(_seconds(change[key]) for key in keys)]
        for story in stories
        for change in story["changes"]
    ]
    return _table(["change", "application", *(key.replace("_", " ") for key in keys)], rows)


def _marks(stories: Sequence[Json]) -> str:
    began = stories[0]["began"] if stories else 0.0
    marks = [(story["story"], mark) for story in stories for mark in story["marks"]]
    rows = [[number, f"{mark['at'] - began:.1f} s", name, mark["text"]] for number, (name, mark) in enumerate(marks, 1)]
    return _table(["", "at", "story", "event"], rows)


def _table(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
