"""The option `deadLetters`: the topic for records that a deserialiser refuses, and its cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.strict_json import load_json
from dynamic_kafka.options.java_client_properties import check_no_literal_secrets
from dynamic_kafka.options.secrets import check_references

_TEXTS = ("topic", "cluster", "bootstrapServers", "kafkaId")


@dataclass(frozen=True)
class DeadLetterTopic:
    """The dead-letter topic.

    Attributes:
        cluster: the cluster id that metadata gives its cluster; None if that has servers of its own.
        properties: the client properties of its own servers, with `bootstrap.servers`; references are not resolved.
        kafka_id: the `cluster.id` that its brokers must report; None if any will do.
    """

    topic: str
    cluster: str | None
    properties: Mapping[str, str] = field(repr=False)
    kafka_id: str | None


def parse_dead_letters(text: str, where: str) -> DeadLetterTopic:
    """Read the option.

    Args:
        where: the option's name in messages.

    Raises:
        OptionError: it has another form, or a property holds a secret or a wrong reference.
    """
    try:
        wire: Any = load_json(text)
    except ValueError as error:
        raise OptionError(f"{where} is no JSON: {error}") from None
    if not _is_valid(wire):
        raise OptionError(
            f'{where} must be JSON such as {{"topic": "dead", "cluster": "east"}}; a topic on servers of its own has'
            " `bootstrapServers` and `properties` instead of `cluster`, and both may have a `kafkaId`"
        )
    own = wire.get("bootstrapServers")
    properties = {**wire.get("properties", {}), "bootstrap.servers": own} if own is not None else {}
    check_no_literal_secrets(properties)
    check_references(properties)
    return DeadLetterTopic(wire["topic"], wire.get("cluster"), properties, wire.get("kafkaId"))


def _is_valid(wire: Any) -> bool:
    if not isinstance(wire, dict) or not set(wire) <= {*_TEXTS, "properties"}:
        return False
    texts, own = [wire[key] for key in _TEXTS if key in wire], wire.get("properties", {})
    if not isinstance(own, dict) or not all(isinstance(text, str) and text for text in (*texts, *own.values())):
        return False
    return "topic" in wire and ("cluster" in wire) != ("bootstrapServers" in wire) and not (own and "cluster" in wire)
