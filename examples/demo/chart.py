"""The chart of a run, as SVG: the clusters of the stream, the records written and the records readable. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import accumulate

from demo.journal import Span
from demo.report import Report
from demo.settings import CLUSTERS

WIDTH, LEFT, RIGHT = 1080, 64, 20
CHANGES_Y, KILLS_Y = 14, 38
LANES_TOP, LANE = 50, 30
RATE_TOP, RATE_HEIGHT = 190, 190
SUM_TOP, SUM_HEIGHT = 430, 190
BOTTOM = SUM_TOP + SUM_HEIGHT
HEIGHT = BOTTOM + 40

Point = tuple[float, float]


class Chart:
    """The chart of one run; its times are seconds since the story's beginning. CSS sets the colours."""

    def __init__(self, report: Report) -> None:
        """Find the first and the last second of the chart."""
        self.report = report
        self.began = report.journal.began
        seconds = [second for counts in report.written.values() for second in counts]
        self.first = min(seconds, default=0)
        ends = [max(seconds, default=0) + 1, report.journal.ended - self.began]
        self.last = max(ends + [at for at, _ in report.readable])

    def x(self, seconds: float) -> float:
        """Return the x coordinate of a time."""
        share = (seconds - self.first) / max(1e-9, self.last - self.first)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def draw(self) -> str:
        """Return the SVG."""
        parts = [
            *self._marker_lines(),
            *self._lanes(),
            *self._rates(),
            *self._sums(),
            *self._time_axis(),
            *self._marker_heads(),
        ]
        return (
            f'<svg id="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' data-first="{self.first}" data-last="{self.last:.2f}"'
            f' data-left="{LEFT}" data-right="{WIDTH - RIGHT}" data-top="{LANES_TOP}" data-bottom="{BOTTOM}"'
            ' aria-label="Records per cluster over time, with metadata changes and kills">'
            f'{"".join(parts)}<line id="cursor" class="cursor" y1="{LANES_TOP}" y2="{BOTTOM}" visibility="hidden"/>'
            "</svg>"
        )

    # The clusters of the stream

    def _lanes(self) -> Iterable[str]:
        for number, cluster in enumerate(CLUSTERS):
            middle = LANES_TOP + 20 + number * LANE
            yield f'<text class="lane {cluster}" x="{LEFT - 14}" y="{middle + 5}">{cluster}</text>'
            for start, end in self._spans(self.report.journal.broker, cluster):
                yield f'<line class="broker {cluster}" x1="{start:.1f}" x2="{end:.1f}" y1="{middle}" y2="{middle}"/>'
            for start, end in self._spans(self.report.journal.member, cluster):
                yield (
                    f'<rect class="area {cluster}" x="{start:.1f}" width="{end - start:.1f}"'
                    f' y="{middle - 8}" height="16" rx="4"/>'
                )

    def _spans(self, spans: Iterable[Span], cluster: str) -> Iterable[tuple[float, float]]:
        for span in spans:
            if span.cluster == cluster:
                until = self.last if span.until is None else span.until - self.began
                yield self.x(span.since - self.began), self.x(until)

    # Records written and readable

    def _rates(self) -> Iterable[str]:
        grid = range(self.first, math.ceil(self.last))
        layers = {name: [self.report.written.get(name, {}).get(at, 0) for at in grid] for name in CLUSTERS}
        top = nice(max((sum(column) for column in zip(*layers.values(), strict=True)), default=1))
        yield _title(RATE_TOP - 10, "Records written to Kafka per second (by their timestamps)")
        yield from self._scale(RATE_TOP, RATE_HEIGHT, top)
        yield from self._stack([at + 0.5 for at in grid], layers, RATE_TOP, RATE_HEIGHT, top)

    def _sums(self) -> Iterable[str]:
        batches = sorted(self.report.readable, key=lambda batch: batch[0])
        times = [self.first, *(at for at, _ in batches), self.last]
        layers = {name: [0, *accumulate(counts.get(name, 0) for _, counts in batches)] for name in CLUSTERS}
        layers = {name: [*values, values[-1]] for name, values in layers.items()}
        top = nice(self.report.verdict.produced)
        yield _title(SUM_TOP - 10, "Records readable in the sink so far (line: written so far)")
        yield from self._scale(SUM_TOP, SUM_HEIGHT, top)
        # All rows of a batch become readable at once, so draw steps, not slopes.
        stepped = [time for time in times for _ in range(2)][1:]
        steps = {name: [value for value in values for _ in range(2)][:-1] for name, values in layers.items()}
        yield from self._stack(stepped, steps, SUM_TOP, SUM_HEIGHT, top)
        grid = range(self.first, math.ceil(self.last))
        total = accumulate(sum(counts.get(at, 0) for counts in self.report.written.values()) for at in grid)
        line = [(self.x(at + 1), _y(value, SUM_TOP, SUM_HEIGHT, top)) for at, value in zip(grid, total, strict=True)]
        yield f'<path class="written" d="{_path([(self.x(self.first), SUM_TOP + SUM_HEIGHT), *line])}"/>'

    def _stack(
        self, times: Sequence[float], layers: Mapping[str, Sequence[int]], top: float, height: float, most: float
    ) -> Iterable[str]:
        below = [0] * len(times)
        for name, values in layers.items():
            above = [base + value for base, value in zip(below, values, strict=True)]
            upper = [(self.x(time), _y(value, top, height, most)) for time, value in zip(times, above, strict=True)]
            lower = [(self.x(time), _y(value, top, height, most)) for time, value in zip(times, below, strict=True)]
            yield f'<path class="area {name}" d="{_path([*upper, *reversed(lower)])}Z"/>'
            below = above

    def _scale(self, top: float, height: float, most: float) -> Iterable[str]:
        for step in range(5):
            value = most * step / 4
            y = _y(value, top, height, most)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'

    def _time_axis(self) -> Iterable[str]:
        step = next(step for step in (10, 20, 30, 60, 120, 300, 600, 1200) if (self.last - self.first) / step < 14)
        for at in range(math.ceil(self.first / step) * step, int(self.last) + 1, step):
            yield f'<text class="tick" x="{self.x(at):.1f}" y="{BOTTOM + 20}" text-anchor="middle">{at} s</text>'

    # Changes and kills

    def _marker_lines(self) -> Iterable[str]:
        for change in self.report.journal.changes:
            x = self.x(change.at - self.began)
            yield f'<line class="change" x1="{x:.1f}" x2="{x:.1f}" y1="{CHANGES_Y}" y2="{BOTTOM}"/>'
        for kill in self.report.journal.kills:
            x = self.x(kill.at - self.began)
            after = self.x(kill.at - self.began + (kill.recovered_s or 0))
            yield (
                f'<rect class="down" x="{x:.1f}" width="{after - x:.1f}" y="{RATE_TOP}" height="{BOTTOM - RATE_TOP}"/>'
                f'<line class="kill" x1="{x:.1f}" x2="{x:.1f}" y1="{KILLS_Y}" y2="{BOTTOM}"/>'
            )

    def _marker_heads(self) -> Iterable[str]:
        for number, change in enumerate(self.report.journal.changes, 1):
            x = self.x(change.at - self.began)
            yield _head("change", x, CHANGES_Y, str(number), change.what)
        for kill in self.report.journal.kills:
            x = self.x(kill.at - self.began)
            yield _head("kill", x, KILLS_Y, "✕", f"kill -9 {kill.wanted}")


def _head(kind: str, x: float, y: float, label: str, tip: str) -> str:
    return (
        f'<g class="head {kind}"><title>{escape(tip)}</title><circle cx="{x:.1f}" cy="{y}" r="10"/>'
        f'<text x="{x:.1f}" y="{y + 4}">{label}</text></g>'
    )


def nice(value: float) -> float:
    """Return the next larger number that is easy to divide by four."""
    power = 10.0 ** math.floor(math.log10(max(1.0, value)))
    return next(power * factor for factor in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if power * factor >= value)


def short(value: float) -> str:
    """Return 1,500 as 1.5k."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _y(value: float, top: float, height: float, most: float) -> float:
    return top + height * (1 - value / most)


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _title(y: float, text: str) -> str:
    return f'<text class="title" x="{LEFT}" y="{y}">{escape(text)}</text>'
