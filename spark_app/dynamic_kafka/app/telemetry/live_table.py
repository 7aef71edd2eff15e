"""The live table of sinks and clusters on a terminal, drawn anew twice a second. Driver."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from dynamic_kafka.app.telemetry.metrics import lags
from dynamic_kafka.driver.report.sink_status import SinkStatus, StatusBoard
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.wording import utc

COLUMNS = ("sink", "batch", "rows/s", "cluster", "splits", "lag", "parked", "state")


def progress_table(name: str, sinks: Mapping[str, SinkStatus], ends: Mapping[Split, int]) -> Table:
    """Return the table for one moment.

    Args:
        ends: the end offsets of splits, as far as they are known.
    """
    clocks = "\n".join(line for status in sinks.values() for line in _clock_lines(status))
    table = Table(*COLUMNS, title=name, title_justify="left", caption=clocks or None, caption_justify="left")
    for status in sinks.values():
        rows = _cluster_rows(status, ends) or [("–", "", "", "", status.state)]
        for index, row in enumerate(rows):
            batch = "–" if status.batch < 0 else str(status.batch)
            head = (status.name, batch, f"{status.rows_per_second:,.0f}") if index == 0 else ("", "", "")
            table.add_row(*head, *row)
        if status.last_error and status.state != "failed":  # the application's last line has the reason of a failure
            table.add_row("", "", "", f"[red]{escape(status.last_error[:200])}[/red]")
    return table


def show_progress(name: str, board: StatusBoard, ends: Callable[[], Mapping[Split, int]]) -> Callable[[], None]:
    """Start to draw the table on standard error, and return the function that stops it.

    Other output to `sys.stderr` comes above the table; so does output to `sys.stdout` if that is a terminal.
    """
    live = Live(
        get_renderable=lambda: progress_table(name, board.sinks(), ends()),
        console=Console(file=sys.stderr),
        refresh_per_second=2,
        redirect_stdout=sys.stdout.isatty(),
    )
    show_controls = _hide_controls()
    live.start()

    def stop() -> None:
        live.stop()
        show_controls()

    return stop


def _hide_controls() -> Callable[[], None]:
    """Let the terminal not echo `^C`, which would break a line of the table; return the function that undoes it."""
    if not sys.stdin.isatty():
        return lambda: None
    before = termios.tcgetattr(sys.stdin)
    without = list(before)
    without[3] &= ~termios.ECHOCTL
    _set_terminal(without)
    return lambda: _set_terminal(before)


def _set_terminal(mode: list[Any]) -> None:
    """Set the terminal's mode. In the background (`… &`), leave it alone: Linux would stop the process (SIGTTOU)."""
    with contextlib.suppress(OSError):  # no terminal of this session: then there is no background either
        if os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            return
    termios.tcsetattr(sys.stdin, termios.TCSANOW, mode)


def _clock_lines(status: SinkStatus) -> Iterator[str]:
    """Yield the clock of each aligned stream of a query, and what holds it."""
    for summary in status.summaries:
        if "clock" not in summary:
            continue
        clock_ms, held_by = summary["clock"], summary.get("clockHeldBy")
        at = "none yet" if clock_ms is None else utc(clock_ms)
        holder = f", held by {Split(**held_by)}" if held_by else ""
        waits_for = ", ".join(summary.get("clockWaitsFor", ()))
        waits = f", waits for {waits_for} (announced)" if waits_for else ""
        yield escape(f"clock of {status.name}: {at}{holder}{waits}")


def _cluster_rows(status: SinkStatus, ends: Mapping[Split, int]) -> list[tuple[str, str, str, str, str]]:
    known = lags(status, ends)
    rows = []
    for cluster, progress in sorted(status.document.clusters.items()):
        splits = sum(len(topic.next) for topic in progress.topics.values())
        own = [lag for split, lag in known.items() if split.cluster == cluster]
        state = "stalled" if cluster in status.stalled else status.state
        rows.append((cluster, str(splits), f"{sum(own):,}" if own else "?", "", state))
    for cluster, kept in sorted(status.document.parked.items()):
        parked = sum(len(topic.progress.next) for topic in kept.topics.values())
        rows.append((cluster, "", "", str(parked), "parked"))
    return rows
