"""A start with an older checkpoint (`allowOldCheckpoint`), and the return to the newer one."""

from __future__ import annotations

from pathlib import Path

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange
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
