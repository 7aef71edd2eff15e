"""The home cluster of the internal topics: a cluster of the metadata, or servers of its own. Driver and `init`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.internal_topics import InternalTopics
from dynamic_kafka.driver.cluster_clients import home_client
from dynamic_kafka.driver.home_servers import OWN_SERVERS
from dynamic_kafka.kafka.config import ClusterClient, admin_config, merge
from dynamic_kafka.kafka.topic_admin import TopicAdmin
from dynamic_kafka.metadata.subscription import Subscription


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

    @property
    def servers(self) -> str | None:
        """The bootstrap servers as they are given, for messages. Raises as `client`."""
        return merge(self.client.common, self.client.own).get("bootstrap.servers")

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
    options = config.shared_options
    own = {"bootstrap.servers": declared.bootstrap_servers, **declared.properties} if declared.bootstrap_servers else {}
    where = f"{config.source}: internalTopics.{'cluster' if declared.cluster else 'properties'}"
    find = partial(home_client, options, subscription, cluster=declared.cluster, properties=own, where=where)
    home = Home(declared.cluster or OWN_SERVERS, find)
    _ = home.client  # report a wrong name now
    return home
