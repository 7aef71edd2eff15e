"""From a subscription and the streams of its namespace to what its document should say. Pure.

What cannot be rolled out is held: the document keeps what it had of it, and a condition says why. Nothing that works is
changed by something that is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kafkastream_operator.core.catalog import Catalog, StreamEntry, differing, disagreements
from kafkastream_operator.core.document import Document, Streams
from kafkastream_operator.core.patterns import PatternError, pattern_of
from kafkastream_operator.models.stream import Drain
from kafkastream_operator.models.subscription import SecretBinding, SubscriptionSpec


@dataclass(frozen=True)
class Held:
    """A stream, or a cluster of one, whose newest form is not rolled out.

    Attributes:
        reason: the condition's: `InvalidStream`, `InvalidConfigMap`, `Conflict`, `SecretNotBound`, `ServerNotAllowed`,
            `RenamePending`.
        message: what is wrong and what to do.
    """

    stream: str
    reason: str
    message: str
    cluster: str = ""


@dataclass(frozen=True)
class Resolved:
    """What is desired, before anything that drains is added.

    Attributes:
        missing: subscribed ids that no stream has.
        broken: what cannot be read, and may have what is missing.
        problem: why the subscription itself cannot be resolved.
        drain: {stream: how it drains}, of those that are valid.
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
    """What the subscription's document should say.

    Args:
        previous: the document as it is, for what is held.
        unconfirmed: {new id: old id} of its renames that no driver has shown to have.
    """
    try:
        wanted, missing = _wanted(spec, catalog)
    except PatternError as error:
        return Resolved({}, problem=f"spec.streams.pattern {error}")
    bindings = {binding.cluster: binding for binding in spec.secrets}
    before = previous.streams if previous is not None else {}
    streams: dict[str, Mapping[str, Any]] = {}
    held: list[Held] = []
    said = disagreements({entry.stream: entry.content for entry in wanted if entry.content is not None})
    for entry in wanted:
        reason = _stream_problem(entry, said.get(entry.stream, {}))
        if reason is not None:
            held.append(reason)
            if entry.stream in before:
                streams[entry.stream] = active(before[entry.stream])
            continue
        clusters: dict[str, Any] = {}
        for name, content in (entry.content or {})["clusters"].items():
            problem = _binding_problem(entry.stream, name, content, bindings.get(name))
            if problem is None:
                clusters[name] = content
                continue
            held.append(problem)
            kept = active(before.get(entry.stream, {"clusters": {}}))["clusters"].get(name)
            if kept is not None:
                clusters[name] = kept
        streams[entry.stream] = {"clusters": clusters}
    held += _too_early(wanted, before, streams, unconfirmed)
    for held_by_text in _behind_broken(spec, catalog, before, streams):
        held.append(held_by_text)
        streams[held_by_text.stream] = active(before[held_by_text.stream])
    _keep_renames(streams, unconfirmed)
    held += _beside_held(wanted, before, streams)
    missing = [each for each in missing if each not in streams]
    broken = tuple(catalog.broken.values())
    # Of one that is invalid nothing newer counts, nor how it drains, which may not even be readable.
    drain = {entry.stream: entry.drain for entry in catalog.streams.values() if entry.content is not None}
    return Resolved(streams, tuple(held), tuple(missing), broken, drain=drain)


def asks_for(spec: SubscriptionSpec, stream: str) -> bool:
    """Whether the subscription asks for a stream of that id.

    Raises:
        PatternError: its pattern cannot be read.
    """
    if spec.streams.ids is not None:
        return stream in spec.streams.ids
    return pattern_of(spec.streams.pattern or "").fullmatch(stream) is not None


def _wanted(spec: SubscriptionSpec, catalog: Catalog) -> tuple[list[StreamEntry], list[str]]:
    if spec.streams.ids is not None:
        ids = list(dict.fromkeys(spec.streams.ids))
        return [catalog.streams[each] for each in ids if each in catalog.streams], [
            each for each in ids if each not in catalog.streams
        ]
    pattern = pattern_of(spec.streams.pattern or "")
    return [entry for name, entry in sorted(catalog.streams.items()) if pattern.fullmatch(name)], []


def _behind_broken(spec: SubscriptionSpec, catalog: Catalog, before: Streams, found: Streams) -> list[Held]:
    """Streams that are asked for and nothing has any more, while a ConfigMap cannot be read: perhaps it has them."""
    if not catalog.broken:
        return []
    said = "; ".join(catalog.broken.values())
    gone = [
        stream
        for stream in before
        if stream not in found and asks_for(spec, stream) and active(before[stream])["clusters"]
    ]
    text = "no readable object has stream {}, and what worked of it stays, since one cannot be read: {}"
    return [Held(stream, "InvalidConfigMap", text.format(repr(stream), said)) for stream in sorted(gone)]


def _stream_problem(entry: StreamEntry, conflicts: Mapping[str, str]) -> Held | None:
    if entry.content is None:
        text = f"{entry.origin} is invalid and not rolled out, what worked stays: {entry.problem}"
        return Held(entry.stream, "InvalidStream", text)
    if conflicts:
        text = (
            f"{entry.origin} {'; '.join(conflicts.values())}: neither is rolled out. Say the same in both, in two"
            " commits if servers change: first both with the old and the new servers, then both with the new ones"
        )
        return Held(entry.stream, "Conflict", text)
    return None


def _too_early(
    wanted: Iterable[StreamEntry],
    before: Streams,
    streams: dict[str, Mapping[str, Any]],
    unconfirmed: Mapping[str, str],
) -> list[Held]:
    """Streams that go on from a rename that no driver has shown to have: where its offsets are, under the old id or the
    new one, nobody knows yet, and under a third they would not be found. Changes `streams`."""
    named = {name for found in streams.values() for name in found["clusters"]}
    origins = {entry.stream: entry.origin for entry in wanted}
    held = []
    for stream, found in sorted(streams.items()):
        for new, content in found["clusters"].items():
            first = _awaited(new, content.get("renamedFrom"), named, unconfirmed)
            if first is None:
                continue
            text = (
                f"{origins.get(stream, stream)}: cluster {new!r} depends on a rename ({unconfirmed[first]!r} to"
                f" {first!r}) that no driver has reported to have. The stream stays as it was until one has: let the"
                " application run, and see RolledOut and Reporting"
            )
            held.append(Held(stream, "RenamePending", text))
            break
    for each in held:
        if each.stream in before:
            streams[each.stream] = active(before[each.stream])
        else:
            del streams[each.stream]
    return held


def _awaited(new: str, old: str | None, named: Collection[str], unconfirmed: Mapping[str, str]) -> str | None:
    """Return the new id of the rename that a cluster has to wait for; None if it need not. Renaming back need not."""
    if old is not None and old in unconfirmed and unconfirmed[old] != new:
        return old
    if new in unconfirmed:
        return new if old not in (None, unconfirmed[new]) else None
    if old in unconfirmed:
        return None
    heirs = [heir for heir, was in unconfirmed.items() if was == old or (was == new and heir in named)]
    return next(iter(sorted(heirs)), None)


def _keep_renames(streams: dict[str, Mapping[str, Any]], unconfirmed: Mapping[str, str]) -> None:
    """A `renamedFrom` that is taken out stays until a driver has it: it would begin the cluster anew. Changes
    `streams`."""
    for stream, found in streams.items():
        kept = {
            name: {"renamedFrom": unconfirmed[name], **content} if name in unconfirmed else content
            for name, content in found["clusters"].items()
        }
        streams[stream] = {"clusters": kept}


def _beside_held(wanted: Iterable[StreamEntry], before: Streams, streams: dict[str, Mapping[str, Any]]) -> list[Held]:
    """Streams that agree with each other, but not with what stays of one that is held: they are held with it.
    Changes `streams`."""
    origins = {entry.stream: entry.origin for entry in wanted}
    held: list[Held] = []
    while True:
        kept = {stream: active(found) for stream, found in before.items() if stream in streams}
        found = {
            stream: [text for cluster, text in said.items() if _is_news(streams[stream], kept.get(stream), cluster)]
            for stream, said in disagreements(streams).items()
        }
        beside = {stream: "; ".join(said) for stream, said in found.items() if said}
        if not beside:
            return held
        for stream, said in beside.items():
            text = f"{origins.get(stream, stream)} {said}, which is held: both are rolled out when that is mended"
            held.append(Held(stream, "Conflict", text))
            if stream in kept:
                streams[stream] = kept[stream]
            else:
                del streams[stream]


def _is_news(stream: Mapping[str, Any], kept: Mapping[str, Any] | None, cluster: str) -> bool:
    """Whether a stream says something else of a cluster than the document had of it."""
    known = kept["clusters"].get(cluster) if kept is not None else None
    return known is None or bool(differing(stream["clusters"][cluster], known))


def secret_problem(cluster: str, content: Mapping[str, Any], bindings: Iterable[SecretBinding]) -> str:
    """Why a cluster that drains must not have the Secret that it was rendered with; "" if it may."""
    by_cluster = {binding.cluster: binding for binding in bindings}
    held = _binding_problem("", cluster, content, by_cluster.get(cluster))
    return held.message if held is not None else ""


def _binding_problem(
    stream: str, cluster: str, content: Mapping[str, Any], binding: SecretBinding | None
) -> Held | None:
    """`stream`: "" for what drains, which may be of several."""
    wanted = content.get("secretFolder")
    if wanted is None:
        return None
    who = f"stream {stream!r}" if stream else "what drains"
    if binding is None or binding.name != wanted:
        asks = f"{who} asks for Secret {wanted!r} on cluster {cluster!r}"
        add = f"{{cluster: {cluster}, name: {wanted}, allowedServers: […]}}"
        text = f"{asks}, which the subscription does not bind: add {add} to spec.secrets"
        if binding is not None:
            text = f"{asks}, and spec.secrets[cluster={cluster}] binds {binding.name!r}: one of the two has to change"
        return Held(stream, "SecretNotBound", text, cluster)
    foreign = [each for each in _servers(content) if each not in binding.allowed_servers]
    if foreign:
        text = (
            f"{who} would send Secret {wanted!r} to {', '.join(foreign)}, which"
            f" spec.secrets[cluster={cluster}].allowedServers does not name: add them if they are yours"
        )
        return Held(stream, "ServerNotAllowed", text, cluster)
    return None


def _servers(content: Mapping[str, Any]) -> Iterator[str]:
    for each in str(content["bootstrapServers"]).split(","):
        yield each.strip()


def active(stream: Mapping[str, Any]) -> dict[str, Any]:
    """A stream as the document has it, without what drains."""
    clusters = {}
    for name, content in stream["clusters"].items():
        if content.get("state") == "Draining":
            continue
        draining = content.get("drainingTopics", ())
        kept = {key: value for key, value in content.items() if key not in ("drainingTopics", "state")}
        kept["topics"] = [topic for topic in content["topics"] if topic not in draining]
        clusters[name] = kept
    return {"clusters": clusters}
