"""All streams of a namespace, from KafkaStreams and labelled ConfigMaps, with what is wrong with each. Pure.

A KafkaStream wins over a ConfigMap for one stream id, and both say so. Two streams that say different things of one
cluster id conflict, and none of them is rolled out where they are read together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document import document_in
from dynamic_kafka.metadata.document_models import MappingStream
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.reader import read_yaml
from kafkastream_operator.core.document import misfit
from kafkastream_operator.models.stream import Drain, KafkaStreamSpec

COMPARED = ("bootstrapServers", "properties", "secretFolder", "renamedFrom", "startingOffsets", "stoppingOffsets")
"""What two streams must say alike of one cluster: else drivers refuse the whole document."""


@dataclass(frozen=True)
class StreamEntry:
    """One stream, as one source has it.

    Attributes:
        origin: the object that says so, such as `KafkaStream orders`.
        content: {"clusters": …} as the document has it; None if it is invalid.
        problem: why it is invalid.
        conflict: with which other stream it disagrees, and about what.
    """

    stream: str
    origin: str
    content: Mapping[str, Any] | None
    drain: Drain = field(default_factory=Drain)
    problem: str = ""
    conflict: str = ""


@dataclass(frozen=True)
class Catalog:
    """The streams of a namespace.

    Attributes:
        streams: by id; what counts.
        shadowed: what a KafkaStream or an earlier ConfigMap has taken precedence over, {origin: {stream: winner}}.
        broken: {origin: why nothing of it can be read}.
    """

    streams: Mapping[str, StreamEntry]
    shadowed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ConfigMapText:
    """A labelled ConfigMap's data."""

    name: str
    data: Mapping[str, str]


def stream_entry(name: str, spec: Mapping[str, Any]) -> StreamEntry:
    """A KafkaStream's spec, checked as a user's file would be."""
    origin = f"KafkaStream {name}"
    try:
        model = KafkaStreamSpec.model_validate(spec)
    except ValidationError as error:
        text = "; ".join(f"spec.{_path(p.path)}: {p.text}" for p in explain(error, KafkaStreamSpec))
        return StreamEntry(name, origin, None, problem=text)
    content = {"clusters": {cluster.id: cluster.wire() for cluster in model.clusters}}
    try:
        MappingStream.model_validate(content)
    except ValidationError as error:
        # The source speaks of the document, in which the operator puts what a stream calls otherwise.
        text = "; ".join(f"{_path(p.path)}: {p.text}" for p in explain(error, MappingStream))
        text = text.replace("secret folder", "Secret").replace("`secretFolder`", "`secretRef`")
        return StreamEntry(name, origin, None, drain=model.drain, problem=text)
    if why := misfit({name: content}):
        return StreamEntry(name, origin, None, drain=model.drain, problem=why)
    return StreamEntry(name, origin, content, model.drain)


def config_map_entries(found: ConfigMapText) -> tuple[list[StreamEntry], str]:
    """The streams of a ConfigMap in Flink's YAML form, and what is wrong with it ("" if nothing)."""
    entries: list[StreamEntry] = []
    for key in sorted(found.data):
        origin = f"ConfigMap {found.name}, key {key}"
        try:
            read = read_yaml(found.data[key], origin)
            document = document_in(read, origin)
        except MetadataInvalidError as error:
            return [], str(error)
        raw = read.value
        if not isinstance(raw, list):
            return [], f"{origin}: write the list form, as Flink's YAML metadata service reads it"
        for stream, each in zip(document.streams.values(), raw, strict=True):
            clusters = {
                name: {k: v for k, v in given.items() if k != "clusterId"}
                for name, given in zip(stream.clusters, each["clusterMetadataList"], strict=True)
            }
            entries.append(StreamEntry(stream.stream_id, f"ConfigMap {found.name}", {"clusters": clusters}))
    return entries, ""


def put_together(
    streams: Mapping[str, StreamEntry], config_maps: Mapping[str, tuple[list[StreamEntry], str]]
) -> Catalog:
    """The catalog of a namespace, of what each object has by its name: a stream, or streams and what is wrong."""
    found = dict(sorted(streams.items()))
    shadowed: dict[str, dict[str, str]] = {}
    broken: dict[str, str] = {}
    for name, (entries, problem) in sorted(config_maps.items()):
        origin = f"ConfigMap {name}"
        if problem:
            broken[origin] = problem
        for entry in entries:
            if entry.stream in found:
                shadowed.setdefault(origin, {})[entry.stream] = found[entry.stream].origin
            else:
                found[entry.stream] = entry
    return Catalog(_with_conflicts(found), shadowed, broken)


def disagreements(streams: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """{stream: {cluster: with which other stream it disagrees about that, and how}} of streams as documents have them.

    Of all that are read together: whichever two of them differ, both are named.
    """
    by_cluster: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, found in sorted(streams.items()):
        for cluster, content in found["clusters"].items():
            by_cluster.setdefault(cluster, []).append((name, content))
    said: dict[str, dict[str, str]] = {}
    for cluster, contents in by_cluster.items():
        first = contents[0]
        other = next((each for each in contents if differing(first[1], each[1])), None)
        for name, content in contents:
            for against in (first, other) if other is not None else ():
                if keys := differing(content, against[1]):
                    what = f"cluster {cluster!r} ({', '.join(keys)} differ)"
                    said.setdefault(name, {})[cluster] = f"disagrees with stream {against[0]!r} about {what}"
                    break
    for cluster, contents in by_cluster.items():
        for name, content in contents:
            old = str(content.get("renamedFrom", ""))
            for rival, _ in by_cluster.get(old, ()):
                if rival != name:
                    what = f"cluster {old!r}, which is {cluster!r} now where it is renamed"
                    said.setdefault(name, {}).setdefault(cluster, f"disagrees with stream {rival!r} about {what}")
                    said.setdefault(rival, {}).setdefault(old, f"disagrees with stream {name!r} about {what}")
    for name, cluster, text in _heirs(by_cluster):
        said.setdefault(name, {}).setdefault(cluster, text)
    return said


def _heirs(by_cluster: Mapping[str, Iterable[tuple[str, Mapping[str, Any]]]]) -> Iterator[tuple[str, str, str]]:
    """(stream, cluster, what is wrong) where streams rename one cluster to different ids: only one carries it on."""
    heirs: dict[str, list[tuple[str, str]]] = {}
    for cluster, contents in by_cluster.items():
        for name, content in contents:
            if "renamedFrom" in content:
                heirs.setdefault(str(content["renamedFrom"]), []).append((name, cluster))
    for old, found in heirs.items():
        if len({cluster for _, cluster in found}) == 1:
            continue
        for name, cluster in found:
            against = next((each for each in found if each[0] != name and each[1] != cluster), None)
            if against is not None:
                what = f"cluster {old!r}, which is {cluster!r} in one and {against[1]!r} in the other"
                yield name, cluster, f"disagrees with stream {against[0]!r} about {what}"


def _with_conflicts(found: Mapping[str, StreamEntry]) -> dict[str, StreamEntry]:
    said = disagreements({name: entry.content for name, entry in found.items() if entry.content is not None})
    return {name: replace(entry, conflict="; ".join(said.get(name, {}).values())) for name, entry in found.items()}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What two streams say differently of one cluster."""
    return [key for key in COMPARED if not _alike(one.get(key), other.get(key), by_topic=key.endswith("Offsets"))]


def _alike(one: Any, other: Any, *, by_topic: bool) -> bool:
    if by_topic and isinstance(one, Mapping) and isinstance(other, Mapping) and "timestamp" not in {*one, *other}:
        # Explicit offsets name topics: each stream may name its own.
        return all(one[topic] == other[topic] for topic in one.keys() & other.keys())
    return bool(one == other)


def _path(steps: Iterable[str | int]) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text
