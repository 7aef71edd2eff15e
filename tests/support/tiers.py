"""The two tiers of the tests: `make test` leaves out those marked `deep`, and `make test-all` runs them, too.

A file or a test is deep by `pytest.mark.deep("why, in one line")`: kills at each step, matrices, the second reader,
real drivers, images. Each chapter of the product keeps one story that is not. The plugin counts what was left out.
"""

from __future__ import annotations

from typing import Any

import pytest

_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--without-deep`."""
    parser.addoption("--without-deep", action="store_true", help="leave out tests marked deep, as `make test` does")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the deep tests if asked to; refuse a mark that gives no reason."""
    deep = [item for item in items if any(_reason(item, mark) for mark in item.iter_markers("deep"))]
    if not config.getoption("--without-deep") or not deep:
        return
    config.hook.pytest_deselected(items=deep)
    left_out = set(deep)
    items[:] = [item for item in items if item not in left_out]
    config.stash[_LEFT_OUT] = len(deep)


def _reason(item: pytest.Item, mark: pytest.Mark) -> str:
    if len(mark.args) != 1 or not isinstance(mark.args[0], str) or mark.kwargs:
        raise pytest.UsageError(f'{item.nodeid}: give the reason, pytest.mark.deep("why, in one line")')
    return mark.args[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the count to the process that started this worker, if this is one."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's count: each worker collects all tests, so each has the same one."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many tests were left out, and the command that runs them."""
    if left_out := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"{left_out} deep tests were left out: `make test-all` runs them, too")
