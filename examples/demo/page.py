"""Writes `report.html`: one page that needs nothing else, light or dark as its reader is. `page.html` is its frame."""

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
    "live": "No restart for a change means: the driver was started once, and once more after each kill.",
    "restart": "A restart counts as confirmed when the operator has seen the driver's pod that carries its revision.",
}


def write_html(report: Report, path: Path) -> None:
    """The page of a run."""
    path.write_text(render(report))


def render(report: Report) -> str:
    """The page as text."""
    how = "no restart for any change" if report.settings.strategy == "live" else "each restart confirmed"
    headline = f"Nothing lost, nothing twice, {how}" if report.holds else "This run is wrong"
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
        bound=f"first record allowed within {report.settings.first_record_bound_s:g} s, in the median",
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
            f"<p>{verdict.produced:,} numbered records went to Kafka while the stream migrated over three clusters and"
            f" its driver was killed {len(report.journal.kills)} times. Each of them is in the sink exactly once.</p>"
        )
    return "<ul>" + "".join(f"<li>{escape(problem)}</li>" for problem in report.problems) + "</ul>"


def _tiles(report: Report) -> Iterable[str]:
    verdict, journal = report.verdict, report.journal
    median = journal.median_first_record_s
    late = median is None or median > report.settings.first_record_bound_s
    live = report.settings.strategy == "live"
    restarts, confirmed = report.restarts_for_changes, report.restarts_confirmed
    for value, what, wrong in (
        (f"{verdict.produced:,}", "produced", False),
        (f"{verdict.delivered:,}", "delivered", verdict.delivered != verdict.produced),
        (f"{verdict.lost:,}", "lost", verdict.lost > 0),
        (f"{verdict.duplicated:,}", "duplicated", verdict.duplicated > 0),
        (f"{len(journal.changes)}", "changes", False),
        (f"{restarts}", "restarts for changes", live and restarts != 0),
        *(() if live else ((f"{confirmed}", "restarts confirmed", confirmed != restarts),)),
        (f"{len(journal.kills)}", "kill -9", False),
        ("–" if median is None else f"{median:.1f} s", "to first record, median", late),
    ):
        yield f'<div class="tile{" wrong" if wrong else ""}"><b>{value}</b><span>{what}</span></div>'


def _legend() -> str:
    names = "".join(f'<span><i class="dot {name}"></i>cluster {name}</span>' for name in CLUSTERS)
    return (
        f'{names}<span class="lanes">bar: in the stream; thin line: its broker runs</span>'
        '<span><i class="badge">1</i> metadata change</span>'
        '<span><i class="badge kill">✕</i> kill -9, and the time until the next batch</span>'
    )


def _changes(report: Report) -> str:
    journal = report.journal
    rows = [
        (
            f'<i class="badge">{number}</i>',
            f"{change.at - journal.began:.1f} s",
            escape(change.what) + _note("a kill fell into it" if journal.killed_in(change) else ""),
            escape(" and ".join(change.clusters)),
            _seconds(change.in_force_s),
            _seconds(change.first_record_s),
        )
        for number, change in enumerate(journal.changes, 1)
    ]
    return _table(["", "@at", "what", "the stream lives on", ">in force after", ">first record after"], rows)


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
        "@out of Git at",
        ">unread then",
        ">written after",
        ">drained after",
        ">safe to stop after",
        "what the operator said",
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
            _seconds(kill.recovered_s) + _note("the repeated one" if kill.repeated else ""),
        )
        for kill in report.journal.kills
    ]
    return _table(["", "@at", "aimed at", "what it left", ">processes", ">a batch committed after"], rows)


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
        ">the running aggregate",
    ]
    return _table(titles, rows)


def _returns(report: Report) -> str:
    rows = [
        (
            f'<i class="dot {cluster}"></i>{cluster}, partition {lane.partition}',
            _number(lane.last_before),
            f"{lane.parked:,}",
            _number(lane.first_after),
            f"{lane.read_again:,}",
            '<span class="yes">exactly</span>' if lane.exact else '<span class="no">no</span>',
        )
        for cluster, lanes in report.returns.items()
        for lane in lanes
    ]
    titles = ["split", ">last offset before", ">offset kept", ">first offset after", ">read again", ">resumed"]
    return _table(titles, rows)


def _footer(report: Report) -> str:
    journal, settings = report.journal, report.settings
    return (
        f"Story of {journal.ended - journal.began:.0f} s, {len(report.readable)} batches, seed {settings.seed}."
        f" A record counts as produced when its broker confirmed it to an idempotent producer, and as delivered when a"
        f" file that holds it is named by the sink's own log, <code>_spark_metadata</code>."
        f" {_files(report.left_behind)} in the folder, named nowhere: traces of the kills, which no reader sees."
        " A first record is timed from the"
        " moment kubectl was called to the moment the log of the sink named a file with a row of that cluster."
        f" {_RESTARTS[settings.strategy]}"
    )


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A title that begins with `>` is a number's, one with `@` a moment's; neither is broken into lines."""
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
    return "1 file is" if count == 1 else f"{count} files are"


def _seconds(value: float | None) -> str:
    return '<span class="soft">–</span>' if value is None else f"{value:.1f} s"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
