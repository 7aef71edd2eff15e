"""Discoveries of one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.metadata.fakes import Started


@pytest.fixture
def discoveries() -> Iterator[Started]:
    started = Started()
    yield started
    started.stop()
