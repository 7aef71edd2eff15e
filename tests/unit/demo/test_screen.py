"""The display of a run."""

from __future__ import annotations

import pytest

from demo.screen import State


@pytest.mark.parametrize(("batch", "text"), [(None, "no batch yet"), (0, "batch 0"), (7, "batch 7")])
def test_the_newest_batch_is_shown_in_words(batch: int | None, text: str) -> None:
    assert State(0.0, 1.0, (), starts=1, pid=1, batch=batch, kills=0, changes=0).newest == text
