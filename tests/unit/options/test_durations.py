"""Durations in options: units, refusals and limits."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1500", 1500),
        ("500ms", 500),
        ("10s", 10_000),
        ("5m", 300_000),
        ("5min", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 10 S ", 10_000),
    ],
)
def test_a_whole_number_with_or_without_a_unit(text: str, ms: int) -> None:
    assert parse_duration_ms(text, where="x") == ms


@pytest.mark.parametrize(
    "text", ["", "-1", "-5s", "1.5s", "10us", "s", "10s5m", "ten", "PT10S", "10\u00b2s", "\u0663s"]
)
def test_anything_else_is_refused_naming_the_option(text: str) -> None:
    with pytest.raises(OptionError, match=r"option 'x' is .* not a duration"):
        parse_duration_ms(text, where="option 'x'")


@pytest.mark.parametrize("text", ["36501d", "9" * 18, "9" * 6000])
def test_a_duration_that_overflows_timers_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="longer than a hundred years"):
        parse_duration_ms(text, where="x")


@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(OptionError):
        assert parse_duration_ms(text, where="x") >= 0
