"""What a run shows on its way."""

from __future__ import annotations

import pytest

from demo.screen import State


@pytest.mark.parametrize(("batch", "said"), [(None, "no batch yet"), (0, "batch 0"), (7, "batch 7")])
def test_before_the_first_batch_there_is_none(batch: int | None, said: str) -> None:
    assert State(0.0, 1.0, (), lives=1, pid=1, batch=batch, kills=0, changes=0).newest == said
