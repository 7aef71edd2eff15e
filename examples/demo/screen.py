"""Shows the run while it happens: a live view on a terminal, lines with the time elsewhere."""

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
    """One cluster now.

    Attributes:
        member: it is in Git.
        draining: it was, and is read until it is drained.
        known: it is in Git, or was once.
        counted: records, by the aggregate.
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
        """How it stands to the stream."""
        if self.member:
            return "in the stream"
        if self.draining:
            return "removed, draining"
        return "removed, offsets kept" if self.known else "not known yet"


@dataclass(frozen=True)
class State:
    """All of it now.

    Attributes:
        lives: starts of the driver.
        batch: the newest that the sink has committed.
    """

    elapsed: float
    duration: float
    clusters: Sequence[ClusterState]
    lives: int
    pid: int | None
    batch: int | None
    kills: int
    changes: int

    @property
    def newest(self) -> str:
        """The newest batch, in words."""
        return "no batch yet" if self.batch is None else f"batch {self.batch}"


class Screen(Protocol):
    """Where a run is shown."""

    def say(self, event: Event, began: float) -> None:
        """Something happened."""

    def show(self, state: State) -> None:
        """This is how things stand."""

    def close(self) -> None:
        """Nothing more comes."""


class LineScreen:
    """For logs: one line per event, and one on the state now and then."""

    def __init__(self, console: Console) -> None:
        """Prints to `console`."""
        self._console = console
        self._last = time.monotonic()

    def say(self, event: Event, began: float) -> None:
        """One line."""
        self._line(event.at - began, event.text)

    def show(self, state: State) -> None:
        """One line, but rarely."""
        if time.monotonic() - self._last < _STATE_EVERY_S:
            return
        known = [f"{at.name} {at.delivered:,} of {at.produced:,}" for at in state.clusters if at.known]
        self._line(state.elapsed, f"    delivered: {', '.join(known)}; {state.newest}")

    def close(self) -> None:
        """Nothing to do."""

    def _line(self, seconds: float, text: str) -> None:
        self._last = time.monotonic()
        self._console.print(f"{clock(seconds)}  {text}", markup=False, highlight=False, soft_wrap=True)


class LiveScreen:
    """For terminals: the clusters as a table, and the latest events below."""

    def __init__(self, console: Console) -> None:
        """Takes over the bottom of `console` with the first thing to show."""
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._events: list[Text] = []
        self._printed = 0
        self._open = False

    def say(self, event: Event, began: float) -> None:
        """Kept for the view, and printed for good when the view closes."""
        line = Text(f"{clock(event.at - began)}  ", style="dim")
        line.append(event.text, style=STYLES[event.kind])
        self._events.append(line)
        if not self._open:
            self._print_rest()

    def show(self, state: State) -> None:
        """Draw anew."""
        if not self._open:
            self._live.start()
            self._open = True
        self._live.update(self._view(state))

    def close(self) -> None:
        """Leave the story on the terminal, without the view."""
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
        for title in ("produced", "delivered", "behind", "aggregate"):
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
            f"driver pid {state.pid}, life {state.lives} · {state.newest} · "
            f"{state.changes} metadata changes · {state.kills} kills"
        )
        return Group(
            Panel(
                Group(table, Text(""), Text(line), ProgressBar(total=1.0, completed=share)),
                title="[bold]many Kafka clusters, one Spark stream",
                subtitle=clock(state.elapsed),
            ),
            *self._events[-_LINES_SHOWN:],
        )


def make_screen(console: Console) -> Screen:
    """The live view if `console` is a terminal that can show it."""
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else LineScreen(console)


def clock(seconds: float) -> str:
    """Seconds since the story began; before that they are negative."""
    return f"{seconds:7.1f} s"
