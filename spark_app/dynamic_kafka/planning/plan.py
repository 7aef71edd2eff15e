"""One plan from end to end: the pure steps, in their order.

Runs on the driver for each batch, in the tool `plan`, and in the simulations of the tests, which so run the decisions
of the product. A plan does no I/O: it yields questions (`planning.questions`), and its caller answers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.advance import Plan, advance, forget_times, open_splits
from dynamic_kafka.planning.announced import announcement_notes, note_announced
from dynamic_kafka.planning.checks import check_clusters, check_homes, check_topics, refuse_own_topics, void_acceptances
from dynamic_kafka.planning.clock import NOT_ALIGNED, Aligned, align, standing, time_warnings
from dynamic_kafka.planning.clock_of_values import align_by_values
from dynamic_kafka.planning.document.progress import OffsetDocument, has_stop_records
from dynamic_kafka.planning.ending import all_stop_records_reached, awaited_before_the_end, goes_on
from dynamic_kafka.planning.losses.acceptance import LossOutcome, judge_losses
from dynamic_kafka.planning.losses.dataloss import DataLoss, epochs_to_check, find_data_loss
from dynamic_kafka.planning.observation import ClusterObservation, Note, observed_topic
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import EpochEndsQuestion, Steps
from dynamic_kafka.planning.reconcile import Reconciled, reconcile
from dynamic_kafka.planning.resolution import kept_stop_warnings, resolve_positions, with_explicit_ids
from dynamic_kafka.planning.sameness.cluster_renames import carry_over
from dynamic_kafka.planning.sameness.deleted_topics import confirm_absences, mark_deleted_topics
from dynamic_kafka.planning.sameness.identity import is_another
from dynamic_kafka.planning.sameness.integrity import TopicChange, check_integrity
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import is_bounded


@dataclass(frozen=True)
class Planned:
    """The outcome of `plan_batch`.

    Attributes:
        plan: the next document; it is `PlanInput.logged` itself when there is nothing to do.
        wanted, answers: the topics and the clusters' answers that the plan used, with absences and ids confirmed.
        reconciled: progress in line with metadata, and the splits that are new.
        opened: progress with new splits opened, before losses are skipped.
        losses: data losses; `refused` are those that no user accepted.
        warnings: {key: text} of conditions that last; None where a condition is over.
        changed: topics that would end the query for good, if the plan does not refuse losses.
        waits_for: why the query goes on although all its splits have reached their stop records.
        aligned: the clock and the goal of the batch, and how far it may read.
    """

    plan: Plan
    wanted: Mapping[str, SubscribedCluster]
    answers: Mapping[str, ClusterObservation]
    reconciled: Reconciled
    opened: OffsetDocument
    losses: tuple[DataLoss, ...]
    refused: tuple[DataLoss, ...]
    notes: tuple[Note, ...]
    warnings: Mapping[tuple[str, ...], str | None]
    changed: tuple[TopicChange, ...] = ()
    waits_for: str = ""
    aligned: Aligned = NOT_ALIGNED


def plan_batch(given: PlanInput) -> Steps[Planned]:
    """Plan the next batch of a query.

    Raises:
        RevisionRejectedError: metadata does not fit the saved clusters, names a topic that does not exist or one of the
            application's own, or has lost the home of these.
        TopicIntegrityError: a topic that is checked was deleted or re-created, and no user accepted that.
        DataLossError: records are gone, and no user accepted that.
        ClusterError, OptionError: a first plan cannot start as the options ask.
    """
    logged = given.logged
    if logged.over:
        return _nothing_more(given)
    check_homes(given)
    wanted, answers = yield from mark_deleted_topics(given)
    progress, renamed = carry_over(given.progress, wanted, answers)
    # A run that ends by itself takes a missing topic for one that is read.
    answers = yield from confirm_absences(progress, wanted, answers, every=given.limits.targets is not None)
    saved = progress
    progress, accepted = yield from check_clusters(given, progress)
    integrity = yield from check_integrity(given, progress, wanted, answers)
    answers = integrity.answers
    check_topics(given, saved, answers)
    yield from refuse_own_topics(given)
    reconciled = reconcile(
        progress, wanted, answers, now_ms=given.now_ms, retention_ms=given.options.removed_cluster_retention_ms
    )
    if logged.bounded:
        # A bounded run reads what it found in its first plan, even if that has changed since.
        kept = {split: new for split, new in reconciled.new.items() if _had_topic(progress, split, new, answers)}
        reconciled = replace(reconciled, new=kept)
    elif logged.is_initial:
        bounded = is_bounded(given.options, given.observation.subscription)
        reconciled = replace(reconciled, document=replace(reconciled.document, bounded=bounded))
    reconciled = yield from void_acceptances(reconciled, accepted)
    starts, stops = yield from resolve_positions(given, reconciled)
    opened = with_explicit_ids(given, progress, open_splits(reconciled.document, starts, stops, answers))
    doubtful = epochs_to_check(opened, answers)
    epoch_ends = (yield EpochEndsQuestion(doubtful)) if doubtful else {}
    losses = find_data_loss(opened, answers, before=progress, epoch_ends=epoch_ends)
    outcome = LossOutcome(opened)
    if losses:
        outcome = yield from judge_losses(given, opened, losses, integrity.accepted)
    ready = outcome.document
    if any(loss.recreated for loss in outcome.losses):
        # The stops of a re-created topic went with the old one: the same rules apply to the new topic.
        _, stops = yield from resolve_positions(given, replace(reconciled, document=ready, new={}))
        ready = open_splits(ready, {}, stops, answers)
    waits_for = ""
    if (given.options.record_evaluator is not None or has_stop_records(ready)) and all_stop_records_reached(ready):
        # A broker with old metadata lacks a topic that is new. The query would end for ever without it.
        confirmed = yield from confirm_absences(progress, wanted, answers, every=True)
        waits_for = awaited_before_the_end(given, ready, wanted, confirmed)
        ready = replace(ready, over=not waits_for)
    by_value = given.options.timestamp_assigner is not None
    if by_value != (logged.by_value is not None):
        ready = replace(ready, clock_ms=None)  # it was a clock of other times
    ready = _with_announced(given, ready, wanted)
    aligned = yield from _aligned(given, ready, answers)
    plan = advance(
        logged,
        forget_times(ready, aligned.forgotten),
        observed=answers,
        limits=given.limits,
        query=given.new_query_id,
        state=given.state,
        room=aligned.room,
        drift_ms=given.options.alignment_max_drift_ms if by_value and not ready.over else None,
        clock_ms=aligned.clock_ms,
        goal_ms=aligned.goal_ms,
    )
    return Planned(
        plan=plan,
        wanted=wanted,
        answers=answers,
        reconciled=reconciled,
        opened=opened,
        losses=outcome.losses,
        refused=outcome.refused,
        notes=(*renamed, *outcome.notes, *reconciled.notes, *announcement_notes(saved, plan.document)),
        warnings={
            **kept_stop_warnings(given, reconciled.document),
            **integrity.warnings,
            **goes_on(waits_for),
            **time_warnings(aligned),
        },
        changed=integrity.refused,
        waits_for=waits_for,
        aligned=aligned,
    )


def _with_announced(given: PlanInput, ready: OffsetDocument, wanted: Mapping[str, SubscribedCluster]) -> OffsetDocument:
    options = given.options
    if given.limits.targets is not None or ready.bounded:
        return ready  # no cluster joins a run that ends by itself
    named = wanted if options.alignment_max_drift_ms is not None else {}
    return note_announced(
        ready,
        named,
        now_ms=given.now_ms,
        timeout_ms=options.announced_timeout_ms,
        keeps_all=bool(named and given.incomplete_metadata),
    )


def _aligned(given: PlanInput, ready: OffsetDocument, answers: Mapping[str, ClusterObservation]) -> Steps[Aligned]:
    options, memory, now_ms, limits = given.options, given.alignment, given.now_ms, given.limits
    drift_ms = options.alignment_max_drift_ms
    if drift_ms is None:
        return NOT_ALIGNED
    stand = standing(ready, answers, memory, idle_ms=options.idle_timeout_ms, now_ms=now_ms, targets=limits.targets)
    if options.timestamp_assigner is not None:
        return align_by_values(ready, stand, memory, drift_ms=drift_ms, now_ms=now_ms)
    return (yield from align(ready, stand, memory, drift_ms=drift_ms, now_ms=now_ms, limits=limits))


def _nothing_more(given: PlanInput) -> Planned:
    """Return the plan of a query that is over: whatever metadata names, it reads nothing any more."""
    subscription, answers = given.observation.subscription, given.observation.answers
    reconciled = Reconciled(given.progress, frozenset(), {}, ())
    return Planned(Plan(given.logged), subscription.clusters, answers, reconciled, given.progress, (), (), (), {})


def _had_topic(
    progress: OffsetDocument, split: Split, new_topic: bool, answers: Mapping[str, ClusterObservation]
) -> bool:
    """Return whether a new split belongs to a topic that the query had, and that starts as new.

    Such a topic was parked past its retention, or was re-created, with any number of partitions.
    """
    if progress.parked_topic(split.cluster, split.topic) is not None:
        return new_topic
    topic, seen = progress.topic(split.cluster, split.topic), observed_topic(answers, split.cluster, split.topic)
    return topic is not None and seen is not None and is_another(topic.topic_id, seen.topic_id)
