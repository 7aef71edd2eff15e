"""A start with an older checkpoint (`allowOldCheckpoint`), and the return to the newer one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import OffsetDocumentError, StaleCheckpointError
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import RANGE_END
from dynamic_kafka.state.store import StateLocation

GIVEN = {"streamIds": "s", "metadataPath": "/streams.yaml"}
SPLIT = Split("east", "t", 0)


def document(number: int, following: int, before: OffsetDocument | None) -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, topic_id="T")
    previous = fingerprint(before) if before else ""
    return OffsetDocument("q", number, previous, clusters={"east": ClusterProgress({"t": topic}, "E")})


FIRST = document(1, 5, None)
LAST = document(2, 9, FIRST)


def started(folder: Path, checkpoint: OffsetDocument, **more: str) -> Replays:
    """Do what a start does with its checkpoint before any I/O, which may fail and end the start."""
    enumerator = Enumerator(parse_options(GIVEN | {"stateLocation": str(folder)} | more, mode="streaming"))
    enumerator._restore(checkpoint)
    return enumerator.replays


def left_out(folder: Path) -> None:
    """Save an amendment: the query's last batch left 5..9 out."""
    part = SplitRange(SPLIT, 5, 9)
    made = Amendment("q", 2, fingerprint(FIRST), fingerprint(LAST), (part,), {"east": "unreachable"}, 1)
    StateLocation(str(folder)).save_amendment(made)


def test_ranges_that_were_left_out_are_still_not_read(tmp_path: Path) -> None:
    left_out(tmp_path)
    assert started(tmp_path, LAST).amendments.after(LAST).next_of(SPLIT) == 5

    # When a user starts it with a backup, which fails early, and restores its own checkpoint
    started(tmp_path, FIRST, allowOldCheckpoint="true")
    back = started(tmp_path, LAST)

    # Then 5..9 are still to be read
    assert back.amendments.after(LAST).next_of(SPLIT) == 5, "5..9 are never delivered"


def test_a_batch_planned_anew_reads_all_ranges_in_replays_too(tmp_path: Path) -> None:
    left_out(tmp_path)
    started(tmp_path, FIRST, allowOldCheckpoint="true").planned(FIRST, LAST)
    assert started(tmp_path, LAST).amendments.after(LAST).next_of(SPLIT) == 9


# -- batches whose ranges executors have ended ---------------------------------------------------------------------


def by_value(count: int) -> list[OffsetDocument]:
    """The documents of so many batches, each of which was planned to read two records."""
    documents: list[OffsetDocument] = []
    for number in range(1, count + 1):
        before = documents[-1] if documents else None
        documents.append(replace(document(number, 2 * number, before), by_value=1))
    return documents


def reported(folder: Path, end: OffsetDocument) -> None:
    """Do what the driver's next plan and an executor do: the range has ended a record early."""
    more = {"number": end.number, "offset": 2 * end.number - 1, "topicId": "T", "ends": "pause", "time": 7}
    StateLocation(str(folder)).save_seen("q", fingerprint(end), RANGE_END, SPLIT, more, driver="9")


def test_reports_of_long_past_batches_are_deleted(tmp_path: Path) -> None:
    documents = by_value(Replays.kept_reports + 5)
    replays = started(tmp_path, documents[0])
    for end in documents:
        reported(tmp_path, end)
        replays.batch_ended(end)
    kept = set(StateLocation(str(tmp_path)).list_folders("q/seen"))
    assert kept == {fingerprint(end) for end in documents[5:]}


def test_without_the_reports_an_old_checkpoint_is_refused(tmp_path: Path) -> None:
    first, second, *_, last = by_value(4)
    for end in (second, last):
        reported(tmp_path, end)
    with pytest.raises(StaleCheckpointError, match="allowOldCheckpoint"):
        started(tmp_path, second)
    restored = started(tmp_path, second, allowOldCheckpoint="true")
    restored.batch_ended(second)
    assert restored.amendments.after(second).next_of(SPLIT) == 3
    # Where the ranges of this batch have ended, nobody can say any more. A pending batch is just read again
    lost = started(tmp_path, first, allowOldCheckpoint="true")
    with pytest.raises(OffsetDocumentError, match="1 ranges of the batch of document 1 have no report"):
        lost.batch_ended(first)
