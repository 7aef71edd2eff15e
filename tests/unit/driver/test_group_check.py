"""The check of a cluster's consumer group in a plan: when a plan waits for it, and when it counts."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.driver import group_check as module
from dynamic_kafka.driver.group_check import GroupCheck
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.errors import ClusterUnreachableError, GroupInUseError
from dynamic_kafka.kafka.commit_marks import CommitMark
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation

OPTIONS = {"streamIds": "orders", "metadataPath": "/none", "kafka.group.id": "g", "commitOffsets": "true"}
LOGGED = OffsetDocument(query="mine", number=3)


class Probe:
    """A probe of a cluster that answers with the commits of its group when a test lets it."""

    def __init__(self) -> None:
        self.commits: Future[Any] = Future()
        self.asked = 0

    def ask(self, question: object) -> Future[Any]:
        self.asked += 1
        return self.commits


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> GroupCheck:
    """The check of a query whose plans wait only a moment."""
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    return GroupCheck(parse_options(OPTIONS, mode="streaming"), "new")


def seen(**probes: Probe) -> LiveObservation:
    """Return an observation of these clusters, which have all answered."""
    answers = {name: ClusterObservation(kafka_id=name, topics={}, missing=frozenset()) for name in probes}
    subscription = SimpleNamespace(clusters=dict.fromkeys(probes))
    return cast(LiveObservation, SimpleNamespace(answers=answers, probes=probes, subscription=subscription))


def begun(checking: GroupCheck) -> Probe:
    """Start the query on east, and return its probe."""
    east = Probe()
    east.commits.set_result({})
    checking.check(LOGGED, seen(east=east))
    return east


def of_another() -> dict[tuple[str, int], tuple[int, str]]:
    """Return the commits of a group in which another query has just committed."""
    return {("orders", 0): (7, str(CommitMark("another", 1, time.time_ns() // 1_000_000)))}


def test_a_start_waits_for_the_group_check(checking: GroupCheck) -> None:
    east = Probe()
    threading.Timer(0.3, east.commits.set_result, [of_another()]).start()
    with pytest.raises(GroupInUseError):
        checking.check(LOGGED, seen(east=east))


def test_a_new_cluster_that_hangs_is_checked_when_it_answers(checking: GroupCheck) -> None:
    east, west = begun(checking), Probe()
    for _ in range(3):
        checking.check(LOGGED, seen(east=east, west=west))
    assert (east.asked, west.asked) == (1, 1)

    west.commits.set_result(of_another())
    with pytest.raises(GroupInUseError, match="of 'west'"):
        checking.check(LOGGED, seen(east=east, west=west))


def test_the_answer_of_a_removed_cluster_is_ignored(checking: GroupCheck) -> None:
    east, west = begun(checking), Probe()
    checking.check(LOGGED, seen(east=east, west=west))
    west.commits.set_result(of_another())
    checking.check(LOGGED, seen(east=east))


def test_a_failed_lookup_is_logged_once_and_not_repeated(
    checking: GroupCheck, caplog: pytest.LogCaptureFixture
) -> None:
    east, west = begun(checking), Probe()
    west.commits.set_exception(ClusterUnreachableError("west", "no answer"))
    for _ in range(3):
        checking.check(LOGGED, seen(east=east, west=west))
    assert west.asked == 1
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "cannot read the commits of group" in warnings[0]


def test_the_marks_of_the_querys_other_sources_are_its_own(checking: GroupCheck) -> None:
    # Given the application, which commits under the mark of the first of a query's sources
    by_application = OPTIONS | {"commitOffsets": "false", "applicationCommits": "true"}
    east = Probe()
    east.commits.set_result(of_another())

    # When the query starts again, its second source accepts that mark
    siblings = parse_options(by_application | {"applicationQueries": "another,mine"}, mode="streaming")
    GroupCheck(siblings, "new").check(LOGGED, seen(east=east))

    # And a mark that is not the query's is refused
    strangers = parse_options(by_application | {"applicationQueries": "mine"}, mode="streaming")
    with pytest.raises(GroupInUseError):
        GroupCheck(strangers, "new").check(LOGGED, seen(east=east))


def test_a_first_run_leaves_late_clusters_to_the_application() -> None:
    # Given a query in its first run, whose sources have no ids of each other
    by_application = OPTIONS | {"commitOffsets": "false", "applicationCommits": "true"}
    first = GroupCheck(parse_options(by_application, mode="streaming"), "new")
    begun(first)

    # When a cluster answers after the first source's commit
    west = Probe()
    west.commits.set_result(of_another())
    first.check(LOGGED, seen(west=west))

    # Then the second source does not take that for another query
    assert west.asked == 0
