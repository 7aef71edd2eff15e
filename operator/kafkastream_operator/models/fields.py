"""The types of fields, each with the pattern and the bounds that the CRD has for it. Pure.

Every string and every list has a bound, because the API server estimates the cost of CEL rules from them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from dynamic_kafka.contract.kubernetes_names import SECRET_CHARACTERS
from dynamic_kafka.metadata.offset_grammar import START, STOP, Side

MAX_CLUSTERS = 64
MAX_TOPICS = 256
MAX_PROPERTIES = 64
MAX_STREAMS = 256
MAX_SECRETS = 64
MAX_SERVERS = 64

_PLAIN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_DNS = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_DURATION = r"^([0-9]{1,9}(ms|s)?|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$"
_PORT = r"0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_SERVER = rf"[^\s/,@]+:{_PORT}"

ClusterName = Annotated[str, Field(min_length=1, max_length=63, pattern=_PLAIN)]
"""A cluster id. It allows less than a file's cluster ids do, because it is the name of a mounted folder, too."""
FormerName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s\[\]]+$")]
"""A former id of a cluster. In a ConfigMap in Flink's form, a cluster without an id has its servers as its id."""
StreamName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s,;]+$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_DNS)]
SecretName = Annotated[
    str, Field(min_length=1, max_length=SECRET_CHARACTERS, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]
"""The name of a Secret that Spark mounts. Spark names the volume `<Secret>-volume`, and a volume's name has at most 63
characters and no dot."""
TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]
Server = Annotated[str, Field(min_length=3, max_length=261, pattern=f"^{_SERVER}$")]
Servers = Annotated[str, Field(min_length=3, max_length=4096, pattern=f"^{_SERVER}(,{_SERVER})*$")]
Regex = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=1024)]


def moment(text: str) -> datetime:
    """Return the time of a text. The API server also accepts lower-case letters in it, and one without a time zone.

    Raises:
        ValueError: the text is no time.
    """
    parsed = datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _check_moment(text: str) -> str:
    if text:
        moment(text)
    return text


Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
"""A time that a user writes. The code that reads it reports a text that is none."""
Moment = Annotated[Time, AfterValidator(_check_moment)]
"""A time in a status. A status with a text that is none counts as unreadable: the operator makes it anew."""
AnyName = Annotated[str, Field(min_length=1, max_length=253)]
"""An id in a status. It allows more than `ClusterName`, because ids from a ConfigMap in Flink's form may be servers."""
DurationText = Annotated[str, Field(min_length=1, max_length=16, pattern=_DURATION)]
"""A duration as in the source's options: `10s`, `5m`, `7d`. The pattern excludes values that no timer can hold."""

Properties = Annotated[
    dict[str, str],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": MAX_PROPERTIES,
            "additionalProperties": {"type": "string", "maxLength": 4096},
        }
    ),
]
"""Kafka client properties. `dynamic_kafka.metadata.properties` decides which keys and values are allowed."""


TopicIds = Annotated[
    dict[str, str],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": MAX_TOPICS,
            "additionalProperties": {"type": "string", "maxLength": 64},
        }
    ),
]
"""Kafka's ids of topics. A CEL rule checks their form, because it has a message that a pattern has not."""


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; give one, or leave the field out")
    return value


def _words(side: Side) -> WithJsonSchema:
    """Return the schema of offsets: a word, a timestamp, or offsets by topic.

    No structural schema has a type for that. The pattern only concerns words; the operator checks the rest.
    """
    pattern = f"^({'|'.join(side.words)})$"
    return WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True, "pattern": pattern})


StartingOffsets = Annotated[Any, BeforeValidator(_refuse_null), _words(START)]
StoppingOffsets = Annotated[Any, BeforeValidator(_refuse_null), _words(STOP)]


class Part(BaseModel):
    """A part of a resource, in camelCase. It refuses unknown fields; the API server has dropped those before."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class StatusPart(Part):
    """A part of a status. It takes no notice of unknown fields, since a newer operator may have written them."""

    model_config = ConfigDict(extra="ignore")
