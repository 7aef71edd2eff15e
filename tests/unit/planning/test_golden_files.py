"""Saved files of every version of the formats, byte for byte. They stay for ever: a checkpoint may be of any age.

Each file was written by the first release that had its version, and so was each fingerprint. Never change one. A new
version of a format adds a file.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import VERSION, decode, encode, fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.store import StateLocation

GOLDEN = Path(__file__).parent / "golden"
FINGERPRINTS = {
    "initial-2": "732322c128ed67841ef5aa42c7cd04ff",
    "initial-3": "732322c128ed67841ef5aa42c7cd04ff",
    "document-2": "b07c58d29a366de630043f97ff51c9f2",
    "document-3": "a183208f550204ddd308053a800fdc75",
    "document-4": "afaaeb380e879aaeca776eb502a90d4d",
    "document-5": "ece05f4f4e9ca3d96cdd1f4fbc39748d",
    "document-6": "fd20a559b07cba996a6179778e9080e7",
}

MANY = range(40)
NEXT = {p: 4_000_000_000 + p * p * 1013 for p in MANY}
ORDERS = TopicProgress(
    "orders",
    {0: 120, 1: 98, 2: 0},
    "d4Gk8Zp2QmWvT1xYb7NcRg",
    {0: 3, 1: 3, 2: 3},
    {1: 40},
    {0: 500, 1: 500, 2: 500},
    {1: 2},
)
WIDE = TopicProgress(
    "clicks",
    NEXT,
    "w1",
    {p: p % 5 for p in MANY},
    {p: number - p * 17 for p, number in NEXT.items()},
    {p: number + 90_000 * (p % 7) for p, number in NEXT.items()},
    {p: p % 5 - (p % 5 > 2) for p in MANY},
)
SOME = TopicProgress("clicks", NEXT, "s1", starts={p: p for p in MANY if p % 8})
GAPS = TopicProgress("orders", {0: 5, 2: 7}, epochs={2: 1})
LEFT = TopicProgress("orders", {0: 7, 1: 7}, "p1", epochs={0: 1, 1: 2}, stops={0: 9})
PARKED = {
    "orders": ParkedTopic(LEFT, 1_795_219_200_000, awaited=True),
    "old": ParkedTopic(TopicProgress("s", {0: 3}), 5),
}
VERSION_2 = OffsetDocument(
    "5f" * 16,
    12,
    "9c" * 16,
    bounded=True,
    clusters={
        "east": ClusterProgress({"orders": ORDERS, "gaps": GAPS}, "Mk3NTRjNDcwNTdENDM2Qk"),
        "north": ClusterProgress({"wide": WIDE, "some": SOME}),
    },
    parked={"west": ParkedCluster(PARKED, "Qx")},
)
VERSION_3 = replace(
    VERSION_2,
    state="e1" * 16,
    parked={
        **VERSION_2.parked,
        "south": ParkedCluster({"gone": ParkedTopic(TopicProgress("s", {0: 3}), 5, missing=True)}),
    },
)
ENDED = {
    "east": ClusterProgress(
        {"orders": replace(ORDERS, starts={}, start_epochs={}, stops={}, ended={0: 120, 2: 40})}, "Mk"
    ),
    "north": ClusterProgress({"wide": TopicProgress("clicks", NEXT, "w1", ended=NEXT)}),
}
GONE = {
    "west": ParkedCluster({"orders": replace(PARKED["orders"], progress=replace(LEFT, stops={}, ended={1: 7}))}, "Qx")
}
TIMED = {"east": ClusterProgress({"orders": replace(ORDERS, times={0: 1795219205000, 2: -1}), "gaps": GAPS}, "Mk")}
DOCUMENTS = {
    "initial-2": OffsetDocument(),
    "initial-3": OffsetDocument(),
    "document-2": VERSION_2,
    "document-3": VERSION_3,
    "document-4": replace(VERSION_3, bounded=False, over=True, clusters=ENDED, parked=GONE),
    "document-5": replace(VERSION_3, clock_ms=1795219200000),
    "document-6": replace(VERSION_3, clock_ms=1795219200000, by_value=3, clusters=TIMED),
}


@pytest.mark.scenario(39)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_version_of_the_document_is_read(name: str) -> None:
    assert decode((GOLDEN / f"{name}.json").read_text()) == DOCUMENTS[name]


@pytest.mark.parametrize("name", ["initial-3", "document-3", "document-4", "document-5", "document-6"])
def test_written_versions_are_written_byte_for_byte(name: str) -> None:
    assert f"document-{VERSION}" in DOCUMENTS, "add golden files of the new version"
    assert name.endswith(f"-{encode(DOCUMENTS[name])['version']}")
    assert json.dumps(encode(DOCUMENTS[name])) == (GOLDEN / f"{name}.json").read_text()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_saved_document_keeps_its_fingerprint(name: str) -> None:
    saved = (GOLDEN / f"{name}.json").read_text()
    assert fingerprint(decode(saved)) == FINGERPRINTS[name]
    # Spark's progress events have the same JSON in another order.
    assert fingerprint(decode(json.dumps(json.loads(saved), sort_keys=True))) == FINGERPRINTS[name]


def test_every_version_of_an_amendment_is_read(tmp_path: Path) -> None:
    (tmp_path / "q" / "amendments").mkdir(parents=True)
    shutil.copy(GOLDEN / "amendment-1.json", tmp_path / "q" / "amendments" / "000000000012-s-e-1.json")
    (amendment,) = StateLocation(str(tmp_path)).amendments("q")
    parts = SplitRange(Split("east", "orders", 1), 40, 98), SplitRange(Split("north", "wide", 3), 4, 9)
    assert amendment == Amendment(
        "5f" * 16,
        12,
        "9c" * 16,
        FINGERPRINTS["document-2"],
        parts,
        {"east": "removed", "north": "unreachable"},
        1_795_219_200_000,
    )


def test_every_kind_of_acceptance_is_read(tmp_path: Path) -> None:
    (tmp_path / "q" / "accepted").mkdir(parents=True)
    shutil.copy(GOLDEN / "acceptance-identity.json", tmp_path / "q" / "accepted" / "000001-identity-east.json")
    shutil.copy(GOLDEN / "acceptance-data-loss.json", tmp_path / "q" / "accepted" / "000002-data-loss.json")
    state = StateLocation(str(tmp_path))
    assert state.accepted_identities(OffsetDocument("q")) == {
        "east": AcceptedIdentity("Qx", id="000001-identity-east.json")
    }
    loss = AcceptedLoss(40, "d4Gk8Zp2QmWvT1xYb7NcRg", 98, 11, 3)
    assert state.accepted_losses("q") == {Split("east", "orders", 1): loss}


def test_the_newest_acceptance_is_read_and_written_byte_for_byte() -> None:
    saved = (GOLDEN / "acceptance-data-loss-2.json").read_text()
    loss = AcceptedLoss(40, "d4Gk8Zp2QmWvT1xYb7NcRg", 98, 11, 3, "expired")
    assert AcceptedLoss.from_wire(json.loads(saved)) == loss
    assert json.dumps(loss.to_wire(Split("east", "orders", 1)), indent=1, sort_keys=True) + "\n" == saved


@pytest.mark.parametrize(("version", "mark"), [(2, "000001-identity-east.json"), (3, "7c" * 16)])
def test_an_accepted_identity_names_the_one_that_it_replaces(tmp_path: Path, version: int, mark: str) -> None:
    (tmp_path / "q" / "accepted").mkdir(parents=True)
    saved = GOLDEN / f"acceptance-identity-{version}.json"
    shutil.copy(saved, tmp_path / "q" / "accepted" / "000001-identity-east.json")
    accepted = StateLocation(str(tmp_path)).accepted_identities(OffsetDocument("q"))
    assert accepted == {"east": AcceptedIdentity("Qx", "Mk", mark)}
