"""Run the demo: `make demo`.

Exit codes: 0 every promise was kept, 1 one was not, 2 unknown options, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from demo.driver import DriverError
from demo.page import write_html
from demo.producers import ProducerError
from demo.report import Report, examine, write_json
from demo.screen import make_screen
from demo.settings import parse
from demo.stage import Stage, StoryError
from demo.story import Story
from tests.support.go import GoUnavailableError
from tests.support.kafka import BrokerError
from tests.support.kube import KubeError
from tests.support.places import BUILD
from tests.support.spark import spark_environment


def main() -> int:
    """Play the story, check the records, and write the report. Returns the exit code."""
    settings = parse(sys.argv[1:], BUILD)
    # The driver inherits this environment, and needs to find its modules from any folder.
    os.environ.update(spark_environment())
    signal.signal(signal.SIGTERM, _terminated)
    console = Console()
    settings.report_folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.json", "report.html"):
        (settings.report_folder / name).unlink(missing_ok=True)
    folder = settings.report_folder / f"run-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    stage = Stage(settings, folder, make_screen(console))
    right = False
    try:
        report = _play(stage, console)
        right = report.holds
        return 0 if right else 1
    except (StoryError, DriverError, ProducerError, BrokerError, KubeError, GoUnavailableError) as error:
        stage.screen.close()
        console.print(f"[bold red]The demo failed:[/] {type(error).__name__}", highlight=False)
        console.print(str(error), markup=False, highlight=False)
        return 1
    except KeyboardInterrupt:
        right = True  # nothing is wrong: delete the data
        stage.screen.close()
        console.print("interrupted: stopping all processes")
        return 130
    finally:
        # A second Ctrl-C must not interrupt the clean-up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keep = settings.keep or not right
        stage.close(keep=keep)
        if keep:
            console.print(f"data and logs: {folder}", markup=False, highlight=False, soft_wrap=True)
        else:
            stage.erase()


def _play(stage: Stage, console: Console) -> Report:
    stage.open()
    Story(stage).play()
    stage.screen.close()
    report = examine(stage)
    folder = stage.settings.report_folder
    write_json(report, folder / "report.json")
    write_html(report, folder / "report.html")
    _summarise(report, console, folder / "report.html")
    return report


def _summarise(report: Report, console: Console, page: Path) -> None:
    verdict, journal = report.verdict, report.journal
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    median, live = journal.median_first_record_s, report.settings.strategy == "live"
    for name, value in (
        ("produced", f"{verdict.produced:,}"),
        ("delivered", f"{verdict.delivered:,}"),
        ("lost", f"{verdict.lost:,}"),
        ("duplicated", f"{verdict.duplicated:,}"),
        ("late", f"{report.late:,}"),
        ("metadata changes", f"{len(journal.changes)}"),
        ("restarts for changes", f"{report.restarts_for_changes}"),
        *(() if live else (("restarts confirmed", f"{report.restarts_confirmed}"),)),
        ("written to A after it was removed", f"{sum(d.written_after for d in journal.drains if d.cluster == 'A'):,}"),
        ("kills", f"{len(journal.kills)}"),
        (
            f"apply to first record, median (at most {report.settings.first_record_bound_s:g} s)",
            "–" if median is None else f"{median:.1f} s",
        ),
        (
            "came back exactly",
            ", ".join(cluster for cluster, splits in report.returns.items() if all(split.exact for split in splits))
            or "–",
        ),
        ("ended by itself after the end of day", "–" if (end := journal.ending) is None else f"{end.took_s:.1f} s"),
        ("story", f"{journal.ended - journal.began:.0f} s"),
    ):
        table.add_row(name, value)
    console.print()
    console.print(table)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
    if report.holds:
        console.print("[bold green]Every record is in the sink exactly once.[/]")
    else:
        console.print("[bold red]This run is wrong:[/]")
        for problem in report.problems:
            console.print(f"  {problem}", markup=False, highlight=False, soft_wrap=True)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
