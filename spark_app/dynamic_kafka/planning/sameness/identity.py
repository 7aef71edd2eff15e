"""Physical identity: the clusters and topics that answer must be the ones whose offsets are saved.

Pure; `planning.checks` compares before a plan opens any split, and executors compare before their first record. Offsets
mean nothing on another cluster, so a difference is always refused, unless a user accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.wording import tool_command


@dataclass(frozen=True)
class IdentityProblem:
    """A cluster id that the wrong cluster answers for, described by `text`."""

    cluster: str
    text: str


@dataclass(frozen=True)
class AcceptedIdentity:
    """A user's acceptance of another physical cluster under a cluster id.

    Attributes:
        kafka_id: Kafka's `cluster.id` that is accepted.
        replaces: the saved one at that time; None in an acceptance from an early version, which replaces any.
        id: a random id, by which `OffsetDocument.used_acceptances` names it; its file's name in an early version.
    """

    kafka_id: str
    replaces: str | None = None
    id: str = ""

    def covers(self, saved: str | None, current_id: str | None) -> bool:
        """Return whether the acceptance is about the cluster `current_id` in place of `saved`."""
        return self.kafka_id == current_id and self.replaces in (None, saved)


def saved_identity(document: OffsetDocument, cluster: str) -> str | None:
    """Return Kafka's `cluster.id` as saved for a cluster id, from active progress before parked."""
    active = document.clusters.get(cluster)
    if active is not None and active.kafka_id is not None:
        return active.kafka_id
    parked = document.parked.get(cluster)
    return parked.kafka_id if parked is not None else None


def is_another(saved: str | None, current_id: str | None) -> bool:
    """Return whether two ids, both of clusters or both of topics, are known and differ."""
    return saved is not None and current_id is not None and saved != current_id


def recreation(saved: str | None, current_id: str | None) -> str:
    """Return, as a part of a sentence, that a topic was re-created, with both ids as Kafka's tools print them."""
    return f"was re-created (id {shown_topic_id(saved)}, now {shown_topic_id(current_id)})"


def unconfirmed(wanted: Iterable[str], observed: Mapping[str, ClusterObservation]) -> set[str]:
    """Return the wanted cluster ids whose servers have not shown a `cluster.id` this time: silent, or without one."""
    return {cluster for cluster in wanted if cluster not in observed or observed[cluster].kafka_id is None}


def identity_choices(cluster: str, kafka_id: str, *, pending_as: str | None = None) -> str:
    """Return the user's choices when another cluster answers for a cluster id.

    Args:
        kafka_id: the `cluster.id` that answers.
        pending_as: the id under which a pending batch still has to read the saved cluster; None if it has not.
    """
    accept = tool_command("accept", f"{cluster}={kafka_id}", flag="--identity")
    correct = "Correct the servers, give the new cluster an id of its own, or"
    if pending_as is None:
        return f"{correct} accept it as new with {accept}"
    abandon = tool_command("abandon", pending_as)
    return f"{correct} give up ALL unread records of the saved one: first {abandon}, then {accept}"


def identity_problems(
    document: OffsetDocument,
    observed: Mapping[str, ClusterObservation],
    accepted: Mapping[str, AcceptedIdentity],
    wanted: Iterable[str] = (),
    pending: Mapping[str, str] = MappingProxyType({}),
) -> list[IdentityProblem]:
    """Compare the clusters that answered with the saved ones, and with each other.

    Args:
        document: saved progress, renames already applied.
        wanted: cluster ids that metadata names. An id that is `unconfirmed` keeps its saved or accepted identity,
            parked or not: another id must not open the same cluster meanwhile.
        accepted: {cluster id: a user's acceptance}.
        pending: {cluster id: its saved id} of clusters that a pending batch still has to read.

    Returns:
        A problem for each cluster whose identity differs from the saved one, and for each pair of ids with one
        identity. A cluster that reports no id has no problem (`planning.checks` warns).
    """
    problems = []
    owner: dict[str, str] = {}
    for cluster in sorted(unconfirmed(wanted, observed)):
        kept, word = saved_identity(document, cluster), accepted.get(cluster)
        if word is not None and word.covers(kept, word.kafka_id):
            kept = word.kafka_id
        if kept is not None:
            owner[kept] = cluster
    for cluster, answer in sorted(observed.items()):
        if answer.kafka_id is None:
            continue
        saved, word, now = saved_identity(document, cluster), accepted.get(cluster), answer.kafka_id
        if is_another(saved, now) and not (word and word.covers(saved, now)):
            todo = identity_choices(cluster, now, pending_as=pending.get(cluster))
            problems.append(
                IdentityProblem(
                    cluster,
                    f"cluster {cluster!r} has the saved Kafka cluster.id {saved}, but its servers answer with {now}."
                    f" {todo}",
                )
            )
        if now in owner:
            one, two = owner[now], cluster
            problems.append(
                IdentityProblem(
                    cluster,
                    f"clusters {one!r} and {two!r} are one and the same Kafka cluster ({now}): remove one or use"
                    " `renamedFrom`",
                )
            )
        owner.setdefault(answer.kafka_id, cluster)
    return problems
