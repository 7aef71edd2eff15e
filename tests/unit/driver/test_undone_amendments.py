"""A start with an older checkpoint (`allowOldCheckpoint`), and the newer one put back after all."""

from __future__ import annotations

from pathlib import Path

from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange

GIVEN = {"streamIds": "s", "metadataPath": "/streams.yaml"}
SPLIT = Split("east", "t", 0)


def document(number: int, following: int, before: OffsetDocument | None) -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, topic_id="T")
    previous = fingerprint(before) if before else ""
    return OffsetDocument("q", number, previous, clusters={"east": ClusterProgress({"t": topic}, "E")})


FIRST = document(1, 5, None)
LAST = document(2, 9, FIRST)


def started(folder: Path, checkpoint: OffsetDocument, **more: str) -> Replays:
    """What a start does with its checkpoint before it asks for anything: that may fail next, and the start with it."""
    enumerator = Enumerator(parse_options(GIVEN | {"stateLocation": str(folder)} | more, mode="streaming"))
    enumerator._restore(checkpoint)
    return enumerator.replays


def left_out(folder: Path) -> None:
    """The query's last batch had to leave 5..9 out."""
    part = SplitRange(SPLIT, 5, 9)
    made = Amendment("q", 2, fingerprint(FIRST), fingerprint(LAST), (part,), {"east": "unreachable"}, 1)
    StateLocation(str(folder)).save_amendment(made)


def test_ranges_that_were_left_out_are_still_not_read(tmp_path: Path) -> None:
    left_out(tmp_path)
    assert started(tmp_path, LAST).amendments.after(LAST).next_of(SPLIT) == 5

    # When somebody starts it with a backup, which does not get far, and puts its own checkpoint back
    started(tmp_path, FIRST, allowOldCheckpoint="true")
    back = started(tmp_path, LAST)

    # Then 5..9 are still to be read
    assert back.amendments.after(LAST).next_of(SPLIT) == 5, "5..9 are never delivered"


def test_a_batch_that_is_planned_anew_reads_all_of_its_ranges_also_when_it_is_repeated(tmp_path: Path) -> None:
    left_out(tmp_path)
    started(tmp_path, FIRST, allowOldCheckpoint="true").planned(FIRST, LAST)
    assert started(tmp_path, LAST).amendments.after(LAST).next_of(SPLIT) == 9
