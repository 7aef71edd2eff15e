"""A checkpoint that cannot be read delays commits to the groups, and does not end the application."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.app.query.sink_query import SinkQuery
from dynamic_kafka.app.query.sink_status import StatusBoard


@pytest.fixture
def query(tmp_path: Path) -> SinkQuery:
    """A sink's query with a checkpoint whose commit log cannot be listed."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "commits").write_text("no folder")
    made = SinkQuery.__new__(SinkQuery)
    made._changelog = None
    config: Any = SimpleNamespace(checkpoint_of=lambda sink: str(tmp_path / sink.name))
    sink: Any = SimpleNamespace(name="lake")
    committer: Any = SimpleNamespace(commit=lambda document: pytest.fail("there is nothing to commit"))
    made.config, made.sink, made.committer, made.failure = config, sink, committer, None
    return made


def test_an_unreadable_checkpoint_is_not_committed_nor_fatal(
    query: SinkQuery, caplog: pytest.LogCaptureFixture
) -> None:
    query.commit_reached()
    assert query.failure is None
    assert "sink lake: its last batch is not committed to the group" in caplog.text


def test_the_board_begins_without_it(query: SinkQuery) -> None:
    board = StatusBoard(["lake"])
    query.show_reached(board)
    assert board.sinks()["lake"].document.is_initial
