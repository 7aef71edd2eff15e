"""Whether the clusters that answered are the ones whose offsets were saved.

Pure; called by the planner before any split of a plan is opened, and again by executors before their first record.
Offsets mean nothing on another cluster, so a difference is never bridged by default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

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


def identity_problems(
    document: OffsetDocument,
    observed: Mapping[str, ClusterObservation],
    accepted: Mapping[str, str],
    wanted: Collection[str] = (),
) -> list[IdentityProblem]:
    """Compare the clusters that answered with the saved ones, and with each other.

    Args:
        document: saved progress, renames already applied.
        observed: what each reachable cluster answered.
        wanted: cluster ids that metadata names. One that has not answered this time stands for its saved or accepted
            identity, parked or not: another id must not be opened on the same cluster meanwhile.
        accepted: {cluster id: Kafka `cluster.id`} that a person accepted in place of the saved one.

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
                    f" {answer.kafka_id}: its offsets do not belong to that cluster. Put the servers right, give the"
                    f" new cluster an id of its own, or accept it as new with"
                    f" `python -m dynamic_kafka.app accept app.yaml --identity {cluster}={answer.kafka_id}`",
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
