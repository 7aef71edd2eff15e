"""Phrases that many messages share."""

from __future__ import annotations

import pytest

from dynamic_kafka.metadata.client_properties import BY_NAME
from dynamic_kafka.options.secrets import _SECRET_KEYS, is_secret_key
from dynamic_kafka.wording import counted, did_you_mean, first_few, nearest, without_secrets


def test_a_short_list_is_given_whole() -> None:
    assert first_few(["a", "b"], limit=2) == "a, b"
    assert first_few([]) == ""


def test_a_long_list_is_cut_and_counted() -> None:
    assert first_few(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert first_few(["a", "b", "c"], limit=1, separator="; ") == "a and 2 more"


def test_a_noun_agrees_with_its_number() -> None:
    assert [counted(number, "record", are=True) for number in (0, 1, 2)] == [
        "0 records are",
        "1 record is",
        "2 records are",
    ]
    assert counted(1, "stream") == "1 stream"


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("stremIds", ["streamIds", "topics"]) == "streamIds"
    assert did_you_mean("stremIds", ["streamIds", "topics"]) == "; did you mean 'streamIds'?"


def test_an_unlike_name_gets_no_suggestion() -> None:
    assert nearest("zzz", ["streamIds"]) is None
    assert did_you_mean("zzz", ["streamIds"]) == ""


def test_case_and_separators_do_not_make_names_less_alike() -> None:
    assert nearest("STREAM_IDS", ["streamIds", "STREAM_TOPICS"]) == "streamIds"


@pytest.mark.parametrize("key", sorted({*filter(is_secret_key, BY_NAME), *_SECRET_KEYS, "sasl.jaas.config"}))
def test_each_secret_property_is_masked(key: str) -> None:
    assert without_secrets(f"--conf kafka.{key}=hunter2 --conf a=b") == f"--conf kafka.{key}=*** --conf a=b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password='a \\' hunter2'.", "password=***."),
        ("{secret: hunter2, a: b}", "{secret: ***, a: b}"),
        ("Map(token -> hunter2, a -> b)", "Map(token -> ***, a -> b)"),
        ("x --api-key hunter2 y", "x --api-key *** y"),
        ("ftp://a:b@hunter2@host/path", "ftp://***@host/path"),
        ("a\n-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\nb", "a\n***\nb"),
        ('{"auths": {"registry": {"auth":"hunter2"}}}', '{"auths": {"registry": {"auth":***}}}'),
        ("sent Bearer hunter2 twice", "sent Bearer *** twice"),
    ],
)
def test_a_secret_is_masked_in_any_form(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text", ["NoCredentialsException: none", "signal: killed", 'secrets "login" is forbidden', "ssl.key.location: /a"]
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert without_secrets(text) == text
