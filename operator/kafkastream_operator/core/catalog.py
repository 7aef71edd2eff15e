"""The catalog: all streams of a namespace, with the problems of each. Pure; `handlers.subscription_view` builds it.

Streams come from KafkaStreams and from labelled ConfigMaps. If both have one stream id, the KafkaStream wins. Two
streams that disagree about a cluster conflict, and an application that reads both gets neither change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document import document_in
from dynamic_kafka.metadata.document_models import MappingStream
from dynamic_kafka.metadata.model import KafkaStream
from dynamic_kafka.metadata.subscription import find_conflicts
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Findings
from dynamic_kafka.metadata.yaml.reader import read_yaml
from kafkastream_operator.core.document import cluster_names, misfit
from kafkastream_operator.models.stream import Drain, KafkaStreamSpec


@dataclass(frozen=True)
class StreamEntry:
    """One stream, as one object has it.

    Attributes:
        origin: the object, such as `KafkaStream orders`.
        content: {"clusters": …} in the document's form; None if the stream is invalid.
        parsed: the same, parsed; None if the stream is invalid.
        problem: why the stream is invalid.
        conflict: which other stream it disagrees with, and about what.
    """

    stream: str
    origin: str
    content: Mapping[str, Any] | None
    parsed: KafkaStream | None = None
    drain: Drain = field(default_factory=Drain)
    problem: str = ""
    conflict: str = ""

    @cached_property
    def described(self) -> Mapping[str, Mapping[str, Any]]:
        """The clusters without their topics: streams have to agree about them."""
        clusters = self.content["clusters"] if self.content is not None else {}
        return {name: {key: value for key, value in c.items() if key != "topics"} for name, c in clusters.items()}


@dataclass(frozen=True)
class Catalog:
    """The streams of a namespace.

    Attributes:
        streams: {stream id: the entry that counts}.
        shadowed: {ConfigMap: {stream id: the object that wins over it}}.
        broken: {ConfigMap: why it cannot be read}.
    """

    streams: Mapping[str, StreamEntry]
    shadowed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def drain(self) -> Mapping[str, Drain]:
        """The settings of the valid streams: the newest form of an invalid one does not count, or cannot be read."""
        return {name: entry.drain for name, entry in self.streams.items() if entry.content is not None}

    @cached_property
    def naming(self) -> Mapping[str, Collection[str]]:
        """The streams that name a cluster, by its id and by each of its servers."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for stream, entry in self.streams.items():
            for cluster, content in entry.content["clusters"].items() if entry.content is not None else ():
                for key in cluster_names(cluster, str(content["bootstrapServers"])):
                    found[key].append(stream)
        return found


@dataclass(frozen=True)
class ConfigMapText:
    """A labelled ConfigMap's name and data."""

    name: str
    data: Mapping[str, str]


def stream_entry(name: str, spec: Mapping[str, Any]) -> StreamEntry:
    """Return the entry of a KafkaStream, validated as strictly as a user's file."""
    origin = f"KafkaStream {name}"
    try:
        model = KafkaStreamSpec.model_validate(spec)
    except ValidationError as error:
        return StreamEntry(name, origin, None, problem=str(Findings(explain(error, KafkaStreamSpec, at=("spec",)))))
    content = {"clusters": {cluster.id: cluster.wire() for cluster in model.clusters}}
    try:
        mapping = MappingStream.model_validate(content)
    except ValidationError as error:
        # The message names the document's fields; a KafkaStream calls one of them otherwise.
        text = str(Findings(explain(error, MappingStream)))
        text = text.replace("secret folder", "Secret").replace("`secretFolder`", "`secretRef`")
        return StreamEntry(name, origin, None, drain=model.drain, problem=text)
    if why := misfit({name: content}):
        return StreamEntry(name, origin, None, drain=model.drain, problem=why)
    parsed = KafkaStream(name, {cluster: cluster_spec.metadata() for cluster, cluster_spec in mapping.clusters.items()})
    return StreamEntry(name, origin, content, parsed, model.drain)


def config_map_entries(user_map: ConfigMapText) -> tuple[list[StreamEntry], str]:
    """Return the streams of a ConfigMap in Flink's list form, and why it cannot be read ("" if it can)."""
    entries: list[StreamEntry] = []
    for key in sorted(user_map.data):
        origin = f"ConfigMap {user_map.name}, key {key}"
        try:
            read = read_yaml(user_map.data[key], origin)
            document = document_in(read, origin)
        except MetadataInvalidError as error:
            return [], str(error)
        raw = read.value
        if not isinstance(raw, list):
            return [], f"{origin}: write the list form, as Flink's YAML metadata service reads it"
        for stream, wire in zip(document.streams.values(), raw, strict=True):
            clusters = {
                name: {k: v for k, v in given.items() if k != "clusterId"}
                for name, given in zip(stream.clusters, wire["clusterMetadataList"], strict=True)
            }
            entries.append(StreamEntry(stream.stream_id, f"ConfigMap {user_map.name}", {"clusters": clusters}, stream))
    return entries, ""


def put_together(
    streams: Mapping[str, StreamEntry], config_maps: Mapping[str, tuple[list[StreamEntry], str]]
) -> Catalog:
    """Return the catalog of a namespace.

    Args:
        streams: {name of a KafkaStream: its entry}.
        config_maps: {name of a ConfigMap: its entries, and why it cannot be read}.
    """
    by_stream = {name: streams[name] for name in sorted(streams)}
    shadowed: dict[str, dict[str, str]] = {}
    broken: dict[str, str] = {}
    for name, (entries, problem) in sorted(config_maps.items()):
        origin = f"ConfigMap {name}"
        if problem:
            broken[origin] = problem
        for entry in entries:
            if entry.stream in by_stream:
                shadowed.setdefault(origin, {})[entry.stream] = by_stream[entry.stream].origin
            else:
                by_stream[entry.stream] = entry
    conflicts = disagreements(entry.parsed for entry in _doubtful(by_stream.values()) if entry.parsed is not None)
    found = {name: replace(by_stream[name], conflict="; ".join(texts.values())) for name, texts in conflicts.items()}
    return Catalog({**by_stream, **found}, shadowed, broken)


def _doubtful(entries: Iterable[StreamEntry]) -> Iterable[StreamEntry]:
    """Return the streams that may disagree: most describe each of their clusters as the others do, and rename none."""
    seen: dict[str, Mapping[str, Any]] = {}
    doubtful: set[str] = set()
    valid = [entry for entry in entries if entry.content is not None]
    for entry in valid:
        for cluster, described in entry.described.items():
            if (first := seen.setdefault(cluster, described)) is not described and first != described:
                doubtful.add(cluster)
            if "renamedFrom" in described:
                doubtful |= {cluster, described["renamedFrom"]}
    return [entry for entry in valid if not doubtful.isdisjoint(entry.described)] if doubtful else ()


def disagreements(streams: Iterable[KafkaStream]) -> dict[str, dict[str, str]]:
    """Return {stream: {cluster: which other stream it disagrees with, and about what}}, with every stream concerned."""
    texts: dict[str, dict[str, str]] = {}
    for conflict in find_conflicts(streams):
        for own, other in ((conflict.one, conflict.other), (conflict.other, conflict.one)):
            if own.stream != other.stream:
                text = f"disagrees with stream {other.stream!r} about {conflict.subject}"
                texts.setdefault(own.stream, {}).setdefault(own.cluster, text)
    return texts
