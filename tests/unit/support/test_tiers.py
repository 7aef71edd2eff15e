from __future__ import annotations

import pytest

from tests.support.places import ROOT

pytest_plugins = ["pytester"]

_TESTS = """
    import pytest

    def test_quick(): pass

    @pytest.mark.deep("kills at each step")
    def test_slow(): pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nmarkers = deep(reason)")
    return pytester


@pytest.mark.parametrize("workers", [[], ["--numprocesses=2"]])
def test_deep_tests_are_left_out_and_counted(project: pytest.Pytester, workers: list[str]) -> None:
    project.makepyfile(_TESTS)
    result = project.runpytest_subprocess("-p", "tests.support.tiers", "--without-deep", *workers)
    result.assert_outcomes(passed=1, deselected=not workers)
    result.stdout.fnmatch_lines("1 deep tests were left out: `make test-all` runs them, too")


def test_all_run_by_default(project: pytest.Pytester) -> None:
    project.makepyfile(_TESTS)
    result = project.runpytest_subprocess("-p", "tests.support.tiers")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*left out*")


@pytest.mark.parametrize("mark", ["deep", "deep()", "deep(reason='x')"])
def test_a_mark_without_a_reason_is_refused(project: pytest.Pytester, mark: str) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_slow(): pass")
    result = project.runpytest_subprocess("-p", "tests.support.tiers")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*test_slow: give the reason, pytest.mark.deep*")
