"""Checks before a plan opens splits: the saved clusters answer, and the named topics exist."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.driver.status import PlanStatus
from dynamic_kafka.errors import ClusterError
from dynamic_kafka.metadata import LATEST, OffsetSpec, SubscribedCluster
from dynamic_kafka.options import SourceOptions, parse_options
from dynamic_kafka.planning.advance import Limits
from dynamic_kafka.planning.checks import (
    RevisionRejectedError,
    check_clusters,
    check_homes,
    check_topics,
    missing_id_warnings,
)
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import run_steps
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input

GIVEN = {"streamIds": "orders", "metadataPath": "streams.yaml"}
OPTIONS = parse_options(GIVEN, mode="streaming")
EARLIEST = parse_options(GIVEN | {"startingOffsets": "earliest"}, mode="streaming")
BOUNDED = parse_options(GIVEN | {"endingOffsets": "latest"}, mode="streaming")
SAVED = OffsetDocument("q", 3, "p", clusters={"east": ClusterProgress({"t": TopicProgress("orders", {0: 5})}, "Mk")})


def check(given: PlanInput) -> OffsetDocument:
    """Return the progress that passes the checks."""
    passed: OffsetDocument = run_steps(check_clusters(given, given.logged), all_logs_begin_at_zero)[0]
    check_topics(given, given.logged, given.observation.answers)
    return passed


def with_id(kafka_id: str | None) -> PlanInput:
    """Return the input of a plan on a cluster `east` that reports this `cluster.id`."""
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, kafka_id)
    return plan_input(SAVED, {"east": SubscribedCluster({"t": "orders"}, {})}, {"east": answer})


def test_a_cluster_that_reports_no_id_causes_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    status = PlanStatus()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert check(with_id(None)) is SAVED
            status.warn(missing_id_warnings(with_id(None)))
    assert [record.message for record in caplog.records] == [
        "cluster 'east' reports no cluster.id: nothing shows that it is still the same cluster"
    ]


def test_a_cluster_that_reports_its_saved_id_causes_no_warning() -> None:
    assert check(with_id("Mk")) is SAVED
    assert not missing_id_warnings(with_id("Mk"))


def undescribed(options: SourceOptions, logged: OffsetDocument, *, stops: bool = False) -> PlanInput:
    """Return the input of a plan on a cluster `east` that lists the topics `t` and `u`, and describes only `t`."""
    stopping = OffsetSpec("latest") if stops else None
    east = SubscribedCluster({"t": "orders", "u": "orders"}, {}, stopping_offsets=stopping)
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset())
    return replace(plan_input(logged, {"east": east}, {"east": answer}), options=options, read_before=frozenset())


@pytest.mark.parametrize(("options", "stops"), [(BOUNDED, False), (OPTIONS, True)], ids=["by option", "by metadata"])
def test_a_bounded_run_does_not_begin_without_a_listed_topic(options: SourceOptions, stops: bool) -> None:
    # It finds nothing after its first plan: it would silently leave the topic out
    with pytest.raises(ClusterError, match=r"\[CLUSTER_ERROR cluster=east\].*'u'.*not describe it") as refused:
        check(undescribed(options, OffsetDocument(), stops=stops))
    assert "Start again in a moment" in str(refused.value)


def test_a_first_plan_that_starts_elsewhere_needs_each_topic() -> None:
    # A later plan would start the topic at its first record
    with pytest.raises(ClusterError, match=r"cluster=east\].*'u'.*its first record"):
        check(undescribed(OPTIONS, OffsetDocument()))


@pytest.mark.parametrize(
    ("options", "logged"),
    [(EARLIEST, OffsetDocument()), (OPTIONS, SAVED), (BOUNDED, SAVED)],
    ids=["from the start", "later", "bounded, later"],
)
def test_any_other_plan_leaves_such_a_topic_to_the_next(options: SourceOptions, logged: OffsetDocument) -> None:
    assert check(undescribed(options, logged)) is logged


@pytest.mark.parametrize("named", [True, False])
def test_a_missing_topic_rejects_only_metadata_that_name_it(named: bool) -> None:
    topics = {"t": "orders", **({"typo": "orders"} if named else {})}
    # The cluster answered a question from when metadata named the topic.
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset({"typo"}))
    given = plan_input(SAVED, {"east": SubscribedCluster(topics, {})}, {"east": answer}, new_revision=True)
    if named:
        with pytest.raises(RevisionRejectedError, match="has no topic 'typo'"):
            check(given)
    else:
        assert check(given) is SAVED


@pytest.mark.parametrize("state", [{"draining": frozenset({"typo"})}, {"state": "Announced"}], ids=str)
def test_a_missing_topic_may_drain_or_be_announced(state: dict[str, Any]) -> None:
    # A mistyped name, taken back: the operator's document has it until it counts as drained
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset({"typo"}))
    east = SubscribedCluster({"t": "orders", "typo": "orders"}, {}, **state)
    assert check(plan_input(SAVED, {"east": east}, {"east": answer}, new_revision=True)) is SAVED


def test_a_run_that_ends_by_itself_misses_no_announced_topic() -> None:
    answer = ClusterObservation({"t": TopicObservation({0: 9})}, "Mk", missing=frozenset({"late"}))
    east = SubscribedCluster({"t": "orders", "late": "orders"}, {}, state="Announced")
    stopping = replace(east, stopping_offsets=LATEST)
    for named, limits in ((east, Limits(targets={})), (stopping, Limits())):
        given = plan_input(SAVED, {"east": named}, {"east": answer}, new_revision=True)
        with pytest.raises(RevisionRejectedError, match="has no topic 'late'"):
            check(replace(given, limits=limits))


@pytest.mark.parametrize("option", ["deadLetters", "internalTopics"])
def test_metadata_without_the_home_are_rejected(option: str) -> None:
    own = {"deadLetters": {"topic": "dead"}, "internalTopics": {"topics": ["dead"], "written": ["dead"]}}[option]
    mode = {"deadLetters": {"mode": "deadletter", "value.format": "json", "value.schema": "a INT"}}.get(option, {})
    options = parse_options(GIVEN | mode | {option: json.dumps({**own, "cluster": "east"})}, mode="streaming")

    def given(name: str, renamed_from: str | None = None) -> PlanInput:
        named = SubscribedCluster({"t": "orders"}, {"bootstrap.servers": "e:1"}, renamed_from=renamed_from)
        return replace(plan_input(SAVED, {name: named}, {}), options=options)

    check_homes(given("east"))
    check_homes(given("central", renamed_from="east"))
    with pytest.raises(RevisionRejectedError, match=rf"option '{option}'.*no cluster 'east'.*central"):
        check_homes(given("central"))
