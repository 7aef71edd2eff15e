"""Old files of a state location: deleted once void, a bounded number at each start."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity
from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.incarnation import Incarnation
from dynamic_kafka.state.purge import KEPT_DOCUMENTS, KEPT_S, MOST, purge
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes

PART = SplitRange(Split("east", "t", 0), 5, 9)
NUMBER = 5000
SAVED = OffsetDocument(
    "q", NUMBER, "aa", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 50, 1: 7})}, "Mk")}
)
DRIVER = "000000000009-me"


@pytest.fixture
def state(tmp_path: Path) -> StateLocation:
    return StateLocation(str(tmp_path))


def amendment(number: int) -> Amendment:
    return Amendment("q", number, "aa", "bb", (PART,), {"east": "unreachable"}, number)


def make_old(folder: Path) -> None:
    past = time.time() - KEPT_S - 60
    for file in folder.rglob("*.json"):
        os.utime(file, (past, past))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.json"))


def accept(state: StateLocation, number: int, partition: int, offset: int, document: int | None = None) -> None:
    wire = {"kind": "data-loss", "cluster": "east", "topic": "t", "partition": partition, "from": offset, "to": 9}
    state.write(f"q/accepted/{number:06d}-data-loss.json", {**wire, "document": document})


def test_old_amendments_go_and_the_newest_stays(state: StateLocation, tmp_path: Path) -> None:
    for number in (1, 2, NUMBER - KEPT_DOCUMENTS, NUMBER):
        state.save_amendment(amendment(number))
    state.save_amendment(amendment(3))
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert [kept_amendment.number for kept_amendment in state.amendments("q")] == [NUMBER - KEPT_DOCUMENTS, NUMBER]


def test_the_newest_amendment_still_shows_an_old_checkpoint(state: StateLocation, tmp_path: Path) -> None:
    state.save_amendment(amendment(1))
    state.save_amendment(amendment(2))
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert [kept_amendment.number for kept_amendment in state.amendments("q")] == [2]


def test_amendments_of_the_last_month_stay(state: StateLocation) -> None:
    for number in (1, 2, 3):
        state.save_amendment(amendment(number))
    purge(state, SAVED, DRIVER)
    assert len(state.amendments("q")) == 3


def test_one_start_deletes_a_bounded_number(state: StateLocation, tmp_path: Path) -> None:
    for number in range(1, MOST + 30):
        state.save_amendment(amendment(number))
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert [kept_amendment.number for kept_amendment in state.amendments("q")] == list(range(MOST + 1, MOST + 30))


def test_a_mark_of_an_undone_amendment_stays_as_long_as_it(state: StateLocation, tmp_path: Path) -> None:
    undone, newest = amendment(1), amendment(2)
    state.save_amendment(undone)
    state.save_amendment(newest)
    state.undo_amendments("q", [newest])
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert state.amendments("q") == []
    assert len(names(tmp_path / "q" / "undone")) == 1
    (file,) = (tmp_path / "q" / "amendments").glob("*.json")
    file.unlink()
    purge(state, SAVED, DRIVER)
    assert names(tmp_path / "q" / "undone") == []


def test_a_driver_that_was_replaced_leaves_nothing(state: StateLocation, tmp_path: Path) -> None:
    state.bind("q", "e1")
    for _ in range(3):
        last = Incarnation(state)
        last.begin(replace(SAVED, state="e1"))
    assert names(tmp_path / "q" / "drivers") == names(tmp_path / "q" / "found") == [f"{last.name}.json"]


def test_used_acceptances_go_and_the_others_stay(state: StateLocation, tmp_path: Path) -> None:
    accept(state, 1, partition=0, offset=5)  # progress has passed it
    accept(state, 2, partition=1, offset=7)  # not yet
    accept(state, 3, partition=2, offset=1)  # the query has no such split
    accept(state, 4, partition=3, offset=1, document=NUMBER)  # nor such a one, but a plan may open it
    for number, (cluster, kafka_id) in enumerate((("east", "Mk"), ("west", "Qx"))):
        wire = {"kind": "identity", "cluster": cluster, "kafkaId": kafka_id}
        state.write(f"q/accepted/00001{number}-identity.json", wire)
    state.write("q/accepted/000020-identity.json", {"kind": "identity", "cluster": "east", "kafkaId": "new"})
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert names(tmp_path / "q" / "accepted") == [
        "000002-data-loss.json",
        "000004-data-loss.json",
        "000020-identity.json",
    ]


def test_an_acceptance_for_an_abandoned_range_stays(state: StateLocation, tmp_path: Path) -> None:
    """The document has the range's end, but the amendment takes the split back to its start."""
    part = SplitRange(PART.split, 5, 50)
    batch = (SAVED.previous, fingerprint(SAVED))
    state.save_amendment(Amendment("q", NUMBER, *batch, (part,), {"east": "abandoned"}, 1))
    accept(state, 1, partition=0, offset=5)
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert names(tmp_path / "q" / "accepted") == ["000001-data-loss.json"]


def test_an_identity_that_the_query_has_taken_over_goes(state: StateLocation, tmp_path: Path) -> None:
    state.write("q/accepted/000001-identity.json", {"kind": "identity", "cluster": "east", "kafkaId": "Mk"})
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert names(tmp_path / "q" / "accepted") == []


def test_a_used_identity_goes_once_the_cluster_changed_again(state: StateLocation, tmp_path: Path) -> None:
    for number, mark in enumerate(("x1", "x2"), start=1):
        wire = {"kind": "identity", "id": mark, "cluster": ("east", "west")[number - 1], "kafkaId": "Qx"}
        state.write(f"q/accepted/{number:06d}-identity.json", wire)
    make_old(tmp_path)
    parked = {"west": ParkedCluster({"t": ParkedTopic(TopicProgress("s", {0: 1}), 9)}, "Zz")}
    purge(state, replace(SAVED, parked=parked, used_acceptances={"east": "x1", "west": "other"}), DRIVER)
    assert names(tmp_path / "q" / "accepted") == ["000002-identity.json"]


def test_an_old_acceptance_never_comes_into_force_again(
    state: StateLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, kafka_id in enumerate(("Qx", "other", "Mk")):
        wire = {"kind": "identity", "cluster": "east", "kafkaId": kafka_id}
        state.write(f"q/accepted/{number:06d}-identity.json", wire)
    make_old(tmp_path)
    delete, deleted = state.delete, 0

    def dies(path: str) -> None:
        nonlocal deleted
        deleted += 1
        if deleted == 2:
            raise DynamicKafkaError("the driver dies")
        delete(path)

    monkeypatch.setattr(state, "delete", dies)
    purge(state, SAVED, DRIVER)  # only logs
    assert state.accepted_identities(SAVED) == {"east": AcceptedIdentity("Mk", id="000002-identity.json")}


def test_reports_of_earlier_batches_go(state: StateLocation, tmp_path: Path) -> None:
    for batch in ("old", SAVED.previous, fingerprint(SAVED)):
        state.save_seen("q", batch, "topic-id", PART.split, {"topicId": "T"})
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert state.seen("q", "old") == []
    assert len(state.seen("q", SAVED.previous)) == len(state.seen("q", fingerprint(SAVED))) == 1


def test_old_reports_go_whatever_folders_stay(state: StateLocation, tmp_path: Path) -> None:
    for number in range(MOST + 50):
        state.save_seen("q", f"{number:05d}", "topic-id", PART.split, {"topicId": "T"})
    make_old(tmp_path)
    for number in range(MOST + 5):  # sorted before the old ones, and not due
        state.save_seen("q", f"0-{number:05d}", "topic-id", PART.split, {"topicId": "T"})
    for _ in range(2):
        purge(state, SAVED, DRIVER)
    assert len(list((tmp_path / "q" / "seen").rglob("*.json"))) == MOST + 5


@pytest.mark.parametrize(
    "path", ["undone/aa", "accepted/000001-data-loss"], ids=["no amendments", "a document that is no number"]
)
def test_a_damaged_old_file_does_not_end_a_start(
    state: StateLocation, tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    wire = {"version": 1, "kind": "data-loss", "cluster": "x", "topic": "t", "partition": 0, "document": "x"}
    state.write(f"q/{path}.json", wire)
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert f"q/{path}.json is damaged" in caplog.text


@pytest.mark.parametrize("cluster", ["east", "before-its-rename"])
def test_verdicts_about_earlier_topics_go(state: StateLocation, tmp_path: Path, cluster: str) -> None:
    read = {"t": TopicProgress("s", {0: 50}, topic_id="new"), "u": TopicProgress("s", {0: 50}, topic_id="old u")}
    kept = {"v": ParkedTopic(TopicProgress("s", {0: 5}, "old v"), 900)}
    saved = replace(SAVED, clusters={cluster: ClusterProgress(read)}, parked={cluster: ParkedCluster(kept)})
    for topic in "tuvw":
        for kind in ("verdict", "accepted"):
            save_change(state, "q", kind, TopicChange("east", topic, f"old {topic}", "new"))  # type: ignore[arg-type]
    purge(state, saved, DRIVER)
    assert len(names(tmp_path / "q" / "integrity")) == 8  # they are not old
    make_old(tmp_path)
    purge(state, saved, DRIVER)
    for kind in ("verdict", "accepted"):
        left = saved_changes(state, "q", kind)  # type: ignore[arg-type]
        assert sorted(change.topic for change in left.values()) == ["u", "v"]


def test_files_of_interrupted_checks_go(state: StateLocation, tmp_path: Path) -> None:
    state.write("q/seen/check-1.json", {})
    purge(state, SAVED, DRIVER)
    assert (tmp_path / "q" / "seen" / "check-1.json").exists()  # its process may be about to delete it
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert not (tmp_path / "q" / "seen" / "check-1.json").exists()


def test_verdicts_of_first_starts_go_once_a_query_has_begun(state: StateLocation, tmp_path: Path) -> None:
    save_change(state, "", "verdict", TopicChange("east", "t", "old", "new", pinned=True))
    purge(state, SAVED, DRIVER)
    assert len(names(tmp_path / "first-start" / "integrity")) == 1  # it is not old
    make_old(tmp_path)
    purge(state, SAVED, DRIVER)
    assert saved_changes(state, "", "verdict") == {}
