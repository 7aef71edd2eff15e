"""A word about a loss, while the cluster that it is about is silent for a plan, or while its log goes on expiring."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from dynamic_kafka.driver.observer import Observed, wanted_clusters
from dynamic_kafka.driver.offset_resolution import Decisions
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.kafka.probe import ClusterProbe
from dynamic_kafka.metadata import Discovered, Revision, SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.batch import Situation, plan_batch
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import Limits
from dynamic_kafka.planning.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.splits import Split

EAST = Split("east", "t", 0)
SUBSCRIPTION = Subscription(
    {"east": SubscribedCluster({"t": "s"}, {}), "west": SubscribedCluster({"u": "s"}, {})}, ("s",)
)
SAVED = OffsetDocument(
    "q",
    3,
    "p",
    clusters={
        "east": ClusterProgress({"t": TopicProgress("s", {0: 100}, epochs={0: 5}, topic_id="T")}, "E"),
        "west": ClusterProgress({"u": TopicProgress("s", {0: 7}, epochs={0: 1}, topic_id="U")}, "W"),
    },
)


def log(end: int, first: int = 0, epoch: int = 6) -> ClusterObservation:
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
    """One plan under `stall`, from the clusters that answer."""
    options = parse_options(
        {
            "streamIds": "s",
            "metadataPath": "streams.yaml",
            "clusterFailurePolicy": "stall",
            "stateLocation": state.uri,
        },
        mode="streaming",
    )
    probes = {"east": cast(ClusterProbe, NoTransactions()), "west": cast(ClusterProbe, NoTransactions())}
    found = Discovered(SUBSCRIPTION, Revision("sha256:x"), 1)
    observed = Observed(SUBSCRIPTION, answers, found, probes, False)
    situation = Situation(logged, logged.settled(), wanted_clusters(SUBSCRIPTION), answers, 1, 10**9, Limits(), "q")
    edge = Decisions(options, state, PlanStatus(), logged, observed, frozenset(answers), "q")
    return plan_batch(situation, edge).plan.document


@pytest.fixture
def state(tmp_path: Path) -> StateLocation:
    """A person has accepted, at document 3, that the log of `east` was cut off at 50 (what `accept` writes)."""
    state = StateLocation(str(tmp_path))
    wire = {"kind": "data-loss", "cluster": "east", "topic": "t", "partition": 0, "topicId": "T"}
    word = {**wire, "from": 100, "to": 50, "document": 3, "epoch": 5}
    state.write("q/accepted/000001-data-loss-east-t-0.json", word)
    return state


def test_it_holds_at_once(state: StateLocation) -> None:
    after = plan(state, SAVED, {"east": log(60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert (topic.starts, topic.next) == ({0: 50}, {0: 60})


def test_it_holds_also_if_other_clusters_are_read_before_its_own_answers(state: StateLocation) -> None:
    # Given a start at which the cluster in trouble does not answer in time: the others are read on (`stall`)
    between = plan(state, SAVED, {"west": west(9)})
    assert between.number == 4
    assert between.next_of(EAST) == 100

    # When it answers, then what the person has said is still true: nothing was read of it since
    after = plan(state, between, {"east": log(60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert (topic.starts, topic.next) == ({0: 50}, {0: 60})


def test_what_has_expired_since_is_not_gone_back_to(state: StateLocation) -> None:
    # Retention has gone on while the query was stopped: 50..60 of the log that was cut off are gone, too
    after = plan(state, SAVED, {"east": log(70, first=60), "west": west(9)})
    topic = after.topic("east", "t")
    assert topic is not None
    assert topic.starts == {0: 60}, "an executor would be told that its range has expired"
