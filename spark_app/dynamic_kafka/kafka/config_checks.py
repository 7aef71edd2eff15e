"""Checks of client properties by librdkafka itself, without a connection to any cluster.

Runs on the driver, when the source is constructed and before a plan uses new properties, and in the tool `validate`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

from dynamic_kafka.errors import OptionError
from dynamic_kafka.kafka.errors import client_creation_error
from dynamic_kafka.metadata.client_properties import BY_NAME
from dynamic_kafka.options.java_client_properties import JAAS
from dynamic_kafka.options.secrets import has_reference, is_secret_key
from dynamic_kafka.wording import did_you_mean

_log = logging.getLogger(__name__)

_UNKNOWN_PROPERTY = "dynamic.kafka.probe"
_SUGGESTED = sorted(name for name, known in BY_NAME.items() if not known.java_only and not known.unlisted)


def check_client_properties(properties: Mapping[str, str], *, where: str = "options") -> None:
    """Let librdkafka check names and values, without a cluster and without making a client.

    A last property that librdkafka cannot know stops it before it makes a client, so each check costs some 15 µs.

    Args:
        properties: properties under librdkafka's names. The value of one with an unresolved reference is not checked.
        where: begins each message.

    Raises:
        OptionError: librdkafka has no such property, or refuses the value. The message names the nearest property.
    """
    for key, value in properties.items():
        if key != JAAS:
            _check_client_property(key, value, where)


def check_client(cluster: str, config: Mapping[str, str]) -> None:
    """Make a client without servers, so that librdkafka reads certificates and keys but connects to no broker.

    Raises:
        ClusterRefusedError: no client can be made with this configuration.
    """
    alone = {key: value for key, value in config.items() if key != "bootstrap.servers"}
    try:
        Consumer({"group.id": "unused", **alone}, logger=_log)
    except KafkaException as raised:
        raise client_creation_error(cluster, raised) from None


def _check_client_property(key: str, value: str, where: str) -> None:
    try:
        Consumer({"group.id": "unused", key: value, _UNKNOWN_PROPERTY: ""})
        return
    except (KafkaException, TypeError, ValueError, AttributeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else ""
    if _UNKNOWN_PROPERTY in reason:
        return
    if reason.startswith("No such configuration property") or not reason or "dedicated" in reason:
        raise OptionError(f"{where}: the Kafka client has no property '{key}'{did_you_mean(key, _SUGGESTED)}")
    if not has_reference(value):
        # librdkafka's own text may hold the value.
        shown = "the value is not accepted" if is_secret_key(key) else re.sub(r"\s+", " ", reason).strip()
        raise OptionError(f"{where}: Kafka property '{key}' is refused by the client: {shown}")
