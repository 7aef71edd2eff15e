"""A story's file has its figures and problems, and the page shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.proof import Delivered, prove
from tests.e2e.report import render, write_report
from tests.e2e.story import Change, Mark, Result, Story, medians

ROW = Delivered("A", 0, 7, "A", 0, 0, written_at=0.0, batch=0)


def result(**found: int) -> Result:
    figures = {"produced": 1, "delivered": 1, "lost": 0, "duplicated": 0, "restarts": 0, **found}
    return Result("orders-live", "Reload", **figures, longest_pause_s=1.5)


def played(*rows: Delivered, counted: int = 1) -> Story:
    story = Story("migration", "A <title>", began=100.0, ended=160.0)
    story.marks.append(Mark(110.0, "commit: Add B & C"))
    story.changes.append(Change("B is added", "orders-live", 110.0, 0.5, 2.0, -0.5, 2.0))
    verdict = prove({("A", 0): {0: 7}}, rows)
    story.check(result(lost=verdict.lost, duplicated=verdict.duplicated), verdict, {"A": counted})
    return story


def test_a_good_story_has_no_problems() -> None:
    content = played(ROW).as_json()

    assert (content["holds"], content["lost"], content["duplicated"]) == (True, 0, 0)
    assert content["seconds"] == {
        "apply_to_rendered": 0.5,
        "rendered_to_applied": 2.0,
        "applied_to_first_record": -0.5,
        "restart_total": None,
    }


@pytest.mark.parametrize(
    ("story", "problem"),
    [
        (played(), "1 lost"),
        (played(ROW, ROW), "1 duplicated"),
        (played(ROW, counted=2), "state counts"),
    ],
    ids=["lost", "duplicated", "state"],
)
def test_a_wrong_story_says_so(story: Story, problem: str) -> None:
    assert [problem in reported_problem for reported_problem in story.problems] == [True]
    assert problem in render([story.as_json()])


def test_medians_ignore_changes_without_the_time() -> None:
    changes = [Change("x", "a", 0.0, restart_total=total) for total in (10.0, None, 30.0, 20.0)]

    assert medians(changes)["restart_total"] == 20.0


def test_the_page_has_all_stories_in_their_order(tmp_path: Path) -> None:
    later, earlier = played(ROW), played(ROW)
    later.name, later.began, later.ended = "later", 200.0, 260.0
    for story in (later, earlier):
        story.write(tmp_path)

    page = write_report(tmp_path).read_text()

    assert page.index(">migration</text>") < page.index(">later</text>")
    assert "commit: Add B &amp; C" in page
    assert json.loads((tmp_path / "later.json").read_text())["story"] == "later"
