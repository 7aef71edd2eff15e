"""The rendered document: made, packed into a ConfigMap's keys, and read back. Pure.

Equal content has an equal hash; lineage and counter order the revisions. The hash does not cover `drain`, which may
change without a new revision.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from typing import Any, NamedTuple

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import DOCUMENT_KEY, PACKED_DOCUMENT_KEY
from dynamic_kafka.errors import MetadataConflictError
from dynamic_kafka.metadata.document import MAX_DOCUMENT_BYTES, contract_of, document_hash
from dynamic_kafka.metadata.document_models import MappingDocument
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Findings

MIN_READER = 1
"""The oldest contract whose readers can read a document of this operator; `Document.min_reader` may be later."""
PACK_FROM_BYTES = 64 * 1024
"""Documents of this size and more are packed; smaller ones stay readable with kubectl."""
MAX_BYTES = 1024 * 1024 - 16 * 1024
"""The size of a document that fits into a ConfigMap together with the ConfigMap's metadata."""

Streams = Mapping[str, Mapping[str, Any]]
"""{stream id: {"clusters": {cluster id: cluster}}}, as the mapping form of a document has it."""


class Key(NamedTuple):
    """A topic on a cluster: the unit of a drain. A query reads it once, however many streams have it."""

    cluster: str
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}"


def cluster_names(cluster: str, servers: str) -> tuple[str, ...]:
    """Return the names of a cluster: its id, and each of its servers, since it may have several ids."""
    return (cluster, *filter(None, servers.split(",")))


@dataclass(frozen=True)
class Document:
    """A document that this operator wrote.

    Attributes:
        drain: {stream: its `drain` settings}, kept for a drain that begins when the stream is deleted.
        subscription: UID of the subscription; the driver names it in its reports.
    """

    revision: Revision
    streams: Streams
    drain: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    subscription: str = ""

    @property
    def hash(self) -> str:
        """`sha256:<64 hex>` of the streams."""
        return self.revision.hash

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The Secrets that the document needs mounted."""
        return frozenset(
            cluster["secretFolder"]
            for stream in self.streams.values()
            for cluster in stream["clusters"].values()
            if "secretFolder" in cluster
        )

    @property
    def min_reader(self) -> int:
        """The contract that a reader needs. One that did not have pinned topics would read others in their place."""
        return max(MIN_READER, contract_of(self.streams))

    @cached_property
    def length(self) -> int:
        """The length of the text, which is not kept itself."""
        return len(self.text())

    def text(self) -> str:
        """Return the JSON that is mounted."""
        content = {
            "contract": contract_of(self.streams),
            "minReader": self.min_reader,
            "lineage": self.revision.lineage,
            "revision": self.revision.counter,
            "hash": self.hash,
            "subscription": self.subscription,
            "drain": self.drain,
            "streams": self.streams,
        }
        return json.dumps(content, indent=1, sort_keys=True) + "\n"


def entries(streams: Streams) -> Iterator[tuple[str, Key, Mapping[str, Any]]]:
    """Yield every topic of the streams: the stream, the topic, and the cluster's entry in that stream."""
    for stream, stream_content in streams.items():
        for cluster, content in stream_content["clusters"].items():
            for topic in content["topics"]:
                yield stream, Key(cluster, topic), content


def draining_in(streams: Streams) -> Iterator[Key]:
    """Yield every topic that drains."""
    for _, key, content in entries(streams):
        if content.get("state") == "Draining" or key.topic in content.get("drainingTopics", ()):
            yield key


def active(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stream of a document without its draining topics."""
    clusters = {}
    for name, content in stream["clusters"].items():
        if content.get("state") == "Draining":
            continue
        draining = content.get("drainingTopics", ())
        kept = {key: value for key, value in content.items() if key != "drainingTopics"}
        kept["topics"] = [topic for topic in content["topics"] if topic not in draining]
        clusters[name] = with_pins(kept, kept.get("topicIds", {}))
    return {"clusters": clusters}


def with_pins(content: Mapping[str, Any], pins: Mapping[str, str]) -> dict[str, Any]:
    """Return the cluster with those of the pins that are of its topics; documents refuse others."""
    kept = {topic: pin for topic, pin in pins.items() if topic in content["topics"]}
    unpinned = {key: value for key, value in content.items() if key != "topicIds"}
    return unpinned | ({"topicIds": kept} if kept else {})


def without_foreign_topics(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster without pins and explicit offsets of topics that it does not have: documents refuse those."""
    cluster = with_pins(content, content.get("topicIds", {}))
    for name in ("startingOffsets", "stoppingOffsets"):
        value = cluster.get(name)
        if isinstance(value, Mapping) and "timestamp" not in value:
            kept = {topic: offsets for topic, offsets in value.items() if topic in cluster["topics"]}
            del cluster[name]
            cluster |= {name: kept} if kept else {}
    return cluster


def make_document(
    revision: Revision, streams: Streams, drain: Mapping[str, Mapping[str, str]], subscription: str
) -> Document:
    """Return a document with the hash of these streams."""
    return Document(replace(revision, hash=document_hash(streams)), streams, drain, subscription)


def parse_streams(streams: Streams) -> list[KafkaStream]:
    """Parse the streams of a document.

    Raises:
        ValidationError: a stream is invalid.
    """
    document = MappingDocument.model_validate({"streams": streams}, extra="ignore")
    return [
        KafkaStream(stream, {name: cluster.metadata() for name, cluster in content.clusters.items()})
        for stream, content in document.streams.items()
    ]


def misfit(streams: Streams) -> str:
    """Return why a driver would reject these streams together; "" if it would not. Each may be valid by itself."""
    try:
        unite(parse_streams(streams))
    except ValidationError as error:
        return str(Findings(explain(error, MappingDocument)))
    except MetadataConflictError as error:
        return str(error)
    return ""


def read_document(data: Mapping[str, str], binary: Mapping[str, str]) -> Document | None:
    """Return the document in a ConfigMap's `data` or `binaryData`; None if the operator did not write one there.

    A document that was edited by hand does not match its hash, and counts as none.
    """
    try:
        text = data.get(DOCUMENT_KEY)
        if text is None:
            text = _unpacked(base64.b64decode(binary[PACKED_DOCUMENT_KEY])).decode()
        document = json.loads(text)
        streams = document["streams"]
        revision = Revision(document["hash"], int(document["revision"]), str(document["lineage"]))
        if revision.hash != document_hash(streams) or not revision.token:
            return None
        return Document(revision, streams, document.get("drain", {}), str(document.get("subscription", "")))
    except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None


def _unpacked(packed: bytes) -> bytes:
    """Return the unpacked bytes, up to the size that a driver reads.

    The limit protects the operator, which serves all namespaces, from a ConfigMap that unpacks without end.

    Raises:
        ValueError: the document is larger; or the errors of gzip.
    """
    with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
        unpacked = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(unpacked) > MAX_DOCUMENT_BYTES:
        raise ValueError("the document is larger than a driver reads")
    return unpacked


def pack(document: Document) -> tuple[dict[str, str], dict[str, str]]:
    """Return `data` and `binaryData` of the ConfigMap. Another zlib may pack the same document to other bytes."""
    text = document.text()
    if len(text) < PACK_FROM_BYTES:
        return {DOCUMENT_KEY: text}, {}
    packed = gzip.compress(text.encode(), mtime=0)
    return {}, {PACKED_DOCUMENT_KEY: base64.b64encode(packed).decode()}


def is_packed(document: Document, data: Mapping[str, str], binary: Mapping[str, str]) -> bool:
    """Return whether the keys of a ConfigMap are those of this document, with its text.

    The compressed bytes do not count: an operator with another zlib, as of another image, would else write all large
    documents anew.
    """
    text = document.text()
    if len(text) < PACK_FROM_BYTES:
        return (dict(data), dict(binary)) == ({DOCUMENT_KEY: text}, {})
    if data or list(binary) != [PACKED_DOCUMENT_KEY]:
        return False
    return _unpacked(base64.b64decode(binary[PACKED_DOCUMENT_KEY])) == text.encode()


def size(packed: tuple[Mapping[str, str], Mapping[str, str]]) -> int:
    """Return the bytes that the document takes in a ConfigMap, which counts `binaryData` before its base64."""
    data, binary = packed
    return sum(len(value.encode()) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
