"""The saved form of an offset document: versioned JSON, written and read.

Runs on the driver in each plan and replay, and in the tools. `encode` writes, `decode` reads, and `fingerprint` is a
document's id in the document after it. Each `_write_…` function has a `_read_…` counterpart further down. Older
versions stay readable: a change of the format needs a new `VERSION`, and a reader for the old one.

    `{"version": 2, "query": "5f…", "number": 12, "previous": "9c…",
     "clusters": {"east": {"kafkaId": "Mk…", "topics": {"orders": {
         "id": "d4…", "stream": "orders", "next": [120, 98], "epoch": 3, "start": {"1": 40}, "stop": [500, 500]}}}},
     "parked": {"west": {"kafkaId": "Qx…", "topics": {"orders": {"id": "…", "stream": "orders", "next": [7, 9],
         "until": 1795219200000}}}}}`

Spark compares offsets as text, so equal documents have equal text: keys are sorted, and a column has one form only.

- `3`: all partitions 0..n-1 of the topic have this number. ("partitions" is n where "next" has this form.)
- `[120, 98]`: the numbers of all partitions 0..n-1 of the topic.
- `{"1": 40}`: the numbers of some partitions.

"startEpoch" is the leader epoch at "start". Where it is shorter, "behind" replaces "start": the distance from there to
"next". "epochBehind" is the same of "startEpoch", to "epoch". Version 1 had offsets only:
`{"version": 1, "clusters": {"east": {"orders": {"0": 42}}}}`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.progress import (
    ClusterProgress,
    Column,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)

VERSION = 2
_RESTORE = "restore the checkpoint, or start with a new one"


def encode(document: OffsetDocument) -> dict[str, Any]:
    """Return the JSON object that Spark saves. Its key order is canonical: equal documents give equal text."""
    wire: dict[str, Any] = {"version": VERSION}
    if document.is_initial:
        return wire
    wire |= {"query": document.query, "number": document.number, "previous": document.previous}
    if document.bounded:
        wire["bounded"] = True
    wire["clusters"] = _write_clusters(document.clusters, _write_topic)
    if document.parked:
        wire["parked"] = _write_clusters(document.parked, _write_parked)
    return wire


def fingerprint(document: OffsetDocument) -> str:
    """Return 128 bits of a hash of the document's canonical text, in hexadecimal."""
    text = json.dumps(encode(document), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def decode(wire: Mapping[str, Any] | str) -> OffsetDocument:
    """Read a saved document of any version up to this one.

    Raises:
        OffsetDocumentError: it is no offset document, is damaged, or a newer version wrote it.
    """
    try:
        document: Any = json.loads(wire) if isinstance(wire, str) else wire
    except json.JSONDecodeError as error:
        raise OffsetDocumentError(f"the saved offsets are not JSON: {error}; {_RESTORE}") from None
    version = document.get("version") if isinstance(document, Mapping) else None
    if type(version) is not int or version < 1:
        raise OffsetDocumentError(
            "the checkpoint's offsets were not written by dynamic-kafka (no version number): was it made by Spark's own"
            " `kafka` source? `python -m dynamic_kafka.app import-checkpoint` makes starting offsets of it"
        )
    if version > VERSION:
        raise OffsetDocumentError(
            f"the checkpoint's offsets have version {version}, this dynamic-kafka reads up to {VERSION}:"
            " run the version that wrote them, or a newer one"
        )
    try:
        return _read_v1(document) if version == 1 else _read_v2(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OffsetDocumentError(f"the saved offsets (version {version}) are damaged: {error!r}; {_RESTORE}") from None


def is_saved_document(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an offset in one of Spark's progress events is a document of ours, made by a plan.

    Spark describes all Python sources alike: only the keys identify a source of ours.
    """
    return isinstance(value, Mapping) and {"version", "query", "clusters"} <= value.keys()


def _write_clusters(
    clusters: Mapping[str, ClusterProgress | ParkedCluster], write_topic: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    return {
        cluster: _without_none(
            kafkaId=found.kafka_id, topics={name: write_topic(topic) for name, topic in sorted(found.topics.items())}
        )
        for cluster, found in sorted(clusters.items())
    }


def _write_topic(topic: TopicProgress) -> dict[str, Any]:
    return _without_none(
        id=topic.topic_id,
        stream=topic.stream,
        partitions=_uniform_count(topic.next),
        next=_write_column(topic.next, topic.next),
        epoch=_write_column(topic.epochs, topic.next),
        **_write_nearby("start", "behind", topic.starts, topic.next, topic.next),
        **_write_nearby("startEpoch", "epochBehind", topic.start_epochs, topic.epochs, topic.next),
        stop=_write_column(topic.stops, topic.next),
    )


def _write_parked(topic: ParkedTopic) -> dict[str, Any]:
    return _without_none(
        id=topic.topic_id,
        stream=topic.stream,
        partitions=_uniform_count(topic.next),
        next=_write_column(topic.next, topic.next),
        epoch=_write_column(topic.epochs, topic.next),
        stop=_write_column(topic.stops, topic.next),
        until=topic.until_ms,
        awaited=topic.awaited or None,
    )


def _write_nearby(plainly: str, behind: str, column: Column, near: Column, whole: Column) -> dict[str, Any]:
    """Return a column itself, or its distance behind another one, whichever is the shorter text.

    A query's first document names a start of every split, and would be twice as long as all others otherwise.
    """
    plain = _write_column(column, whole)
    if column.keys() <= near.keys():
        distances = _write_column({p: near[p] - number for p, number in column.items()}, whole)
        if len(json.dumps(distances)) < len(json.dumps(plain)):
            return {behind: distances}
    return {plainly: plain}


def _write_column(column: Column, whole: Column) -> int | list[int] | dict[str, int] | None:
    """Return the form of a column, or None if it is empty; a reader gets the partitions of the topic from `whole`."""
    if not column:
        return None
    if _is_contiguous(column) and column.keys() == whole.keys():
        if len(set(column.values())) == 1:
            return column[0]
        return [column[partition] for partition in range(len(column))]
    return {str(partition): column[partition] for partition in sorted(column)}


def _uniform_count(column: Column) -> int | None:
    """Return the number of partitions if `_write_column` writes one number for all of them."""
    return len(column) if _is_contiguous(column) and len(set(column.values())) == 1 else None


def _is_contiguous(column: Column) -> bool:
    return len(column) > 0 and min(column) == 0 and max(column) == len(column) - 1


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read_v1(wire: Mapping[str, Any]) -> OffsetDocument:
    # Version 1 has neither streams nor identities. The next plan records them: it fills in an empty stream id, and a
    # cluster without a saved identity matches any broker.
    clusters = {
        cluster: ClusterProgress(
            {topic: TopicProgress("", {int(p): int(o) for p, o in parts.items()}) for topic, parts in topics.items()}
        )
        for cluster, topics in wire.get("clusters", {}).items()
    }
    return OffsetDocument(number=1 if clusters else 0, clusters=clusters)


def _read_v2(wire: Mapping[str, Any]) -> OffsetDocument:
    if "clusters" not in wire:
        return OffsetDocument()
    return OffsetDocument(
        query=str(wire["query"]),
        number=int(wire["number"]),
        previous=str(wire["previous"]),
        bounded=bool(wire.get("bounded", False)),
        clusters={
            cluster: ClusterProgress(
                {name: _read_topic(topic) for name, topic in content["topics"].items()}, content.get("kafkaId")
            )
            for cluster, content in wire["clusters"].items()
        },
        parked={
            cluster: ParkedCluster(
                {name: _read_parked(topic) for name, topic in content["topics"].items()}, content.get("kafkaId")
            )
            for cluster, content in wire.get("parked", {}).items()
        },
    )


def _read_topic(wire: Mapping[str, Any]) -> TopicProgress:
    following = _read_column(wire["next"], wire.get("partitions"))
    epochs = _read_column(wire.get("epoch", {}), len(following))
    return TopicProgress(
        stream=wire["stream"],
        topic_id=wire.get("id"),
        next=following,
        epochs=epochs,
        starts=_read_nearby(wire, "start", "behind", following, len(following)),
        start_epochs=_read_nearby(wire, "startEpoch", "epochBehind", epochs, len(following)),
        stops=_read_column(wire.get("stop", {}), len(following)),
    )


def _read_parked(wire: Mapping[str, Any]) -> ParkedTopic:
    following = _read_column(wire["next"], wire.get("partitions"))
    return ParkedTopic(
        stream=wire["stream"],
        topic_id=wire.get("id"),
        next=following,
        epochs=_read_column(wire.get("epoch", {}), len(following)),
        stops=_read_column(wire.get("stop", {}), len(following)),
        until_ms=int(wire["until"]),
        awaited=bool(wire.get("awaited", False)),
    )


def _read_nearby(wire: Mapping[str, Any], plainly: str, behind: str, near: Column, partitions: int) -> Column:
    distances = _read_column(wire.get(behind, {}), partitions)
    return {p: near[p] - distance for p, distance in distances.items()} or _read_column(
        wire.get(plainly, {}), partitions
    )


def _read_column(wire: Any, partitions: int | None) -> dict[int, int]:
    if isinstance(wire, Mapping):
        return {int(partition): int(number) for partition, number in wire.items()}
    if isinstance(wire, list):
        return dict(enumerate(int(number) for number in wire))
    if partitions is None:
        raise ValueError("one number stands for all partitions, but their count is missing")
    return dict.fromkeys(range(partitions), int(wire))
