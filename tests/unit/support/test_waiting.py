"""The one poll loop of the tests: the value it returns, and the failures it reports."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until


def test_a_wait_returns_the_first_true_value() -> None:
    answers = iter([None, 0, 7, 8])
    assert wait_until(lambda: next(answers), "a number") == 7


def test_a_state_reached_right_before_a_failure_counts() -> None:
    states: list[str] = []
    end = lambda: states.append("reached") or "it has ended"  # noqa: E731
    assert wait_until(lambda: states, "a state", failed=end) == ["reached"]


@pytest.mark.parametrize(("ends", "why"), [(True, "it has ended"), (False, "not within 0 s")])
def test_a_wait_in_vain_shows_reason_and_details(ends: bool, why: str) -> None:
    with pytest.raises(KeyError, match=f"waited in vain for a state: {why}; its log"):
        wait_until(
            lambda: False,
            "a state",
            timeout_s=0,
            failed=lambda: "it has ended" if ends else None,
            details=lambda: "its log",
            error=KeyError,
        )
