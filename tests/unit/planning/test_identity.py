"""Offsets belong to one physical cluster."""

from __future__ import annotations

import pytest

from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedCluster
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity, identity_problems, saved_identity


def answer(kafka_id: str | None) -> ClusterObservation:
    return ClusterObservation({}, kafka_id)


SAVED = OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({}, "Mk")})
PARKED = OffsetDocument("q", 1, "p", parked={"east": ParkedCluster({}, "Mk")})


def test_the_same_cluster_behind_other_servers_goes_on() -> None:
    assert identity_problems(SAVED, {"east": answer("Mk")}, {}) == []


def test_another_cluster_is_a_problem_with_both_names_and_advice() -> None:
    (problem,) = identity_problems(SAVED, {"east": answer("Qx")}, {})
    assert problem.cluster == "east"
    assert "Mk" in problem.text
    assert "Qx" in problem.text
    assert "dynamic_kafka.app accept" in problem.text


def test_a_parked_cluster_back_as_another_one_is_a_problem() -> None:
    assert len(identity_problems(PARKED, {"east": answer("Qx")}, {})) == 1


def test_an_accepted_identity_is_none_but_only_that_one() -> None:
    assert identity_problems(SAVED, {"east": answer("Qx")}, {"east": AcceptedIdentity("Qx")}) == []
    assert len(identity_problems(SAVED, {"east": answer("Zz")}, {"east": AcceptedIdentity("Qx")})) == 1


def test_an_accepted_identity_replaces_only_one_saved_one() -> None:
    observed, wanted = {"east": answer("Qx")}, {"east"}
    assert identity_problems(SAVED, observed, {"east": AcceptedIdentity("Qx", "Mk")}) == []
    # Given an acceptance from when the id was still another cluster
    old = {"east": AcceptedIdentity("Qx", "Zz")}
    assert len(identity_problems(SAVED, observed, old)) == 1
    (problem,) = identity_problems(SAVED, {"west": answer("Mk")}, old, {*wanted, "west"})
    assert "'east' and 'west' are one and the same" in problem.text


def test_two_ids_for_one_cluster_would_read_everything_twice() -> None:
    (problem,) = identity_problems(OffsetDocument(), {"east": answer("Mk"), "ost": answer("Mk")}, {})
    assert "'east' and 'ost' are one and the same" in problem.text


def test_a_cluster_without_an_answer_keeps_its_identity() -> None:
    (problem,) = identity_problems(SAVED, {"west": answer("Mk")}, {}, {"east", "west"})
    assert "'east' and 'west' are one and the same" in problem.text


@pytest.mark.parametrize(("accepted", "found"), [({}, "Mk"), ({"east": AcceptedIdentity("Qx")}, "Qx")])
def test_a_cluster_that_shows_no_id_keeps_its_identity(accepted: dict[str, AcceptedIdentity], found: str) -> None:
    observed = {"east": answer(None), "west": answer(found)}
    (problem,) = identity_problems(SAVED, observed, accepted, observed)
    assert "'east' and 'west' are one and the same" in problem.text


def test_a_cluster_that_metadata_names_no_more_owns_nothing() -> None:
    assert identity_problems(SAVED, {"west": answer("Mk")}, {}, {"west"}) == []


def test_a_parked_cluster_without_an_answer_keeps_its_identity() -> None:
    (problem,) = identity_problems(PARKED, {"west": answer("Mk")}, {}, {"east", "west"})
    assert "'east' and 'west' are one and the same" in problem.text
    assert identity_problems(PARKED, {"west": answer("Mk")}, {}, {"west"}) == []


def test_an_accepted_cluster_keeps_its_accepted_identity() -> None:
    accepted, wanted = {"east": AcceptedIdentity("Qx")}, {"east", "west"}
    assert identity_problems(SAVED, {"west": answer("Mk")}, accepted, wanted) == []
    assert len(identity_problems(SAVED, {"west": answer("Qx")}, accepted, wanted)) == 1


def test_a_broker_that_tells_no_id_is_let_pass() -> None:
    assert identity_problems(SAVED, {"east": answer(None), "west": answer(None)}, {}) == []


def test_the_active_identity_counts_before_the_parked_one() -> None:
    both = OffsetDocument(
        clusters={"east": ClusterProgress({}, "Mk")}, parked={"east": ParkedCluster({}, "Qx"), "w": ParkedCluster({})}
    )
    assert saved_identity(both, "east") == "Mk"
    assert saved_identity(PARKED, "east") == "Mk"
    assert saved_identity(both, "w") is None
