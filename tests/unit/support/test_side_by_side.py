from __future__ import annotations

from tests.support.side_by_side import next_file

FILES = [
    "tests/integration/app/test_kills.py",
    "tests/integration/operator/test_live.py",
    "tests/integration/source/test_losses.py",
    "tests/unit/planning/test_two_drivers.py",
]


def order(files: list[str], *, kubernetes_first: bool) -> list[str]:
    left, taken = list(files), []
    while left:
        file = next_file(left, kubernetes_first=kubernetes_first)
        assert file is not None
        taken.append(file)
        left.remove(file)
    return taken


def test_a_worker_with_spark_takes_the_operator_s_files_last() -> None:
    live, *others = order(FILES, kubernetes_first=False)[::-1]

    assert (live, others[::-1]) == (FILES[1], [FILES[0], FILES[2], FILES[3]])


def test_the_last_worker_takes_spark_s_files_last() -> None:
    assert order(FILES, kubernetes_first=True) == [FILES[1], FILES[3], FILES[0], FILES[2]]


def test_the_last_of_three_workers_takes_none_of_spark_s_files() -> None:
    assert next_file(FILES[1:], kubernetes_first=True, only=True) == FILES[1]
    assert next_file(FILES[2:], kubernetes_first=True, only=True) == FILES[3]
    assert next_file([FILES[0], FILES[2]], kubernetes_first=True, only=True) is None
