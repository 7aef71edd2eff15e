"""An acceptance of another cluster holds for one change: the document that uses it makes it void."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.driver.offset_resolution import answer_question
from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import AcceptedIdentitiesQuestion, Question, run_steps
from dynamic_kafka.planning.sameness.identity import saved_identity
from dynamic_kafka.state.store import StateLocation
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input

EAST = SubscribedCluster({"t": "s"}, {})
RETENTION_MS = 1000


class Query:
    """A query of one cluster, whose documents go through the checkpoint's text."""

    def __init__(self, state: StateLocation) -> None:
        self.state, self.logged, self.now_ms, self.asked = state, OffsetDocument(), 0, 0

    def plan(self, kafka_id: str | None) -> OffsetDocument:
        """Return the next document, not logged yet, with `east` as this cluster; None: metadata names no cluster."""
        clusters = {} if kafka_id is None else {"east": EAST}
        answers = {"east": ClusterObservation({"t": TopicObservation({0: 9}, {0: 0})}, kafka_id)} if kafka_id else {}
        given = plan_input(self.logged, clusters, answers, now_ms=self.now_ms)
        return run_steps(plan_batch(given), self.answer).plan.document

    def log(self, kafka_id: str | None) -> str | None:
        """Plan and log, and return the identity that is saved then."""
        self.logged = decode(json.dumps(encode(self.plan(kafka_id))))
        return saved_identity(self.logged, "east")

    def answer(self, question: Question) -> Any:
        if isinstance(question, AcceptedIdentitiesQuestion):
            self.asked += 1
            options = plan_input(self.logged, {}, {}).options
            return answer_question(question, probes={}, state=self.state, options=options)
        return all_logs_begin_at_zero(question)

    def expire(self) -> None:
        """Remove the cluster from the metadata until its offsets have expired."""
        self.log(None)
        self.now_ms += RETENTION_MS + 1
        assert self.log(None) is None


@pytest.fixture
def query(tmp_path: Path) -> Query:
    query = Query(StateLocation(str(tmp_path)))
    assert query.log("A") == "A"
    return query


def accept(query: Query, kafka_id: str, replaces: str, number: int = 1, **more: str) -> None:
    wire = {"kind": "identity", "cluster": "east", "kafkaId": kafka_id, "replaces": replaces, **more}
    query.state.write(f"q/accepted/{number:06d}-identity-east.json", wire)


@pytest.mark.parametrize("more", [{"id": "x1"}, {}], ids=["with an id", "of an early version"])
def test_a_used_acceptance_never_holds_again(query: Query, more: dict[str, str]) -> None:
    accept(query, "B", "A", **more)
    assert query.log("B") == "B"
    query.expire()
    assert query.log("A") == "A", "it is new, so it needs no acceptance"
    with pytest.raises(RevisionRejectedError, match=r"cluster\.id A,.*answer with B"):
        query.plan("B")


def test_the_same_change_may_be_accepted_again(query: Query) -> None:
    accept(query, "B", "A", id="x1")
    query.log("B")
    query.expire()
    query.log("A")
    # The purge has deleted the first one, so the second one has its name
    accept(query, "B", "A", id="x2")
    assert query.log("B") == "B"


def test_a_plan_that_spark_never_logged_uses_no_acceptance(query: Query) -> None:
    accept(query, "B", "A", id="x1")
    assert saved_identity(query.plan("B"), "east") == "B"
    # The driver dies here, and the saved cluster is back for a while
    assert query.log("A") == "A"
    assert query.log("B") == "B"


def test_an_acceptance_waits_for_a_cluster_that_is_silent(query: Query) -> None:
    accept(query, "B", "A", id="x1")
    silent = plan_input(query.logged, {"east": EAST}, {})
    assert run_steps(plan_batch(silent), query.answer).plan.document is query.logged
    assert query.log("B") == "B"


def test_an_acceptance_ends_with_the_offsets_it_was_made_for(query: Query) -> None:
    # Given an acceptance that no plan has used, since the saved cluster came back
    accept(query, "B", "A", id="x1")
    query.expire()
    assert query.log("A") == "A"
    with pytest.raises(RevisionRejectedError, match=r"saved Kafka cluster\.id A,"):
        query.plan("B")
    # A user who accepts it now means these offsets
    accept(query, "B", "A", id="x2")
    assert query.log("B") == "B"


def test_an_acceptance_ends_if_its_offsets_expire_in_a_stop(query: Query) -> None:
    accept(query, "B", "A", id="x1")
    query.log(None)
    query.now_ms += RETENTION_MS + 1
    assert query.log("A") == "A", "this plan expires the offsets, and starts the cluster as new"
    with pytest.raises(RevisionRejectedError, match=r"saved Kafka cluster\.id A,"):
        query.plan("B")


@pytest.mark.parametrize(("retention", "void"), [("0", {"east": "x1"}), ("1000", {})], ids=["dropped", "parked"])
def test_an_acceptance_holds_while_any_offset_is_kept(query: Query, retention: str, void: dict[str, str]) -> None:
    accept(query, "B", "A", id="x1")
    answer = ClusterObservation({"u": TopicObservation({0: 9}, {0: 0})}, "A")
    clusters = {"east": SubscribedCluster({"u": "s"}, {})}
    given = plan_input(query.logged, clusters, {"east": answer}, options={"removedClusterRetention": retention})
    assert run_steps(plan_batch(given), query.answer).plan.document.used_acceptances == void


def test_a_plan_asks_for_the_acceptances_once(query: Query) -> None:
    # Given a cluster that is another one, and then starts as new
    accept(query, "B", "A", id="x1")
    query.asked = 0
    assert query.log("B") == "B"
    assert (query.asked, query.logged.used_acceptances) == (1, {"east": "x1"})


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "without an id"])
def test_no_new_id_opens_what_is_accepted_for_another(query: Query, silent: bool) -> None:
    # Given an accepted cluster that does not answer now, or does not show which one it is
    accept(query, "B", "A", id="x1")
    topics = {"t": TopicObservation({0: 9}, {0: 0})}
    answers = {"west": ClusterObservation(topics, "B")}
    if not silent:
        answers["east"] = ClusterObservation(topics, None)
    given = plan_input(query.logged, {"east": EAST, "west": EAST}, answers)
    with pytest.raises(RevisionRejectedError, match=r"'east' and 'west' are one .*\(B\)"):
        run_steps(plan_batch(given), query.answer)


def test_a_damaged_acceptance_is_named_when_a_cluster_is_new(query: Query) -> None:
    query.state.write("q/accepted/000001-data-loss.json", {"kind": "data-loss", "cluster": "east"})
    assert query.log("A") == "A", "a plan without a new cluster reads no acceptance"
    query.expire()
    with pytest.raises(OffsetDocumentError, match=r"q/accepted/000001-data-loss\.json is damaged.*restore"):
        query.plan("A")


def test_a_restored_checkpoint_may_use_an_acceptance_again(query: Query) -> None:
    backup = query.logged
    accept(query, "B", "A", id="x1")
    query.log("B")
    query.logged = backup
    assert query.log("B") == "B"
