"""Checks before a plan opens any split: its clusters are the saved ones, and its topics exist.

Pure; `planning.plan` runs them once a plan. A cluster or topic that does not fit is refused before a record is read,
and an acceptance that was used, or whose offsets have expired, is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dynamic_kafka.errors import ClusterError, DynamicKafkaError, IdentityError, MissingSourceTopicError, OptionError
from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import AcceptedIdentitiesQuestion, HomeIdQuestion, Steps
from dynamic_kafka.planning.reconcile import Reconciled, forget
from dynamic_kafka.planning.sameness.identity import (
    AcceptedIdentity,
    identity_problems,
    is_another,
    saved_identity,
    unconfirmed,
)
from dynamic_kafka.planning.starting import is_bounded, starts_elsewhere

Accepted = Mapping[str, AcceptedIdentity]
"""A user's acceptances of other clusters, by cluster id."""


class RevisionRejectedError(Exception):
    """Metadata that contradicts what is saved, or that cannot be used here. `error` is the reason.

    The caller decides whether that ends the query: if the metadata is new, the last good revision stays in force.
    """

    def __init__(self, error: DynamicKafkaError) -> None:
        super().__init__(str(error))
        self.error = error


def check_clusters(given: PlanInput, progress: OffsetDocument) -> Steps[tuple[OffsetDocument, Accepted | None]]:
    """Refuse clusters other than the saved ones.

    Args:
        progress: saved progress, renames applied.

    Returns:
        1. The progress without that of clusters whose new identity a user accepted. It names these acceptances, which
           are void from then on: Spark logs both at once, so that a crash never separates them.
        2. The acceptances, None if it did not ask for them.

    Raises:
        RevisionRejectedError: a cluster is not the saved one.
    """
    answers, clusters = given.observation.answers, given.observation.subscription.clusters
    accepted: Accepted | None = None
    problems = identity_problems(progress, answers, {}, clusters)
    opened = {cluster for cluster, answer in answers.items() if answer.topics and cluster not in progress.clusters}
    # No id may open a cluster that a user accepted for one that is silent, or shows no `cluster.id`.
    if problems or (opened and unconfirmed(clusters, answers)):
        accepted = yield AcceptedIdentitiesQuestion(progress)
        problems = identity_problems(progress, answers, accepted or {}, clusters)
    if problems:
        raise RevisionRejectedError(IdentityError("; ".join(problem.text for problem in problems)))
    swapped = {
        cluster
        for cluster in answers.keys() & (accepted or {}).keys()
        # A user cannot have accepted a cluster that reports no id: it keeps its progress.
        if is_another(saved_identity(progress, cluster), answers[cluster].kafka_id)
    }
    return (_voided(accepted, swapped, forget(progress, swapped)) if accepted and swapped else progress), accepted


def check_topics(given: PlanInput, progress: OffsetDocument, answers: Mapping[str, ClusterObservation]) -> None:
    """Refuse topics that do not exist.

    Args:
        progress: as for `check_clusters`.
        answers: those of the observation, without topics about whose ids the brokers do not agree.

    Raises:
        RevisionRejectedError: a topic that metadata names does not exist.
        ClusterError: a first plan that must not miss a topic found one without a description.
    """
    for cluster in given.observation.answers:
        _check_topics(given, progress, cluster, answers[cluster])


def check_homes(given: PlanInput) -> None:
    """Refuse metadata without the home of the application's own topics: nothing could be written there any more.

    Raises:
        RevisionRejectedError: they name it no longer.
    """
    homes = {"deadLetters": given.options.dead_letters, "internalTopics": given.options.own_topics}
    for option, home in homes.items():
        if home is not None and home.cluster is not None:
            try:
                given.observation.subscription.present_home(home.cluster, f"option {option!r}")
            except OptionError as error:
                raise RevisionRejectedError(error) from None


def refuse_own_topics(given: PlanInput) -> Steps[None]:
    """Refuse topics that the application writes itself: each batch would make records for the next one.

    Raises:
        RevisionRejectedError: metadata names such a topic on its home cluster.
    """
    own, answers = given.options.own_topics, given.observation.answers
    clusters = given.observation.subscription.clusters
    own = own.at_home_in(given.observation.subscription) if own is not None else None
    named = {cluster: own.written & clusters[cluster].topics.keys() for cluster in answers} if own is not None else {}
    if own is None or not any(named.values()):
        return
    home_id = own.kafka_id
    if home_id is None and own.cluster is None:
        home_id = yield HomeIdQuestion()
    try:
        for cluster, topics in named.items():
            own.refuse(cluster, topics, answers[cluster].kafka_id, lambda: home_id)
    except OptionError as error:
        raise RevisionRejectedError(error) from None


def void_acceptances(reconciled: Reconciled, accepted: Accepted | None) -> Steps[Reconciled]:
    """Void acceptances that are left for clusters without any offsets, once these start as new.

    A user made such an acceptance for offsets that have expired since, perhaps in this very plan.

    Args:
        accepted: the acceptances, None if this plan has not asked for them.
    """
    document = reconciled.document
    new = {cluster for cluster in {split.cluster for split in reconciled.new} if not _has_offsets(document, cluster)}
    if not new:
        return reconciled
    if accepted is None:
        accepted = yield AcceptedIdentitiesQuestion(document)
    left = new & accepted.keys()
    return replace(reconciled, document=_voided(accepted, left, document)) if left else reconciled


def missing_id_warnings(given: PlanInput) -> dict[tuple[str, ...], str | None]:
    """Return a warning for each cluster that reports no `cluster.id`, by a key that names it."""
    text = "reports no cluster.id: nothing shows that it is still the same cluster"
    without_id = [cluster for cluster, answer in given.observation.answers.items() if answer.kafka_id is None]
    return {("no-id", cluster): f"cluster {cluster!r} {text}" for cluster in without_id}


def _voided(accepted: Accepted, void: set[str], progress: OffsetDocument) -> OffsetDocument:
    ids = {cluster: accepted[cluster].id for cluster in void}
    return replace(progress, used_acceptances={**progress.used_acceptances, **ids})


def _has_offsets(document: OffsetDocument, cluster: str) -> bool:
    active = document.clusters.get(cluster)
    return cluster in document.parked or (active is not None and any(topic.next for topic in active.topics.values()))


def _check_topics(given: PlanInput, progress: OffsetDocument, cluster: str, answer: ClusterObservation) -> None:
    wanted = given.observation.subscription.clusters[cluster]
    parked = progress.parked[cluster].topics if cluster in progress.parked else {}
    # A slow cluster may have answered an earlier question: only topics that metadata still name count. A topic that
    # drains has nothing to read if it was never there: a mistyped name, taken back, must not hold the next revision.
    absent = [
        topic
        for topic in (answer.missing & wanted.topics.keys()) - wanted.draining
        if progress.topic(cluster, topic) is None and topic not in parked
    ]
    if absent and (cluster not in given.read_before or given.new_revision) and not _may_come(given, wanted):
        raise RevisionRejectedError(MissingSourceTopicError.of(cluster, absent))
    undescribed = sorted(set(wanted.topics) - answer.topics.keys() - answer.missing)
    if undescribed and given.logged.is_initial:
        _refuse_undescribed(given, cluster, undescribed[0])


def _may_come(given: PlanInput, cluster: SubscribedCluster) -> bool:
    """Return whether a cluster was announced before it has its topics. A run that ends by itself would miss them."""
    ends = given.limits.targets is not None or is_bounded(given.options, given.observation.subscription)
    return cluster.state == "Announced" and not ends


def _refuse_undescribed(given: PlanInput, cluster: str, topic: str) -> None:
    """Refuse a first plan that must not miss a topic. It does not wait: the user starts the query again."""
    options, subscription = given.options, given.observation.subscription
    if is_bounded(options, subscription):
        why = "a bounded run finds all its topics in its first plan, so it would leave this one out"
    elif starts_elsewhere(options, subscription, cluster):
        why = "a later plan would read it from its first record, not from where this query starts"
    else:
        return
    text = f"lists the topic {topic!r} but does not describe it (it is being created or moved): {why}"
    raise ClusterError(cluster, f"{text}. Start again in a moment")
