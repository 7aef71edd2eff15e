"""`python -m tests.support.changed [BASE]` (`make test-changed`): print the tests of what changed since a commit.

BASE is `origin/main` by default. A changed test file is itself run. Any other file is looked up in a table, folder by
folder: the most specific row that covers it names the tests. Files of documentation and of the set-up are in rows, too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.support.places import ROOT

_SOURCE = "spark_app/dynamic_kafka"
TESTS_OF = {
    "": ("tests/unit",),
    "charts": ("tests/integration/operator/test_chart.py", "tests/integration/release/test_packed_chart.py"),
    "examples": ("tests/unit/demo", "tests/integration/test_demo.py"),
    "operator": ("tests/unit/operator", "tests/integration/operator"),
    "spark_app": ("tests/unit", "tests/integration/source"),
    f"{_SOURCE}/app": ("tests/unit/app", "tests/integration/app"),
    f"{_SOURCE}/app/internal_topics": ("tests/unit/internal_topics", "tests/integration/internal_topics"),
    f"{_SOURCE}/app/tools": ("tests/unit/app_tools", "tests/integration/app_tools"),
    f"{_SOURCE}/contract": ("tests/unit/contract", "tests/unit/operator", "tests/integration/operator"),
    f"{_SOURCE}/driver": ("tests/unit/driver", "tests/integration/source"),
    f"{_SOURCE}/driver/report": ("tests/unit/driver", "tests/integration/app"),
    f"{_SOURCE}/executor": ("tests/unit/executor", "tests/integration/source"),
    f"{_SOURCE}/kafka": ("tests/unit/kafka", "tests/integration/source"),
    f"{_SOURCE}/metadata": ("tests/unit/metadata", "tests/unit/operator", "tests/integration/source"),
    f"{_SOURCE}/options": ("tests/unit/options", "tests/unit/metadata", "tests/integration/source"),
    f"{_SOURCE}/planning": ("tests/unit/planning", "tests/unit/driver", "tests/integration/source"),
    f"{_SOURCE}/spark": ("tests/unit/spark", "tests/integration/source"),
    f"{_SOURCE}/state": ("tests/unit/state", "tests/unit/driver", "tests/integration/source"),
    "tests/bench": ("tests/unit/bench",),
    "tests/e2e": ("tests/unit/e2e",),
    "tests/support": ("tests/unit/support", "tests/integration/test_brokers.py"),
    "tests/support/images": ("tests/unit/support", "tests/integration/release"),
    "tests/support/kube": ("tests/unit/support", "tests/integration/kube"),
    "tests/support/node": ("tests/unit/support", "tests/integration/test_box.py"),
}
"""The tests of the files in a folder that has no row of its own below it."""


def tests_of(changed: Iterable[str]) -> list[str]:
    """Return the test files and folders to run for these changed files; none is in another one."""
    tests = {test for path in changed for test in _tests_of(PurePosixPath(path))}
    return sorted(test for test in tests if not any(str(above) in tests for above in PurePosixPath(test).parents))


def _tests_of(path: PurePosixPath) -> Iterable[str]:
    if path.parts[:2] in (("tests", "unit"), ("tests", "integration")):
        is_test = path.name.startswith("test_") and path.suffix == ".py"
        return [str(path if is_test else path.parent)]
    folder = next(above for above in path.parents if str(above) in TESTS_OF or not above.parts)
    return TESTS_OF[str(folder) if folder.parts else ""]


def main(base: str = "origin/main") -> None:
    """Print them in one line; exit with 1 and the reason if git does not know BASE or nothing changed."""
    commands = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    listed = [
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False) for command in commands
    ]
    if failed := [done.stderr.partition("\n")[0] for done in listed if done.returncode != 0]:
        sys.exit(f"{failed[0]}\nName the commit to compare with: make test-changed BASE=HEAD~1")
    tests = [test for test in tests_of("".join(done.stdout for done in listed).splitlines()) if (ROOT / test).exists()]
    if not tests:
        sys.exit(f"Nothing changed since {base}.")
    print(*tests)


if __name__ == "__main__":
    main(*sys.argv[1:])
