"""The end of a run that ends by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import plan_batch
from dynamic_kafka.planning.questions import AbsentTopicsQuestion, Question, run_steps
from dynamic_kafka.planning.splits import Split
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input


def progress(*, bounded: bool = False, stops: dict[int, int] | None = None, **following: int) -> OffsetDocument:
    """Return progress: the next offset of each cluster's only partition."""
    clusters = {
        name: ClusterProgress({"t": TopicProgress("s", {0: at}, stops=stops or {})}) for name, at in following.items()
    }
    return OffsetDocument("q", 3, "p", bounded=bounded, clusters=clusters)


def answers(**ends: int) -> dict[str, ClusterObservation]:
    return {name: ClusterObservation({"t": TopicObservation({0: end})}) for name, end in ends.items()}


def fixed(**ends: int) -> Targets:
    targets = Targets()
    targets.fix(answers(**ends))
    return targets


def unread(
    document: OffsetDocument, targets: Targets | None, answers: Mapping[str, ClusterObservation] | None = None
) -> set[str]:
    """Return the clusters with something to read; east has the topic t, and by default does not answer."""
    return set(still_to_read(document, {"east": ["t"]}, answers or {}, targets))


def test_a_clusters_ends_are_fixed_at_its_first_answer_in_a_run() -> None:
    targets = fixed(east=5)
    targets.fix(answers(east=9, west=7))
    assert targets.ends == {Split("east", "t", 0): 5, Split("west", "t", 0): 7}


def test_a_run_without_an_end_waits_for_no_cluster() -> None:
    assert unread(progress(east=0), None) == set()


@pytest.mark.parametrize(
    ("found", "targets", "wanted"),
    [
        (progress(east=5), fixed(east=5), set()),
        (progress(east=4), fixed(east=5), {"east"}),
        (progress(east=9), fixed(east=5), set()),
        (progress(east=0), fixed(east=0), set()),
        (progress(), fixed(east=0), {"east"}),  # it was seen and is not yet entered
        (progress(east=5), fixed(), {"east"}),  # it has not answered in this run: its ends are unknown
        (progress(), fixed(), {"east"}),
    ],
)
def test_a_run_of_available_now_is_over_at_its_ends(found: OffsetDocument, targets: Targets, wanted: set[str]) -> None:
    assert unread(found, targets) == wanted


@pytest.mark.parametrize(
    ("at", "targets", "wanted"),
    [
        (10, None, set()),
        (9, None, {"east"}),
        (10, fixed(), set()),
        (9, fixed(), {"east"}),
        (9, fixed(east=9), set()),  # the rest of it comes later
        (8, fixed(east=9), {"east"}),
    ],
)
def test_a_bounded_run_ends_at_its_stops_or_earlier_targets(at: int, targets: Targets | None, wanted: set[str]) -> None:
    assert unread(progress(bounded=True, stops={0: 10}, east=at), targets) == wanted


def test_a_bounded_run_ignores_clusters_found_after_its_start() -> None:
    document = progress(bounded=True, stops={0: 10}, east=10)
    assert still_to_read(document, {"east": ["t"], "new": ["t"]}, {}, None) == {}


NOT_DESCRIBED = {"east": ClusterObservation({})}


@pytest.mark.parametrize(
    ("found", "answer", "wanted"),
    [
        (progress(east=4), NOT_DESCRIBED, {"east"}),
        (progress(east=10), NOT_DESCRIBED, set()),
        (progress(east=4), {"east": ClusterObservation({}, missing=frozenset({"t"}))}, set()),
        (progress(east=4), answers(east=4), set()),  # the log became shorter, and the plan accepted that
        (progress(east=4), answers(east=12), {"east"}),
        (progress(east=4, stops={0: 4}), answers(east=12), set()),
    ],
    ids=["not described", "read before", "deleted", "shorter", "more to read", "stopped"],
)
def test_a_cluster_that_answers_is_compared_topic_by_topic(
    found: OffsetDocument, answer: Mapping[str, ClusterObservation], wanted: set[str]
) -> None:
    assert unread(found, fixed(east=10), answer) == wanted


def test_a_topic_never_described_in_a_run_is_still_to_read() -> None:
    assert unread(progress(east=4), Targets(), NOT_DESCRIBED) == {"east"}
    targets = Targets()
    targets.fix(NOT_DESCRIBED)
    targets.fix(answers(east=6))
    assert targets.ends == {Split("east", "t", 0): 6}


def described(*ends: int) -> dict[str, ClusterObservation]:
    """Return the answer of a broker that has these partitions of the topic."""
    return {"east": ClusterObservation({"t": TopicObservation(dict(enumerate(ends)), topic_id="T")})}


def test_a_partition_that_one_broker_lacks_is_still_to_read() -> None:
    topic = TopicProgress("s", {0: 5, 1: 2}, topic_id="T")
    document = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": topic})})
    # It was described when the run began, only later, or never in the run
    for answers in ([described(5, 9), described(5)], [described(5), described(5, 9)], [described(5), described(5)]):
        targets = Targets()
        for answer in answers:
            targets.fix(answer)
        assert unread(document, targets, answers[-1]) == {"east"}


def test_a_partition_that_is_no_longer_assigned_is_not_awaited() -> None:
    topic = TopicProgress("s", {0: 5, 1: 2}, topic_id="T")
    document = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": topic})})
    targets = Targets(assigned=True)
    targets.fix(described(5))
    assert unread(document, targets, described(5)) == set()


@pytest.mark.parametrize("following", [4, None], ids=["read before", "new"])
def test_a_topic_that_one_broker_lacks_is_still_to_read(following: int | None) -> None:
    # Given a run in which the last plan asks a broker that does not have the topic, while others do
    logged = progress(west=1, **({} if following is None else {"east": following}))
    wanted = {name: SubscribedCluster({"t": "s"}, {}) for name in ("east", "west")}
    missing = {**answers(west=1), "east": ClusterObservation({}, missing=frozenset({"t"}))}
    targets = fixed(east=10, west=1)
    given = replace(plan_input(logged, wanted, missing), limits=Limits(targets=targets.ends))

    def answer(question: Question) -> object:
        return frozenset() if isinstance(question, AbsentTopicsQuestion) else all_logs_begin_at_zero(question)

    planned = run_steps(plan_batch(given), answer)
    assert planned.plan.document is logged
    assert still_to_read(logged, {"east": ["t"]}, planned.answers, targets) == {"east": ["t"]}


def test_a_topic_re_created_in_a_run_is_left_to_the_next_run() -> None:
    old, new = (
        ClusterObservation({"t": TopicObservation({0: end}, topic_id=name)}) for end, name in ((9, "o"), (3, "n"))
    )
    targets = Targets()
    targets.fix({"east": old})
    topic = TopicProgress("s", {0: 3}, topic_id="n")
    document = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": topic})})
    assert unread(document, targets, {"east": new}) == set()
    assert unread(document, targets) == {"east"}
