"""Checkpoints and sink logs as files: pending batches, delivered batches, and checkpoints that are too old."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dynamic_kafka.errors import StaleCheckpointError
from dynamic_kafka.planning.document.codec import encode
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.state.checkpoints import Checkpoint, find_old_checkpoint, refuse_old_checkpoint


def document(number: int) -> OffsetDocument:
    topics: Mapping[str, TopicProgress] = {"orders": TopicProgress("st", {0: number * 10})}
    return OffsetDocument("q", number, "p", clusters={"east": ClusterProgress(topics)})


def write(folder: Path, name: str, text: str = "v1\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 and 1 planned, 0 committed."""
    folder = tmp_path / "checkpoint"
    for batch in (0, 1):
        write(folder / "offsets", str(batch), f"v1\n{{}}\n{json.dumps(encode(document(batch + 1)))}\n")
        write(folder / "offsets", f".{batch}.crc")
    write(folder / "commits", "0")
    return folder


def test_a_planned_batch_that_is_not_committed_is_pending(checkpoint: Path) -> None:
    saved = Checkpoint(str(checkpoint))
    assert (saved.planned, saved.committed, saved.batches().pending) == (1, 0, 1)
    assert saved.documents(saved.committed) == [document(1)]
    write(checkpoint / "commits", "1")
    assert saved.batches().pending is None


def test_a_checkpoint_that_does_not_exist_has_nothing(tmp_path: Path) -> None:
    saved = Checkpoint(f"file://{tmp_path}/none")
    assert (saved.planned, saved.committed, saved.batches().pending, saved.documents(None)) == (None, None, None, [])


@pytest.mark.parametrize("newest", ["2", "9.compact"])
def test_a_sink_that_is_newer_than_the_checkpoint_is_refused(checkpoint: Path, tmp_path: Path, newest: str) -> None:
    write(tmp_path / "sink" / "_spark_metadata", newest)
    saved = Checkpoint(str(checkpoint))
    with pytest.raises(StaleCheckpointError, match=r"ends at batch 1, .*the sink .*has batch"):
        refuse_old_checkpoint(saved, str(tmp_path / "sink"), allowed=False)
    refuse_old_checkpoint(saved, str(tmp_path / "sink"), allowed=True)


def test_no_way_out_is_named_that_would_lose_records(checkpoint: Path, tmp_path: Path) -> None:
    write(tmp_path / "sink" / "_spark_metadata", "3")
    error = find_old_checkpoint(Checkpoint(str(checkpoint)), str(tmp_path / "sink"))
    assert error is not None
    assert "allowOldCheckpoint" not in str(error)
    assert re.search(r"new path.*new checkpoint.*startingOffsets.*`inspect`", str(error))
    assert "skip batches 2 to 3" in str(error) and "would be LOST" in str(error)


def test_a_new_checkpoint_for_old_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "sink" / "_spark_metadata", "0")
    with pytest.raises(StaleCheckpointError, match="has no batch yet"):
        refuse_old_checkpoint(Checkpoint(str(tmp_path / "new")), str(tmp_path / "sink"), allowed=False)


def test_a_sink_that_is_as_far_as_the_checkpoint_is_fine(checkpoint: Path, tmp_path: Path) -> None:
    write(tmp_path / "sink" / "_spark_metadata", "1")
    refuse_old_checkpoint(Checkpoint(str(checkpoint)), str(tmp_path / "sink"), allowed=False)
