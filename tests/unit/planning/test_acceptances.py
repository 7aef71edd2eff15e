"""Acceptances in plans: each covers the loss that the user saw, and no later one of the same split."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.metadata import SubscribedCluster
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedCluster, TopicProgress
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import AcceptedLossesQuestion, EpochEndsQuestion, Question, run_steps
from dynamic_kafka.planning.splits import Split
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input

SPLIT = Split("east", "t", 0)
READ_AGAIN = TopicProgress("s", {0: 1000}, topic_id="T", epochs={0: 4})
"""A user accepted that the log was cut off at 500; the split has reached offset 1000 again, in the next epoch."""


def accepted_at(document: int, epoch: int | None) -> AcceptedLoss:
    return AcceptedLoss(1000, "T", 500, document, epoch, "truncated")


def starts_after_a_cut(logged: OffsetDocument, acceptance: AcceptedLoss, **named: Any) -> dict[int, int]:
    """Plan after `east` was cut off at 700, in epoch 5, and return the starts of the split."""

    def answer(question: Question) -> Any:
        if isinstance(question, AcceptedLossesQuestion):
            return {SPLIT: acceptance}
        if isinstance(question, EpochEndsQuestion):
            return {split: min(700, check.end) for split, check in question.checks.items()}
        return all_logs_begin_at_zero(question)

    clusters = {"east": SubscribedCluster({"t": "s"}, {}, **named)}
    seen = {"east": ClusterObservation({"t": TopicObservation({0: 1200}, {}, {0: 5}, "T")}, "K")}
    planned = run_steps(plan_batch(plan_input(logged, clusters, seen)), answer)
    topic = planned.plan.document.topic("east", "t")
    assert topic is not None
    return dict(topic.starts)


ACTIVE = OffsetDocument("q", 50, "p", clusters={"east": ClusterProgress({"t": READ_AGAIN}, "K")})
PARKED = OffsetDocument("q", 50, "p", parked={"east": ParkedCluster({"t": READ_AGAIN.parked(10**9)}, "K")})
RENAMED = OffsetDocument("q", 50, "p", clusters={"old": ClusterProgress({"t": READ_AGAIN}, "K")})


@pytest.mark.parametrize("acceptance", [accepted_at(7, 3), accepted_at(7, None)], ids=["epoch", "no epoch"])
@pytest.mark.parametrize(
    ("logged", "named"),
    [(ACTIVE, {}), (PARKED, {}), (RENAMED, {"renamed_from": "old"})],
    ids=["active", "parked", "renamed"],
)
def test_a_second_truncation_needs_an_acceptance_of_its_own(
    logged: OffsetDocument, named: dict[str, Any], acceptance: AcceptedLoss
) -> None:
    with pytest.raises(DataLossError, match="the log was truncated at 700"):
        starts_after_a_cut(logged, acceptance, **named)


@pytest.mark.parametrize("logged", [ACTIVE, PARKED], ids=["active", "parked"])
def test_an_accepted_truncation_outlasts_documents(logged: OffsetDocument) -> None:
    # Other clusters were read since document 7, while this one did not answer
    assert starts_after_a_cut(logged, accepted_at(7, 4)) == {0: 500}
