"""The saved form of an offset document: versioned JSON, written and read.

Runs on the driver in each plan and replay, and in the tools. `encode` writes, `decode` reads, and `fingerprint` is a
document's id in the document after it. Each `_write_…` function has a `_read_…` counterpart further down. Older
versions stay readable: a change of the format needs a new `VERSION`, and a reader for the old one. An optional field
does not: an older release keeps the field, and ignores it.

    `{"version": 3, "query": "5f…", "number": 12, "previous": "9c…", "state": "e1…",
     "clusters": {"east": {"kafkaId": "Mk…", "topics": {"orders": {
         "id": "d4…", "stream": "orders", "next": [120, 98], "epoch": 3, "start": {"1": 40}, "stop": [500, 500]}}}},
     "parked": {"west": {"kafkaId": "Qx…", "topics": {"orders": {"id": "…", "stream": "orders", "next": [7, 9],
         "until": 1795219200000}}}}, "explicitIds": {"east": {"orders": "d4…"}},
     "usedAcceptances": {"east": "7c…"}}`

Spark compares offsets as text, so equal documents have equal text: keys are sorted, and
`planning.document.column_codec` has one form for each column. ("partitions" is the count of partitions where "next" is
one number.) "startEpoch" is the leader epoch at "start". Where it is shorter, "behind" replaces "start": the distance
from there to "next". "epochBehind" is the same of "startEpoch", to "epoch".

A document with a stop record has version 4: "ended" is the offset of the record in each such partition, and "over" is
set once all splits of an unbounded run have reached theirs. Any other document is still written as version 3, which
older releases read. Version 2 had neither "state" nor packed columns. A document with a clock has version 5: an older
release would read on without alignment. "announced" has the end of the wait for each announced cluster, or 0. With
"valueTimes", executors report where they end the ranges of the batch, of which it is the number, and an older release
would skip the rest: version 6. "drift" is how far behind the clock they do. "time" is the time that no unread record of
a partition is older than.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.document.column_codec import (
    read_column,
    read_nearby,
    uniform_count,
    write_column,
    write_nearby,
)
from dynamic_kafka.planning.document.progress import (
    OffsetDocument,
    ParkedTopic,
    SavedCluster,
    Topic,
    TopicProgress,
    has_stop_records,
)

VERSION = 6
OLDEST = 2
WITHOUT_VALUE_TIMES = 5
"""The version of a document without times from executors."""
WITHOUT_CLOCK = 4
"""The version of a document without a clock."""
WITHOUT_STOP_RECORDS = 3
"""The version of a document without stop records: releases from before them can read it, but would read past one."""
_FIELDS = frozenset(
    {"version", "query", "number", "previous", "state", "bounded", "over", "clock", "announced", "valueTimes", "drift"}
    | {"clusters", "parked", "explicitIds", "usedAcceptances"}
)
_CLUSTER_FIELDS = frozenset({"kafkaId", "topics"})
_NEARBY = frozenset({"start", "behind", "startEpoch", "epochBehind"})
_PARKING = frozenset({"until", "awaited", "missing"})
_TOPIC_FIELDS = frozenset({"partitions", "next", "epoch", "stop", "ended", "time", "id", "stream"}) | _NEARBY | _PARKING
_RESTORE = "restore the checkpoint, or start with a new one"


def encode(document: OffsetDocument) -> dict[str, Any]:
    """Return the JSON object that Spark saves. Its key order is canonical: equal documents give equal text."""
    wire: dict[str, Any] = {"version": _version_of(document)}
    if document.is_initial:
        return wire
    wire |= {"query": document.query, "number": document.number, "previous": document.previous}
    if document.state:
        wire["state"] = document.state
    if document.bounded:
        wire["bounded"] = True
    if document.over:
        wire["over"] = True
    if document.clock_ms is not None:
        wire["clock"] = document.clock_ms
    if document.announced:
        wire["announced"] = dict(sorted(document.announced.items()))
    if document.by_value is not None:
        wire["valueTimes"] = document.by_value
        if document.drift_ms is not None:
            wire["drift"] = document.drift_ms
    wire["clusters"] = _write_clusters(document.clusters, _write_topic)
    if document.explicit_ids:
        wire["explicitIds"] = {c: dict(sorted(ids.items())) for c, ids in sorted(document.explicit_ids.items())}
    if document.used_acceptances:
        wire["usedAcceptances"] = dict(sorted(document.used_acceptances.items()))
    if document.parked:
        wire["parked"] = _write_clusters(document.parked, _write_parked)
    wire |= sorted(document.unknown.items())
    if document.logged is None:
        document.cache(logged=wire)
    return wire


def fingerprint(document: OffsetDocument) -> str:
    """Return 128 bits of a hash of the document's JSON as it was logged, in hexadecimal.

    The hash never covers a new encoding of the document: a later release may encode it otherwise. The exception is
    constant. Spark asks for an initial document anew at each replay of batch 0, and releases before version 3
    identified it by its form in version 2.
    """
    if document.fingerprint is None:
        logged = document.logged if document.logged is not None else encode(document)
        if document.is_initial:
            logged = {"version": 2}
        text = json.dumps(logged, sort_keys=True, separators=(",", ":"))
        document.cache(fingerprint=hashlib.sha256(text.encode()).hexdigest()[:32])
    assert document.fingerprint is not None
    return document.fingerprint


def decode(wire: Mapping[str, Any] | str) -> OffsetDocument:
    """Read a saved document of any version from `OLDEST` up to this one.

    Raises:
        OffsetDocumentError: it is no offset document, is damaged, or another version wrote it.
    """
    try:
        document: Any = json.loads(wire) if isinstance(wire, str) else wire
    except json.JSONDecodeError as error:
        raise OffsetDocumentError(f"the saved offsets are not JSON: {error}; {_RESTORE}") from None
    version = document.get("version") if isinstance(document, Mapping) else None
    if type(version) is not int or version < 1:
        raise OffsetDocumentError(
            "the checkpoint is not dynamic-kafka's; if Spark's: `python -m dynamic_kafka.app import-checkpoint`"
        )
    if not OLDEST <= version <= VERSION:
        raise OffsetDocumentError(
            f"the offsets have version {version}, not {OLDEST} to {VERSION}: run the release that wrote them"
        )
    try:
        read = _read(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OffsetDocumentError(f"the saved offsets (version {version}) are damaged: {error!r}; {_RESTORE}") from None
    read.cache(logged=document)
    return read


def is_saved_document(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether an offset in one of Spark's progress events is a document of ours, made by a plan.

    Spark describes all Python sources alike: only the keys identify a source of ours.
    """
    return isinstance(value, Mapping) and {"version", "query", "clusters"} <= value.keys()


def _version_of(document: OffsetDocument) -> int:
    """Return the oldest version that has everything of the document."""
    if document.by_value is not None or any(topic.times for topic in document.topics()):
        return VERSION
    if document.clock_ms is not None:
        return WITHOUT_VALUE_TIMES
    return WITHOUT_CLOCK if document.over or has_stop_records(document) else WITHOUT_STOP_RECORDS


def _write_clusters(
    clusters: Mapping[str, SavedCluster[Topic]], write_topic: Callable[[Topic], dict[str, Any]]
) -> dict[str, Any]:
    return {
        cluster: _without_none(
            kafkaId=content.kafka_id,
            topics={name: write_topic(topic) for name, topic in sorted(content.topics.items())},
            **dict(sorted(content.unknown.items())),
        )
        for cluster, content in sorted(clusters.items())
    }


def _write_topic(topic: TopicProgress, **parking: Any) -> dict[str, Any]:
    return _without_none(
        id=topic.topic_id,
        stream=topic.stream,
        partitions=uniform_count(topic.next),
        next=write_column(topic.next, topic.next),
        epoch=write_column(topic.epochs, topic.next),
        **write_nearby("start", "behind", topic.starts, topic.next, topic.next),
        **write_nearby("startEpoch", "epochBehind", topic.start_epochs, topic.epochs, topic.next),
        stop=write_column(topic.stops, topic.next),
        ended=write_column(topic.ended, topic.next),
        time=write_column(topic.times, topic.next),
        **parking,
        **dict(sorted(topic.unknown.items())),
    )


def _write_parked(topic: ParkedTopic) -> dict[str, Any]:
    parking = {"until": topic.until_ms, "awaited": topic.awaited or None, "missing": topic.missing or None}
    return _write_topic(topic.progress, **parking)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(wire: Mapping[str, Any]) -> OffsetDocument:
    """Read versions 2 to 6: version 2 has neither packed columns nor a state, and fields of later ones may be there."""
    if "clusters" not in wire:
        return OffsetDocument()
    return OffsetDocument(
        query=str(wire["query"]),
        number=int(wire["number"]),
        previous=str(wire["previous"]),
        state=str(wire.get("state", "")),
        bounded=bool(wire.get("bounded", False)),
        over=bool(wire.get("over", False)),
        clock_ms=int(wire["clock"]) if "clock" in wire else None,
        announced={cluster: int(until) for cluster, until in wire.get("announced", {}).items()},
        by_value=int(wire["valueTimes"]) if "valueTimes" in wire else None,
        drift_ms=int(wire["drift"]) if "drift" in wire else None,
        clusters=_read_clusters(wire["clusters"], _read_topic),
        parked=_read_clusters(wire.get("parked", {}), _read_parked),
        explicit_ids=wire.get("explicitIds", {}),
        used_acceptances=wire.get("usedAcceptances", {}),
        unknown=_unknown(wire, _FIELDS),
    )


def _read_clusters(
    wire: Mapping[str, Any], read_topic: Callable[[Mapping[str, Any]], Topic]
) -> dict[str, SavedCluster[Topic]]:
    return {
        cluster: SavedCluster(
            {name: read_topic(topic) for name, topic in content["topics"].items()},
            content.get("kafkaId"),
            _unknown(content, _CLUSTER_FIELDS),
        )
        for cluster, content in wire.items()
    }


def _read_topic(wire: Mapping[str, Any]) -> TopicProgress:
    following = read_column(wire["next"], wire.get("partitions"))
    epochs = read_column(wire.get("epoch", {}), len(following))
    return TopicProgress(
        stream=wire["stream"],
        topic_id=wire.get("id"),
        next=following,
        epochs=epochs,
        starts=read_nearby(wire, "start", "behind", following, len(following)),
        start_epochs=read_nearby(wire, "startEpoch", "epochBehind", epochs, len(following)),
        stops=read_column(wire.get("stop", {}), len(following)),
        ended=read_column(wire.get("ended", {}), len(following)),
        times=read_column(wire.get("time", {}), len(following)),
        unknown=_unknown(wire, _TOPIC_FIELDS),
    )


def _read_parked(wire: Mapping[str, Any]) -> ParkedTopic:
    awaited, missing = bool(wire.get("awaited", False)), bool(wire.get("missing", False))
    return ParkedTopic(_read_topic(wire), int(wire["until"]), awaited, missing)


def _unknown(wire: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the fields that a newer release added: every plan writes them again."""
    return {name: wire[name] for name in wire.keys() - known}
