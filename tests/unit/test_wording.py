"""Phrases that many messages share."""

from __future__ import annotations

from dynamic_kafka.wording import did_you_mean, first_few, nearest


def test_a_short_list_is_given_whole() -> None:
    assert first_few(["a", "b"], limit=2) == "a, b"
    assert first_few([]) == ""


def test_a_long_list_is_cut_and_counted() -> None:
    assert first_few(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert first_few(["a", "b", "c"], limit=1, separator="; ") == "a and 2 more"


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("stremIds", ["streamIds", "topics"]) == "streamIds"
    assert did_you_mean("stremIds", ["streamIds", "topics"]) == "; did you mean 'streamIds'?"


def test_an_unlike_name_gets_no_suggestion() -> None:
    assert nearest("zzz", ["streamIds"]) is None
    assert did_you_mean("zzz", ["streamIds"]) == ""


def test_case_and_separators_do_not_make_names_less_alike() -> None:
    assert nearest("STREAM_IDS", ["streamIds", "STREAM_TOPICS"]) == "streamIds"
