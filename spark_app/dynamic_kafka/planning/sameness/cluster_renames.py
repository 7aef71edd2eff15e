"""Renamed clusters: offsets follow a cluster to the id that metadata has for it now.

Pure; `planning.plan` calls `carry_over` once a plan, and replays and tools ask for the `current_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, ParkedCluster
from dynamic_kafka.planning.observation import ClusterObservation, Note, Observation
from dynamic_kafka.planning.sameness.identity import is_another, saved_identity


def rename(
    document: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    observed: Mapping[str, ClusterObservation] = MappingProxyType({}),
) -> tuple[OffsetDocument, list[Note]]:
    """Carry the offsets of renamed clusters over to their new ids (`renamedFrom`).

    Active progress wins over parked progress, under either id.
    """
    clusters, parked, notes = dict(document.clusters), dict(document.parked), []
    explicit, announced = dict(document.explicit_ids), dict(document.announced)
    for cluster in sorted(wanted):
        old = _former_id(cluster, document, wanted, observed)
        if old is None:
            continue
        _move_ids(explicit, old, cluster)
        _move_announcement(announced, old, cluster)
        if old not in clusters and old not in parked:
            continue
        if old in clusters:
            clusters[cluster] = clusters.pop(old)
        _park_together(clusters, parked, old, cluster)
        text = f"cluster {old!r} is now {cluster!r}, and continues at its offsets under the new id"
        notes.append(Note("renamed", cluster, text, former=old))
    moved = replace(document, clusters=clusters, parked=parked, explicit_ids=explicit, announced=announced)
    return moved, notes


def _former_id(
    cluster: str,
    document: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    observed: Mapping[str, ClusterObservation],
) -> str | None:
    """Return the id whose offsets a cluster takes over by `renamedFrom`, None if it takes over none.

    A rename takes effect when the old id is not wanted any more and the new one is not active yet. `renamedFrom` may be
    left from an earlier rename: if the ids are saved with different `cluster.id`s, the new one has to answer with that
    of the old one.
    """
    old = wanted[cluster].renamed_from
    if old is None or old in wanted or cluster in document.clusters:
        return None
    saved, answer = saved_identity(document, old), observed.get(cluster)
    if is_another(saved, saved_identity(document, cluster)) and (answer is None or answer.kafka_id != saved):
        return None
    return old


def current_ids(document: OffsetDocument, observation: Observation) -> dict[str, str]:
    """Return the present id of each saved cluster: its own, or the one that `carry_over` moves its offsets to.

    A cluster that was removed has none. Neither has one whose rename only its `cluster.id` shows, until it answers.
    """
    wanted = observation.subscription.clusters
    _, notes = carry_over(document, wanted, observation.answers)
    moved = {note.former: note.cluster for note in notes if note.former is not None}
    return moved | {cluster: cluster for cluster in (*document.clusters, *document.parked) if cluster in wanted}


def recognise(
    document: OffsetDocument, wanted: Mapping[str, SubscribedCluster], observed: Mapping[str, ClusterObservation]
) -> tuple[OffsetDocument, list[Note]]:
    """Carry offsets over to a new id if the `cluster.id` shows the rename and metadata does not.

    This happens when a user takes a rename back or its revision is rejected, and when two renames come at once. It also
    happens when the servers change and the cluster id is derived from them. Started as new, the cluster would be read
    twice.

    Only an id without active progress takes over, and only from ids that are not wanted any more. `identity_problems`
    refuses the other cases: two wanted ids of one cluster, and an id that was saved with another `cluster.id`.
    """
    clusters, parked, notes = dict(document.clusters), dict(document.parked), []
    explicit, announced = dict(document.explicit_ids), dict(document.announced)
    for cluster, answer in sorted(observed.items()):
        own = parked[cluster].kafka_id if cluster in parked else None
        fits = answer.kafka_id is not None and own in (None, answer.kafka_id)
        if cluster not in wanted or cluster in clusters or not fits:
            continue
        same = [name for name, progress in sorted(clusters.items()) if progress.kafka_id == answer.kafka_id]
        # The id that was parked last has the newest offsets of its topics.
        kept = [name for name, progress in parked.items() if progress.kafka_id == answer.kafka_id]
        until = {name: max((topic.until_ms for topic in parked[name].topics.values()), default=0) for name in kept}
        same += sorted(kept, key=lambda name: -until[name])
        for old in dict.fromkeys(name for name in same if name not in wanted):
            if old in clusters and cluster not in clusters:
                clusters[cluster] = clusters.pop(old)
            _park_together(clusters, parked, old, cluster)
            _move_ids(explicit, old, cluster)
            _move_announcement(announced, old, cluster)
            text = f"cluster {cluster!r} is the former {old!r} ({answer.kafka_id}): it continues at its offsets"
            notes.append(Note("renamed", cluster, text, former=old))
    moved = replace(document, clusters=clusters, parked=parked, explicit_ids=explicit, announced=announced)
    return moved, notes


def carry_over(
    document: OffsetDocument, wanted: Mapping[str, SubscribedCluster], observed: Mapping[str, ClusterObservation]
) -> tuple[OffsetDocument, list[Note]]:
    """Return the progress under the cluster ids that metadata has now: `rename`, then `recognise`."""
    renamed, notes = rename(document, wanted, observed)
    recognised, more = recognise(renamed, wanted, observed)
    return recognised, [*notes, *more]


def _move_ids(explicit: dict[str, Mapping[str, str]], old: str, new: str) -> None:
    """Let a renamed cluster keep the topic ids that its explicit starting offsets hold for."""
    if old in explicit:
        explicit[new] = {**explicit.pop(old), **explicit.get(new, {})}


def _move_announcement(announced: dict[str, int], old: str, new: str) -> None:
    """Let the wait for a renamed cluster go on, or be over, under its new id."""
    if old in announced:
        announced[new] = announced.pop(old)


def _park_together(
    clusters: Mapping[str, ClusterProgress], parked: dict[str, ParkedCluster], old: str, new: str
) -> None:
    """Merge the parked topics of both ids of a renamed cluster.

    Topics parked under the new id win over those of the old id, and active topics win over both. Topics of another
    physical cluster, parked under the new id, stay parked under its `cluster.id`, by which `recognise` finds them.
    """
    active, former, own = clusters.get(new), parked.pop(old, None), parked.pop(new, None)
    kafka_id = active.kafka_id if active else former.kafka_id if former else None
    if own is not None and own.kafka_id is not None and kafka_id not in (None, own.kafka_id):
        parked[own.kafka_id] = replace(own, topics={**parked.get(own.kafka_id, own).topics, **own.topics})
        own = None
    topics = {name: topic for kept in (former, own) if kept is not None for name, topic in kept.topics.items()}
    topics = {name: topic for name, topic in topics.items() if active is None or name not in active.topics}
    if topics:
        parked[new] = ParkedCluster(topics, kafka_id or (own.kafka_id if own and active is None else None))
