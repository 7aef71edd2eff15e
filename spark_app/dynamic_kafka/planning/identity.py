"""Whether the clusters that answered are the ones whose offsets were saved.

Pure; called by the planner before any split of a plan is opened, and again by executors before their first record.
Offsets mean nothing on another cluster, so a difference is never bridged by default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.progress import OffsetDocument


@dataclass(frozen=True)
class IdentityProblem:
    """One cluster id that is answered by the wrong cluster. `text` says so in a sentence."""

    cluster: str
    text: str


def saved_identity(document: OffsetDocument, cluster: str) -> str | None:
    """Kafka's `cluster.id` as saved for a cluster id, active progress before parked."""
    active = document.clusters.get(cluster)
    if active is not None and active.kafka_id is not None:
        return active.kafka_id
    parked = document.parked.get(cluster)
    return parked.kafka_id if parked is not None else None


def choices(cluster: str, kafka_id: str, *, pending_as: str | None = None) -> str:
    """What a person can do about a cluster id that is answered by another cluster.

    Args:
        kafka_id: the `cluster.id` that answers.
        pending_as: the id under which a pending batch is still to read from the saved one; None if it does not.
    """
    accept = f"`python -m dynamic_kafka.app accept app.yaml --identity {cluster}={kafka_id}`"
    right = "Put the servers right, give the new cluster an id of its own, or"
    if pending_as is None:
        return f"{right} accept it as new with {accept}"
    return (
        f"{right} give up what the saved one held, in this order: leave its ranges out of the pending batch with"
        f" `python -m dynamic_kafka.app abandon app.yaml {pending_as}`, then accept the new one with {accept}"
    )


def identity_problems(
    document: OffsetDocument,
    observed: Mapping[str, ClusterObservation],
    accepted: Mapping[str, str],
    wanted: Collection[str] = (),
    pending: Mapping[str, str] = MappingProxyType({}),
) -> list[IdentityProblem]:
    """Compare the clusters that answered with the saved ones, and with each other.

    Args:
        document: saved progress, renames already applied.
        observed: what each reachable cluster answered.
        wanted: cluster ids that metadata names. One that has not answered this time stands for its saved or accepted
            identity, parked or not: another id must not be opened on the same cluster meanwhile.
        accepted: {cluster id: Kafka `cluster.id`} that a person accepted in place of the saved one.
        pending: {cluster id: the id it was saved under} of clusters that a pending batch is still to read.

    Returns:
        A problem for each cluster with another identity than saved, and for each pair of ids with one identity. A
        cluster that tells no id raises none (the caller warns).
    """
    problems = []
    owner: dict[str, str] = {}
    for cluster in sorted(set(wanted) - observed.keys()):
        kept = accepted.get(cluster) or saved_identity(document, cluster)
        if kept is not None:
            owner[kept] = cluster
    for cluster, answer in sorted(observed.items()):
        if answer.kafka_id is None:
            continue
        saved = saved_identity(document, cluster)
        if saved is not None and saved != answer.kafka_id and accepted.get(cluster) != answer.kafka_id:
            problems.append(
                IdentityProblem(
                    cluster,
                    f"cluster {cluster!r} has the saved Kafka cluster.id {saved}, but its servers answer with"
                    f" {answer.kafka_id}: its offsets do not belong to that cluster."
                    f" {choices(cluster, answer.kafka_id, pending_as=pending.get(cluster))}",
                )
            )
        if answer.kafka_id in owner:
            problems.append(
                IdentityProblem(
                    cluster,
                    f"clusters {owner[answer.kafka_id]!r} and {cluster!r} are one and the same Kafka cluster"
                    f" ({answer.kafka_id}): each record would be read twice. Remove one of them, or use `renamedFrom`",
                )
            )
        owner.setdefault(answer.kafka_id, cluster)
    return problems
