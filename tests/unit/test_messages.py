"""The messages of both packages are those of the golden files, so that a change of wording is a change under review."""

from __future__ import annotations

import pytest

from tests.support.messages import PACKAGES, listed_messages, messages_in, saved_messages


@pytest.mark.parametrize("package", PACKAGES)
def test_the_messages_are_those_of_the_golden_file(package: str) -> None:
    changed = "the wording has changed: run `make messages`, and read the difference"
    assert listed_messages(package).splitlines() == saved_messages(package).read_text("utf-8").splitlines(), changed


def test_messages_show_their_values_as_braces() -> None:
    source = '"""No message."""\nx = f"no answer from {a} in" f" {b:g} s"\ny = "too short"\nz = "a b c d"\n'
    assert messages_in(source) == ["no answer from {} in {} s", "a b c d"]
