"""The display of a run: a live view on a terminal, or lines with the time elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.journal import Event

COLOURS = {"A": "blue", "B": "dark_orange", "C": "green"}
STYLES = {"story": "", "change": "bold cyan", "kill": "bold red"}
_LINES_SHOWN = 14
_STATE_EVERY_S = 5.0


@dataclass(frozen=True)
class ClusterState:
    """The present state of one cluster.

    Attributes:
        member: it is in Git.
        draining: it was removed from Git, and is read until it is drained.
        known: it is in Git, or has records.
        counted: records in the windows on event time.
    """

    name: str
    running: bool
    member: bool
    draining: bool
    known: bool
    producers: int
    produced: int
    delivered: int
    counted: int

    @property
    def role(self) -> str:
        """Return the cluster's part in the stream."""
        if self.member:
            return "in the stream"
        if self.draining:
            return "removed, draining"
        return "removed, offsets parked" if self.known else "not in the stream yet"


@dataclass(frozen=True)
class State:
    """The present state of the run.

    Attributes:
        starts: starts of the driver.
        batch: the newest batch that the sink has committed; None before the first.
    """

    elapsed: float
    duration: float
    clusters: Sequence[ClusterState]
    starts: int
    pid: int | None
    batch: int | None
    kills: int
    changes: int

    @property
    def newest(self) -> str:
        """Return the newest batch in words."""
        return "no batch yet" if self.batch is None else f"batch {self.batch}"


class Screen(Protocol):
    """The display of a run."""

    def add_event(self, event: Event, began: float) -> None:
        """Show an event."""

    def show(self, state: State) -> None:
        """Show the present state."""

    def close(self) -> None:
        """End the display."""


class LineScreen:
    """A display for logs: one line per event, and a line of the state now and then."""

    def __init__(self, console: Console) -> None:
        """Print to `console`."""
        self._console = console
        self._last = time.monotonic()

    def add_event(self, event: Event, began: float) -> None:
        """Print one line."""
        self._line(event.at - began, event.text)

    def show(self, state: State) -> None:
        """Print one line, at most every `_STATE_EVERY_S`."""
        if time.monotonic() - self._last < _STATE_EVERY_S:
            return
        known = [f"{at.name} {at.delivered:,} of {at.produced:,}" for at in state.clusters if at.known]
        self._line(state.elapsed, f"    delivered: {', '.join(known)}; {state.newest}")

    def close(self) -> None:
        """End the display; lines need no clean-up."""

    def _line(self, seconds: float, text: str) -> None:
        self._last = time.monotonic()
        self._console.print(f"{clock(seconds)}  {text}", markup=False, highlight=False, soft_wrap=True)


class LiveScreen:
    """A display for terminals: a table of the clusters, with the latest events below."""

    def __init__(self, console: Console) -> None:
        """Use the bottom of `console`, from the first state on."""
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._events: list[Text] = []
        self._printed = 0
        self._open = False

    def add_event(self, event: Event, began: float) -> None:
        """Keep an event for the view, which prints all events when it closes."""
        line = Text(f"{clock(event.at - began)}  ", style="dim")
        line.append(event.text, style=STYLES[event.kind])
        self._events.append(line)
        if not self._open:
            self._print_rest()

    def show(self, state: State) -> None:
        """Redraw the view."""
        if not self._open:
            self._live.start()
            self._open = True
        self._live.update(self._view(state))

    def close(self) -> None:
        """Remove the view, and print the events."""
        if self._open:
            self._live.stop()
            self._open = False
            self._print_rest()

    def _print_rest(self) -> None:
        for line in self._events[self._printed :]:
            self._console.print(line)
        self._printed = len(self._events)

    def _view(self, state: State) -> Group:
        table = Table(expand=True, box=None, padding=(0, 1))
        for title in ("cluster", "broker", "stream", "producers"):
            table.add_column(title)
        for title in ("produced", "delivered", "lag", "aggregate"):
            table.add_column(title, justify="right")
        for at in state.clusters:
            table.add_row(
                Text(at.name, style=f"bold {COLOURS[at.name]}"),
                Text("● up", "green") if at.running else Text("○ stopped", "dim"),
                Text(at.role, "" if at.member else "dim"),
                Text("▪" * at.producers, COLOURS[at.name]),
                f"{at.produced:,}",
                f"{at.delivered:,}",
                f"{max(0, at.produced - at.delivered):,}",
                f"{at.counted:,}",
            )
        share = min(1.0, max(0.0, state.elapsed / state.duration))
        line = (
            f"driver pid {state.pid}, start {state.starts} · {state.newest} · "
            f"{state.changes} metadata changes · {state.kills} kills"
        )
        return Group(
            Panel(
                Group(table, Text(""), Text(line), ProgressBar(total=1.0, completed=share)),
                title="[bold]one Spark stream over many Kafka clusters",
                subtitle=clock(state.elapsed),
            ),
            *self._events[-_LINES_SHOWN:],
        )


def make_screen(console: Console) -> Screen:
    """Return the live view if `console` is a terminal that can show it, else lines."""
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else LineScreen(console)


def clock(seconds: float) -> str:
    """Return seconds since the story began as text; negative before that."""
    return f"{seconds:7.1f} s"
