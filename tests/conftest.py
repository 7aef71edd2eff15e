from __future__ import annotations

pytest_plugins = [
    "tests.support.fixtures",
    "tests.support.kube.fixtures",
    "tests.support.side_by_side",
    "tests.support.tiers",
]
