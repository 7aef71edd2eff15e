"""A checkpoint that cannot be read delays commits to the groups, and does not end the application; a query's end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynamic_kafka.app.outcome import Outcome
from dynamic_kafka.app.query.sink_query import SinkQuery
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import OffsetDocument


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
    assert re.search(r"sink lake: .* not committed to the group: ", caplog.text)


def test_the_board_begins_without_it(query: SinkQuery) -> None:
    board = StatusBoard(["lake"])
    query.show_reached(board)
    assert board.sinks()["lake"].document.is_initial


def test_an_ended_query_shows_its_last_batch_before_the_event(query: SinkQuery) -> None:
    # Given a run of `availableNow` that has ended, and whose last event has not arrived
    board = StatusBoard(["lake"])
    over = OffsetDocument("q", 2, "", over=True)
    event = {"batchId": 1, "sources": [{"startOffset": None, "endOffset": encode(over), "latestOffset": {}}]}
    ended: Any = SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps(event)))
    query.query = ended
    query.ended(board)
    assert query.finished and board.sinks()["lake"].has_ended_for_good


def test_only_an_end_for_good_leaves_that_in_the_termination_log(tmp_path: Path) -> None:
    over, board = OffsetDocument("q", 2, "", over=True), StatusBoard(["lake", "audit"])
    log = tmp_path / "termination-log"
    log.touch()

    def written(code: ExitCode = ExitCode.DONE, reason: str | None = None) -> dict[str, Any]:
        Outcome.of_queries(code, reason, board.sinks().values()).report(log)
        message: dict[str, Any] = json.loads(log.read_text())
        return message

    # Given a run that has read what there was, as with `availableNow`
    board.update("lake", state="finished", document=over)
    board.update("audit", state="finished", document=OffsetDocument("q", 2, ""))
    assert written() == {"code": 0, "reason": "finished"}

    # And one that was stopped, and one whose queries have all ended for good
    board.update("audit", state="stopped", document=over)
    assert written(reason="SIGTERM") == {"code": 0, "reason": "SIGTERM"}
    board.update("audit", state="finished")
    words = "finished for good: 2 sinks, 0 splits read to the end"
    assert written() == {"code": 0, "reason": words, "finished": True}
    assert written(ExitCode.GROUP_IN_USE, "GroupInUseError: x") == {"code": 7, "reason": "GroupInUseError: x"}
