from __future__ import annotations

import re

import pytest

from tests.support.places import ROOT

pytest_plugins = ["pytester"]

TESTS = """
    import subprocess
    import sys
    import pytest

    def start():
        subprocess.run([sys.executable, "-c", "", "kafka.Kafka"])

    @pytest.fixture(scope="session")
    def shared():
        start()

    def test_quick(shared):
        start()

    @pytest.mark.deep("kills at each step")
    def test_deep():
        start()
"""
EACH_WAY = pytest.mark.parametrize("workers", [[], ["--numprocesses=2"]], ids=["here", "workers"])


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for choice in ("SAMPLE", "SEEDS"):
        monkeypatch.delenv(choice, raising=False)
    pytester.makeini("[pytest]\nmarkers = deep(reason)\n sampled\naddopts = -p xdist -p tests.support.tiers")
    pytester.makepyfile(TESTS)
    pytester.mkdir("tests").joinpath("budget.toml").write_text("[test]\nbrokers = 1\n[test-all]\nbrokers = 1\n")
    return pytester


@EACH_WAY
def test_the_first_tier_leaves_out_deep_tests(project: pytest.Pytester, workers: list[str]) -> None:
    result = project.runpytest_subprocess("--tier=test", *workers)
    result.assert_outcomes(passed=1, deselected=not workers)
    result.stdout.fnmatch_lines(
        ["started by tests: 1 brokers of 1, 0 API servers of 0, *", "1 deep tests were left out*"]
    )
    assert result.ret == pytest.ExitCode.OK


@EACH_WAY
def test_a_run_that_starts_more_than_its_budget_fails(project: pytest.Pytester, workers: list[str]) -> None:
    result = project.runpytest_subprocess("--tier=test-all", *workers)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["started by tests: 2 brokers of 1, *", "Too many brokers: *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_without_a_tier_all_run_without_a_budget(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*started by tests*")


MATRIX = """
    import subprocess
    import sys
    import pytest

    def start():
        subprocess.run([sys.executable, "-c", "", "kafka.Kafka"])

    @pytest.fixture(scope="module")
    def shared():
        start()

    @pytest.mark.deep("a matrix")
    @pytest.mark.sampled
    @pytest.mark.parametrize("case", range(10))
    def test_case(case, shared):
        start()
"""


def test_a_random_third_of_the_sampled_cases_is_run(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(test_matrix=MATRIX)

    def run(*workers: str, **chosen: str) -> tuple[set[str], str]:
        for name, text in chosen.items():
            monkeypatch.setenv(name, text)
        printed = project.runpytest_subprocess("--tier=test-all", "-v", *workers).stdout.str()
        return set(re.findall(r"test_matrix.py::test_case\[\d\]", printed)), printed

    cases, printed = run("--numprocesses=2")
    assert len(cases) == 4
    [choice] = re.findall(r"sampled cases: SAMPLE=(\d+)", printed)
    assert (
        f"6 deep tests were left out: `make test-all SEEDS=all` runs them, too, and `make test-all SAMPLE={choice}`"
        in printed
    )

    assert run(SAMPLE=choice)[0] == cases
    assert run(SAMPLE="1")[0] != run(SAMPLE="2")[0]
    assert len(run(SEEDS="all")[0]) == 10


@pytest.mark.parametrize("seeds", ["", "all"])
def test_what_sampled_tests_start_does_not_count(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, seeds: str
) -> None:
    monkeypatch.setenv("SEEDS", seeds)
    project.makepyfile(MATRIX)
    result = project.runpytest_subprocess("--tier=test-all")
    result.stdout.fnmatch_lines(["started by tests: 1 brokers of 1, *"])
    assert result.ret == pytest.ExitCode.OK


def test_a_sampled_test_that_is_not_deep_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.sampled\ndef test_slow(): pass")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*test_slow is sampled, but not deep*")


@pytest.mark.parametrize("mark", ["deep", "deep()", "deep(reason='x')"])
def test_a_mark_without_a_reason_is_refused(project: pytest.Pytester, mark: str) -> None:
    project.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_slow(): pass")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*test_slow: give the reason, pytest.mark.deep*")
