"""The generated reference of all options in `docs/reference/options.md`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dynamic_kafka.options.reference import BEGIN, END, put_into, render_reference

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "options.md"


def test_the_generated_part_of_the_document_is_current() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert put_into(text) == text, "run `make docs`"


def test_the_command_prints_the_reference() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dynamic_kafka.options"], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout == render_reference()


def test_the_command_writes_the_reference_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "options.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "dynamic_kafka.options", "--write", page], check=True)
    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}{render_reference()}{END}after\n"


def test_a_page_without_marks_is_refused_and_unchanged(tmp_path: Path) -> None:
    page = tmp_path / "options.md"
    page.write_text("by hand\n", encoding="utf-8")
    command = [sys.executable, "-m", "dynamic_kafka.options", "--write", page]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    assert f"{page}: has no generated part" in done.stderr
    assert page.read_text(encoding="utf-8") == "by hand\n"
