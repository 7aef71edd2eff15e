"""Topic integrity in a plan: which changed topics end the query, which are accepted, and which no longer matter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.errors import ClusterError, DataLossError, TopicIntegrityError
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import ranges_between
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import AcceptedTopicsQuestion, DisputedIdsQuestion, Question, run_steps
from dynamic_kafka.planning.sameness.integrity import TopicChange, changes_of, integrity_error, standing
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.planning.plans import all_logs_begin_at_zero, plan, plan_input

SPLIT = Split("east", "t", 0)
OLD, NEW = "9tQ/vI2NQ+mPHLbQyJ0jXA", "AbCdEfGhIjKlMnOpQrStUQ"
OLD_SHOWN = "9tQ_vI2NQ-mPHLbQyJ0jXA"
CHECK = {"topicIntegrityCheck": "true"}
TOLERANT = {"failOnDataLoss": "false"}
RECREATED, DELETED = TopicChange("east", "t", OLD, NEW), TopicChange("east", "t", OLD, "")


def saved(topic_id: str | None = OLD, **more: Any) -> OffsetDocument:
    topic = TopicProgress("s", {0: 4}, topic_id=topic_id, **more)
    return OffsetDocument("q", 1, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


def seen(topic_id: str | None, partitions: int = 1) -> ClusterObservation:
    ends = dict.fromkeys(range(partitions), 12)
    return ClusterObservation({"t": TopicObservation(ends, dict.fromkeys(ends, 0), topic_id=topic_id)}, "Mk")


MISSING = ClusterObservation({}, "Mk", frozenset({"t"}))


def given(
    answer: ClusterObservation,
    logged: OffsetDocument | None = None,
    *,
    pin: str | None = None,
    options: dict[str, str] | None = None,
    **more: Any,
) -> PlanInput:
    east = SubscribedCluster({"t": "s"}, {}, topic_ids={} if pin is None else {"t": pin})
    return plan_input(logged or saved(), {"east": east}, {"east": answer}, options=options or {}, **more)


def failure(given: PlanInput) -> str:
    with pytest.raises(TopicIntegrityError) as failed:
        plan(given)
    return str(failed.value)


# -- outcomes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [CHECK, CHECK | TOLERANT])
def test_a_recreated_topic_ends_the_query_with_both_ids(options: dict[str, str]) -> None:
    message = failure(given(seen(NEW), options=options))
    assert message.startswith(
        f"[TOPIC_CHANGED cluster=east topic=t id={OLD_SHOWN} now={NEW}] the topic was re-created. "
    )
    assert f"write `topicIds: {{t: {NEW}}}`" in message
    assert "accept app.yaml --topic east/t" in message


@pytest.mark.parametrize("options", [CHECK, CHECK | TOLERANT])
def test_a_deleted_topic_ends_the_query_as_missing(options: dict[str, str]) -> None:
    message = failure(given(MISSING, options=options))
    assert message.startswith(
        f"[TOPIC_CHANGED cluster=east topic=t id={OLD_SHOWN}] the topic is missing. To go on, take it out of"
    )
    assert message.endswith("If the cluster has it again with this id, start again")


def test_all_changed_topics_are_in_one_error() -> None:
    topics = {name: TopicProgress("s", {0: 4}, topic_id=OLD) for name in ("t", "u")}
    logged = OffsetDocument("q", 1, "", clusters={"east": ClusterProgress(topics, "Mk")})
    answer = ClusterObservation({"t": seen(NEW).topics["t"]}, "Mk", frozenset({"u"}))
    east = SubscribedCluster({"t": "s", "u": "s"}, {})
    with pytest.raises(TopicIntegrityError) as failed:
        plan(plan_input(logged, {"east": east}, {"east": answer}, options=CHECK))
    assert changes_of(failed.value) == (RECREATED, TopicChange("east", "u", OLD, ""))
    assert changes_of(TopicIntegrityError("a text of the JVM")) == ()


def test_a_listed_topic_that_is_not_described_is_no_failure() -> None:
    logged = saved()
    planned = plan(given(ClusterObservation({}, "Mk"), logged, options=CHECK))
    assert planned.plan.document is logged


def test_a_topic_that_only_one_broker_lacks_is_no_failure() -> None:
    def nothing_is_absent(question: Question) -> Any:
        return frozenset()

    run_steps(plan_batch(given(MISSING, options=CHECK)), nothing_is_absent)


def test_the_same_topic_is_no_failure_and_causes_no_question() -> None:
    def never(question: Question) -> Any:
        raise AssertionError(question)

    planned = run_steps(plan_batch(given(seen(OLD), options=CHECK)), never)
    assert ranges_between(saved(), planned.plan.document) == [SplitRange(SPLIT, 4, 12)]


def test_without_the_option_a_recreated_topic_is_a_data_loss() -> None:
    with pytest.raises(DataLossError):
        plan(given(seen(NEW)))
    assert plan(given(seen(NEW), options=TOLERANT)).plan.document.next_of(SPLIT) == 12


@pytest.mark.parametrize(("options", "pin"), [(CHECK, None), ({}, NEW)])
def test_a_broker_without_ids_is_warned_about_and_skipped(options: dict[str, str], pin: str | None) -> None:
    planned = plan(given(seen(None), pin=pin, options=options))
    assert planned.plan.document.next_of(SPLIT) == 12
    assert "'east' reports no topic ids" in str(planned.warnings["no-topic-id", "east"])
    assert plan(given(seen(OLD), options=CHECK)).warnings["no-topic-id", "east"] is None
    assert plan(given(seen(None))).warnings["no-topic-id", "east"] is None


@pytest.mark.parametrize("ends", [{0: 4}, {0: 12}])
def test_a_document_without_ids_takes_the_present_ones(ends: dict[int, int]) -> None:
    # They are recorded even if there is nothing to read, and count from then on
    now = ClusterObservation({"t": TopicObservation(ends, {0: 0}, topic_id=OLD)}, "Mk")
    document = plan(given(now, saved(None), options=CHECK)).plan.document
    topic = document.topic("east", "t")
    assert topic is not None
    assert (topic.topic_id, topic.next) == (OLD, ends)
    assert "was re-created" in failure(given(seen(NEW), document, options=CHECK))


# -- pins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, CHECK, TOLERANT])
def test_a_pin_is_enforced_with_and_without_the_option(options: dict[str, str]) -> None:
    message = failure(given(seen(NEW), pin=OLD_SHOWN, options=options))
    assert message.startswith(
        f"[TOPIC_CHANGED cluster=east topic=t id={OLD_SHOWN} now={NEW}] the topic was re-created. "
    )
    assert "accept" not in message  # by other metadata only


@pytest.mark.parametrize("answer", [seen(NEW), MISSING])
def test_a_pin_holds_at_the_first_start(answer: ClusterObservation) -> None:
    with pytest.raises(TopicIntegrityError):
        plan(given(answer, OffsetDocument(), pin=OLD_SHOWN))


def test_a_pinned_topic_is_read_under_its_id() -> None:
    planned = plan(given(seen(OLD), OffsetDocument(), pin=OLD_SHOWN))
    assert planned.plan.document.next_of(SPLIT) == 12


def test_a_missing_topic_without_progress_and_pin_is_asked_for() -> None:
    with pytest.raises(RevisionRejectedError) as refused:
        plan(given(MISSING, OffsetDocument(), options=CHECK, new_revision=True))
    assert isinstance(refused.value.error, ClusterError)


def test_a_wrong_pin_of_new_metadata_only_rejects_them() -> None:
    with pytest.raises(RevisionRejectedError) as refused:
        plan(given(seen(OLD), pin=NEW, new_revision=True))
    assert isinstance(refused.value.error, TopicIntegrityError)


def test_new_metadata_do_not_hide_a_topic_that_did_change() -> None:
    # With the pin rejected, the query would end for this at once
    topics = {name: TopicProgress("s", {0: 4}, topic_id=OLD) for name in ("t", "u")}
    logged = OffsetDocument("q", 1, "", clusters={"east": ClusterProgress(topics, "Mk")})
    answer = ClusterObservation({name: seen(NEW).topics["t"] for name in ("t", "u")}, "Mk")
    east = SubscribedCluster({"t": "s", "u": "s"}, {}, topic_ids={"t": OLD_SHOWN})
    with pytest.raises(TopicIntegrityError) as failed:
        plan(plan_input(logged, {"east": east}, {"east": answer}, options=CHECK, new_revision=True))
    assert [change.pinned for change in changes_of(failed.value)] == [True, False]


# -- brokers that do not agree -----------------------------------------------------------------------------------------


def disputing(*topics: str) -> Any:
    """Answer a plan's questions when the brokers do not agree on the ids of these topics of `east`."""

    def answer(question: Question) -> Any:
        if isinstance(question, DisputedIdsQuestion):
            assert question.ids.keys() >= {("east", topic) for topic in topics}
            return frozenset(("east", topic) for topic in topics)
        return all_logs_begin_at_zero(question)

    return answer


@pytest.mark.parametrize("options", [CHECK, TOLERANT, {}])
def test_an_id_that_only_one_broker_has_changes_nothing(options: dict[str, str]) -> None:
    # Neither a verdict nor a loss: the topic is left for a later plan
    logged = saved()
    planned = run_steps(plan_batch(given(seen(NEW), logged, options=options)), disputing("t"))
    assert planned.plan.document is logged
    assert re.search(r"'east' do not agree.*ids of t:", str(planned.warnings["disputed-id", "east"]))
    assert plan(given(seen(OLD), logged, options=options)).warnings["disputed-id", "east"] is None


def test_a_pin_that_only_one_broker_contradicts_ends_nothing() -> None:
    logged = saved()
    planned = run_steps(plan_batch(given(seen(NEW), logged, pin=OLD_SHOWN)), disputing("t"))
    assert planned.plan.document is logged


def test_a_disputed_parked_topic_stays_parked() -> None:
    planned = run_steps(plan_batch(given(seen(NEW), parked(), options=CHECK)), disputing("t"))
    assert planned.plan.document.parked_topic("east", "t") is not None
    assert planned.plan.document.next_of(SPLIT) is None


def test_a_first_bounded_plan_leaves_no_disputed_topic_out() -> None:
    east = SubscribedCluster({"t": "s"}, {}, topic_ids={"t": OLD_SHOWN})
    bounded = {"endingOffsets": "latest"}
    first = plan_input(OffsetDocument(), {"east": east}, {"east": seen(NEW)}, options=bounded)
    with pytest.raises(ClusterError, match="would leave this one out"):
        run_steps(plan_batch(first), disputing("t"))


def test_a_fitting_pin_and_a_finished_topic_are_no_doubt() -> None:
    def never(question: Question) -> Any:
        assert not isinstance(question, DisputedIdsQuestion)
        return all_logs_begin_at_zero(question)

    assert run_steps(plan_batch(given(seen(NEW), pin=NEW)), never).plan.document.next_of(SPLIT) == 12
    finished = replace(saved(stops={0: 4}), bounded=True)
    run_steps(plan_batch(given(seen(NEW), finished, options=CHECK)), never)


# -- acceptance --------------------------------------------------------------------------------------------------------


def whole(planned: Planned, logged: OffsetDocument) -> list[SplitRange]:
    """Return the planned ranges, and check that the next plan changes nothing."""
    return ranges_between(logged, planned.plan.document)


@pytest.mark.parametrize("options", [{}, CHECK, CHECK | TOLERANT])
def test_naming_the_new_id_accepts_the_new_topic(options: dict[str, str]) -> None:
    # Neither the loss nor the topic needs another acceptance, and the new topic is read whole
    logged = saved(epochs={0: 9})
    planned = plan(given(seen(NEW, 2), logged, pin=NEW, options=options))
    assert whole(planned, logged) == [SplitRange(SPLIT, 0, 12), SplitRange(Split("east", "t", 1), 0, 12)]
    after = planned.plan.document
    assert plan(given(seen(NEW, 2), after, pin=NEW, options=options)).plan.document is after


def accepting(*accepted: TopicChange) -> Any:
    """Answer a plan's questions when a user accepted these changes."""

    def answer(question: Question) -> Any:
        return set(accepted) if isinstance(question, AcceptedTopicsQuestion) else all_logs_begin_at_zero(question)

    return answer


@pytest.mark.parametrize("options", [{}, CHECK])
def test_an_acceptance_of_the_tool_counts_for_that_change(options: dict[str, str]) -> None:
    logged = saved()
    planned = run_steps(plan_batch(given(seen(NEW), logged, options=options)), accepting(RECREATED))
    assert whole(planned, logged) == [SplitRange(SPLIT, 0, 12)]
    # A second re-creation is another change
    with pytest.raises((TopicIntegrityError, DataLossError)):
        run_steps(plan_batch(given(seen("third"), logged, options=options)), accepting(RECREATED))


def test_an_accepted_deletion_parks_the_topic() -> None:
    planned = run_steps(plan_batch(given(MISSING, options=CHECK)), accepting(DELETED))
    parked = planned.plan.document.parked_topic("east", "t")
    assert parked is not None
    assert (parked.progress.next, parked.missing) == ({0: 4}, True)
    # When the name is used again, the topic starts as new: nobody was reading it
    returned = plan(given(seen(NEW), planned.plan.document, options=CHECK))
    assert returned.plan.document.next_of(SPLIT) == 12


def test_the_tool_cannot_override_a_pin() -> None:
    with pytest.raises(TopicIntegrityError):
        run_steps(plan_batch(given(seen(NEW), pin=OLD_SHOWN)), accepting(RECREATED))


# -- topics that are not read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [seen(NEW), MISSING])
@pytest.mark.parametrize("pin", [None, OLD_SHOWN])
def test_a_topic_that_was_read_to_its_end_is_not_checked(answer: ClusterObservation, pin: str | None) -> None:
    logged = replace(saved(stops={0: 4}), bounded=True)
    planned = plan(given(answer, logged, pin=pin, options=CHECK))
    assert ranges_between(logged, planned.plan.document) == []
    assert planned.plan.document.finished


def test_a_further_partition_of_a_finished_topic_is_checked() -> None:
    # It would be read, although it is another topic's
    logged = replace(saved(stops={0: 4}), bounded=True)
    with pytest.raises(TopicIntegrityError):
        plan(given(seen(NEW, 2), logged, options=CHECK))


def ended_by_a_record() -> OffsetDocument:
    topic = TopicProgress("s", {0: 4}, topic_id=OLD, ended={0: 4})
    return OffsetDocument("q", 1, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


def test_a_split_that_would_begin_anew_is_checked() -> None:
    with pytest.raises(TopicIntegrityError, match="was re-created"):
        plan(given(seen(NEW), ended_by_a_record(), options=CHECK))


def test_a_topic_that_records_have_ended_may_be_deleted() -> None:
    assert plan(given(MISSING, ended_by_a_record(), options=CHECK)).changed == ()


def parked() -> OffsetDocument:
    topic = ParkedTopic(TopicProgress("s", {0: 4}, OLD), 900)
    return OffsetDocument("q", 1, "", parked={"east": ParkedCluster({"t": topic}, "Mk")})


def test_a_topic_recreated_while_parked_starts_as_new() -> None:
    assert plan(given(seen(NEW), parked(), options=CHECK)).plan.document.next_of(SPLIT) == 12


def test_a_pin_holds_for_a_topic_that_returns_from_parking() -> None:
    with pytest.raises(TopicIntegrityError):
        plan(given(seen(NEW), parked(), pin=OLD_SHOWN))


# -- subscribePattern --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [CHECK, CHECK | TOLERANT])
def test_a_deleted_topic_of_a_pattern_is_missing_even_if_read(options: dict[str, str]) -> None:
    pattern = {"kafka.bootstrap.servers": "e:1", "subscribePattern": "t.*", "startingOffsets": "earliest"}
    parsed = parse_options({**pattern, **options}, mode="streaming")
    assert parsed.single is not None
    name = parsed.single.cluster_id
    topic = TopicProgress("t", {0: 4}, topic_id=OLD)
    logged = OffsetDocument("q", 1, "", clusters={name: ClusterProgress({"t": topic}, "Mk")})
    unlisted = given(MISSING, logged, topic_ends={name: {"t": {0: 4}}})
    unlisted = replace(unlisted, options=parsed, observation=Observation(Subscription({}, ()), {}))
    with pytest.raises(TopicIntegrityError, match="is missing"):
        plan(unlisted)


# -- recorded verdicts -------------------------------------------------------------------------------------------------

PINNED = replace(RECREATED, pinned=True)


def stands(
    verdict: TopicChange, *, pin: str | None = None, accepted: tuple[TopicChange, ...] = (), read_as: str | None = OLD
) -> bool:
    east = SubscribedCluster({"t": "s"}, {}, topic_ids={} if pin is None else {"t": pin})
    return bool(standing([verdict], accepted, {"east": east}, saved(read_as)))


def test_a_verdict_stands_until_its_change_is_accepted() -> None:
    assert stands(RECREATED)
    assert stands(RECREATED, pin=OLD_SHOWN)
    assert not stands(RECREATED, pin=NEW)
    assert not stands(RECREATED, accepted=(RECREATED,))
    assert stands(RECREATED, accepted=(TopicChange("east", "t", "older", OLD), DELETED))
    # The topic may have been noticed as missing before it was there again
    assert not stands(DELETED, accepted=(RECREATED,))
    assert not stands(RECREATED, read_as=NEW)


def test_a_verdict_about_a_pin_stands_as_long_as_the_pin() -> None:
    assert stands(PINNED, pin=OLD_SHOWN)
    assert stands(PINNED, pin=OLD_SHOWN, accepted=(RECREATED,))
    assert not stands(PINNED)
    assert not stands(PINNED, pin=NEW)


def test_one_change_found_twice_ends_a_start_once() -> None:
    east = SubscribedCluster({"t": "s"}, {}, topic_ids={"t": OLD_SHOWN})
    assert standing([PINNED, RECREATED], (), {"east": east}, saved()) == [PINNED]


@pytest.mark.parametrize("change", [RECREATED, DELETED, PINNED])
def test_a_verdict_gives_the_same_words_again(change: TopicChange) -> None:
    read = TopicChange.from_wire(change.to_wire())
    assert read == change
    assert str(integrity_error([read])) == str(integrity_error([change]))
