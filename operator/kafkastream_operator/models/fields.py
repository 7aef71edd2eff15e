"""Types of fields, each with the pattern and the length that its CRD carries. Pure.

The API server counts what a CEL rule may cost from these bounds, so every string and list has one.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from dynamic_kafka.metadata.kubernetes_names import SECRET_CHARACTERS

MAX_CLUSTERS = 64
MAX_TOPICS = 256
MAX_PROPERTIES = 64
MAX_STREAMS = 256
MAX_SECRETS = 64
MAX_SERVERS = 64

_PLAIN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_DNS = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_DURATION = r"^([0-9]{1,9}(ms|s)?|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$"
_SERVERS = r"^[^\s/,@]+:[0-9]{1,5}(,[^\s/,@]+:[0-9]{1,5})*$"

ClusterName = Annotated[str, Field(min_length=1, max_length=63, pattern=_PLAIN)]
"""A cluster id. Shorter and plainer than in a file: it is the name of a mounted folder as well."""
FormerName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s\[\]]+$")]
"""An id that a cluster had in a document: also that of a ConfigMap in Flink's form, which may be its servers."""
StreamName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s,;]+$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_DNS)]
SecretName = Annotated[
    str, Field(min_length=1, max_length=SECRET_CHARACTERS, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]
"""A Secret that Spark mounts: it calls the volume `<Secret>-volume`, which has at most 63 characters and no dot."""
TopicName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]
Server = Annotated[str, Field(min_length=3, max_length=261, pattern=r"^[^\s/,@]+:[0-9]{1,5}$")]
Servers = Annotated[str, Field(min_length=3, max_length=4096, pattern=_SERVERS)]
Regex = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=1024)]
Moment = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
AnyName = Annotated[str, Field(min_length=1, max_length=253)]
"""In a status: an id as a ConfigMap in Flink's form may have it: a cluster without one is called by its servers."""
DurationText = Annotated[str, Field(min_length=1, max_length=16, pattern=_DURATION)]
"""A duration as the source's options take it: `10s`, `5m`, `7d`. The pattern ends before what no timer can hold."""

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
"""Kafka client properties. Which ones, and what values, `dynamic_kafka.metadata.properties` says."""


def _anything(value: Any) -> Any:
    if value is None:
        raise ValueError("has no value; give one, or leave the field out")
    return value


Offsets = Annotated[Any, BeforeValidator(_anything), WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""A word, a timestamp or offsets by topic: no structural schema says that, so it is checked by the operator."""


class Part(BaseModel):
    """A part of a resource: camelCase, strict about unknown fields (the API server prunes them)."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
