"""An accepted loss, while its cluster does not answer for a plan, or while its log continues to expire."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from dynamic_kafka.driver.offset_resolution import answer_question
from dynamic_kafka.kafka.probe import ClusterProbe
from dynamic_kafka.metadata import SubscribedCluster
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import run_steps
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.store import StateLocation
from tests.unit.planning.plans import plan_input

EAST = Split("east", "t", 0)
CLUSTERS = {"east": SubscribedCluster({"t": "s"}, {}), "west": SubscribedCluster({"u": "s"}, {})}
SAVED = OffsetDocument(
    "q",
    3,
    "p",
    clusters={
        "east": ClusterProgress({"t": TopicProgress("s", {0: 100}, epochs={0: 5}, topic_id="T")}, "E"),
        "west": ClusterProgress({"u": TopicProgress("s", {0: 7}, epochs={0: 1}, topic_id="U")}, "W"),
    },
)


def log(end: int, first: int = 0, epoch: int = 5) -> ClusterObservation:
    return ClusterObservation({"t": TopicObservation({0: end}, {0: first}, {0: epoch}, "T")}, "E")


def west(end: int) -> ClusterObservation:
    return ClusterObservation({"u": TopicObservation({0: end}, {0: 0}, {0: 1}, "U")}, "W")


class NoTransactions:
    """A probe of a cluster that is read by all records."""

    read_committed = False

    def ask(self, question: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(question(self))
        return future


def plan(state: StateLocation, logged: OffsetDocument, answers: dict[str, ClusterObservation]) -> OffsetDocument:
    """Return the document after one plan under `stall`, from the clusters that answer."""
    options = {"clusterFailurePolicy": "stall", "stateLocation": state.uri, "removedClusterRetention": str(10**9)}
    given = plan_input(logged, CLUSTERS, answers, now_ms=1, options=options)
    probes = dict.fromkeys(CLUSTERS, cast(ClusterProbe, NoTransactions()))
    return run_steps(
        plan_batch(given), partial(answer_question, probes=probes, state=state, options=given.options)
    ).plan.document


@pytest.fixture
def state(tmp_path: Path) -> StateLocation:
    """A user accepted, at document 3, that the log of `east` was cut off at 50 (as `accept` writes it)."""
    state = StateLocation(str(tmp_path))
    wire = {"kind": "data-loss", "cluster": "east", "topic": "t", "partition": 0, "topicId": "T"}
    acceptance = {**wire, "from": 100, "to": 50, "document": 3, "epoch": 5}
    state.write("q/accepted/000001-data-loss-east-t-0.json", acceptance)
    return state


def test_an_acceptance_applies_at_once(state: StateLocation) -> None:
    after = plan(state, SAVED, {"east": log(60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert (topic.starts, topic.next) == ({0: 50}, {0: 60})


def test_an_acceptance_applies_after_plans_without_its_cluster(state: StateLocation) -> None:
    # Given a start at which the cluster in trouble does not answer in time: under `stall` the others are read
    between = plan(state, SAVED, {"west": west(9)})
    assert between.number == 4
    assert between.next_of(EAST) == 100

    # When it answers, then the acceptance still applies: nothing was read of it since
    after = plan(state, between, {"east": log(60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert (topic.starts, topic.next) == ({0: 50}, {0: 60})


def test_an_accepted_start_that_has_expired_since_is_not_used(state: StateLocation) -> None:
    # While the query was stopped, retention has removed 50..60 of the log that was cut off, too
    after = plan(state, SAVED, {"east": log(70, first=60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert topic.starts == {0: 60}, "an executor would find that its range has expired"
