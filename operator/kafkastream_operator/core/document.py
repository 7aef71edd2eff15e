"""The rendered document: made, packed into a ConfigMap's keys, and read back. Pure.

Equality is by hash, order by lineage and counter. What is not of the hash (`drain`) may change without a new revision.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, NamedTuple

from pydantic import ValidationError

from dynamic_kafka.errors import MetadataConflictError
from dynamic_kafka.metadata.document import CONTRACT, MAX_DOCUMENT_BYTES, document_hash
from dynamic_kafka.metadata.document_models import MappingDocument
from dynamic_kafka.metadata.kubernetes_names import DOCUMENT_KEY, PACKED_DOCUMENT_KEY
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.metadata.validation_errors import explain

MIN_READER = 1
"""The oldest contract that can read what is written here."""
PACK_FROM_BYTES = 64 * 1024
"""Documents are packed from this size on; smaller ones stay readable with kubectl."""
MAX_BYTES = 1024 * 1024 - 16 * 1024
"""What fits into a ConfigMap, next to its own metadata."""

Streams = Mapping[str, Mapping[str, Any]]
"""{stream id: {"clusters": {cluster id: cluster}}}, as the mapping form has it."""


class Key(NamedTuple):
    """What is drained: a topic on a cluster. Whichever stream has it, it is read once."""

    cluster: str
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}"


@dataclass(frozen=True)
class Document:
    """A document that this operator wrote.

    Attributes:
        drain: {stream: how it drains}, remembered for the day when the stream is gone.
        subscription: UID of the subscription, which the driver names in its reports.
    """

    revision: Revision
    streams: Streams
    drain: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    subscription: str = ""

    @property
    def hash(self) -> str:
        """`sha256:<64 hex>` of the streams."""
        return self.revision.hash

    def text(self) -> str:
        """The JSON that is mounted."""
        content = {
            "contract": CONTRACT,
            "minReader": MIN_READER,
            "lineage": self.revision.lineage,
            "revision": self.revision.counter,
            "hash": self.hash,
            "subscription": self.subscription,
            "drain": self.drain,
            "streams": self.streams,
        }
        return json.dumps(content, indent=1, sort_keys=True) + "\n"


def entries(streams: Streams) -> Iterator[tuple[str, Key, Mapping[str, Any]]]:
    """Every topic of streams: the stream, the topic, and the cluster as it stands there."""
    for stream, found in streams.items():
        for cluster, content in found["clusters"].items():
            for topic in content["topics"]:
                yield stream, Key(cluster, topic), content


def draining_in(streams: Streams) -> Iterator[Key]:
    """Every topic of streams that drains there."""
    for _, key, content in entries(streams):
        if content.get("state") == "Draining" or key.topic in content.get("drainingTopics", ()):
            yield key


def make_document(
    revision: Revision, streams: Streams, drain: Mapping[str, Mapping[str, str]], subscription: str
) -> Document:
    """A document over these streams."""
    return Document(replace(revision, hash=document_hash(streams)), streams, drain, subscription)


def misfit(streams: Streams) -> str:
    """Why no reader takes these streams together, though each may be sound by itself; "" if it does."""
    try:
        wire = MappingDocument.model_validate({"streams": streams}, extra="ignore")
        unite(
            KafkaStream(stream, {name: cluster.metadata() for name, cluster in found.clusters.items()})
            for stream, found in wire.streams.items()
        )
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each.path))}: {each.text}" for each in explain(error, MappingDocument))
    except MetadataConflictError as error:
        return str(error)
    return ""


def read_document(data: Mapping[str, str], binary: Mapping[str, str]) -> Document | None:
    """The document in a ConfigMap's `data` or `binaryData`; None if there is none that this operator wrote.

    A document that was edited by hand does not fit its hash: it is none.
    """
    try:
        text = data.get(DOCUMENT_KEY)
        if text is None:
            text = _unpacked(base64.b64decode(binary[PACKED_DOCUMENT_KEY])).decode()
        found = json.loads(text)
        streams = found["streams"]
        revision = Revision(found["hash"], int(found["revision"]), str(found["lineage"]))
        if revision.hash != document_hash(streams) or not revision.token:
            return None
        return Document(revision, streams, found.get("drain", {}), str(found.get("subscription", "")))
    except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None


def _unpacked(packed: bytes) -> bytes:
    """Not more than what a driver reads: somebody may have packed something endless, and all namespaces would feel it.

    Raises:
        ValueError: it is larger; or as gzip has it.
    """
    with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
        found = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(found) > MAX_DOCUMENT_BYTES:
        raise ValueError("larger than any document")
    return found


def pack(document: Document) -> tuple[dict[str, str], dict[str, str]]:
    """`data` and `binaryData` of the ConfigMap. The same document is packed to the same bytes."""
    text = document.text()
    if len(text) < PACK_FROM_BYTES:
        return {DOCUMENT_KEY: text}, {}
    packed = gzip.compress(text.encode(), mtime=0)
    return {}, {PACKED_DOCUMENT_KEY: base64.b64encode(packed).decode()}


def size(packed: tuple[Mapping[str, str], Mapping[str, str]]) -> int:
    """Bytes that the packed document takes in a ConfigMap, which counts the text of `binaryData` unpacked."""
    data, binary = packed
    return sum(len(value.encode()) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
