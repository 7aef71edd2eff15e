"""The home of the application's own topics where it has servers of its own, and its `cluster.id`. Driver.

The metadata service and the plans compare that id with those of the clusters they read, because the servers may be
those of one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.options.java_client_properties import translate_java

OWN_SERVERS = "internal-topics"
"""The name, in messages and in the client's id, of a home with servers of its own."""
DEADLINE_S = 30.0


def own_servers_client(properties: Mapping[str, str], where: str) -> ClusterClient:
    """Return the access to such a home. Its servers get none of the options' properties; references stay unresolved.

    Args:
        properties: its client properties, with `bootstrap.servers`.
        where: the place of the setting, for messages.

    Raises:
        OptionError: a property is wrong.
    """
    common = translate_java(properties, where, warn=lambda _: None, fit=True)
    return ClusterClient(cluster=OWN_SERVERS, common=common, own={})


def home_id_of(options: SourceOptions) -> str | None:
    """Return the `cluster.id` of the home: the one in the options, else the one that its servers report.

    A home that is a cluster of the metadata is recognised by its name, and is not asked: None.

    Raises:
        ClusterError: the servers do not answer.
        SecretError, OptionError: as `ClusterClient.resolved_properties`.
    """
    own = options.own_topics
    if own is None or own.kafka_id is not None or own.cluster is not None:
        return own.kafka_id if own is not None else None
    return _reported_id(tuple(sorted(own.properties.items())), min(own.topics))


@functools.lru_cache(maxsize=8)
def _reported_id(properties: tuple[tuple[str, str], ...], topic: str) -> str | None:
    config = own_servers_client(dict(properties), "option 'internalTopics'").admin_config()
    admin = ClusterAdmin(OWN_SERVERS, config, read_committed=False, deadline_s=DEADLINE_S)
    try:
        return admin.kafka_id(topic)
    finally:
        admin.close_in_background()
