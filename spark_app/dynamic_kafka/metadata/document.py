"""The metadata document: text in, streams and their revision out. Driver, tools and operator; pure.

Owns both forms of the document, the errors with their lines, and the hash by which equal content is recognised. The
operator's document has `contract`: its hash must fit, and optional fields of a newer operator are ignored. A user's
document has none, and unknown fields are errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import REPORTED_STREAMS_BYTES
from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata.document_models import ListDocument, MappingDocument
from dynamic_kafka.metadata.model import KafkaStream, Rendering, Revision
from dynamic_kafka.metadata.names import check_servers
from dynamic_kafka.metadata.strict_json import read_json
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Located, Path, Problem
from dynamic_kafka.metadata.yaml.reader import read_yaml

CONTRACT = 3
"""The version of the mapping form that this code reads: version 2 has `topicIds`, version 3 the state `Announced`.

A document is written as the oldest version that has all of its fields (`contract_of`). An older reader would ignore a
field that it does not have, and read a topic with another id.
"""

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""The largest document that is read, after decompression. A ConfigMap holds at most 1 MiB, compressed.

Measured on a busy two-core machine: 10 MB (32,000 streams) take 4.6 s as YAML and 3.3 s as JSON. The peak is 300 MB of
memory; 4 KB take 2 ms. An unchanged file is not parsed again.
"""


@dataclass(frozen=True)
class MetadataDocument:
    """A valid document: its streams by id, in the document's order, and its revision."""

    streams: Mapping[str, KafkaStream]
    revision: Revision


def parse_document(text: str, *, source: str) -> MetadataDocument:
    """Return the document that `text` holds, in either form, as YAML or JSON.

    Args:
        source: the document's name in errors, such as its path.

    Raises:
        MetadataInvalidError: with every problem, each as `source:line: field.path: what is wrong; what to do`.
    """
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 2**20
        raise MetadataInvalidError(
            f"{source}:1: the document is larger than {limit} MiB; split the streams over several"
        )
    parsed = read_json(text)
    if parsed is not None:
        try:
            return document_in(parsed, source)
        except MetadataInvalidError as error:
            # The JSON reader has no lines. JSON is YAML, so the YAML reader finds the same problems with lines.
            try:
                located = read_yaml(text, source)
            except MetadataInvalidError:
                raise error from None
            return document_in(located, source)
    return document_in(read_yaml(text, source), source)


def document_hash(streams: Mapping[str, Any]) -> str:
    """Return `sha256:<64 hex>` over the `streams` of a mapping-form document; the order of fields does not matter.

    `streams` is the plain JSON value, with unknown fields: so a reader and a writer of different versions agree.
    """
    return _hash(_canonical(streams))


def contract_of(streams: Mapping[str, Any]) -> int:
    """Return the version of the mapping form that a document with these streams is written in, and needs to be read."""
    clusters = [cluster for stream in streams.values() for cluster in stream["clusters"].values()]
    if any(cluster.get("state") == "Announced" for cluster in clusters):
        return 3
    return 2 if any(cluster.get("topicIds") for cluster in clusters) else 1


def _canonical(streams: Mapping[str, Any]) -> str:
    return json.dumps(streams, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _hash(canonical: str) -> str:
    return "sha256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()


def document_in(located: Located, source: str) -> MetadataDocument:
    """Return the document in a text that was read already. Raises as `parse_document` does."""
    if isinstance(located.value, list):
        return _list_form(located, source)
    if isinstance(located.value, dict):
        try:
            return _mapping_form(located, source)
        except MetadataInvalidError as error:
            error.token = _claimed_token(located.value)
            raise
    text = "is empty" if located.value is None else "is no list or mapping"
    hint = "write a list of streams, or a mapping with `streams`; for no streams write an empty list `[]`"
    raise located.report([Problem((), f"the document {text}; {hint}", located.line_of(()))], source)


def _list_form(located: Located, source: str) -> MetadataDocument:
    misplaced = list(misplaced_fields(located.value))
    problems = [*located.problems, *duplicate_ids(located), *wrong_renames(located.value), *misplaced]
    try:
        document = ListDocument.model_validate({"streams": located.value})
    except ValidationError as error:
        # The models have the list as the field `streams`, the file does not.
        explained = [Problem(p.path[1:], p.text, p.line) for p in explain(error, ListDocument)]
        explained = [p for p in explained if not any(p.path[: len(other.path)] == other.path for other in misplaced)]
        raise located.report([*problems, *explained], source) from None
    if problems:
        raise located.report(problems, source)
    streams = {
        stream.stream_id: KafkaStream(
            stream.stream_id, {cluster.cluster_id: cluster.metadata() for cluster in stream.cluster_metadata_list}
        )
        for stream in document.streams
    }
    raw = {stream.stream_id: _as_mapping(given) for stream, given in zip(document.streams, located.value, strict=True)}
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
    if not rendered and "sinks" in raw:
        text = "looks like an app.yaml, not a metadata document; give the document that its field `metadata` names"
        raise located.report([Problem((), text)], source)
    problems = [*located.problems, *wrong_renames(raw)]
    if not rendered:
        problems += operator_only_fields(raw)
    try:
        document = MappingDocument.model_validate(raw, extra="ignore" if rendered else "forbid")
    except ValidationError as error:
        raise located.report([*problems, *explain(error, MappingDocument)], source) from None
    canonical = _canonical(raw["streams"])
    actual = _hash(canonical)
    if document.hash is not None and document.hash != actual:
        text = f"the hash does not match the streams ({actual[:19]}…): remove `hash` if you edited them, or render anew"
        problems.append(Problem(("hash",), text))
    if problems:
        raise located.report(problems, source)
    streams = {
        stream_id: KafkaStream(stream_id, {name: cluster.metadata() for name, cluster in stream.clusters.items()})
        for stream_id, stream in document.streams.items()
    }
    reported = raw["streams"] if len(canonical) <= REPORTED_STREAMS_BYTES else None
    rendering = Rendering(document.subscription, reported) if rendered else None
    return MetadataDocument(streams, Revision(actual, document.revision, document.lineage, rendering))


def _claimed_token(raw: Mapping[str, Any]) -> str:
    """Return the revision that an invalid mapping-form document names, or an empty text."""
    counter, lineage = raw.get("revision"), raw.get("lineage")
    known = isinstance(counter, int) and isinstance(lineage, str)
    return Revision("", counter, lineage).token if known else ""


def _as_mapping(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return a valid list-form stream in the mapping form, over which the hash of both forms is taken."""
    clusters = {
        cluster.get("clusterId") or check_servers(cluster["bootstrapServers"]): {
            key: value for key, value in cluster.items() if key != "clusterId"
        }
        for cluster in stream["clusterMetadataList"]
    }
    return {"clusters": clusters}


# -- document checks ------------------------------------------------------------------------------------------


_Clusters = list[tuple[Path, str, Mapping[str, Any]]]
"""Path, id and fields of each cluster of one stream, without values that are no cluster."""

_NOT_IN_LIST_FORM = {
    "secretFolder": "the list form names no secrets; write the mapping form (`streams:`), which has `secretFolder`",
    "secretRef": "the operator resolves a `secretRef` and writes `secretFolder`; the list form names no secrets",
    "drainingTopics": "only the operator's document has `drainingTopics`; take it out",
    "subscription": "only the operator's document names a `subscription`; take it out",
}
"""Fields that the list form lacks, and the text that refuses each."""


def operator_only_fields(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Find fields of the operator's document in a user's document, where nothing would act on them."""
    if "subscription" in raw:
        yield Problem(("subscription",), _NOT_IN_LIST_FORM["subscription"])
    for clusters in _mapping_clusters(raw):
        for path, _, cluster in clusters:
            if "drainingTopics" in cluster:
                yield Problem((*path, "drainingTopics"), _NOT_IN_LIST_FORM["drainingTopics"])


def misplaced_fields(raw: list[Any]) -> Iterator[Problem]:
    """Find fields of the mapping form in a document of the list form."""
    for n, stream in enumerate(raw):
        members = stream.get("clusterMetadataList") if isinstance(stream, dict) else None
        clusters = enumerate(members if isinstance(members, list) else [])
        for path, fields in [((n,), stream), *(((n, "clusterMetadataList", m), cluster) for m, cluster in clusters)]:
            for name, text in _NOT_IN_LIST_FORM.items():
                if isinstance(fields, dict) and name in fields:
                    yield Problem((*path, name), text)
            if isinstance(fields, dict) and fields.get("state") == "Draining":
                yield Problem((*path, "state"), "only the mapping form has the state Draining; take the cluster out")


def duplicate_ids(located: Located) -> Iterator[Problem]:
    """Find stream ids that occur twice, and cluster ids that occur twice in one stream."""
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
                line = located.line_of(lines[name])
                text = f"the cluster id {name!r} occurs twice in this stream, first on line {line}; merge their topics"
                yield Problem(path, text)


def wrong_renames(raw: list[Any] | dict[str, Any]) -> Iterator[Problem]:
    """Find clusters renamed from themselves, and clusters of one stream that are renamed from the same one."""
    for clusters in _list_clusters(raw) if isinstance(raw, list) else _mapping_clusters(raw):
        successors: dict[str, str] = {}
        for path, name, cluster in clusters:
            old = cluster.get("renamedFrom")
            if not isinstance(old, str):
                continue
            if old == name:
                text = "names the cluster itself; write the id it had before, or leave the field out"
                yield Problem((*path, "renamedFrom"), text)
            elif successors.setdefault(old, name) != name:
                text = f"{successors[old]!r} was renamed from {old!r} as well; only one can carry its offsets on"
                yield Problem((*path, "renamedFrom"), text)


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
