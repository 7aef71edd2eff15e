"""The figures are medians over the undisturbed changes that add a cluster, by the way of the change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.figures import BY_HAND, FILE, figures
from tests.e2e.report import write_report
from tests.e2e.story import Change, Result, Story


def change(way: str, first: float | None, pause: float | None = None, *, disturbed: bool = False) -> Change:
    return Change(
        "C is added",
        f"orders-{way}",
        0.0,
        apply_to_first_record=first,
        restart_total=pause,
        way=way,
        disturbed=disturbed,
    )


def story(*changes: Change) -> Story:
    example = Story("one", "One", began=1.0, ended=2.0, changes=list(changes))
    example.results.append(Result("orders-Restart", "Restart", 1, 1, 0, 0, 0, 1.0))
    return example


def found(*changes: Change) -> dict[str, Any]:
    return figures([story(*changes).as_json()])


def test_the_median_is_over_all_stories() -> None:
    stories = [story(change("Restart", duration, duration - 10)).as_json() for duration in (50.0, 90.0, 60.0)]

    restart = figures(stories)["Restart"]

    assert restart["count"] == 3
    assert restart["median"] == {"apply_to_first_record": 60.0, "restart_total": 50.0}
    assert [entry["apply_to_first_record"] for entry in restart["changes"]] == [50.0, 90.0, 60.0]


def test_a_disturbed_change_does_not_count() -> None:
    assert found(change("Reload", 4.0), change("Reload", 90.0, disturbed=True))["Reload"]["median"] == {
        "apply_to_first_record": 4.0,
        "restart_total": None,
    }


def test_a_change_that_adds_no_cluster_does_not_count() -> None:
    assert found(change("Restart", None, 40.0))["Restart"]["count"] == 0


def test_each_way_has_its_own_figures() -> None:
    by_way = found(change("Reload", 4.0), change("Restart", 50.0, 40.0), change(BY_HAND, 55.0, 45.0))

    assert {way: summary["median"]["apply_to_first_record"] for way, summary in by_way.items()} == {
        "Reload": 4.0,
        "Restart": 50.0,
        BY_HAND: 55.0,
    }


def test_a_storys_own_seconds_leave_out_changes_by_hand() -> None:
    content = story(change("Restart", 50.0, 40.0), change(BY_HAND, 55.0, 90.0)).as_json()

    assert content["seconds"]["restart_total"] == 40.0


def test_the_report_writes_the_figures_and_reads_only_stories(tmp_path: Path) -> None:
    story(change("Restart", 50.0, 40.0), change("Restart", 70.0, 60.0)).write(tmp_path)
    for _ in range(2):
        page = write_report(tmp_path).read_text()

    assert json.loads((tmp_path / FILE).read_text())["Restart"]["median"]["apply_to_first_record"] == 60.0
    row = page[page.index("<td>Restart</td>") :].partition("</tr>")[0]
    assert [cell.partition("</td>")[0] for cell in row.split("<td>")[1:]] == [
        "Restart",
        "2",
        "60.0",
        "60.0",
        "50.0, 70.0",
        "50.0",
        "40.0, 60.0",
    ]
