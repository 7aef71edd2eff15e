"""The checks of a run beyond its records, and its report pages."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from demo.driver import Starts
from demo.journal import Change, Drain, Ending, Journal, Kill, Span
from demo.page import render
from demo.proof import Return, prove, wrong_ending
from demo.report import (
    Report,
    as_json,
    confirmed_restarts,
    find_returns,
    wrong_drains,
    wrong_lateness,
    wrong_records,
    wrong_returns,
    wrong_run,
    wrong_starts,
    wrong_totals,
)
from demo.settings import TOPIC, Settings, parse
from demo.story import KillPlan
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)

BEGAN = 1_000_000.0
LIVE = Settings(seed=1, duration=150, keep=False, build=Path("build"))
RESTART = replace(LIVE, strategy="restart")
BOUND_S = LIVE.first_record_bound_s


def journal(first_records: tuple[float | None, ...] = (1.0, 2.0, 30.0)) -> Journal:
    story = Journal(began=BEGAN, ended=BEGAN + 150)
    for number, (cluster, seconds) in enumerate(zip("BCA", first_records, strict=True)):
        at = BEGAN + 20.0 * number
        story.changes.append(Change(f"{cluster} is added", "add", cluster, ("A", cluster), at, 1.0, seconds))
        story.changes.append(Change(f"{cluster} is removed", "remove", cluster, ("A",), at + 10, 1.0))
    story.changes[4].kind = "return"
    story.kills = [Kill(BEGAN + 30, "in a batch", "batch 7 was planned", 12, 9.0) for _ in range(2)]
    story.member = [Span("A", BEGAN - 20, BEGAN + 40), Span("B", BEGAN)]
    story.broker_ends = {"A": 3}
    story.drains = [
        Drain("A", BEGAN + 30, 900, 14.0, 19.0, 70, ["waiting for <orders>"], left=0),
        Drain("B", BEGAN + 60, 0, 11.0, left=0),
    ]
    story.ending = Ending(BEGAN + 140, 4.25, in_order=True, stop_records={"parquet": {"A": {0: 3}}})
    return story


def report(*problems: str) -> Report:
    return Report(
        settings=LIVE,
        journal=journal(),
        verdict=prove({("A", 0): {0: 0, 1: 1, 2: 2}}, []),
        returns={"A": [Return(0, 10, 9, 10, 0)]},
        aggregate={"A": 3},
        late=0,
        starts=3,
        restarts_for_changes=0,
        restarts_confirmed=0,
        left_behind=1,
        written={"A": {-3: 1, 4: 2}, "B": {9: 5}},
        readable=[(1.0, {"A": 3}), (12.0, {"B": 5})],
        problems=problems,
    )


def test_a_complete_run_has_no_problems() -> None:
    assert wrong_run(journal(), LIVE) == []
    assert wrong_starts(Starts((), 2, 0), 0, LIVE) == []
    assert wrong_starts(Starts(("l/2", "l/3"), 2, 0), 2, RESTART) == []
    assert wrong_drains(journal()) == []


@pytest.mark.parametrize("starts", [Starts(("l/2",), 2, 0), Starts((), 2, 1)])
def test_with_live_changes_only_a_kill_may_start_the_driver(starts: Starts) -> None:
    assert starts.restarts_for_changes == 1
    assert "1 times for another reason" in wrong_starts(starts, 1, LIVE)[0]


def test_a_restart_that_was_not_confirmed_is_wrong() -> None:
    starts = Starts(("l/2", "l/3", "l/4"), 2, 0)
    confirmed = confirmed_restarts(starts, {"l/1": "Adopt", "l/2": "Restart", "l/3": "Reload"})

    assert confirmed == 1
    assert wrong_starts(starts, confirmed, RESTART) == ["the operator has confirmed only 1 of 3 restarts for changes"]
    assert "no change restarted" in wrong_starts(Starts((), 2, 0), 0, RESTART)[0]
    assert "without a change or a kill" in wrong_starts(Starts(("l/2",), 2, 1), 1, RESTART)[0]


def test_a_run_without_an_early_removal_is_wrong() -> None:
    late = journal()
    late.drains[0].written_after = 0

    assert len(wrong_drains(late)) == 1


def test_unread_records_at_safe_to_decommission_are_wrong() -> None:
    torn = journal()
    torn.drains[0].left, torn.drains[1].left = 12, None

    assert wrong_drains(torn) == [
        "A was reported safe to shut down with 12 records unread",
        "B was removed, but never reported safe to shut down",
    ]


def test_late_rows_are_wrong() -> None:
    assert wrong_lateness(0) == []
    assert wrong_lateness(1200) == ["1,200 rows were late"]


def test_too_few_kills_or_changes_are_wrong() -> None:
    short = journal()
    del short.changes[3:]
    del short.kills[1:]

    assert len(wrong_run(short, LIVE)) == 2


@pytest.mark.parametrize(
    ("first_records", "late"),
    [
        ((1.0, 2.0, 60.0), False),  # the driver was killed during one of them
        ((1.0, BOUND_S, 60.0), False),
        ((1.0, BOUND_S + 0.1, 60.0), True),
        ((None, None, None), True),
    ],
)
def test_the_median_of_first_records_decides(first_records: tuple[float | None, ...], late: bool) -> None:
    assert bool(wrong_run(journal(first_records), LIVE)) == late


def test_a_return_without_kept_offsets_is_wrong() -> None:
    exact = Return(0, 10, 9, 10, 0)

    assert wrong_returns(journal(), {"A": [exact]}) == []
    assert wrong_returns(journal(), {"A": [exact, replace(exact, first_after=0, read_again=10)]})
    assert wrong_returns(journal(), {"A": []})
    assert wrong_returns(journal(), {})


def test_counts_that_differ_are_named() -> None:
    verdict = prove({("A", 0): {0: 0, 1: 1}}, [])

    assert wrong_totals(verdict, "the aggregate counts", {"A": 2}) == []
    assert wrong_totals(verdict, "the aggregate counts", {"A": 3}) == [
        "A: 2 records were produced, the aggregate counts 3"
    ]
    assert wrong_totals(verdict, "the aggregate counts", {})
    assert wrong_records(verdict)[0] == "2 records were lost"


def document(*active: str, parked: tuple[str, ...] = ()) -> OffsetDocument:
    return OffsetDocument(
        query="q",
        number=1,
        clusters={name: ClusterProgress({TOPIC: TopicProgress("orders", {0: 5})}) for name in active},
        parked={name: ParkedCluster({TOPIC: ParkedTopic(TopicProgress("orders", {0: 7}), 1)}) for name in parked},
    )


def test_returns_are_found_in_the_offset_documents() -> None:
    story = [document("A"), document("A", "B"), document("B", parked=("A",)), document("A", "B")]

    assert find_returns(story) == [("A", {0: 7}, 3)]
    assert find_returns(story[:3]) == []


def test_a_return_without_parked_offsets_is_found_too() -> None:
    assert find_returns([document("A"), document("B"), document("A", "B")]) == [("A", {}, 2)]


def test_the_json_has_what_its_readers_expect() -> None:
    parsed = json.loads(json.dumps(as_json(report())))

    assert {key: parsed[key] for key in ("produced", "delivered", "lost", "duplicated", "kills")} == {
        "produced": 3,
        "delivered": 0,
        "lost": 3,
        "duplicated": 0,
        "kills": 2,
    }
    assert (parsed["strategy"], parsed["restarts_for_changes"], parsed["restarts_confirmed"]) == ("live", 0, 0)
    assert parsed["drains"][0] == {
        "cluster": "A",
        "removed_at_seconds": 30.0,
        "unread_at_removal": 900,
        "written_after_removal": 70,
        "unread_when_safe": 0,
        "seconds_to_drained": 14.0,
        "seconds_to_safe": 19.0,
        "waited_for": ["waiting for <orders>"],
    }
    assert parsed["median_seconds_to_first_record"] == 2.0
    assert parsed["ending"] == {
        "by_itself_after": "end of day",
        "application": "COMPLETED",
        "exit_code_0": True,
        "seconds_to_completed": 4.25,
        "stop_records": {"parquet": {"A": {"0": 3}}},
    }
    assert [change["seconds_to_first_record"] for change in parsed["changes"]] == [1.0, None, 2.0, None, 30.0, None]
    assert parsed["changes"][0]["at"] == "1970-01-12T13:46:40.000+00:00"


def test_a_job_that_ends_elsewhere_or_not_in_order_is_wrong() -> None:
    ends = {"A": {0: 3}, "C": {0: 9}}
    assert wrong_ending({"parquet": ends, "aggregate": ends}, ends, in_order=True) == []
    problems = wrong_ending({"parquet": {**ends, "C": {0: 10}}, "aggregate": None}, ends, in_order=False)
    assert [text.partition(" at ")[0] for text in problems] == [
        "the driver did not end with exit code 0",
        "the query parquet has ended",
        "the query aggregate ended before its splits had",
    ]


class Links(HTMLParser):
    """The links that a page would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset")]


def test_the_page_needs_nothing_from_outside() -> None:
    page = render(report())

    assert Links(page).found == []
    assert "http" not in page
    assert "url(" not in page and "@import" not in page


def test_the_page_marks_each_change_and_each_kill() -> None:
    page = render(report())

    assert page.count('class="head change"') == 6
    assert page.count('class="head kill"') == 2


def test_the_page_of_a_wrong_run_lists_its_problems_escaped() -> None:
    page = render(report("3 records were <lost>"))

    assert "This run is wrong" in page
    assert "3 records were &lt;lost&gt;" in page
    assert "Nothing lost" not in page


def test_options_are_parsed_and_unknown_ones_refused(tmp_path: Path) -> None:
    assert parse(["--seed", "7", "--duration", "90", "--keep"], tmp_path) == Settings(7, 90.0, True, tmp_path)
    assert (parse([], tmp_path).duration, parse([], tmp_path).update_strategy) == (60, "Reload")
    assert parse(["--strategy", "restart"], tmp_path).update_strategy == "Restart"
    for wrong in (
        ["--strategy", "auto"],
        ["--sed", "7"],
        ["--dur", "90"],
        ["--duration", "5"],
        ["--seed", "x"],
        ["more"],
    ):
        with pytest.raises(SystemExit) as refused:
            parse(wrong, tmp_path)
        assert refused.value.code == 2


def test_a_seed_decides_when_the_driver_is_killed() -> None:
    plans = [KillPlan.from_seed(seed) for seed in range(50)]

    assert plans == [KillPlan.from_seed(seed) for seed in range(50)]
    assert {len(plan.moments) for plan in plans} == {2} and len({plan.moments for plan in plans}) == 3
    assert all(plan.in_batch != plan.in_sink for plan in plans)


def test_the_page_marks_the_changes_that_a_kill_delayed() -> None:
    made = report()
    # the second addition, at 20 s, had its first record 2 s later
    made.journal.kills = [Kill(BEGAN + 20.5, "in a batch", "batch 7 was planned", 12, 9.0, repeated=True)]
    page = render(made)
    assert page.count("the driver was killed meanwhile") == 1
    assert page.count("the repeated batch") == 1
    assert "1 file in the folder is not in that log" in page
    assert "repeated" not in json.dumps(as_json(made))


def test_the_page_of_live_changes_reports_no_restart() -> None:
    made = replace(report(), problems=())
    assert "no restart for any change" in render(made) and "restarts for changes" in render(made)


def test_the_page_of_restarts_shows_confirmations_and_waits() -> None:
    made = replace(report(), settings=RESTART, restarts_for_changes=4, restarts_confirmed=4)
    page = render(made)
    assert "restarts confirmed" in page and "waiting for &lt;orders&gt;" in page
    assert "each restart confirmed" in render(replace(made, problems=()))
    assert "restarts confirmed" not in render(report())
