"""Answers to the questions of one plan, from the clusters and from the query's state location.

Driver; the enumerator and the tool `plan` call it while `planning.plan` plans, and a start about verdicts. It writes
nothing. It decides only which splits `HighWatermarksQuestion` answers: those of clusters that are read with
`read_committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from dynamic_kafka.driver.cluster_clients import ClusterProbes
from dynamic_kafka.driver.home_servers import home_id_of
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.kafka.disputed_ids import disputed_ids
from dynamic_kafka.kafka.offset_queries import answer_queries
from dynamic_kafka.kafka.probe import LATEST, ClusterProbe
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.questions import (
    AbsentTopicsQuestion,
    AcceptedIdentitiesQuestion,
    AcceptedLossesQuestion,
    AcceptedTopicsQuestion,
    DisputedIdsQuestion,
    EpochEndsQuestion,
    HighWatermarksQuestion,
    HomeIdQuestion,
    OffsetsQuestion,
    Question,
    RecordTimesQuestion,
    Topics,
)
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import saved_changes

V = TypeVar("V")


def answer_question(  # noqa: PLR0911  # one for each kind of question
    question: Question, *, probes: Mapping[str, ClusterProbe], state: StateLocation | None, options: SourceOptions
) -> Any:
    """Return the answer that `question` describes. May wait for clusters, all at once.

    Args:
        probes: the connections, by cluster id.
        state: None without a `stateLocation`: a user cannot have accepted anything.
        options: their `kafka.group.id` has the commits that count as `committed` offsets.

    Raises:
        ClusterError: a cluster did not answer.
        OptionError: an offset that the options demand does not exist.
        SecretError: a secret of a cluster that metadata no longer names does not resolve.
    """
    match question:
        case AcceptedIdentitiesQuestion() | AcceptedLossesQuestion() | AcceptedTopicsQuestion():
            return _accepted(question, state) if state is not None else {}
        case OffsetsQuestion(queries, ends):
            return answer_queries(probes, queries, options.group_id, ends)
        case HighWatermarksQuestion(splits, new):
            return _high_watermarks(probes, splits, new)
        case AbsentTopicsQuestion() | DisputedIdsQuestion():
            return _confirmed(probes, question, options)
        case EpochEndsQuestion(checks):
            return _by_split(probes, checks, ClusterAdmin.epoch_ends)
        case HomeIdQuestion():
            return home_id_of(options)
        case RecordTimesQuestion(since_ms):
            return _by_split(probes, since_ms, ClusterAdmin.record_times)


def topics_with_ids(options: SourceOptions, ids: Mapping[tuple[str, str], str], subscription: Subscription) -> Topics:
    """Return those of {(cluster id, topic): id} that have this id now, as several brokers confirm.

    It asks with clients of its own, before a query starts. Raises as `answer_question`.
    """
    probes = ClusterProbes(options)
    try:
        asked = {
            name: named for name, named in subscription.clusters.items() if any(name == cluster for cluster, _ in ids)
        }
        made, broken = probes.for_subscription(replace(subscription, clusters=asked))
        usable = {key: expected for key, expected in ids.items() if key[0] not in broken}
        return frozenset(usable) - _confirmed(made, DisputedIdsQuestion(usable), options)
    finally:
        probes.close()


def _accepted(
    question: AcceptedIdentitiesQuestion | AcceptedLossesQuestion | AcceptedTopicsQuestion, state: StateLocation
) -> Any:
    match question:
        case AcceptedIdentitiesQuestion(progress):
            return state.accepted_identities(progress)
        case AcceptedLossesQuestion(query):
            return state.accepted_losses(query)
        case AcceptedTopicsQuestion(query):
            return set(saved_changes(state, query, "accepted").values())


def _confirmed(
    probes: Mapping[str, ClusterProbe], question: AbsentTopicsQuestion | DisputedIdsQuestion, options: SourceOptions
) -> Topics:
    ids = question.ids if isinstance(question, DisputedIdsQuestion) else dict.fromkeys(question.topics, "")
    by_cluster: dict[str, dict[str, str]] = {}
    for (cluster, topic), topic_id in sorted(ids.items()):
        by_cluster.setdefault(cluster, {})[topic] = topic_id
    if isinstance(question, DisputedIdsQuestion):
        return _ask(probes, {cluster: partial(disputed_ids, ids=own) for cluster, own in by_cluster.items()}, options)
    calls = {cluster: partial(ClusterAdmin.absent_topics, topics=own) for cluster, own in by_cluster.items()}
    return _ask(probes, calls, options)


def _ask(
    probes: Mapping[str, ClusterProbe],
    calls: Mapping[str, Callable[[ClusterAdmin], frozenset[str]]],
    options: SourceOptions,
) -> Topics:
    """Return the topics that the calls return, by cluster."""
    futures = {cluster: probes[cluster].ask(call) for cluster, call in calls.items() if cluster in probes}
    topics = {(cluster, topic) for cluster, future in futures.items() for topic in future.result()}
    for cluster in calls.keys() - probes.keys():
        # A pattern lists no topic of its cluster any more, so that metadata does not name the cluster.
        client = ClusterClient(cluster, options.kafka_properties, {})
        deadline_s = options.read_timeout_ms / 1000
        admin = ClusterAdmin(cluster, client.admin_config(), read_committed=False, deadline_s=deadline_s)
        try:
            topics |= {(cluster, topic) for topic in calls[cluster](admin)}
        finally:
            admin.close_in_background()
    return frozenset(topics)


def _by_split(
    probes: Mapping[str, ClusterProbe],
    values: Mapping[Split, V],
    ask: Callable[[ClusterAdmin, Mapping[tuple[str, int], V]], Mapping[tuple[str, int], Any]],
) -> dict[Split, Any]:
    """Ask each cluster about the values of its own splits, all clusters at once."""
    by_cluster: dict[str, dict[tuple[str, int], V]] = {}
    for split, value in values.items():
        by_cluster.setdefault(split.cluster, {})[split.topic, split.partition] = value
    futures = {
        cluster: probes[cluster].ask(lambda admin, own=own: ask(admin, own))  # type: ignore[misc]
        for cluster, own in by_cluster.items()
    }
    return {
        Split(cluster, *key): answer for cluster, future in futures.items() for key, answer in future.result().items()
    }


def _high_watermarks(
    probes: Mapping[str, ClusterProbe], splits: frozenset[Split], new: frozenset[Split]
) -> dict[Split, int]:
    by_cluster: dict[str, list[Split]] = {}
    for split in sorted(splits):
        by_cluster.setdefault(split.cluster, []).append(split)
    futures = [
        probes[cluster].ask(partial(_ends_of_all_records, splits=tuple(own), new=new))
        for cluster, own in by_cluster.items()
    ]
    return {split: end for future in futures for split, end in future.result().items()}


def _ends_of_all_records(admin: ClusterAdmin, splits: tuple[Split, ...], new: frozenset[Split]) -> dict[Split, int]:
    asked = [split for split in splits if admin.read_committed or split in new]
    if not asked:
        return {}
    ends = admin.offsets({(split.topic, split.partition): LATEST for split in asked}, uncommitted=True)
    return {split: ends[split.topic, split.partition][0] for split in asked}
