"""The metadata document: text in, streams and their revision out. Driver, tools and operator; pure.

Owns both forms of the document, the line-by-line errors of what is wrong with them, and the hash that tells
equal content. A document with `contract` is the operator's rendering: its hash must fit, and optional fields
of a newer operator are ignored. Everything else is a user's and is taken strictly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document_models import ListDocument, MappingDocument, bootstrap_servers
from dynamic_kafka.metadata.kubernetes_names import REPORTED_STREAMS_BYTES
from dynamic_kafka.metadata.model import KafkaStream, Rendering, Revision
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Located, Path, Problem
from dynamic_kafka.metadata.yaml.reader import read_json, read_yaml

CONTRACT = 1
"""The edition of the mapping form that this version writes and reads."""

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""The largest document that is read, after decompression. Measured on a busy two-core machine: 10 MB (32,000
streams) take 4.6 s as YAML and 3.3 s as JSON, with 300 MB of memory at the peak; 4 KB take 2 ms. A ConfigMap ends
at 1 MiB, compressed. An unchanged file is not parsed again."""

_LIST_FORM_ONLY_MAPPING = {
    "secretFolder": "the list form names no secrets; write the mapping form (`streams:`), which has `secretFolder`",
    "secretRef": "a `secretRef` is resolved by the operator, which writes `secretFolder`; the list form "
    "names no secrets",
    "state": "only the operator's mapping form has a `state`",
    "drainingTopics": "only the operator's document has `drainingTopics`; take it out",
    "subscription": "only the operator's document names a `subscription`; take it out",
}


@dataclass(frozen=True)
class MetadataDocument:
    """A valid document: `streams` by id in the document's order, and which edition it is."""

    streams: Mapping[str, KafkaStream]
    revision: Revision


def parse_document(text: str, *, source: str) -> MetadataDocument:
    """The document that `text` holds, in either form, as YAML or JSON.

    Args:
        text: the whole document.
        source: the name that errors give it, such as its path.

    Raises:
        MetadataInvalidError: with every finding, each as `source:line: field.path: what; what to do`.
    """
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 2**20
        raise MetadataInvalidError(
            f"{source}:1: the document is larger than {limit} MiB; split the streams over several"
        )
    fast = read_json(text)
    if fast is not None:
        try:
            return document_in(fast, source)
        except MetadataInvalidError as error:
            # JSON's reader knows no lines: read again, as the YAML that JSON is, for the same findings with
            # lines.
            try:
                located = read_yaml(text, source)
            except MetadataInvalidError:
                raise error from None
            return document_in(located, source)
    return document_in(read_yaml(text, source), source)


def document_hash(streams_wire: Mapping[str, Any]) -> str:
    """`sha256:<64 hex>` of the `streams` of a mapping-form document, whatever the order of its fields.

    `streams_wire` is the plain JSON value, unknown fields included: reader and writer then agree although one
    of them is older.
    """
    return _hash(_canonical(streams_wire))


def _canonical(streams_wire: Mapping[str, Any]) -> str:
    return json.dumps(streams_wire, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _hash(canonical: str) -> str:
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


def document_in(located: Located, source: str) -> MetadataDocument:
    """The document in what was read already. Raises as `parse_document`."""
    if isinstance(located.value, list):
        return _list_form(located, source)
    if isinstance(located.value, dict):
        try:
            return _mapping_form(located, source)
        except MetadataInvalidError as error:
            error.token = _claimed(located.value)
            raise
    text = "is empty" if located.value is None else "is no list or mapping"
    hint = "write a list of streams, or a mapping with `streams`; an empty list `[]` says that there are none"
    raise located.report([Problem((), f"the document {text}; {hint}", located.line_of(()))], source)


def _list_form(located: Located, source: str) -> MetadataDocument:
    problems = [*located.problems, *_double_ids(located), *_renames(_list_clusters(located.value))]
    try:
        wire = ListDocument.model_validate({"streams": located.value})
    except ValidationError as error:
        # The models know the list as a field, the file does not.
        found = [Problem(p.path[1:], _list_text(p), p.line) for p in explain(error, ListDocument)]
        raise located.report([*problems, *found], source) from None
    if problems:
        raise located.report(problems, source)
    streams = {
        stream.stream_id: KafkaStream(
            stream.stream_id, {each.cluster_id: each.metadata() for each in stream.cluster_metadata_list}
        )
        for stream in wire.streams
    }
    raw = {stream.stream_id: _as_mapping(given) for stream, given in zip(wire.streams, located.value, strict=True)}
    return MetadataDocument(streams, Revision(document_hash(raw)))


def _mapping_form(located: Located, source: str) -> MetadataDocument:
    raw = located.value
    rendered = "contract" in raw
    least = raw.get("minReader")
    if isinstance(least, int) and least > CONTRACT:
        text = f"needs a reader of contract {least}, this one reads {CONTRACT}; update the application's image"
        raise located.report([Problem(("minReader",), text)], source)
    if not rendered and "streams" not in raw and "streamId" in raw:
        text = "a single stream is still a list; put `- ` before `streamId`, and indent the rest"
        raise located.report([Problem((), text)], source)
    problems = [*located.problems, *_renames(_mapping_clusters(raw))]
    if not rendered:
        problems += _only_rendered(raw)
    try:
        wire = MappingDocument.model_validate(raw, extra="ignore" if rendered else "forbid")
    except ValidationError as error:
        raise located.report([*problems, *explain(error, MappingDocument)], source) from None
    canonical = _canonical(raw["streams"])
    revised = _hash(canonical)
    if wire.hash is not None and wire.hash != revised:
        text = (
            f"the hash does not match the streams ({revised[:19]}…): the file was edited by hand or is "
            "half-written; "
            "remove `hash`, or let the operator write it again"
        )
        problems.append(Problem(("hash",), text))
    if problems:
        raise located.report(problems, source)
    streams = {
        stream_id: KafkaStream(stream_id, {name: each.metadata() for name, each in stream.clusters.items()})
        for stream_id, stream in wire.streams.items()
    }
    reported = raw["streams"] if len(canonical) <= REPORTED_STREAMS_BYTES else None
    rendering = Rendering(wire.subscription, reported) if rendered else None
    return MetadataDocument(streams, Revision(revised, wire.revision, wire.lineage, rendering))


def _claimed(raw: Mapping[str, Any]) -> str:
    """The revision that a mapping-form document that is not valid says it is."""
    counter, lineage = raw.get("revision"), raw.get("lineage")
    known = isinstance(counter, int) and isinstance(lineage, str)
    return Revision("", counter, lineage).token if known else ""


def _only_rendered(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """What means something to the operator alone: in a document by hand nobody would act on it."""
    if "subscription" in raw:
        yield Problem(("subscription",), "only the operator's document names a `subscription`; take it out")
    for clusters in _mapping_clusters(raw):
        for path, _, cluster in clusters:
            if "drainingTopics" in cluster:
                text = "only the operator's document has `drainingTopics`; take it out"
                yield Problem((*path, "drainingTopics"), text)


def _list_text(problem: Problem) -> str:
    """A field of the mapping form in the list form: say which form has it, instead of the nearest name."""
    if problem.text.startswith("unknown field") and problem.path:
        return _LIST_FORM_ONLY_MAPPING.get(str(problem.path[-1]), problem.text)
    return problem.text


def _as_mapping(stream: Mapping[str, Any]) -> dict[str, Any]:
    """A valid list-form stream, as read, in the mapping form: the hash of both is taken over that."""
    clusters = {
        cluster.get("clusterId") or bootstrap_servers(cluster["bootstrapServers"]): {
            key: value for key, value in cluster.items() if key != "clusterId"
        }
        for cluster in stream["clusterMetadataList"]
    }
    return {"clusters": clusters}


_Clusters = list[tuple[Path, str, Mapping[str, Any]]]
"""Path, id and fields of each cluster of one stream, as far as the document holds any."""


def _list_clusters(raw: list[Any]) -> Iterator[_Clusters]:
    for n, stream in enumerate(raw):
        members = stream.get("clusterMetadataList") if isinstance(stream, dict) else None
        clusters: _Clusters = []
        for m, cluster in enumerate(members if isinstance(members, list) else []):
            if isinstance(cluster, dict) and (name := _id_of(cluster)):
                clusters.append(((n, "clusterMetadataList", m), name, cluster))
        yield clusters


def _mapping_clusters(raw: Mapping[str, Any]) -> Iterator[_Clusters]:
    streams = raw.get("streams")
    for stream_id, stream in (streams if isinstance(streams, dict) else {}).items():
        members = stream.get("clusters") if isinstance(stream, dict) else None
        yield [
            (("streams", stream_id, "clusters", name), name, cluster)
            for name, cluster in (members if isinstance(members, dict) else {}).items()
            if isinstance(cluster, dict)
        ]


def _id_of(cluster: Mapping[str, Any]) -> str | None:
    name = cluster.get("clusterId", cluster.get("bootstrapServers"))
    if not isinstance(name, str):
        return None
    return name if "clusterId" in cluster else ",".join(part.strip() for part in name.split(","))


def _double_ids(located: Located) -> Iterator[Problem]:
    """Stream ids that occur twice, and cluster ids that occur twice in one stream. Works on whatever was
    read."""
    first: dict[str, int] = {}
    for n, stream in enumerate(located.value):
        name = stream.get("streamId") if isinstance(stream, dict) else None
        if isinstance(name, str) and first.setdefault(name, n) != n:
            line = located.line_of((first[name], "streamId"))
            yield Problem((n, "streamId"), f"the stream id {name!r} occurs twice, first on line {line}; merge the two")
    for clusters in _list_clusters(located.value):
        lines: dict[str, Path] = {}
        for path, name, _ in clusters:
            if lines.setdefault(name, path) != path:
                text = (
                    f"the cluster id {name!r} occurs twice in this stream, "
                    f"first on line {located.line_of(lines[name])}; merge their topics"
                )
                yield Problem(path, text)


def _renames(streams: Iterator[_Clusters]) -> Iterator[Problem]:
    """A cluster renamed from itself, and two that claim the offsets of the same one."""
    for clusters in streams:
        heirs: dict[str, str] = {}
        for path, name, cluster in clusters:
            old = cluster.get("renamedFrom")
            if not isinstance(old, str):
                continue
            if old == name:
                text = "names the cluster itself; write the id it had before, or leave the field out"
                yield Problem((*path, "renamedFrom"), text)
            elif heirs.setdefault(old, name) != name:
                text = f"{heirs[old]!r} was renamed from {old!r} as well; only one can carry its offsets on"
                yield Problem((*path, "renamedFrom"), text)
