"""The lint of the project's English finds each of its rules broken, and lets plain texts pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.prose_lint import check_page, check_python, main, statistics


def problems(source: str, file: str = "spark_app/x.py") -> list[str]:
    check = check_page if file.endswith(".md") else check_python
    return [f"{finding.line}: {finding.problem}" for finding in check(file, source)]


def test_plain_texts_pass() -> None:
    source = (
        '"""The offsets of a stream.\n\nThe driver reads them."""\n\nx = f"the topic {1} is gone"  # kept for replays\n'
    )
    assert problems(source) == []
    assert (
        problems("# Title\n\nThe operator restarts the driver.\n\n```\nWhat is code is not read.\n```\n", "a.md") == []
    )


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("x = 1\n# What is saved stays.\n", "spark_app/x.py"),
        ('"""One.\n\nWhoever reads it waits."""\n', "spark_app/x.py"),
        ('raise ValueError("Nobody answers at this server")\n', "spark_app/x.py"),
        ("| a | Of two clusters the first wins. |\n", "docs/x.md"),
    ],
    ids=["comment", "docstring", "message", "page"],
)
def test_a_banned_opening_is_found(source: str, file: str) -> None:
    (problem,) = problems(source, file)
    assert "opens with" in problem


def test_a_question_may_open_with_what() -> None:
    assert problems("# What is a split?\n") == []


def test_a_banned_word_is_found() -> None:
    assert problems("# The reader tells the driver.\n") == ["1: say it without 'tells': 'The reader tells the driver.'"]


def test_a_banned_word_in_a_name_is_found() -> None:
    assert problems("told = 1\n") == ["1: a name without 'told': told"]


def test_a_long_sentence_is_found() -> None:
    assert problems(f"# {'word ' * 36}end.\n")[0].startswith("1: 37 words in one sentence")


def test_a_long_name_of_a_test_is_found() -> None:
    name = "test_" + "x" * 56
    assert problems(f"def {name}(): ...\n", "tests/unit/x.py") == [f"1: the test's name has 61 characters: {name}"]


def test_a_class_that_is_described_by_a_verb_is_found() -> None:
    assert "starts with a noun" in problems('class X:\n    """Read records."""\n')[0]


def test_a_long_paragraph_of_a_page_is_found() -> None:
    assert problems("one\n" * 6, "docs/x.md") == ["1: a paragraph of 6 lines"]


def test_the_command_names_each_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["prose_lint", "tests/unit/support/test_prose_lint.py"])
    assert main() == 0
    assert "0 findings in 1 files" in capsys.readouterr().err


def test_the_statistics_count_sentences_and_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.prose_lint.ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The driver reads.\n\nNobody reads.\n")
    assert statistics(["docs/a.md"]).splitlines()[1].split() == ["docs", "2", "2.5", "0.0%", "0.0%", "1"]
