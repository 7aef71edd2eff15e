"""The words of `import-checkpoint` about a checkpoint of which files are missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from dynamic_kafka.app.tools.import_checkpoint import read_imported, steps_text
from dynamic_kafka.state.checkpoints import Checkpoint


def steps(folder: Path, offsets: Iterable[int], commits: Iterable[int], *, after_pending: bool = False) -> str:
    for kind, batches in (("offsets", offsets), ("commits", commits)):
        (folder / kind).mkdir()
        for batch in batches:
            end = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"orders": {"0": batch * 10}})}'
            (folder / kind / str(batch)).write_text(end if kind == "offsets" else "v1\n{}")
    checkpoint = Checkpoint(str(folder))
    return steps_text("old", "east", read_imported(checkpoint, None, after_pending=after_pending))


@pytest.mark.parametrize(
    ("offsets", "commits", "unknown"),
    [
        ([0, 1, 2, 4], [0, 1, 2], "batches 3 to 4"),
        ([0, 1, 2, 3, 4], [0, 1, 2], "batches 3 to 4"),
        ([0, 1, 2], [0, 1, 2, 3], "batch 3"),
        ([1, 2], [1, 2, 7], "batches 3 to 7"),
    ],
)
def test_a_gap_is_named_and_nothing_is_exact(
    tmp_path: Path, offsets: list[int], commits: list[int], unknown: str
) -> None:
    text = steps(tmp_path, offsets, commits)
    assert f"Offsets or commits of {unknown} are missing: " in text
    assert "exact" not in text and "A restart does not help" in text
    assert ("--after-pending" in text) is (max(offsets) > max(commits))


def test_behind_a_gap_what_the_sink_lacks_is_lost(tmp_path: Path) -> None:
    text = steps(tmp_path, [0, 1, 2, 4], [0, 1, 2], after_pending=True)
    assert "begin behind batch 4: " in text
    assert "records of batches 3 to 4 " in text and "lacks are lost" in text
    assert '{"east": {"orders": {"0": 40}}}' in text


@pytest.mark.parametrize("commits", [[0, 1, 2], [0, 1], [0, 2]])
def test_batches_before_the_last_two_do_not_matter(tmp_path: Path, commits: list[int]) -> None:
    assert "exact" in steps(tmp_path, [0, 2] if commits != [0, 1] else [1, 2], commits)
