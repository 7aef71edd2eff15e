"""Commits of documents that two threads hand over out of order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dynamic_kafka.kafka import commits
from dynamic_kafka.kafka.commits import GroupCommitter
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress


class Group:
    """A group with its offsets in memory."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.mark = ""

    def client(self, *_: Any, **__: Any) -> Group:
        return self

    def committed(self, _: Any) -> Mapping[tuple[str, int], tuple[int, str]]:
        return {}

    def commit(self, offsets: Mapping[tuple[str, int], int], mark: str) -> None:
        self.offsets |= offsets
        self.mark = mark

    def close_in_background(self) -> None:
        pass


def document(query: str, number: int, offset: int) -> OffsetDocument:
    """Return a document with one split of `east` at this offset."""
    east = ClusterProgress({"orders": TopicProgress("st", {0: offset})})
    return OffsetDocument(query, number, "p", clusters={"east": east})


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    made = Group()
    monkeypatch.setattr(commits, "GroupClient", made.client)
    return made


def test_a_late_older_document_reverts_no_commit(group: Group) -> None:
    """The main thread repeats a commit that the listener's thread may already have passed."""
    committer = GroupCommitter("g", lambda _: ClusterClient("east", {}, {"bootstrap.servers": "127.0.0.1:1"}))
    reached = []
    for offset_document in (document("q", 2, 9), document("q", 1, 5), document("q", 3, 12), document("another", 1, 4)):
        committer.commit(offset_document)
        assert committer.flush(30)
        reached.append(group.offsets["orders", 0])
    committer.close()
    assert reached == [9, 9, 12, 4]


def test_the_source_furthest_behind_is_committed_with_one_mark(group: Group) -> None:
    committer = GroupCommitter("g", lambda _: ClusterClient("east", {}, {"bootstrap.servers": "127.0.0.1:1"}))
    reached = []
    for first, second in ((5, 2), (5, 5), (7, 9)):
        committer.commit(document("first", first, first), document("second", second, second))
        assert committer.flush(30)
        reached.append((group.offsets["orders", 0], group.mark.split()[1:3]))
    committer.close()
    assert reached == [(2, ["first", "5"]), (5, ["first", "5"]), (7, ["first", "7"])]


def test_nothing_is_committed_after_the_end(group: Group) -> None:
    """Spark may report the last batch once more after the application has committed it and closed the committer."""
    committer = GroupCommitter("g", lambda _: ClusterClient("east", {}, {"bootstrap.servers": "127.0.0.1:1"}))
    committer.commit(document("q", 1, 5))
    assert committer.flush(30)
    committer.close()
    group.mark = "another query's"
    committer.commit(document("q", 1, 5))
    assert committer.flush(30)
    assert group.mark == "another query's"
