"""The desired streams of a subscription, from its spec and the catalog. Pure; `core.decide` calls it.

A stream or cluster with a problem is held: the document keeps its last good form, and a condition says why. A problem
changes nothing that works.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.metadata.model import KafkaStream
from dynamic_kafka.metadata.subscription import differing_fields
from kafkastream_operator.core.catalog import Catalog, StreamEntry, disagreements
from kafkastream_operator.core.document import Document, Streams, active, parse_streams, without_foreign_topics
from kafkastream_operator.core.patterns import PatternError, pattern_of
from kafkastream_operator.core.secret_bindings import binding_problem
from kafkastream_operator.models.stream import Drain
from kafkastream_operator.models.subscription import SubscriptionSpec


@dataclass(frozen=True)
class Held:
    """A stream, or a cluster of one, whose newest form is not rolled out.

    Attributes:
        reason: of the condition: `InvalidStream`, `InvalidConfigMap`, `Conflict`, `SecretNotBound`, `ServerNotAllowed`,
            `RenamePending`.
        message: what is wrong and what to do.
    """

    stream: str
    reason: str
    message: str
    cluster: str = ""


@dataclass(frozen=True)
class Resolved:
    """The desired streams, before the topics that drain are added.

    Attributes:
        missing: subscribed stream ids that no object has.
        broken: the problems of ConfigMaps that cannot be read; they may have the missing streams.
        problem: why the subscription itself cannot be resolved.
        drain: {stream: its `drain` settings}, of the valid streams.
    """

    streams: Streams
    held: tuple[Held, ...] = ()
    missing: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    problem: str = ""
    drain: Mapping[str, Drain] = field(default_factory=dict)


def resolve(
    spec: SubscriptionSpec,
    catalog: Catalog,
    previous: Document | None,
    *,
    unconfirmed: Mapping[str, str] = MappingProxyType({}),
) -> Resolved:
    """Return the streams that the subscription's document should have.

    Args:
        previous: the document as it is, from which held streams keep their form.
        unconfirmed: {new id: old id} of its renames that no driver has reported to have.
    """
    drain = catalog.drain
    try:
        wanted, missing = _wanted(spec, catalog)
    except PatternError as error:
        return Resolved({}, problem=f"spec.streams.pattern {error}", drain=drain)
    bindings = {binding.cluster: binding for binding in spec.secrets}
    before = previous.streams if previous is not None else {}
    streams: dict[str, Mapping[str, Any]] = {}
    held: list[Held] = []
    conflicts = disagreements(entry.parsed for entry in wanted if entry.parsed is not None)
    for entry in wanted:
        problem = _stream_problem(entry, conflicts.get(entry.stream, {}))
        if problem is not None:
            held.append(problem)
            if entry.stream in before:
                streams[entry.stream] = active(before[entry.stream])
            continue
        clusters: dict[str, Any] = {}
        for name, content in (entry.content or {})["clusters"].items():
            refusal = binding_problem(f"stream {entry.stream!r}", name, content, bindings.get(name))
            if refusal is None:
                clusters[name] = content
                continue
            held.append(Held(entry.stream, *refusal, name))
            kept = active(before.get(entry.stream, {"clusters": {}}))["clusters"].get(name)
            if kept is not None:
                clusters[name] = kept
        streams[entry.stream] = {"clusters": clusters}
    held += _hold_for_renames(wanted, before, streams, unconfirmed)
    for unreadable in _in_broken_config_maps(spec, catalog, before, streams):
        held.append(unreadable)
        streams[unreadable.stream] = active(before[unreadable.stream])
    _keep_renames(streams, unconfirmed)
    if held or unconfirmed:
        held += _hold_for_held(wanted, before, streams)
    missing = [stream for stream in missing if stream not in streams]
    broken = tuple(catalog.broken.values())
    return Resolved(streams, tuple(held), tuple(missing), broken, drain=drain)


def asks_for(spec: SubscriptionSpec, stream: str) -> bool:
    """Return whether the subscription asks for a stream of that id.

    Raises:
        PatternError: its pattern cannot be read.
    """
    if spec.streams.ids is not None:
        return stream in spec.streams.ids
    return pattern_of(spec.streams.pattern or "").fullmatch(stream) is not None


def _wanted(spec: SubscriptionSpec, catalog: Catalog) -> tuple[list[StreamEntry], list[str]]:
    if spec.streams.ids is not None:
        ids = list(dict.fromkeys(spec.streams.ids))
        return [catalog.streams[stream_id] for stream_id in ids if stream_id in catalog.streams], [
            stream_id for stream_id in ids if stream_id not in catalog.streams
        ]
    pattern = pattern_of(spec.streams.pattern or "")
    return [entry for name, entry in sorted(catalog.streams.items()) if pattern.fullmatch(name)], []


def _in_broken_config_maps(spec: SubscriptionSpec, catalog: Catalog, before: Streams, resolved: Streams) -> list[Held]:
    """Hold subscribed streams that no object has any more, while a ConfigMap that may have them cannot be read."""
    if not catalog.broken:
        return []
    problems = "; ".join(catalog.broken.values())
    gone = [
        stream
        for stream in before
        if stream not in resolved and asks_for(spec, stream) and active(before[stream])["clusters"]
    ]
    text = "no readable object has stream {!r}. It stays as it was, since an object that cannot be read may have it: {}"
    return [Held(stream, "InvalidConfigMap", text.format(stream, problems)) for stream in sorted(gone)]


def _stream_problem(entry: StreamEntry, conflicts: Mapping[str, str]) -> Held | None:
    if entry.content is None:
        text = f"{entry.origin} is invalid and not rolled out; the stream stays as it was: {entry.problem}"
        return Held(entry.stream, "InvalidStream", text)
    if conflicts:
        text = (
            f"{entry.origin} {'; '.join(conflicts.values())}: neither is rolled out. Write the same in both. To change"
            " servers, do it in two commits: first the old and the new servers in both, then the new ones in both"
        )
        return Held(entry.stream, "Conflict", text)
    return None


def _hold_for_renames(
    wanted: Iterable[StreamEntry],
    before: Streams,
    streams: dict[str, Mapping[str, Any]],
    unconfirmed: Mapping[str, str],
) -> list[Held]:
    """Hold streams that build on a rename that no driver has reported to have. Changes `streams`.

    The checkpoint has the offsets either under the old id or under the new one. It is not known which, and under a
    third id a driver would not find them.
    """
    named = {name for stream_content in streams.values() for name in stream_content["clusters"]}
    origins = {entry.stream: entry.origin for entry in wanted}
    held = []
    for stream, stream_content in sorted(streams.items()):
        for new, content in stream_content["clusters"].items():
            first = _awaited_rename(new, content.get("renamedFrom"), named, unconfirmed)
            if first is None:
                continue
            text = (
                f"{origins.get(stream, stream)}: cluster {new!r} depends on a rename ({unconfirmed[first]!r} to"
                f" {first!r}) that no driver has reported to have. The stream stays as it was until one has: let the"
                " application run, and see RolledOut and Reporting"
            )
            held.append(Held(stream, "RenamePending", text))
            break
    for refusal in held:
        if refusal.stream in before:
            streams[refusal.stream] = active(before[refusal.stream])
        else:
            del streams[refusal.stream]
    return held


def _awaited_rename(new: str, old: str | None, named: Collection[str], unconfirmed: Mapping[str, str]) -> str | None:
    """Return the new id of the rename that a cluster has to wait for; None if there is none.

    Renaming a cluster back never waits.
    """
    if old is not None and old in unconfirmed and unconfirmed[old] != new:
        return old
    if new in unconfirmed:
        return new if old not in (None, unconfirmed[new]) else None
    if old in unconfirmed:
        return None
    heirs = [heir for heir, was in unconfirmed.items() if was == old or (was == new and heir in named)]
    return next(iter(sorted(heirs)), None)


def _keep_renames(streams: dict[str, Mapping[str, Any]], unconfirmed: Mapping[str, str]) -> None:
    """Put removed `renamedFrom` back until a driver has the rename. Without it, the driver would read the cluster anew.

    Changes `streams`.
    """
    for stream, stream_content in streams.items():
        kept = {
            name: {"renamedFrom": unconfirmed[name], **content} if name in unconfirmed else content
            for name, content in stream_content["clusters"].items()
        }
        streams[stream] = {"clusters": kept}


def _hold_for_held(wanted: Iterable[StreamEntry], before: Streams, streams: dict[str, Mapping[str, Any]]) -> list[Held]:
    """Hold streams whose newest form disagrees with the last good form of a held stream. Changes `streams`."""
    origins = {entry.stream: entry.origin for entry in wanted}
    held: list[Held] = []
    while True:
        kept = {stream: active(stream_content) for stream, stream_content in before.items() if stream in streams}
        conflicts = _new_disagreements(streams, kept)
        if not conflicts:
            return held
        for stream, conflict in conflicts.items():
            text = f"{origins.get(stream, stream)} {conflict}, which is held: both are rolled out once it is corrected"
            held.append(Held(stream, "Conflict", text))
            if stream in kept:
                streams[stream] = kept[stream]
            else:
                del streams[stream]


def _new_disagreements(streams: Streams, kept: Streams) -> dict[str, str]:
    """Return {stream: its disagreements about clusters for which it does not have its last good form}."""
    now, last = (_parsed(those) for those in (streams, kept))
    conflicts = {}
    for stream, texts in disagreements(now.values()).items():
        before = last[stream].clusters if stream in last else {}
        new = [
            text
            for cluster, text in texts.items()
            if cluster not in before or differing_fields(before[cluster], now[stream].clusters[cluster])
        ]
        if new:
            conflicts[stream] = "; ".join(new)
    return conflicts


def _parsed(streams: Streams) -> dict[str, KafkaStream]:
    """Return the streams that this version accepts.

    A document of an older version may have others. If such a form stays in the document, rendering reports it.
    """
    parsed = {}
    for stream, stream_content in streams.items():
        # A stream without its draining topics may still have explicit offsets of those.
        clusters = {name: without_foreign_topics(content) for name, content in stream_content["clusters"].items()}
        with contextlib.suppress(ValidationError):
            [parsed[stream]] = parse_streams({stream: {"clusters": clusters}})
    return parsed
