"""Plans of hand-made observations, whose questions are answered from those observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation, Observation
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import (
    AbsentTopicsQuestion,
    OffsetsQuestion,
    Question,
    run_steps,
)

OPTIONS = {
    "streamIds": "s",
    "metadataPath": "/streams.yaml",
    "startingOffsets": "earliest",
    "removedClusterRetention": "1000",
}


def plan_input(
    logged: OffsetDocument,
    clusters: Mapping[str, SubscribedCluster],
    answers: Mapping[str, ClusterObservation],
    *,
    progress: OffsetDocument | None = None,
    now_ms: int = 0,
    options: Mapping[str, str] | None = None,
    **more: Any,
) -> PlanInput:
    """Return the input of a plan after `logged`, on these clusters, with these answers."""
    return PlanInput(
        options=parse_options({**OPTIONS, **(options or {})}, mode="streaming"),
        logged=logged,
        progress=progress or logged.settled(),
        observation=Observation(Subscription(clusters, ("s",)), answers),
        now_ms=now_ms,
        limits=Limits(),
        new_query_id="q",
        read_before=frozenset(answers),
        **more,
    )


def all_logs_begin_at_zero(question: Question) -> Any:
    """Answer a plan's questions on clusters whose logs all begin at 0 and that lack what they do not list."""
    if isinstance(question, OffsetsQuestion):
        assert {query.kind for query in question.queries.values()} == {"earliest"}
        return dict.fromkeys(question.queries, 0)
    if isinstance(question, AbsentTopicsQuestion):
        return question.topics
    return {}


def plan(given: PlanInput) -> Planned:
    """Plan, with all logs beginning at 0."""
    return run_steps(plan_batch(given), all_logs_begin_at_zero)
