"""The metadata document as it is written: one pydantic model per form. Driver and operator; pure.

The operator writes the mapping form (`MappingDocument`), users write the list form that Flink's YAML metadata
service reads (`ListStream`), or the mapping form by hand. Field names and values are checked here, all at
once; what goes beyond one document (two streams that disagree about a cluster) is `subscription.unite`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
)
from pydantic.alias_generators import to_camel

from dynamic_kafka.metadata.model import ClusterMetadata, OffsetSpec
from dynamic_kafka.metadata.properties import is_plain_name, property_problem
from dynamic_kafka.metadata.validation_errors import findings
from dynamic_kafka.metadata.yaml.located import Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLUSTER_ID = re.compile(r"[^\s\[\]\x00-\x1f\x7f-\x9f]{1,253}\Z")
_STREAM_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,253}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\],@]+):([0-9]{1,5})\Z")
_EARLIEST, _LATEST = -2, -1
_BY_SERVERS = "\x00"
"""No `clusterId` was given. A control character, so that no text of a user's is mistaken for it."""


def cluster_id(value: str) -> str:
    """A cluster id: 1 to 253 characters without whitespace, brackets and control characters.

    Raises:
        ValueError: it is none.
    """
    if not _CLUSTER_ID.match(value):
        raise ValueError(
            "a cluster id has 1 to 253 characters, without whitespace, brackets and control characters; "
            "give a `clusterId`"
        )
    return value


def stream_id(value: str) -> str:
    """A stream id: 1 to 253 characters without control characters, and no space at either end.

    Raises:
        ValueError: it is none.
    """
    if not _STREAM_ID.match(value) or value != value.strip():
        raise ValueError("a stream id has 1 to 253 characters, without control characters, and no space at either end")
    return value


def bootstrap_servers(value: str) -> str:
    """`host:port,host:port`, with spaces around the commas taken away.

    Raises:
        ValueError: an entry is no `host:port`.
    """
    servers = [server.strip() for server in value.split(",")]
    for server in servers:
        found = _SERVER.match(server)
        if not found or not 0 < int(found.group(2)) < 65536:
            if "@" in value:  # who writes `user:password@host` must not find that in a status
                raise ValueError("must be `host:port` without an `@`: credentials go into the cluster's secret folder")
            raise ValueError(f"{server[:80]!r} is not `host:port`; separate several servers by commas")
    return ",".join(servers)


def topic_name(value: str) -> str:
    """A topic's name as Kafka takes it.

    Raises:
        ValueError: it is none.
    """
    if not _TOPIC.match(value) or value in (".", ".."):
        raise ValueError(f"{value[:80]!r} is no topic name; those have 1 to 249 of letters, digits, `.`, `_` and `-`")
    return value


def _draining(values: list[str], info: ValidationInfo) -> list[str]:
    topics = info.data.get("topics", values)  # topics that are wrong have a finding of their own
    foreign = [
        ((n,), f"{name!r} is not among this cluster's topics") for n, name in enumerate(values) if name not in topics
    ]
    if foreign:
        raise findings(foreign)
    return values


def _topics(values: list[str]) -> list[str]:
    twice = [((n,), f"{name!r} is listed twice; keep one") for n, name in enumerate(values) if name in values[:n]]
    if twice:
        raise findings(twice)
    return values


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; give one, or leave the field out")
    return value


def _old_id(value: str | None) -> str | None:
    return None if value is None else cluster_id(value)


def folder_name(value: str) -> str:
    """The name of a secret folder.

    Raises:
        ValueError: it is more than a name.
    """
    if not is_plain_name(value):
        raise ValueError("must be the plain name of a folder: no `/`, and not only dots")
    return value


def _folder(value: str | None) -> str | None:
    return None if value is None else folder_name(value)


def _cluster_id_or_servers(value: str, info: ValidationInfo) -> str:
    if value != _BY_SERVERS:
        return cluster_id(value)
    # Servers that are wrong have a finding of their own.
    return cluster_id(info.data["bootstrap_servers"]) if "bootstrap_servers" in info.data else value


def _properties(value: Any, info: ValidationInfo) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a mapping of Kafka client properties")
    texts: dict[str, str] = {}
    problems: list[tuple[Path, str]] = []
    for key, given in value.items():
        if isinstance(given, bool):
            texts[key] = str(given).lower()
        elif isinstance(given, (str, int)):
            texts[key] = str(given)
        else:
            problems.append(((key,), "must be a string, a whole number, true or false; put the value in quotes"))
            continue
        problem = property_problem(key, texts[key], secret_folder=info.data.get("secret_folder"))
        if problem:
            problems.append(((key,), problem))
    if problems:
        raise findings(problems)
    return texts


def _timestamp_ms(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    elif isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        milliseconds = int(value)
    else:
        try:
            moment = datetime.fromisoformat(value)
        except (ValueError, TypeError):
            raise ValueError(
                "is no timestamp; write ISO 8601 with a zone, as 2026-11-01T00:00:00Z, or milliseconds since 1970"
            ) from None
        if moment.tzinfo is None:
            raise ValueError("has no zone; append `Z` or an offset such as `+01:00`")
        milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise ValueError("lies before 1970")
    return milliseconds


def _explicit(value: dict[str, Any], topics: Sequence[str] | None, lowest: int) -> OffsetSpec:
    problems: list[tuple[Path, str]] = []
    offsets: dict[str, dict[int, int]] = {}
    for topic, partitions in value.items():
        if topics is not None and topic not in topics:
            hint = "" if topic != "timestamp" else "; for a point in time write {timestamp: 2026-11-01T00:00:00Z}"
            problems.append(((topic,), f"is not among this cluster's topics ({', '.join(topics[:10])}){hint}"))
            continue
        if not isinstance(partitions, dict) or not partitions:
            problems.append(((topic,), 'must map partitions to offsets, as {"0": 42}'))
            continue
        for partition, offset in partitions.items():
            if not re.fullmatch(r"0|[1-9][0-9]{0,8}", partition):
                problems.append(((topic, partition), "is no partition number"))
            elif not isinstance(offset, int) or isinstance(offset, bool) or not lowest <= offset < 2**63:
                marks = "-2 (earliest) or -1 (latest)" if lowest == _EARLIEST else "-1 (latest)"
                problems.append(((topic, partition), f"must be an offset: a whole number from 0, or {marks}"))
            else:
                offsets.setdefault(topic, {})[int(partition)] = offset
    if problems:
        raise findings(problems)
    return OffsetSpec("explicit", offsets=offsets)


def _offsets(
    words: tuple[Literal["earliest", "latest", "committed"], ...],
    lowest: int,
    value: Any,
    topics: Sequence[str] | None,
) -> OffsetSpec:
    _given(value)
    for word in words:
        if value == word:
            return OffsetSpec(word)
    if isinstance(value, dict) and set(value) == {"timestamp"} and not isinstance(value["timestamp"], dict):
        try:
            return OffsetSpec("timestamp", timestamp_ms=_timestamp_ms(value["timestamp"]))
        except ValueError as error:
            raise findings([(("timestamp",), str(error))]) from None
    if isinstance(value, dict) and value:
        return _explicit(value, topics, lowest)
    raise ValueError(f'must be {", ".join(words)}, {{timestamp: 2026-11-01T00:00:00Z}} or {{topic: {{"0": 42}}}}')


def starting_offsets(value: Any, topics: Sequence[str] | None) -> OffsetSpec:
    """`startingOffsets` of a cluster with these topics; None: they are not known, and not checked.

    Raises:
        ValueError: it is none of the forms; `findings` if several things are wrong.
    """
    return _offsets(("earliest", "latest", "committed"), _EARLIEST, value, topics)


def stopping_offsets(value: Any, topics: Sequence[str] | None) -> OffsetSpec:
    """`stoppingOffsets`, as `starting_offsets`."""
    # Nothing lies before the earliest offset. A stop does not move with the group's commits: it is resolved once.
    return _offsets(("latest", "committed"), _LATEST, value, topics)


def _starting(value: Any, info: ValidationInfo) -> OffsetSpec:
    return starting_offsets(value, info.data.get("topics"))


def _stopping(value: Any, info: ValidationInfo) -> OffsetSpec:
    return stopping_offsets(value, info.data.get("topics"))


ClusterId = Annotated[str, AfterValidator(cluster_id)]
StreamId = Annotated[str, AfterValidator(stream_id)]
Servers = Annotated[str, AfterValidator(bootstrap_servers)]
Topics = Annotated[list[Annotated[str, AfterValidator(topic_name)]], Field(min_length=1), AfterValidator(_topics)]
DrainingTopics = Annotated[list[str], AfterValidator(_topics), AfterValidator(_draining)]
Folder = Annotated[str | None, BeforeValidator(_given), AfterValidator(_folder)]
RenamedFrom = Annotated[str | None, BeforeValidator(_given), AfterValidator(_old_id)]
Properties = Annotated[dict[str, str], PlainValidator(_properties)]
StartingOffsets = Annotated[OffsetSpec | None, PlainValidator(_starting)]
StoppingOffsets = Annotated[OffsetSpec | None, PlainValidator(_stopping)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class DocumentCluster(_Model):
    """One cluster of the mapping form. Fields before `properties` and the offsets are what those are checked
    against."""

    bootstrap_servers: Servers
    topics: Topics
    secret_folder: Folder = None
    properties: Properties = Field(default_factory=dict)
    starting_offsets: StartingOffsets = None
    stopping_offsets: StoppingOffsets = None
    renamed_from: RenamedFrom = None
    state: Literal["Active", "Draining"] = "Active"
    draining_topics: DrainingTopics = Field(default_factory=list)

    def metadata(self) -> ClusterMetadata:
        """The same as the rest of the package knows it."""
        return replace(
            _metadata(self),
            secret_folder=self.secret_folder,
            state=self.state,
            draining_topics=tuple(self.draining_topics),
        )


class MappingStream(_Model):
    """One stream of the mapping form."""

    clusters: dict[ClusterId, DocumentCluster]


class MappingDocument(_Model):
    """The mapping form. With `contract` it is the operator's, and readers ignore optional fields unknown to
    them."""

    contract: int | None = Field(default=None, ge=1)
    min_reader: int | None = Field(default=None, ge=1)
    lineage: str | None = Field(default=None, min_length=1)
    revision: int | None = Field(default=None, ge=0)
    hash: str | None = None
    subscription: str = ""
    streams: dict[StreamId, MappingStream]


class ListCluster(_Model):
    """One cluster of the list form."""

    bootstrap_servers: Servers
    cluster_id: Annotated[str, AfterValidator(_cluster_id_or_servers)] = Field(
        default=_BY_SERVERS, validate_default=True
    )
    topics: Topics
    properties: Properties = Field(default_factory=dict)
    starting_offsets: StartingOffsets = None
    stopping_offsets: StoppingOffsets = None
    renamed_from: RenamedFrom = None

    def metadata(self) -> ClusterMetadata:
        """The same as the rest of the package knows it."""
        return _metadata(self)


class ListStream(_Model):
    """One stream of the list form."""

    stream_id: StreamId
    cluster_metadata_list: list[ListCluster]


class ListDocument(_Model):
    """The list form; in a file it is the bare list."""

    streams: list[ListStream]


def _metadata(cluster: DocumentCluster | ListCluster) -> ClusterMetadata:
    return ClusterMetadata(
        topics=tuple(cluster.topics),
        properties={"bootstrap.servers": cluster.bootstrap_servers, **cluster.properties},
        starting_offsets=cluster.starting_offsets,
        stopping_offsets=cluster.stopping_offsets,
        renamed_from=cluster.renamed_from,
    )
