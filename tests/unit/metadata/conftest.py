"""The fixture for the discoveries of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.metadata.fakes import Discoveries


@pytest.fixture
def discoveries() -> Iterator[Discoveries]:
    started = Discoveries()
    yield started
    started.stop()
