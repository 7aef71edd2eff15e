"""The home cluster of the internal topics: a cluster of the metadata, or servers of its own. Driver and `init`.

A home with servers of its own gets none of the options' properties: its `properties` in `app.yaml` are all that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

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


class Home:
    """The access to the home cluster, with references to secrets unresolved.

    Args:
        name: the cluster id of the metadata, or `OWN_SERVERS`.
        find_client: returns the present access; the metadata of a cluster may change while the application runs.
    """

    def __init__(self, name: str, find_client: Callable[[], ClusterClient]) -> None:
        self.name, self._find_client = name, find_client

    @property
    def client(self) -> ClusterClient:
        """The present access. Raises OptionError if the metadata names the cluster no longer."""
        return self._find_client()

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
        own = ClusterClient(cluster=OWN_SERVERS, common=common, own={})
        return Home(OWN_SERVERS, lambda: own)
    home = Home(declared.cluster, partial(_subscribed_client, config, declared.cluster, subscription))
    _ = home.client  # report a wrong name now
    return home


def _subscribed_client(config: AppConfig, cluster: str, subscription: Callable[[], Subscription]) -> ClusterClient:
    present = subscription()
    if cluster not in present.clusters:
        hint = did_you_mean(cluster, present.clusters) or f"; it names: {first_few(sorted(present.clusters))}"
        raise OptionError(
            f"{config.source}: internalTopics.cluster: the metadata of the subscribed streams names no cluster"
            f" {cluster!r}{hint}"
        )
    return client_of(config.parsed_options(config.sinks[0]), present, cluster)
