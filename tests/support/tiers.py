"""The two tiers of the tests, as a plugin of pytest: `make test`, and `make test-all`, which runs deep tests, too.

A file or a test is deep by `pytest.mark.deep("why, in one line")`: kills at each step, matrices, the second reader,
real drivers, images. Each chapter of the product keeps one story that is not. The plugin counts what was left out.

Some deep tests are `sampled`, too: the cases of a matrix, and the second reader. `make test-all` runs a random third of
those of each file. It prints the number that repeats its choice (`SAMPLE`). `SEEDS=all` runs all of them.

It also counts what the tests start, and fails a run that starts more than `tests/budget.toml` allows its tier. It
leaves out what fixtures of the session start, for each worker has its own, and what sampled tests start: the choice
of the run would decide.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TIERS = ("test", "test-all")
KINDS = {
    "brokers": re.compile(r"kafka\.Kafka\b"),
    "API servers": re.compile(r"kubebox kube-apiserver\b"),
    "operators": re.compile(r"-m kafkastream_operator --kubeconfig\b"),
    "applications": re.compile(r"dynamic_kafka(\.app|/app/__main__\.py) run\b"),
    "Spark sessions": re.compile(r"\bpyspark-shell\b"),
    "other drivers": re.compile(r"\b(SparkSession|start_spark|spark_connect)\b"),
}
"""The kinds of processes that count, each with the command lines that start one."""

_LEFT_OUT = pytest.StashKey[int]()
_STARTED = pytest.StashKey["Counter[str]"]()
_counts = Counter[str]()
_counting = [True]
"""Whether what is started now counts: the last one is that of the innermost fixture or test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    parser.addoption("--tier", choices=TIERS, help="run one tier, within its budget; `test` leaves out deep tests")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count, in this process. Its workers inherit the choice, so all of them leave out the same cases."""
    os.environ.setdefault("SAMPLE", str(random.SystemRandom().randrange(10**6)))
    config.stash[_STARTED] = Counter()
    _counts.clear()
    sys.addaudithook(_count)


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _counting[-1]:
        command = " ".join(map(str, arguments[1])) if not isinstance(arguments[1], str) else arguments[1]
        kind = next((kind for kind, part in KINDS.items() if part.search(command)), None)
        if kind is not None:
            _counts[kind] += 1


@contextmanager
def _counts_are(on: bool) -> Generator[None]:
    _counting.append(on)
    try:
        yield
    finally:
        _counting.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Count what a fixture of a file starts, whichever test needs it first; not what one of the session starts."""
    if fixturedef.scope == "function":
        return (yield)
    with _counts_are(fixturedef.scope != "session"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Do not count what a sampled test starts."""
    with _counts_are(item.get_closest_marker("sampled") is None):
        return (yield)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Print what repeats the choice, so that a run that is cut off shows it, too."""
    is_sampled = config.getoption("--tier") == "test-all" and os.environ.get("SEEDS") != "all"
    return f"sampled cases: SAMPLE={os.environ['SAMPLE']}" if is_sampled else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the deep tests in the tier `test`, two thirds of the sampled ones in `test-all`.

    A deep mark that gives no reason is refused, and a sampled test that is not deep.
    """
    deep = {item for item in items if any(_reason(item, mark) for mark in item.iter_markers("deep"))}
    for item in items:
        if item not in deep and item.get_closest_marker("sampled"):
            raise pytest.UsageError(f"{item.nodeid} is sampled, but not deep: `make test` would run all of its cases")
    tier = config.getoption("--tier")
    left_out = deep if tier == "test" else set[pytest.Item]()
    if tier == "test-all" and os.environ.get("SEEDS") != "all":
        left_out = _not_sampled(items)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    config.stash[_LEFT_OUT] = len(left_out)


def _not_sampled(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return all sampled items but a random third of each file's, rounded up."""
    sampled = defaultdict[Path, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sampled"):
            sampled[item.path].append(item)
    left_out = set[pytest.Item]()
    for path, cases in sampled.items():
        chosen = random.Random(f"{os.environ['SAMPLE']} {path.name}")
        left_out.update(chosen.sample(cases, len(cases) * 2 // 3))
    return left_out


def _reason(item: pytest.Item, mark: pytest.Mark) -> str:
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or mark.kwargs:
        raise pytest.UsageError(f'{item.nodeid}: give the reason, pytest.mark.deep("why, in one line")')
    return mark.args[0]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the counts of a worker that has ended. Each one collects all tests, so each left out the same ones."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[_LEFT_OUT] = output.get("left_out", 0)
    node.config.stash[_STARTED].update(output.get("started", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts to the process that started this worker; without one, fail a run that started too much."""
    config = session.config
    started: Counter[str] = config.stash[_STARTED]
    started.update(_counts)
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output |= {"left_out": config.stash.get(_LEFT_OUT, 0), "started": dict(started)}
    elif session.exitstatus == pytest.ExitCode.OK and _excess(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _budget(config: pytest.Config) -> dict[str, int]:
    tier = config.getoption("--tier")
    text = (config.rootpath / "tests" / "budget.toml").read_text() if tier else ""
    budget: dict[str, int] = tomllib.loads(text).get(tier, {})
    return budget


def _excess(config: pytest.Config) -> list[str]:
    budget, started = _budget(config), config.stash[_STARTED]
    return [kind for kind in KINDS if budget and started[kind] > budget.get(kind, 0)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was started and left out, and the command that runs the rest."""
    if budget := _budget(config):
        started = config.stash[_STARTED]
        counts = ", ".join(f"{started[kind]} {kind} of {budget.get(kind, 0)}" for kind in KINDS)
        terminalreporter.write_line(f"started by tests: {counts}")
    for kind in _excess(config):
        terminalreporter.write_line(f"Too many {kind}: share them, or raise tests/budget.toml and say why")
    if left_out := config.stash.get(_LEFT_OUT, 0):
        more = "`make test-all` runs them, too"
        if config.getoption("--tier") == "test-all":
            chosen = os.environ["SAMPLE"]
            more = f"`make test-all SEEDS=all` runs them, too, and `make test-all SAMPLE={chosen}` repeats this choice"
        terminalreporter.write_line(f"{left_out} deep tests were left out: {more}")
