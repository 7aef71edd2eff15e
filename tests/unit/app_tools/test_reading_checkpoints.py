"""Spark's logs as the tools read them: the source of each offset, and the pending batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamic_kafka.app.cli import main
from dynamic_kafka.app.tools.saved_query import read_saved
from dynamic_kafka.errors import OptionError
from dynamic_kafka.planning.document.amendments import Amendment, Amendments
from dynamic_kafka.planning.document.codec import encode, fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.checkpoints import Batches, Checkpoint
from dynamic_kafka.state.store import StateLocation
from tests.unit.app_tools.test_validate import write

FIRST = OffsetDocument(
    "q",
    1,
    fingerprint(OffsetDocument()),
    clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 4}, starts={0: 1})})},
)
SECOND = OffsetDocument(
    "q", 2, fingerprint(FIRST), clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 9})})}
)


def log(folder: Path, *batches: str, committed: int) -> Checkpoint:
    """A checkpoint with these lines for its sources per batch, of which so many are committed."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    for number, lines in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{lines}")
        (folder / "offsets" / f".{number}.crc").write_text("crc")
    for number in range(committed):
        (folder / "commits" / str(number)).write_text("v1\n{}")
    return Checkpoint(str(folder))


def text(document: OffsetDocument) -> str:
    return json.dumps(encode(document))


def test_a_committed_batch_leaves_nothing_pending(tmp_path: Path) -> None:
    saved = read_saved(log(tmp_path, text(FIRST), committed=1))

    assert saved.batches == Batches(0, 0)
    assert saved.latest == FIRST and saved.ranges() == []


def test_the_first_batch_is_pending_from_its_own_starts(tmp_path: Path) -> None:
    saved = read_saved(log(tmp_path, text(FIRST), committed=0))

    assert saved.ranges() == [SplitRange(Split("east", "t", 0), 1, 4)]


def test_a_pending_batch_goes_on_from_the_one_before(tmp_path: Path) -> None:
    saved = read_saved(log(tmp_path, text(FIRST), text(SECOND), committed=1))

    assert saved.ranges() == [SplitRange(Split("east", "t", 0), 4, 9)]


def test_a_batch_due_to_another_source_reads_nothing_here(tmp_path: Path) -> None:
    lines = (f'{{"a":{{"0":1}}}}\n{text(FIRST)}', f'{{"a":{{"0":2}}}}\n{text(FIRST)}')
    saved = read_saved(log(tmp_path, *lines, committed=1))

    assert saved.source == "1" and saved.batches.pending == 1
    assert saved.ranges() == []


def test_of_two_of_our_sources_one_has_to_be_chosen(tmp_path: Path) -> None:
    checkpoint = log(tmp_path, f"{text(FIRST)}\n{text(SECOND)}", committed=1)

    with pytest.raises(OptionError, match=r"are of dynamic-kafka \(0, 1\)"):
        read_saved(checkpoint)
    assert read_saved(checkpoint, "1").latest == SECOND


def test_ranges_left_out_are_not_pending_and_go_back(tmp_path: Path) -> None:
    saved = read_saved(log(tmp_path, text(FIRST), text(SECOND), committed=1))
    part = SplitRange(Split("east", "t", 0), 4, 9)
    made = Amendment("q", 2, *saved.key, (part,), {"east": "abandoned"}, 0)
    other = Amendment("q", 1, "x", "y", (part,), {"east": "removed"}, 0)

    assert saved.remaining([other]) == [part]
    assert saved.remaining([other, made]) == []
    assert Amendments([other, made]).after(saved.latest).next_of(part.split) == 4


@pytest.mark.parametrize("left_out", [False, True])
def test_inspect_reports_a_bounded_run_as_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, left_out: bool
) -> None:
    topic = TopicProgress("s", {0: 4}, starts={0: 1}, stops={0: 4})
    end = OffsetDocument("q", 1, FIRST.previous, bounded=True, clusters={"east": ClusterProgress({"t": topic})})
    log(tmp_path, text(end), committed=1)
    if left_out:
        part = SplitRange(Split("east", "t", 0), 1, 4)
        made = Amendment("q", 1, end.previous, fingerprint(end), (part,), {"east": "unreachable"}, 0)
        StateLocation(str(tmp_path / "dynamic-kafka")).save_amendment(made)

    assert main(["inspect", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is not left_out
    assert main(["inspect", str(tmp_path)]) == 0
    assert ("it plans no further batch" in capsys.readouterr().out) is not left_out


def test_a_query_that_has_not_begun_is_no_wrong_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(write(tmp_path))]) == 2
    refusal = capsys.readouterr().err
    assert "sink out: " in refusal and "planned no batch" in refusal


def test_a_wrong_folder_is_distinguished_from_a_new_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nope does not exist"):
        read_saved(Checkpoint(str(tmp_path / "nope")))
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="file is a file"):
        read_saved(Checkpoint(str(tmp_path / "file")))
    with pytest.raises(OptionError, match="holds no batch"):
        read_saved(Checkpoint(str(tmp_path)))
    (tmp_path / "lake" / "offsets").mkdir(parents=True)
    with pytest.raises(OptionError, match="checkpoint of a sink: give lake below"):
        read_saved(Checkpoint(str(tmp_path)))
    (tmp_path / "forward" / "offsets").mkdir(parents=True)
    with pytest.raises(OptionError, match=r"several sinks: .*forward, lake below"):
        read_saved(Checkpoint(str(tmp_path)))
