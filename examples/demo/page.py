"""The page `report.html`, which needs no other file. `page.html` is its template."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template

from demo.chart import Chart
from demo.report import Report
from demo.settings import CLUSTERS

_FRAME = Path(__file__).with_name("page.html")
_STYLES = {">": ' class="n"', "@": ' class="at"'}
_RESTARTS = {
    "live": "Without a restart for a change, the driver started once, and once more after each kill.",
    "restart": "A restart counts as confirmed when the operator has seen the driver's pod with its revision.",
}


def write_html(report: Report, path: Path) -> None:
    """Write the page of a run."""
    path.write_text(render(report))


def render(report: Report) -> str:
    """Return the page as text."""
    how = "no restart for any change" if report.settings.strategy == "live" else "each restart confirmed"
    headline = f"Nothing lost, nothing duplicated, {how}" if report.holds else "This run is wrong"
    data = {
        "written": report.written,
        "readable": [(round(at, 2), sum(counts.values())) for at, counts in report.readable],
    }
    return Template(_FRAME.read_text()).substitute(
        title=headline,
        headline=headline,
        state="right" if report.holds else "wrong",
        lead=_lead(report),
        tiles="".join(_tiles(report)),
        legend=_legend(),
        chart=Chart(report).draw(),
        bound=f"the median time to the first record may be {report.settings.first_record_bound_s:g} s",
        drains=_drains(report),
        changes=_changes(report),
        kills=_kills(report),
        clusters=_clusters(report),
        returns=_returns(report),
        footer=_footer(report),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )


def _lead(report: Report) -> str:
    if report.holds:
        verdict = report.verdict
        return (
            f"<p>Producers wrote {verdict.produced:,} numbered records while the stream migrated over three clusters,"
            f" and its driver was killed {len(report.journal.kills)} times. Each is in the sink exactly once. After the"
            " record <code>end of day</code> in each partition, the job ended by itself, with exit code 0.</p>"
        )
    return "<ul>" + "".join(f"<li>{escape(problem)}</li>" for problem in report.problems) + "</ul>"


def _tiles(report: Report) -> Iterable[str]:
    verdict, journal = report.verdict, report.journal
    median, end = journal.median_first_record_s, journal.ending
    late = median is None or median > report.settings.first_record_bound_s
    live = report.settings.strategy == "live"
    restarts, confirmed = report.restarts_for_changes, report.restarts_confirmed
    for value, name, wrong in (
        (f"{verdict.produced:,}", "produced", False),
        (f"{verdict.delivered:,}", "delivered", verdict.delivered != verdict.produced),
        (f"{verdict.lost:,}", "lost", verdict.lost > 0),
        (f"{verdict.duplicated:,}", "duplicated", verdict.duplicated > 0),
        (f"{report.late:,}", "late", report.late > 0),
        (f"{len(journal.changes)}", "changes", False),
        (f"{restarts}", "restarts for changes", live and restarts != 0),
        *(() if live else ((f"{confirmed}", "restarts confirmed", confirmed != restarts),)),
        (f"{len(journal.kills)}", "kill -9", False),
        ("–" if median is None else f"{median:.1f} s", "to first record, median", late),
        (
            "–" if end is None else f"{end.took_s:.1f} s",
            "from end of day to exit code 0",
            end is None or not end.in_order,
        ),
    ):
        yield f'<div class="tile{" wrong" if wrong else ""}"><b>{value}</b><span>{name}</span></div>'


def _legend() -> str:
    names = "".join(f'<span><i class="dot {name}"></i>cluster {name}</span>' for name in CLUSTERS)
    return (
        f"{names}<span>bar: in the stream; thin line: broker runs</span>"
        '<span><i class="badge">1</i> metadata change</span>'
        '<span><i class="badge kill">✕</i> kill -9, and the time until the next batch</span>'
    )


def _changes(report: Report) -> str:
    journal = report.journal
    rows = [
        (
            f'<i class="badge">{number}</i>',
            f"{change.at - journal.began:.1f} s",
            escape(change.what) + _note("the driver was killed meanwhile" if journal.killed_in(change) else ""),
            escape(" and ".join(change.clusters)),
            _seconds(change.in_force_s),
            _seconds(change.first_record_s),
        )
        for number, change in enumerate(journal.changes, 1)
    ]
    return _table(["", "@at", "change", "clusters of the stream", ">in force after", ">first record after"], rows)


def _drains(report: Report) -> str:
    rows = [
        (
            f'<i class="dot {drain.cluster}"></i>{drain.cluster}',
            f"{drain.removed - report.journal.began:.1f} s",
            f"{drain.unread:,}",
            f"{drain.written_after:,}",
            _seconds(drain.drained_s),
            _seconds(drain.safe_s),
            "<br>".join(map(escape, drain.waited_for)),
        )
        for drain in report.journal.drains
    ]
    titles = [
        "cluster",
        "@removed at",
        ">unread then",
        ">written after",
        ">drained after",
        ">safe to stop after",
        "reasons to wait, by the operator",
    ]
    return _table(titles, rows)


def _kills(report: Report) -> str:
    rows = [
        (
            '<i class="badge kill">✕</i>',
            f"{kill.at - report.journal.began:.1f} s",
            escape(kill.wanted),
            escape(kill.found),
            f"{kill.processes}",
            _seconds(kill.recovered_s) + _note("the repeated batch" if kill.repeated else ""),
        )
        for kill in report.journal.kills
    ]
    return _table(["", "@at", "moment", "state afterwards", ">processes", ">next batch committed after"], rows)


def _clusters(report: Report) -> str:
    rows = [
        (
            f'<i class="dot {name}"></i>{name}',
            f"{produced:,}",
            f"{delivered:,}",
            f"{report.journal.broker_ends.get(name, 0):,}",
            f"{report.aggregate.get(name, 0):,}",
        )
        for name, (produced, delivered) in report.verdict.per_cluster.items()
    ]
    titles = [
        "cluster",
        ">confirmed to producers",
        ">in the sink",
        ">the broker's end offsets",
        ">windows on event time",
    ]
    return _table(titles, rows)


def _returns(report: Report) -> str:
    rows = [
        (
            f'<i class="dot {cluster}"></i>{cluster}, partition {split.partition}',
            _number(split.last_before),
            f"{split.parked:,}",
            _number(split.first_after),
            f"{split.read_again:,}",
            '<span class="yes">exactly</span>' if split.exact else '<span class="no">no</span>',
        )
        for cluster, splits in report.returns.items()
        for split in splits
    ]
    titles = ["split", ">last offset before", ">parked offset", ">first offset after", ">read again", ">resumed"]
    return _table(titles, rows)


def _footer(report: Report) -> str:
    journal, settings = report.journal, report.settings
    return (
        f"Story of {journal.ended - journal.began:.0f} s, {len(report.readable)} batches, seed {settings.seed}."
        " A record counts as produced when its broker has confirmed it to an idempotent producer. It is delivered"
        " when the sink's log, <code>_spark_metadata</code>, names a file with it."
        f" {_files(report.left_behind)} not in that log: the kills left them, and readers ignore them."
        " The time to a first record runs from the call of kubectl until the sink's log names a file with a row of the"
        " added cluster."
        f" {_RESTARTS[settings.strategy]}"
    )


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table. `>` marks a title of numbers, `@` one of times; their cells stay on one line."""
    columns = [(_STYLES.get(title[:1], ""), title.lstrip("".join(_STYLES))) for title in titles]
    head = "".join(f"<th{style}>{title}</th>" for style, title in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{style}>{cell}</td>" for (style, _), cell in zip(columns, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _note(text: str) -> str:
    return f'<br><span class="soft">{text}</span>' if text else ""


def _files(count: int) -> str:
    return "1 file in the folder is" if count == 1 else f"{count} files in the folder are"


def _seconds(value: float | None) -> str:
    return '<span class="soft">–</span>' if value is None else f"{value:.1f} s"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
