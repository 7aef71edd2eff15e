"""Properties in this folder run the same bounded number of examples each time, however slow the machine is.

`SEEDS=all` (a release) looks at three times as many. `EXPLORE=5000 pytest tests/unit/planning` looks at other ones, and
at that many.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.unit.planning.simulation import SEEDS

EXPLORE = int(os.environ.get("EXPLORE", "0"))
EXAMPLES = 20 * SEEDS

settings.register_profile("planning", max_examples=EXPLORE or EXAMPLES, deadline=None, derandomize=not EXPLORE)
settings.load_profile("planning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if EXPLORE else ():
        item.add_marker(pytest.mark.timeout(0))
