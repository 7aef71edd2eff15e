"""The content of a driver report, when it is due, and that the operator reads what the driver wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dynamic_kafka.contract.driver_report import MAX_TIME_MS, StandingClock
from dynamic_kafka.contract.kubernetes_names import DRAIN_REPORT_INTERVAL_S
from dynamic_kafka.driver.report.drain_tracker import TopicDrain
from dynamic_kafka.driver.report.report_content import (
    BURST,
    CLOCK_STANDS_S,
    MAX_BYTES,
    MAX_NEVER_REACHED,
    PLANNER_WAIT_S,
    REPORT_INTERVAL_S,
    AppliedRevision,
    ClockWatch,
    DriverState,
    ReportSchedule,
    abilities_of,
    rejection,
    report_text,
)
from dynamic_kafka.driver.report.sink_status import SinkStatus
from dynamic_kafka.metadata.model import Rendering, Revision
from kafkastream_operator.core.document import Key
from kafkastream_operator.core.drain_evidence import Report, TopicReport

STREAMS = {"orders": {"clusters": {"east": {"bootstrapServers": "e:1", "topics": ["old"], "state": "Draining"}}}}


def revision(counter: int, lineage: str = "6f1c") -> Revision:
    return Revision(f"sha256:{counter}", counter, lineage, Rendering("uid-of-subscription", STREAMS))


def summary(counter: int, lineage: str = "6f1c", **more: Any) -> dict[str, Any]:
    """A planner's progress summary."""
    return {"clusters": {}, "document": 1, "revision": str(counter), "lineage": lineage, **more}


STATE = DriverState(revision(17), None, "uid-of-subscription")
DRAINING = replace(STATE, draining=(("east", "old"),))


# -- the content of a report ---------------------------------------------------------------------------------------


def test_the_operator_reads_what_the_driver_reports() -> None:
    drains = [
        TopicDrain("east", "old", None, 0.0, False),
        TopicDrain("west", "old", 0, 312.04, True, "K", finished=True),
    ]
    state = replace(DRAINING, rejected=("6f1c/18", "another cluster"), unanswered=("west",), finished=True)
    state = replace(state, open_splits=("east/old[1]",), lost_topics=("log",))

    read = Report.parse(report_text(state, drains, pod="uid-of-pod", beat=7))

    assert read == Report(
        reader=3,
        abilities=frozenset({"live"}),
        applied=Revision(lineage="6f1c", counter=17),
        hash="sha256:17",
        rejected=("6f1c/18", "another cluster"),
        subscription="uid-of-subscription",
        pod="uid-of-pod",
        draining={
            Key("east", "old"): TopicReport(None, 0.0, False),
            Key("west", "old"): TopicReport(0, 312.0, True, "K", finished=True),
        },
        unanswered=frozenset({"west"}),
        finished=True,
        open_splits=("east/old[1]",),
        lost_topics=("log",),
        streams=STREAMS,
    )


def test_the_json_form_does_not_change() -> None:
    report = json.loads(report_text(DRAINING, [TopicDrain("east", "old", 5, 1.26, False, "K")], pod="p", beat=1))
    assert report == {
        "contract": 1,
        "reader": 3,
        "abilities": ["live"],
        "applied": "6f1c/17",
        "hash": "sha256:17",
        "rejected": None,
        "subscription": "uid-of-subscription",
        "pod": "p",
        "beat": 1,
        "draining": [
            {
                "cluster": "east",
                "topic": "old",
                "lag": 5,
                "quiet": 1.3,
                "openTransaction": False,
                "kafkaId": "K",
                "neverReached": False,
                "finished": False,
            }
        ],
        "neverReached": [],
        "unanswered": [],
        "finished": False,
        "openSplits": [],
        "lostTopics": [],
        "homes": [],
        "standingClocks": [],
        "streams": STREAMS,
    }


def test_without_periodic_discovery_the_live_ability_is_absent() -> None:
    for interval_ms, abilities in ((10_000, ["live"]), (0, [])):
        text = report_text(STATE, [], pod="p", beat=1, abilities=abilities_of(interval_ms))
        assert json.loads(text)["abilities"] == abilities


def test_before_the_first_plans_no_revision_is_applied() -> None:
    report = json.loads(report_text(replace(STATE, applied=None), [], pod="p", beat=1))
    assert (report["applied"], report["hash"]) == (None, "")
    assert "streams" not in report


def test_streams_that_are_too_large_are_left_out() -> None:
    applied = replace(revision(17), rendering=Rendering("uid-of-subscription", None))
    assert "streams" not in json.loads(report_text(replace(STATE, applied=applied), [], pod="p", beat=1))


def test_topics_nearest_to_their_end_are_reported_first() -> None:
    done = [TopicDrain("east", f"done-{n}-{'x' * 200}", 0, 300.0, False) for n in range(200)]
    behind = [TopicDrain("east", f"behind-{n}-{'x' * 200}", n or None, 0.0, False) for n in range(1000)]

    text = report_text(DRAINING, [*behind, *done], pod="p", beat=1)

    assert MAX_BYTES * 0.95 < len(text) <= MAX_BYTES
    reported = [drain["topic"] for drain in json.loads(text)["draining"]]
    assert {drain.topic for drain in done} < set(reported)
    assert f"behind-1-{'x' * 200}" in reported
    assert f"behind-0-{'x' * 200}" not in reported, "topics of unknown lag come last"


# -- the applied revision ------------------------------------------------------------------------------------------


def test_a_revision_is_applied_when_all_planners_use_it() -> None:
    applied = AppliedRevision()
    assert applied.update(revision(16), [{}, {}]) is None
    assert applied.update(revision(16), [summary(16), {}]) is None
    assert applied.update(revision(16), [summary(16), summary(16)]) == revision(16)

    assert applied.update(revision(17), [summary(16), summary(17)]) == revision(16)
    assert applied.update(revision(17), [summary(17), summary(17)]) == revision(17)


def test_a_planner_may_be_ahead_of_this_process() -> None:
    applied = AppliedRevision()
    applied.update(revision(16), [summary(16)])
    assert applied.update(revision(16), [summary(17)]) == revision(16)
    assert applied.update(revision(17), [summary(17)]) == revision(17)


def test_a_revision_that_a_planner_rejects_is_not_applied() -> None:
    applied = AppliedRevision()
    applied.update(revision(16), [summary(16)])
    assert applied.update(revision(17), [summary(16, rejected="no", rejectedRevision="6f1c/17")]) == revision(16)


def test_another_lineage_is_applied_when_all_agree() -> None:
    applied = AppliedRevision()
    applied.update(revision(16), [summary(16)])
    assert applied.update(revision(3, "new"), [summary(16)]) == revision(16)
    assert applied.update(revision(3, "new"), [summary(3, "new")]) == revision(3, "new")


def test_a_changed_subscription_of_the_same_revision_is_applied() -> None:
    applied = AppliedRevision()
    applied.update(revision(16), [summary(16)])
    moved = replace(revision(16), rendering=Rendering("another", STREAMS))
    assert applied.update(moved, [summary(16)]) == moved


def test_a_revision_that_only_a_planner_has_is_not_reported() -> None:
    applied = AppliedRevision()
    assert applied.update(revision(17), [summary(3)]) is None
    applied.update(revision(17), [summary(17)])
    assert applied.update(revision(17), [summary(3)]) == revision(17)


def test_old_revisions_are_forgotten() -> None:
    applied = AppliedRevision()
    for counter in range(100):
        applied.update(revision(counter), [summary(counter)])
    assert applied.update(revision(99), [summary(1)]) == revision(99)
    assert applied.update(revision(99), [summary(95)]) == revision(95)


# -- rejected revisions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "planners", "expected"),
    [
        ((None, ""), [{}, summary(16)], None),
        (("wrong", "6f1c/17"), [summary(16)], ("6f1c/17", "wrong")),
        (("wrong", ""), [summary(16)], ("", "wrong")),
        ((None, ""), [summary(17), summary(16, rejected="no", rejectedRevision="6f1c/17")], ("6f1c/17", "no")),
        ((None, ""), [summary(16, rejected="no")], ("", "no")),
        (("w" * 2000, "6f1c/17"), [], ("6f1c/17", "w" * 999 + "…")),
    ],
)
def test_a_rejection_here_or_by_a_planner_has_its_reason(
    own: tuple[str | None, str], planners: list[dict[str, Any]], expected: tuple[str, str] | None
) -> None:
    assert rejection(own, planners) == expected


# -- the schedule --------------------------------------------------------------------------------------------------


def reports(schedule: ReportSchedule, story: list[tuple[float, DriverState]]) -> list[float]:
    """Return the moments of a story at which a report was due and made."""
    made = []
    for now, state in story:
        if schedule.is_due(state, now):
            schedule.record_attempt(state, now, succeeded=True)
            made.append(now)
    return made


def test_a_change_is_reported_at_once_and_once() -> None:
    news = replace(STATE, rejected=("6f1c/18", "no"))
    story = [(0.0, STATE), (100.0, STATE), (101.0, news), (500.0, news)]
    assert reports(ReportSchedule(0), story) == [0.0, 101.0]


def test_a_few_changes_are_reported_at_once_and_more_with_pauses() -> None:
    def changes(start: int, end: int) -> list[tuple[float, DriverState]]:
        return [(float(second), replace(STATE, applied=revision(second))) for second in range(start, end)]

    made = reports(ReportSchedule(0), changes(0, 100))
    # Each pause has refilled the burst a bit by the time it is used up.
    assert made == [0.0, 1.0, 2.0, 3.0, 4.0, REPORT_INTERVAL_S, 2 * REPORT_INTERVAL_S, 3 * REPORT_INTERVAL_S]
    # After a quiet time there is a whole burst again, and never more than that.
    later = [*changes(0, 20), *changes(5000, 5010)]
    assert reports(ReportSchedule(0), later)[BURST:] == [5000.0 + second for second in range(BURST)]


def test_during_a_drain_reports_come_regularly() -> None:
    story = [(float(now), DRAINING if now >= 5 else STATE) for now in range(42)]
    assert reports(ReportSchedule(0), story) == [0.0, *(5 + count * DRAIN_REPORT_INTERVAL_S for count in range(4))]


def test_the_end_of_all_queries_is_reported_at_once() -> None:
    ended = replace(DRAINING, finished=True)
    assert reports(ReportSchedule(0), [(1, DRAINING), (2, DRAINING), (3, ended), (4, ended)]) == [1, 3]


def test_a_change_during_a_drain_is_reported_at_once() -> None:
    news = replace(DRAINING, applied=revision(18))
    story = [(float(now), DRAINING if now < 3 else news if now < 16 else STATE) for now in range(30)]
    assert reports(ReportSchedule(0), story) == [0.0, 3.0, 3.0 + DRAIN_REPORT_INTERVAL_S, 16.0]


def test_the_first_report_waits_for_planners_up_to_a_limit() -> None:
    unplanned = replace(STATE, applied=None)
    assert reports(ReportSchedule(100), [(101.0, unplanned), (103.0, STATE)]) == [103.0]
    at_limit = 100 + PLANNER_WAIT_S
    assert reports(ReportSchedule(100), [(101.0, unplanned), (at_limit, unplanned)]) == [at_limit]
    drains = replace(DRAINING, applied=None)
    assert reports(ReportSchedule(100), [(101.0, drains)]) == [101.0]


@pytest.mark.parametrize("state", [STATE, DRAINING])
def test_a_failed_report_is_retried(state: DriverState) -> None:
    schedule, attempts = ReportSchedule(0), []
    for now in range(200):
        if schedule.is_due(state, now):
            schedule.record_attempt(state, now, succeeded=False)
            attempts.append(now)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[:4] == [DRAIN_REPORT_INTERVAL_S] * 4
    assert set(pauses[6:]) == {DRAIN_REPORT_INTERVAL_S if state.draining else REPORT_INTERVAL_S}


def sink(*clocks_ms: int | None, trigger: str, lag: int = 5, **more: Any) -> SinkStatus:
    clusters = {"west": {"lag": 0}, "east": {"lag": lag}}
    summaries = tuple({"clusters": clusters, "clock": ms, "clockHeldBy": None, **more} for ms in clocks_ms)
    return SinkStatus("lake", summaries=summaries, triggered_at=trigger)


def test_a_clock_that_stood_with_unread_records_is_reported() -> None:
    watch = ClockWatch()
    more = {"clockHeldBy": {"cluster": "west", "topic": "orders", "partition": 3}, "clockWaitsFor": ["south"] * 99}
    plain = SinkStatus("plain", summaries=({"clusters": {}},))
    assert watch.standing([plain, sink(7, None, trigger="1", **more)], 0.0) == ()
    assert watch.standing([plain, sink(7, None, trigger="2", **more)], CLOCK_STANDS_S - 1) == ()
    south = ("south",) * MAX_NEVER_REACHED
    assert watch.standing([plain, sink(7, None, trigger="3", **more)], CLOCK_STANDS_S) == tuple(
        StandingClock(query="lake", clock_ms=ms, held_by="west/orders[3]", waits_for=south) for ms in (7, None)
    )


def test_a_time_without_a_date_does_not_end_the_reports() -> None:
    watch = ClockWatch()
    watch.standing([sink(10**18, trigger="1")], 0.0)
    [clock] = watch.standing([sink(10**18, trigger="2")], CLOCK_STANDS_S)
    assert clock.clock_ms == MAX_TIME_MS


@pytest.mark.parametrize(
    "between", [sink(8, trigger="2"), sink(7, lag=0, trigger="2")], ids=["moved", "nothing unread"]
)
def test_a_clock_that_moves_or_has_no_lag_does_not_stand(between: SinkStatus) -> None:
    watch = ClockWatch()
    steps = ((0.0, sink(7, trigger="1")), (CLOCK_STANDS_S - 1, between), (CLOCK_STANDS_S + 1, sink(7, trigger="3")))
    for now_s, status in steps:
        assert watch.standing([status], now_s) == ()
    assert watch.standing([sink(7, trigger="4")], 2 * CLOCK_STANDS_S + 1)


def test_without_a_new_trigger_no_clock_stands() -> None:
    """A batch takes long, or the next trigger is far. The supervisor shows the last progress event again and again."""
    watch = ClockWatch()
    for now_s in range(0, 10 * int(CLOCK_STANDS_S), 5):
        assert watch.standing([sink(7, trigger="1")], now_s) == ()
    assert watch.standing([sink(8, trigger="2")], 10 * CLOCK_STANDS_S) == ()


def test_a_clock_of_a_stopped_query_is_forgotten() -> None:
    watch = ClockWatch()
    watch.standing([sink(7, trigger="1")], 0.0)
    assert watch.standing([], CLOCK_STANDS_S) == watch.standing([sink(7, trigger="2")], CLOCK_STANDS_S + 1) == ()
