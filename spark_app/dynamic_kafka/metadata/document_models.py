"""The two forms of the metadata document as pydantic models. Driver, tools and operator; pure.

The operator writes the mapping form (`MappingDocument`). Users write the list form that Flink's YAML metadata service
reads (`ListDocument`), or the mapping form by hand. The models check the names and values of fields, all at once;
`subscription.unite` checks that the streams agree.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo
from pydantic.alias_generators import to_camel

from dynamic_kafka.metadata.model import ClusterMetadata, ClusterState, OffsetSpec
from dynamic_kafka.metadata.names import check_cluster_id, check_folder, check_servers, check_stream_id, check_topic
from dynamic_kafka.metadata.offset_grammar import START, STOP, Side, read_offsets
from dynamic_kafka.metadata.properties import property_problem
from dynamic_kafka.metadata.topic_ids import check_topic_id
from dynamic_kafka.metadata.yaml.located import Findings, Problem

_BY_SERVERS = "\x00"
"""The default of `clusterId`, which means the bootstrap servers. A control character, so no user's text equals it."""


def _has_value(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; give one, or leave the field out")
    return value


def _no_duplicates(values: list[str]) -> list[str]:
    twice = [n for n, name in enumerate(values) if name in values[:n]]
    if twice:
        raise Findings(Problem((n,), f"{values[n]!r} is listed twice; keep one") for n in twice)
    return values


def _among_topics(values: list[str], info: ValidationInfo) -> list[str]:
    topics = info.data.get("topics", values)  # wrong topics are reported at their own field
    foreign = [n for n, name in enumerate(values) if name not in topics]
    if foreign:
        raise Findings(Problem((n,), f"{values[n]!r} is not among this cluster's topics") for n in foreign)
    return values


def _cluster_id_or_servers(value: str, info: ValidationInfo) -> str:
    if value != _BY_SERVERS:
        return check_cluster_id(value)
    # Wrong servers are reported at their own field.
    return check_cluster_id(info.data["bootstrap_servers"]) if "bootstrap_servers" in info.data else value


def _properties(value: Any, info: ValidationInfo) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a mapping of Kafka client properties")
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for key, given in value.items():
        if isinstance(given, bool):
            texts[key] = str(given).lower()
        elif isinstance(given, (str, int)):
            texts[key] = str(given)
        else:
            text = "must be a string, a whole number, true or false; put the value in quotes"
            problems.append(Problem((key,), text))
            continue
        problem = property_problem(key, texts[key], secret_folder=info.data.get("secret_folder"))
        if problem:
            problems.append(Problem((key,), problem))
    if problems:
        raise Findings(problems)
    return texts


def _topic_ids(value: Any, info: ValidationInfo) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a mapping of topics to their ids")
    problems: list[Problem] = []
    topics = info.data.get("topics", value)  # wrong topics are reported at their own field
    for topic, given in value.items():
        if topic not in topics:
            problems.append(Problem((topic,), f"{topic!r} is not among this cluster's topics"))
        elif not isinstance(given, str):
            problems.append(Problem((topic,), "must be a topic id; put it in quotes"))
        else:
            try:
                check_topic_id(given)
            except ValueError as error:
                problems.append(Problem((topic,), str(error)))
    if problems:
        raise Findings(problems)
    return dict(value)


def _offsets(side: Side) -> PlainValidator:
    def read(value: Any, info: ValidationInfo) -> OffsetSpec:
        return read_offsets(_has_value(value), side, info.data.get("topics"))

    return PlainValidator(read)


ClusterId = Annotated[str, AfterValidator(check_cluster_id)]
StreamId = Annotated[str, AfterValidator(check_stream_id)]
Topic = Annotated[str, AfterValidator(check_topic)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class DocumentCluster(_Model):
    """One cluster of one stream in either form.

    `secretFolder`, `drainingTopics` and the state `Draining` belong to the mapping form; `document.py` finds them
    elsewhere.
    """

    # The order matters: a check sees only the fields above its own.
    bootstrap_servers: Annotated[str, AfterValidator(check_servers)]
    topics: Annotated[list[Topic], Field(min_length=1), AfterValidator(_no_duplicates)]
    topic_ids: Annotated[dict[str, str], PlainValidator(_topic_ids)] = Field(default_factory=dict)
    secret_folder: Annotated[Annotated[str, AfterValidator(check_folder)] | None, BeforeValidator(_has_value)] = None
    properties: Annotated[dict[str, str], PlainValidator(_properties)] = Field(default_factory=dict)
    starting_offsets: Annotated[OffsetSpec | None, _offsets(START)] = None
    stopping_offsets: Annotated[OffsetSpec | None, _offsets(STOP)] = None
    renamed_from: Annotated[ClusterId | None, BeforeValidator(_has_value)] = None
    state: ClusterState = "Active"
    draining_topics: Annotated[list[str], AfterValidator(_no_duplicates), AfterValidator(_among_topics)] = Field(
        default_factory=list
    )

    def metadata(self) -> ClusterMetadata:
        """Return the same cluster as the value that the rest of the package uses."""
        return ClusterMetadata(
            topics=tuple(self.topics),
            properties={"bootstrap.servers": self.bootstrap_servers, **self.properties},
            starting_offsets=self.starting_offsets,
            stopping_offsets=self.stopping_offsets,
            renamed_from=self.renamed_from,
            secret_folder=self.secret_folder,
            state=self.state,
            draining_topics=tuple(self.draining_topics),
            topic_ids=self.topic_ids,
        )


class MappingStream(_Model):
    """One stream of the mapping form."""

    clusters: dict[ClusterId, DocumentCluster]


class MappingDocument(_Model):
    """The mapping form. With `contract` it is the operator's."""

    contract: int | None = Field(default=None, ge=1)
    min_reader: int | None = Field(default=None, ge=1)
    lineage: str | None = Field(default=None, min_length=1)
    revision: int | None = Field(default=None, ge=0)
    hash: str | None = None
    subscription: str = ""
    streams: dict[StreamId, MappingStream]


class ListCluster(DocumentCluster):
    """One cluster of the list form: the same with its id."""

    cluster_id: Annotated[str, AfterValidator(_cluster_id_or_servers)] = Field(
        default=_BY_SERVERS, validate_default=True
    )


class ListStream(_Model):
    """One stream of the list form."""

    stream_id: StreamId
    cluster_metadata_list: list[ListCluster]


class ListDocument(_Model):
    """The list form; in a file it is the bare list."""

    streams: list[ListStream]
