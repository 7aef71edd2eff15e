"""The checks of a document that go beyond one field: misplaced fields, duplicate ids, and renames. Pure.

`document.py` calls them with the plain values that the reader returns. The values may be of any type: where they are
not lists and mappings as expected, `document_models.py` reports that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynamic_kafka.metadata.yaml.located import Located, Path, Problem

_Clusters = list[tuple[Path, str, Mapping[str, Any]]]
"""Path, id and fields of each cluster of one stream, without values that are no cluster."""

_NOT_IN_LIST_FORM = {
    "secretFolder": "the list form names no secrets; write the mapping form (`streams:`), which has `secretFolder`",
    "secretRef": "a `secretRef` is resolved by the operator, which writes `secretFolder`; the list form "
    "names no secrets",
    "state": "only the operator's mapping form has a `state`",
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
                text = (
                    f"the cluster id {name!r} occurs twice in this stream, "
                    f"first on line {located.line_of(lines[name])}; merge their topics"
                )
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
