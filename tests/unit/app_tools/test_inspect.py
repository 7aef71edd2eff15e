"""`inspect`: the offsets to start a new checkpoint from, and the reasons why a start would be refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.folder import RANGE_END
from dynamic_kafka.state.store import StateLocation
from tests.unit.app_tools.test_plan import make_app
from tests.unit.app_tools.test_reading_checkpoints import FIRST, SECOND, log, text


def shown(capsys: pytest.CaptureFixture[str], given: Path) -> tuple[str, dict[str, Any]]:
    """Return the output of `inspect` as text, and as the object of `--json`."""
    assert main(["inspect", str(given)]) == 0
    as_text = capsys.readouterr().out
    assert main(["inspect", str(given), "--json"]) == 0
    return as_text, json.loads(capsys.readouterr().out)


def row_of(output: str, partition: int) -> list[str]:
    """Return the numbers of a partition in the table of next offsets."""
    table = next(part for part in output.split("\n\n") if "NEXT OFFSET" in part)
    return next(line.split()[3:-1] for line in table.splitlines() if line.split()[2] == str(partition))


def skipping(folder: Path) -> Path:
    """A checkpoint that lacks the documents between its last two, as asyncProgressTrackingEnabled leaves it."""
    topics = {"t": TopicProgress("s", {0: 90, 1: 7})}
    later = OffsetDocument("q", 4, "another", clusters={"east": ClusterProgress(topics)})
    log(folder, text(FIRST), committed=1)
    (folder / "offsets" / "3").write_text(f"v1\n{{}}\n{text(later)}")
    return folder


def test_a_pending_batchs_start_is_a_column_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path, text(FIRST), text(SECOND), committed=1)

    output, wire = shown(capsys, tmp_path)

    assert row_of(output, 0) == ["4", "9"]
    topic = wire["clusters"]["east"]["topics"]["t"]
    assert (topic["pendingFrom"], topic["next"], wire["refused"]) == ({"0": 4}, {"0": 9}, None)


def test_without_some_documents_the_last_logged_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, wire = shown(capsys, skipping(tmp_path))

    assert "Batch 3 is pending: " in output and "ranges are unknown" in output
    assert row_of(output, 0) == ["4", "90"] and row_of(output, 1) == ["-", "7"]
    assert wire["clusters"]["east"]["topics"]["t"]["pendingFrom"] == {"0": 4}
    remedy = "startingOffsets from the column PENDING FROM that `inspect` shows"
    assert "would be refused: " in output and "offset document 4 does not follow" in output
    assert remedy in output and remedy in wire["refused"]


def test_other_tools_name_the_remedy_for_missing_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, state = str(skipping(tmp_path)), ["--state-location", str(tmp_path / "state"), "--yes"]

    for command in (["abandon", checkpoint, "east", "--stopped"], ["accept", checkpoint, "--data-loss=east/t/0"]):
        assert main([*command, *state]) == 4
        assert "PENDING FROM that `inspect`" in capsys.readouterr().err


@pytest.mark.parametrize("committed", [False, True])
def test_a_range_left_out_shows_where_reading_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, committed: bool
) -> None:
    ranges = ranges_between(FIRST, SECOND)
    made = Amendment("q", 2, fingerprint(FIRST), fingerprint(SECOND), tuple(ranges), {"east": "removed"}, 1)
    StateLocation(str(tmp_path / "dynamic-kafka")).save_amendment(made)
    log(tmp_path, text(FIRST), text(SECOND), committed=2 if committed else 1)

    output, wire = shown(capsys, tmp_path)

    assert row_of(output, 0) == (["4"] if committed else ["4", "4"])
    assert wire["clusters"]["east"]["topics"]["t"]["next"] == {"0": 4}


def test_the_start_behind_a_range_left_out_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a batch whose range was left out, and a pending one that reads it again
    made = Amendment(
        "q", 2, fingerprint(FIRST), fingerprint(SECOND), tuple(ranges_between(FIRST, SECOND)), {"east": "removed"}, 1
    )
    StateLocation(str(tmp_path / "dynamic-kafka")).save_amendment(made)
    topics = {"t": TopicProgress("s", {0: 12}, starts={0: 4})}
    third = OffsetDocument("q", 3, fingerprint(SECOND), clusters={"east": ClusterProgress(topics)})
    log(tmp_path, text(FIRST), text(SECOND), text(third), committed=2)

    assert row_of(shown(capsys, tmp_path)[0], 0) == ["4", "12"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "holds no state, but the query has used the state e1"), ('{"id": "e', "e1.json is damaged")],
)
def test_a_lost_state_is_shown_as_a_refused_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, reason: str
) -> None:
    app, folder = make_app(tmp_path), tmp_path / "checkpoint" / "out"
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{text(replace(FIRST, state='e1'))}")
    if content is not None:
        (folder / "dynamic-kafka" / "q" / "state").mkdir(parents=True)
        (folder / "dynamic-kafka" / "q" / "state" / "e1.json").write_text(content)

    output, wire = shown(capsys, app)

    assert "A start would be refused: " in output and reason in output
    assert reason in wire["refused"]


def test_stop_records_and_the_splits_that_wait_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given a committed batch in which an executor has ended a split: the next plan records it
    log(tmp_path, text(FIRST), text(SECOND), committed=2)
    split = next(iter(SECOND.splits()))
    report = {"offset": 6, "topicId": SECOND.clusters[split.cluster].topics[split.topic].topic_id}
    StateLocation(str(tmp_path / "dynamic-kafka")).save_seen("q", fingerprint(SECOND), "stop-record", split, report)

    output, wire = shown(capsys, tmp_path)

    assert next(line for line in output.splitlines() if line.endswith("ended by a record")).split()[3:5] == ["6", "6"]
    topic = wire["clusters"]["east"]["topics"]["t"]
    assert (topic["ended"], topic["next"]["0"], topic["finished"], wire["over"]) == ({"0": 6}, 6, [0], False)
    assert "not reached a stop record: " in output


def test_a_query_that_is_over_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = {"t": TopicProgress("s", {0: 6}, ended={0: 6})}
    over = OffsetDocument("q", 1, "", clusters={"east": ClusterProgress(topics)}, over=True)
    log(tmp_path, text(over), committed=1)
    output, wire = shown(capsys, tmp_path)
    assert "stop records: this query is over" in output
    assert wire["over"] and wire["finished"]


def by_value(folder: Path, *, is_committed: bool) -> OffsetDocument:
    """A checkpoint whose last batch was planned up to 9, and of which executors report the end."""
    second = replace(SECOND, by_value=1)
    log(folder, text(FIRST), text(second), committed=2 if is_committed else 1)
    StateLocation(str(folder / "dynamic-kafka")).bind(second.query, second.state)
    return second


def test_offsets_that_executors_have_not_reached_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = by_value(tmp_path, is_committed=True)
    # Without a report it is not known how far the batch was read
    assert "1 ranges of the batch of document 2 have no report" in str(shown(capsys, tmp_path)[1]["refused"])
    more = {"number": 2, "offset": 6, "topicId": None, "ends": "pause", "time": 7}
    state = StateLocation(str(tmp_path / "dynamic-kafka"))
    state.save_seen(second.query, fingerprint(second), RANGE_END, Split("east", "t", 0), more, driver="1")
    output, wire = shown(capsys, tmp_path)
    assert wire["refused"] is None
    assert row_of(output, 0)[-1] == "6"


def test_without_the_state_no_offsets_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_value(tmp_path, is_committed=True)
    (tmp_path / "dynamic-kafka").rename(tmp_path.parent / f"{tmp_path.name} of another place")
    assert main(["inspect", str(tmp_path)]) != 0
    assert "name it with --state-location" in capsys.readouterr().err


def test_a_start_that_looks_for_missing_ends_is_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Given an application with timestampAssigner, and a committed batch without a report
    options = {"timestampAssigner": "tests:times", "watermarkAlignmentMaxDrift": "1m"}
    app, checkpoint = make_app(tmp_path, **options), tmp_path / "checkpoint" / "out"
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    by_value(checkpoint, is_committed=True)

    output, wire = shown(capsys, app)

    assert wire["refused"] is None
    assert "1 ranges of the last batch have no report" in output
