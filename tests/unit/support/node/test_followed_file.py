"""A file that grows and is renamed loses no line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.node.followed_file import FollowedFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_text("before\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_only_new_whole_lines_are_returned(path: Path) -> None:
    followed = FollowedFile(path)
    append(path, "one\ntw")
    assert followed.lines() == ["one"]
    append(path, "o\n")
    assert followed.lines() == ["two"]
    assert followed.lines() == []
    followed.close()


def test_lines_around_a_rename_are_returned_once(path: Path) -> None:
    followed = FollowedFile(path)
    append(path, "one\n")
    path.rename(path.with_suffix(".old"))
    assert followed.lines() == ["one"]  # the new file is not there yet
    append(path.with_suffix(".old"), "two\n")
    path.write_text("three\n")
    assert followed.lines() == ["two", "three"]
    append(path, "four\n")
    assert followed.lines() == ["four"]
    followed.close()
