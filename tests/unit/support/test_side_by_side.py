from __future__ import annotations

from tests.support.side_by_side import LAST, OTHERS, Kind, kind_of, next_file

KILLS, LIVE, LOSSES, CRASHES, DRIVERS = FILES = [
    "tests/integration/app/test_kills.py",
    "tests/integration/operator/test_live.py",
    "tests/integration/source/test_losses.py",
    "tests/integration/source/test_crashes.py",
    "tests/unit/planning/test_two_drivers.py",
]


def order(kinds: tuple[Kind, ...]) -> list[str]:
    left, taken = list(FILES), []
    while (file := next_file(left, kinds)) is not None:
        taken.append(file)
        left.remove(file)
    return taken


def test_a_worker_with_spark_takes_the_operator_s_files_last() -> None:
    assert order(OTHERS) == [KILLS, CRASHES, LOSSES, DRIVERS, LIVE]


def test_the_last_worker_takes_spark_s_files_last() -> None:
    assert order(LAST) == [LIVE, LOSSES, DRIVERS, KILLS, CRASHES]


def test_the_last_of_three_workers_takes_none_of_spark_s_files() -> None:
    assert order(LAST[:-1]) == [LIVE, LOSSES, DRIVERS]


def test_a_file_has_the_kind_of_what_it_starts() -> None:
    assert list(map(kind_of, FILES)) == ["spark", "kubernetes", "brokers", "spark", "unit"]
