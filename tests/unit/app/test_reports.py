"""What a report says and when it is due; and that the operator reads in it what the driver meant."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.app.kubernetes.driver_report import (
    MAX_BYTES,
    PAUSE_S,
    PLANNERS_S,
    SOON_S,
    Applied,
    Pace,
    Situation,
    abilities_of,
    rejection,
    report_text,
)
from dynamic_kafka.app.telemetry.drain_tracker import TopicDrain
from dynamic_kafka.metadata.kubernetes_names import REPORT_BEAT_S
from dynamic_kafka.metadata.model import Rendering, Revision
from kafkastream_operator.core.document import Key
from kafkastream_operator.core.drain_evidence import Report, TopicReport

STREAMS = {"orders": {"clusters": {"east": {"bootstrapServers": "e:1", "topics": ["old"], "state": "Draining"}}}}


def revision(counter: int, lineage: str = "6f1c") -> Revision:
    return Revision(f"sha256:{counter}", counter, lineage, Rendering("uid-of-subscription", STREAMS))


def summary(counter: int, lineage: str = "6f1c", **more: Any) -> dict[str, Any]:
    """What a planner tells with its progress."""
    return {"clusters": {}, "document": 1, "revision": str(counter), "lineage": lineage, **more}


SITUATION = Situation(revision(17), None, "uid-of-subscription")
DRAINING = replace(SITUATION, draining=(("east", "old"),))


# -- what is said --------------------------------------------------------------------------------------------------


def test_the_operator_reads_what_the_driver_reports() -> None:
    drains = [TopicDrain("east", "old", None, 0.0, False), TopicDrain("west", "old", 0, 312.04, True, "K")]
    situation = replace(DRAINING, rejected=("6f1c/18", "another cluster"))

    read = Report.parse(report_text(situation, drains, pod="uid-of-pod", beat=7))

    assert read == Report(
        contract=1,
        reader=1,
        abilities=frozenset({"live"}),
        applied=Revision(lineage="6f1c", counter=17),
        hash="sha256:17",
        rejected=("6f1c/18", "another cluster"),
        subscription="uid-of-subscription",
        pod="uid-of-pod",
        beat=7,
        draining={
            Key("east", "old"): TopicReport(None, 0.0, False),
            Key("west", "old"): TopicReport(0, 312.0, True, "K"),
        },
        streams=STREAMS,
    )


def test_the_form_is_a_promise() -> None:
    said = json.loads(report_text(DRAINING, [TopicDrain("east", "old", 5, 1.26, False, "K")], pod="p", beat=1))
    assert said == {
        "contract": 1,
        "reader": 1,
        "abilities": ["live"],
        "applied": "6f1c/17",
        "hash": "sha256:17",
        "rejected": None,
        "subscription": "uid-of-subscription",
        "pod": "p",
        "beat": 1,
        "draining": [
            {"cluster": "east", "topic": "old", "lag": 5, "quiet": 1.3, "openTransaction": False, "kafkaId": "K"}
        ],
        "streams": STREAMS,
    }


def test_who_looks_metadata_up_at_the_start_only_does_not_promise_to_take_a_change_up_live() -> None:
    for interval_ms, abilities in ((10_000, ["live"]), (0, [])):
        said = report_text(SITUATION, [], pod="p", beat=1, abilities=abilities_of(interval_ms))
        assert json.loads(said)["abilities"] == abilities


def test_before_the_planners_have_planned_nothing_is_applied() -> None:
    said = json.loads(report_text(replace(SITUATION, applied=None), [], pod="p", beat=1))
    assert (said["applied"], said["hash"]) == (None, "")
    assert "streams" not in said


def test_streams_that_were_not_kept_are_left_out() -> None:
    applied = replace(revision(17), rendering=Rendering("uid-of-subscription", None))
    assert "streams" not in json.loads(report_text(replace(SITUATION, applied=applied), [], pod="p", beat=1))


def test_of_more_topics_than_fit_those_that_are_furthest_are_told() -> None:
    done = [TopicDrain("east", f"done-{n}-{'x' * 200}", 0, 300.0, False) for n in range(200)]
    behind = [TopicDrain("east", f"behind-{n}-{'x' * 200}", n or None, 0.0, False) for n in range(1000)]

    text = report_text(DRAINING, [*behind, *done], pod="p", beat=1)

    assert MAX_BYTES * 0.95 < len(text) <= MAX_BYTES
    told = [each["topic"] for each in json.loads(text)["draining"]]
    assert {each.topic for each in done} < set(told)
    assert f"behind-1-{'x' * 200}" in told
    assert f"behind-0-{'x' * 200}" not in told, "what is not known comes last"


# -- which revision is applied -------------------------------------------------------------------------------------


def test_a_revision_is_applied_when_all_planners_have_planned_with_it() -> None:
    applied = Applied()
    assert applied.take(revision(16), [{}, {}]) is None
    assert applied.take(revision(16), [summary(16), {}]) is None
    assert applied.take(revision(16), [summary(16), summary(16)]) == revision(16)

    assert applied.take(revision(17), [summary(16), summary(17)]) == revision(16)
    assert applied.take(revision(17), [summary(17), summary(17)]) == revision(17)


def test_a_planner_may_be_ahead_of_this_process() -> None:
    applied = Applied()
    applied.take(revision(16), [summary(16)])
    assert applied.take(revision(16), [summary(17)]) == revision(16)
    assert applied.take(revision(17), [summary(17)]) == revision(17)


def test_a_revision_that_a_planner_rejects_is_not_applied() -> None:
    applied = Applied()
    applied.take(revision(16), [summary(16)])
    assert applied.take(revision(17), [summary(16, rejected="no", rejectedRevision="6f1c/17")]) == revision(16)


def test_another_lineage_is_applied_when_all_agree() -> None:
    applied = Applied()
    applied.take(revision(16), [summary(16)])
    assert applied.take(revision(3, "new"), [summary(16)]) == revision(16)
    assert applied.take(revision(3, "new"), [summary(3, "new")]) == revision(3, "new")


def test_another_subscription_of_the_same_revision_is_taken_up() -> None:
    applied = Applied()
    applied.take(revision(16), [summary(16)])
    moved = replace(revision(16), rendering=Rendering("another", STREAMS))
    assert applied.take(moved, [summary(16)]) == moved


def test_a_revision_that_only_a_planner_knows_is_not_made_up() -> None:
    applied = Applied()
    assert applied.take(revision(17), [summary(3)]) is None
    applied.take(revision(17), [summary(17)])
    assert applied.take(revision(17), [summary(3)]) == revision(17)


def test_old_revisions_are_forgotten() -> None:
    applied = Applied()
    for counter in range(100):
        applied.take(revision(counter), [summary(counter)])
    assert applied.take(revision(99), [summary(1)]) == revision(99)
    assert applied.take(revision(99), [summary(95)]) == revision(95)


# -- what is rejected ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "planners", "told"),
    [
        ((None, ""), [{}, summary(16)], None),
        (("wrong", "6f1c/17"), [summary(16)], ("6f1c/17", "wrong")),
        (("wrong", ""), [summary(16)], ("", "wrong")),
        ((None, ""), [summary(17), summary(16, rejected="no", rejectedRevision="6f1c/17")], ("6f1c/17", "no")),
        ((None, ""), [summary(16, rejected="no")], ("", "no")),
        (("w" * 2000, "6f1c/17"), [], ("6f1c/17", "w" * 999 + "…")),
    ],
)
def test_what_is_rejected_here_or_by_a_planner_is_told_with_its_reason(
    own: tuple[str | None, str], planners: list[dict[str, Any]], told: tuple[str, str] | None
) -> None:
    assert rejection(own, planners) == told


# -- when ----------------------------------------------------------------------------------------------------------


def reports(pace: Pace, story: list[tuple[float, Situation]]) -> list[float]:
    """The moments of a story at which a report was due, and made."""
    made = []
    for now, situation in story:
        if pace.is_due(situation, now):
            pace.tried(situation, now, succeeded=True)
            made.append(now)
    return made


def test_news_are_told_at_once_and_nothing_is_repeated() -> None:
    news = replace(SITUATION, rejected=("6f1c/18", "no"))
    story = [(0.0, SITUATION), (100.0, SITUATION), (101.0, news), (500.0, news)]
    assert reports(Pace(0), story) == [0.0, 101.0]


def test_news_that_follow_each_other_wait_for_each_other() -> None:
    first, second = replace(SITUATION, applied=revision(18)), replace(SITUATION, applied=revision(19))
    story = [(0.0, SITUATION), (1.0, first), (2.0, second), (PAUSE_S - 1, second), (PAUSE_S, second), (99.0, second)]
    assert reports(Pace(0), story) == [0.0, PAUSE_S]


def test_while_something_drains_there_is_a_beat() -> None:
    story = [(float(now), DRAINING if now >= 5 else SITUATION) for now in range(42)]
    assert reports(Pace(0), story) == [0.0, REPORT_BEAT_S, 2 * REPORT_BEAT_S, 3 * REPORT_BEAT_S, 4 * REPORT_BEAT_S]


def test_what_is_new_soon_after_a_drain_is_told_after_a_beat() -> None:
    gone, news, later = (replace(SITUATION, applied=revision(number)) for number in (17, 18, 19))

    def found(now: int) -> Situation:
        return DRAINING if now < 5 else gone if now < 12 else news if now < SOON_S else later

    story = [(float(now), found(now)) for now in range(150)]
    assert reports(Pace(0), story) == [0.0, REPORT_BEAT_S, 2 * REPORT_BEAT_S, SOON_S]
    after = [(SOON_S + now, later if now % 2 else news) for now in range(90)]
    found_then = [SOON_S, SOON_S + PAUSE_S + 1, SOON_S + 2 * PAUSE_S + 2]
    assert reports(Pace(0), [(0.0, DRAINING), *after]) == [0.0, *found_then]


def test_a_report_on_the_end_of_a_drain_that_does_not_get_through_is_made_again_after_a_beat() -> None:
    pace = Pace(0)
    pace.tried(DRAINING, 0, succeeded=True)
    pace.tried(SITUATION, REPORT_BEAT_S, succeeded=False)
    assert not pace.is_due(SITUATION, 2 * REPORT_BEAT_S - 1)
    assert pace.is_due(SITUATION, 2 * REPORT_BEAT_S)


def test_the_first_report_waits_for_the_planners_but_not_for_ever() -> None:
    unplanned = replace(SITUATION, applied=None)
    assert reports(Pace(100), [(101.0, unplanned), (103.0, SITUATION)]) == [103.0]
    assert reports(Pace(100), [(101.0, unplanned), (100 + PLANNERS_S, unplanned)]) == [100 + PLANNERS_S]
    drains = replace(DRAINING, applied=None)
    assert reports(Pace(100), [(101.0, drains)]) == [101.0]


def test_a_report_that_did_not_get_through_is_made_again() -> None:
    pace = Pace(0)
    pace.tried(SITUATION, 0, succeeded=False)
    assert not pace.is_due(SITUATION, PAUSE_S - 1)
    assert pace.is_due(SITUATION, PAUSE_S)
    assert pace.is_due(DRAINING, REPORT_BEAT_S)
