from __future__ import annotations

import pytest

from tests.support import changed
from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/unit/kafka/test_admin.py", ["tests/unit/kafka/test_admin.py"]),
        ("tests/integration/source/conftest.py", ["tests/integration/source"]),
        ("spark_app/dynamic_kafka/app/tools/plan.py", list(changed.TESTS_OF["spark_app/dynamic_kafka/app/tools"])),
        ("spark_app/dynamic_kafka/errors.py", list(changed.TESTS_OF["spark_app"])),
        ("Makefile", ["tests/unit"]),
    ],
)
def test_the_most_specific_folder_names_the_tests(path: str, tests: list[str]) -> None:
    assert changed.tests_of([path]) == sorted(tests)


def test_a_file_in_a_folder_that_runs_is_not_named_again() -> None:
    assert changed.tests_of(["tests/unit/kafka/test_admin.py", "Makefile"]) == ["tests/unit"]


def test_each_row_names_what_exists() -> None:
    named = {path for folder, tests in changed.TESTS_OF.items() for path in (folder, *tests)}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_part_of_the_source_has_its_own_row() -> None:
    parts = {path.name for path in (ROOT / "spark_app" / "dynamic_kafka").iterdir() if (path / "__init__.py").exists()}
    rows = {folder.split("/")[2] for folder in changed.TESTS_OF if folder.startswith("spark_app/dynamic_kafka/")}
    assert parts == rows
