"""The budget of restarts as tables: which restarts count, their order, and what each waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafkastream_operator.core.application import Application
from kafkastream_operator.core.figures import subscription_figures
from kafkastream_operator.core.rollout.budget import Limits, Restart, StreamKey, restart_of, turns
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.models.conditions import condition
from kafkastream_operator.models.stream import RolloutRules
from kafkastream_operator.models.subscription import LastFailure, Rendered, Rollout, SubscriptionStatus
from tests.unit.operator.world import START

DAY = 86400
APPLICATION = Application("uid", "1", "Running", token="l/1", attempt=1, submission="s1")


def at(seconds: float) -> str:
    return stamp(START + timedelta(seconds=seconds))


def status(phase: Any, reason: str, **more: Any) -> SubscriptionStatus:
    """Return a status whose restart for revision 2 was patched at 10 s, or waits since then."""
    rollout = Rollout(token="l/2", method="Restart", phase=phase, at=at(10), **more.pop("rollout", {}))
    readable = more.pop("readable", True)
    resolved = condition("StreamsResolved", "Resolved" if readable else "InvalidSubscription")
    reporting = condition("Reporting", more.pop("reporting", "Reporting"))
    each_of = (_rolled_out(reason), resolved, reporting)
    conditions = tuple(draft.model_copy(update={"last_transition_time": at(0)}) for draft in each_of)
    return SubscriptionStatus(rollout=rollout, restarted_at=at(10), conditions=conditions, **more)


def _rolled_out(reason: str) -> Any:
    return condition("RolledOut", reason)


def failure(seconds: float, count: int = 1, first: float | None = None) -> LastFailure:
    return LastFailure(count=count, at=at(seconds), since=at(first) if first is not None else None)


def newest(counter: int) -> Rendered:
    return Rendered(config_map="app-kafkastreams", lineage="l", counter=counter, hash="")


NOTHING: dict[str, Any] = {"waiting": False, "in_flight": False, "failed_at": None, "confirmed_at": None}
PATCHED = replace(APPLICATION, token="l/2")
STATES: dict[str, tuple[SubscriptionStatus, Application | None, dict[str, Any]]] = {
    "gathers": (status("Pending", "RollingOut"), APPLICATION, {"waiting": True}),
    "waits": (status("Pending", "Queued"), APPLICATION, {"waiting": True}),
    "waits in a paused wave": (status("Pending", "RolloutPaused"), APPLICATION, {"waiting": True}),
    "is kept apart from the last one": (status("Pending", "Coalescing"), APPLICATION, {}),
    "is paused by its user": (status("Pending", "Paused"), APPLICATION, {}),
    "waits, and its spec cannot be read": (status("Pending", "Queued", readable=False), APPLICATION, {}),
    "was patched by an operator that died": (status("Pending", "Paused"), PATCHED, {"in_flight": True}),
    "waits while the driver of the last patch starts": (
        status("Pending", "Queued"),
        replace(APPLICATION, life="Starting"),
        {"waiting": True, "in_flight": True},
    ),
    "is patched": (status("Patched", "RollingOut"), PATCHED, {"in_flight": True}),
    "is patched, and then paused": (status("Patched", "Paused"), PATCHED, {}),
    "is patched, and its streams are invalid": (
        status("Patched", "RollingOut").model_copy(update={"conditions": ()}),
        PATCHED,
        {},
    ),
    "is patched, and was stopped": (status("Patched", "NotRunning"), PATCHED, {}),
    "is patched, and needs another strategy": (status("Patched", "RestartRequired"), PATCHED, {}),
    "is patched, and rejected since the strategy is Reload": (status("Patched", "Rejected"), PATCHED, {}),
    "is patched, and fails": (
        status("Patched", "RollingOut", failure=failure(20)),
        PATCHED,
        {"in_flight": True, "failed_at": 20},
    ),
    "is confirmed": (status("Confirmed", "Confirmed"), PATCHED, {"confirmed_at": 10}),
    "is confirmed, and its driver has yet to report": (
        status("Confirmed", "Confirmed", reporting="AwaitsReport"),
        PATCHED,
        {"in_flight": True},
    ),
    "is confirmed, and its driver never reports": (
        status("Confirmed", "Confirmed", reporting="NoReport"),
        PATCHED,
        {"confirmed_at": 10},
    ),
    "fails again and again before a report": (
        status("Confirmed", "Confirmed", reporting="AwaitsReport", failure=failure(20, 3)),
        PATCHED,
        {"failed_at": 20},
    ),
    "is confirmed, and fails a month later": (
        status("Confirmed", "Confirmed", failure=failure(30 * DAY)),
        replace(PATCHED, life="Failed"),
        {"confirmed_at": 10},
    ),
    "fails again and again, a month later": (
        status("Confirmed", "Confirmed", failure=failure(30 * DAY, 4, first=30 * DAY - 300)),
        PATCHED,
        {"confirmed_at": 10},
    ),
    "fails again and again since its restart": (
        status("Confirmed", "Confirmed", failure=failure(DAY, 90, first=20)),
        PATCHED,
        {"failed_at": DAY},
    ),
    "is patched, and fails after an hour": (
        status("Patched", "Starting", failure=failure(3600)),
        PATCHED,
        {"in_flight": True, "failed_at": 3600},
    ),
    "has failed for good": (
        status("Confirmed", "NotRunning", failure=failure(20)),
        replace(PATCHED, life="Failed"),
        {"failed_at": 20},
    ),
    "has failed for good, and its stream is corrected": (
        status("Confirmed", "NotRunning", failure=failure(20), rendered=newest(3)),
        replace(PATCHED, life="Failed"),
        {"confirmed_at": 10},
    ),
    "was given up, and its stream is corrected": (
        status("Failed", "NotRunning", rendered=newest(3)),
        replace(PATCHED, life="Failed"),
        {},
    ),
    "has failed for good with the newest revision": (
        status("Confirmed", "NotRunning", failure=failure(20), rendered=newest(2)),
        replace(PATCHED, life="Failed"),
        {"failed_at": 20},
    ),
    "was given up, and is suspended": (status("Failed", "Stalled"), replace(PATCHED, life="Suspended"), {}),
    "was given up, and its application is deleted": (status("Failed", "Stalled"), None, {}),
    "is confirmed, and failed before": (
        status("Confirmed", "Confirmed", failure=failure(5)),
        PATCHED,
        {"confirmed_at": 10},
    ),
    "is confirmed, and fails": (status("Confirmed", "Confirmed", failure=failure(20)), PATCHED, {"failed_at": 20}),
    "has failed, and has run for long since": (
        status("Confirmed", "Confirmed", failure=failure(20, 0)),
        PATCHED,
        {"confirmed_at": 10},
    ),
    "was given up": (status("Failed", "Stalled"), PATCHED, {"failed_at": 10}),
}


@pytest.mark.parametrize("case", STATES)
def test_a_restart_is_what_its_status_shows(case: str) -> None:
    seen, application, expected = STATES[case]
    shown = restart_of("ns", "app", ["orders"], seen, application)
    assert shown is not None
    moments = {key: START + timedelta(seconds=value) for key, value in expected.items() if key.endswith("_at")}
    assert {key: getattr(shown, key) for key in NOTHING} == {**NOTHING, **expected, **moments}


def test_a_live_change_is_no_restart() -> None:
    rollout = Rollout(token="l/2", method="Reload", phase="Patched", at=at(10))
    assert restart_of("ns", "app", ["orders"], SubscriptionStatus(rollout=rollout), PATCHED) is None


def test_a_released_failure_is_none() -> None:
    released_one = restart_of("ns", "app", ["orders"], status("Failed", "Stalled"), PATCHED, released="l/2")
    earlier = restart_of("ns", "app", ["orders"], status("Failed", "Stalled"), PATCHED, released="l/1")
    assert released_one is not None
    assert earlier is not None
    assert (released_one.failed_at is None, earlier.failed_at is None) == (True, False)


def test_a_released_restart_is_not_in_flight() -> None:
    crashing = status("Patched", "RollingOut", failure=failure(20))
    released_one = restart_of("ns", "app", ["orders"], crashing, PATCHED, released="l/2")
    assert released_one is not None
    assert (released_one.in_flight, released_one.failed_at) == (False, None)


def restart(name: str, seconds: float = 0, streams: str = "orders", **more: Any) -> Restart:
    moments = {key: START + timedelta(seconds=more.pop(key)) for key in ("failed_at", "confirmed_at") if key in more}
    keys = frozenset(StreamKey("ns", stream) for stream in streams.split())
    return Restart("ns", name, keys, "l/2", START + timedelta(seconds=seconds), **moments, **more)


def waits(name: str, seconds: float = 0, streams: str = "orders", **more: Any) -> Restart:
    return restart(name, seconds, streams, waiting=True, **more)


def flies(name: str, streams: str = "orders") -> Restart:
    return restart(name, streams=streams, in_flight=True)


FAILED, DONE = restart("f", failed_at=5), restart("d", confirmed_at=6)
TURNS: dict[str, tuple[list[Restart], RolloutRules, str]] = {
    "as many begin as may": ([waits("a"), waits("b"), waits("c")], RolloutRules(), "a b c:Queued"),
    "those in flight count": ([flies("x"), waits("a"), waits("b")], RolloutRules(), "a b:Queued"),
    "the longest wait comes first": ([waits("a", 3), waits("b", 1), waits("c", 2)], RolloutRules(), "b c a:Queued"),
    "a restart begun before comes first": (
        [waits("a", 1), waits("b", 2), waits("c", 3, again=True)],
        RolloutRules(),
        "c a b:Queued",
    ),
    "one in flight already needs no more room": (
        [flies("x"), waits("a", 1), waits("b", 2, in_flight=True)],
        RolloutRules(),
        "a:Queued b",
    ),
    "a stream has a limit of its own": (
        [waits("a"), waits("b"), waits("c", 1, "bills")],
        RolloutRules(max_parallel=1),
        "a b:Queued c",
    ),
    "the operator's limit holds beside the stream's": (
        [flies("x", "bills"), waits("a"), waits("b")],
        RolloutRules(max_parallel=9),
        "a b:Queued",
    ),
    "a failure pauses": ([FAILED, waits("a"), waits("b")], RolloutRules(), "a:RolloutPaused b:RolloutPaused"),
    "a failure pauses its streams only": ([FAILED, waits("a", 0, "bills")], RolloutRules(), "a"),
    "a failure pauses what also reads others": (
        [FAILED, waits("a", 0, "bills orders")],
        RolloutRules(),
        "a:RolloutPaused",
    ),
    "a later success ends the pause": ([FAILED, DONE, waits("a")], RolloutRules(), "a"),
    "an earlier success does not": (
        [FAILED, restart("d", confirmed_at=4), waits("a")],
        RolloutRules(),
        "a:RolloutPaused",
    ),
    "a stream may go on after failures": ([FAILED, waits("a")], RolloutRules(pause_on_failure=False), "a"),
}


@pytest.mark.parametrize("case", TURNS)
def test_turns_follow_the_order(case: str) -> None:
    restarts, rules, expected = TURNS[case]
    ordered = turns(restarts, {StreamKey("ns", "orders"): rules}, Limits(2, 2))
    reasons = [":RolloutPaused" if turn.paused else ":Queued" if turn.hindrance else "" for turn in ordered]
    assert " ".join(turn.restart.name + reason for turn, reason in zip(ordered, reasons, strict=True)) == expected
    assert [turn.place for turn in ordered] == list(range(1, len(ordered) + 1))


def test_a_pause_names_the_failure_and_the_way_out() -> None:
    (turn,) = turns([FAILED, waits("a")], {}, Limits(2, 2))
    assert "subscription f" in turn.hindrance
    assert "kss/f kafkastream.dev/release-rollout=l/2" in turn.hindrance


def test_a_full_budget_names_the_restarts_that_fill_it() -> None:
    *_, turn = turns([flies("x"), waits("a"), waits("b")], {}, Limits(2, 2))
    assert "(2): x, a. If one hangs" in turn.hindrance
    assert "kss/NAME kafkastream.dev/release-rollout=TOKEN" in turn.hindrance


def test_a_full_budget_names_none_of_another_namespace() -> None:
    elsewhere = replace(flies("x"), namespace="other", streams=frozenset({StreamKey("other", "orders")}))
    *_, turn = turns([elsewhere, flies("y"), waits("a")], {}, Limits(2, 2))
    assert "(2): y and 1 in other namespaces. If" in turn.hindrance
    *_, turn = turns([elsewhere, waits("a")], {}, Limits(1, 1))
    assert "(1): 1 in other namespaces. If" in turn.hindrance


def test_a_namespace_that_has_no_room_leaves_it_to_the_others() -> None:
    other = frozenset({StreamKey("other", "bills")})
    mine, *theirs = turns(
        [flies("x"), waits("a"), replace(waits("b"), namespace="other", streams=other)], {}, Limits(2, 1)
    )
    assert "as --max-restarts-per-namespace allows (1): x. If one hangs" in mine.hindrance
    assert [(turn.restart.namespace, turn.hindrance) for turn in theirs] == [("other", "")]


def test_restarts_that_hang_hold_up_their_own_namespace_only() -> None:
    other = frozenset({StreamKey("other", "bills")})
    hanging = [replace(flies(name), hangs=True) for name in "xy"]
    theirs = replace(waits("b"), namespace="other", streams=other)
    mine, others = turns([*hanging, waits("a"), theirs], {}, Limits(2, 2))
    assert "as --max-restarts-per-namespace allows (2): x, y. If one hangs, release it" in mine.hindrance
    assert (others.restart.name, others.hindrance) == ("b", "")


@pytest.mark.parametrize(("reason", "hangs"), [("RollingOut", False), ("Starting", True)])
def test_a_restart_without_a_driver_for_long_hangs(reason: str, hangs: bool) -> None:
    shown = restart_of("ns", "app", ["orders"], status("Patched", reason), PATCHED)
    assert shown is not None
    assert (shown.in_flight, shown.hangs) == (True, hangs)


@pytest.mark.parametrize(("reason", "moves"), [("RollingOut", True), ("Queued", False), ("RolloutPaused", False)])
def test_a_waiting_restart_has_no_age_in_the_metrics(reason: str, moves: bool) -> None:
    figures = subscription_figures(status("Pending", reason, rendered=newest(2)))
    assert (figures.moving_since is not None, figures.wave_paused) == (moves, reason == "RolloutPaused")
