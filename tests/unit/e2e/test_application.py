"""The times of an application's rows: the first one of a cluster, and pauses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.application import Application


@pytest.fixture
def application(tmp_path: Path) -> Application:
    """Return an application with rows at 10, 11, 20 and 25 s, and a batch without rows at 15 s."""
    app = Application("orders", "Reload", tmp_path)
    batches = [(10.0, "A"), (11.0, "AC"), (15.0, ""), (20.0, "A"), (25.0, "AC")]
    app.batches = [(at, Counter(clusters)) for at, clusters in batches]
    return app


@pytest.mark.parametrize(("since", "first"), [(0.0, 11.0), (11.0, 11.0), (11.1, 25.0), (25.1, None)])
def test_the_first_row_since_a_time(application: Application, since: float, first: float | None) -> None:
    assert application.first_row("C", since) == first


@pytest.mark.parametrize(
    ("since", "until", "pause"), [(0.0, 30.0, 9.0), (12.0, 13.0, 9.0), (20.0, 30.0, 5.0), (25.0, 30.0, 0.0)]
)
def test_the_longest_pause_overlaps_the_period(
    application: Application, since: float, until: float, pause: float
) -> None:
    assert application.longest_pause(since, until) == pause


@pytest.mark.parametrize(("at", "pause"), [(16.0, 9.0), (20.0, 9.0), (20.1, 5.0), (9.0, None), (26.0, None)])
def test_the_pause_around_a_time_ends_with_a_row(application: Application, at: float, pause: float | None) -> None:
    assert application.pause_around(at) == pause
