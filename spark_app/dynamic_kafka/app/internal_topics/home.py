"""The home cluster of the internal topics: a cluster of the metadata, or servers of its own. Driver and `init`.

A home with servers of its own gets none of the options' properties: its `properties` in `app.yaml` are all that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.errors import OptionError
from dynamic_kafka.kafka.config import ClusterClient, admin_config
from dynamic_kafka.kafka.topic_admin import TopicAdmin
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options.java_client_properties import translate_java
from dynamic_kafka.wording import did_you_mean, first_few

OWN_SERVERS = "internal-topics"
"""The name in messages and in the client's id of a home with servers of its own."""


@dataclass(frozen=True)
class Home:
    """The access to the home cluster, with references to secrets unresolved.

    Attributes:
        name: the cluster id of the metadata, or `OWN_SERVERS`.
        client: resolves the properties, each time anew.
    """

    name: str
    client: ClusterClient

    def admin(self, deadline_s: float) -> TopicAdmin:
        """Return a new admin client. Each of its calls has this deadline. Raises as `resolved_properties` does."""
        config = admin_config(self.name, self.client.resolved_properties())
        return TopicAdmin(self.name, config, read_committed=False, deadline_s=deadline_s)


def find_home(config: AppConfig, declared: InternalTopics, subscription: Callable[[], Subscription]) -> Home:
    """Return the home cluster that `app.yaml` names.

    Args:
        subscription: returns the clusters of the metadata; called only if the home is one of them.

    Raises:
        OptionError: metadata names no such cluster, or a property is wrong.
        MetadataError: there is no metadata.
    """
    if declared.cluster is None:
        given: Mapping[str, str] = {**declared.properties, "bootstrap.servers": declared.bootstrap_servers or ""}
        where = f"{config.source}: internalTopics.properties"
        common = translate_java(given, where, warn=lambda _: None, fit=True)
        return Home(OWN_SERVERS, ClusterClient(cluster=OWN_SERVERS, common=common, own={}))
    known = subscription().clusters
    if declared.cluster not in known:
        hint = did_you_mean(declared.cluster, known) or f"; it names: {first_few(sorted(known))}"
        raise OptionError(
            f"{config.source}: internalTopics.cluster: the metadata of the subscribed streams names no cluster"
            f" {declared.cluster!r}{hint}"
        )
    options = config.parsed_options(config.sinks[0])
    return Home(declared.cluster, client_of(options, subscription(), declared.cluster))
