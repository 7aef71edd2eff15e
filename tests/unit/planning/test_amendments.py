"""Ranges that a planned batch leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.document.amendments import Amendment, Amendments, Reason
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split, SplitRange

EAST = SplitRange(Split("east", "t", 0), 5, 9)
WEST = SplitRange(Split("west", "t", 1), 2, 3)
MADE = Amendment("q", 3, "s", "e", (EAST,), {"east": "removed"}, 1_000)
DOCUMENT = OffsetDocument(
    "q",
    3,
    "s",
    clusters={
        "east": ClusterProgress({"t": TopicProgress("s", {0: 9, 1: 4})}),
        "west": ClusterProgress({"t": TopicProgress("s", {1: 3})}),
    },
)


def test_it_is_saved_and_read_again() -> None:
    assert Amendment.from_wire(MADE.to_wire()) == MADE
    assert Amendment.from_wire(replace(MADE, left_out=(EAST, WEST)).to_wire()).left_out == (EAST, WEST)


def test_a_newer_one_is_refused() -> None:
    with pytest.raises(OffsetDocumentError, match="version 2"):
        Amendment.from_wire({**MADE.to_wire(), "version": 2})


@pytest.mark.parametrize("field", ["query", "number", "start", "end", "leftOut", "reasons", "madeMs"])
def test_a_damaged_one_is_refused(field: str) -> None:
    wire = {name: value for name, value in MADE.to_wire().items() if name != field}
    with pytest.raises(OffsetDocumentError, match="damaged"):
        Amendment.from_wire(wire)


def test_the_other_ranges_of_the_batch_remain() -> None:
    amendments = Amendments([MADE])
    assert amendments.remaining([EAST, WEST], ("s", "e")) == [WEST]
    assert amendments.remaining([EAST, WEST], ("s", "f")) == [EAST, WEST]
    amendments.add(replace(MADE, left_out=(WEST,), reasons={"west": "unreachable"}))
    assert amendments.remaining([EAST, WEST], ("s", "e")) == []


def test_its_splits_go_back_to_the_start_of_their_range() -> None:
    after = Amendments([replace(MADE, end=fingerprint(DOCUMENT)), MADE]).after(DOCUMENT)
    assert after.next_of(EAST.split) == 5
    assert after.next_of(Split("east", "t", 1)) == 4
    assert after.clusters["west"] == DOCUMENT.clusters["west"]


@pytest.mark.parametrize("reason", ["removed", "abandoned"])
def test_a_left_out_range_keeps_its_leader_epoch(reason: Reason) -> None:
    # If a truncation is why it was left out, the next plan finds where by that epoch
    topic = TopicProgress("s", {0: 9, 1: 4}, epochs={0: 7, 1: 8})
    document = replace(DOCUMENT, clusters={"east": ClusterProgress({"t": topic})})
    made = replace(MADE, end=fingerprint(document), reasons={"east": reason})
    after = Amendments([made]).after(document).clusters["east"].topics["t"]
    assert (after.next, after.epochs) == ({0: 5, 1: 4}, {0: 7, 1: 8})
