"""The metadata service of a single cluster: each topic is a stream with the topic's name. Driver.

It corresponds to Flink's `SingleClusterTopicMetadataService`. The source also uses it for Spark's
`kafka.bootstrap.servers` with `subscribe`, `subscribePattern` or `assign`. Only a pattern needs the cluster's topic
list.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from dynamic_kafka.driver.home_servers import home_id_of
from dynamic_kafka.errors import ClusterError, MetadataUnavailableError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.metadata.model import ClusterMetadata, KafkaStream
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.options import SingleCluster, SourceOptions

DEADLINE_S = 30.0
log = logging.getLogger(__name__)

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics. A pattern does not match them, as in Spark's source, but a user may name them."""


class SingleClusterService(KafkaMetadataService):
    """Topics of one cluster as streams.

    Args:
        single: the cluster's id and the topics, if they are given by name.
        options: the client properties among them name the servers. With `clusterFailurePolicy=stall` the service keeps
            the last listed topics while the cluster does not answer. The observer asks the cluster, too, and reports it
            as stalled.
    """

    def __init__(self, single: SingleCluster, options: SourceOptions) -> None:
        self._options = options
        self._last: set[str] | None = None
        self._unlisted = False
        self._single = single
        self._client = ClusterClient(single.cluster_id, options.kafka_properties, {})
        self._servers = options.kafka_properties["bootstrap.servers"]
        self._admin: ClusterAdmin | None = None

    def get_all_streams(self) -> list[KafkaStream]:
        """Return one stream per topic: the topics given by name, or all that the cluster lists."""
        given = self._single.topics or (tuple(self._single.assign) if self._single.assign else None)
        return [self._stream(topic) for topic in (given if given is not None else sorted(self._listed()))]

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """Return the streams among `stream_ids`.

        Topics given by name are streams even if they do not exist yet: the plan refuses the missing ones.
        """
        given = self._single.topics or tuple(self._single.assign or ())
        known = set(given) if given else self._listed()
        return {topic: self._stream(topic) for topic in stream_ids if topic in known}

    def is_cluster_active(self, cluster_id: str) -> bool:
        return cluster_id == self._single.cluster_id

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close_in_background()

    def _stream(self, topic: str) -> KafkaStream:
        cluster = ClusterMetadata(topics=(topic,), properties={"bootstrap.servers": self._servers})
        return KafkaStream(topic, {self._single.cluster_id: cluster})

    def _listed(self) -> set[str]:
        """Return the topics that the cluster lists, without Kafka's own and the application's own."""
        if self._admin is None:
            config = self._client.admin_config()
            self._admin = ClusterAdmin(
                self._single.cluster_id, config, read_committed=self._client.read_committed, deadline_s=DEADLINE_S
            )
        try:
            listed = self._admin.list_topics() - INTERNAL
            listed -= self._own_topics(self._admin, listed)
        except ClusterError as error:
            self.close()  # a client that lost its brokers does not find them again (see `admin.kafka_id`)
            if self._options.cluster_failure_policy != "stall" or self._last is None:
                raise MetadataUnavailableError(str(error)) from error
            if not self._unlisted:
                log.warning("cannot list the topics, so the last listed ones stay until the cluster answers: %s", error)
            self._unlisted = True
            return self._last
        self._last, self._unlisted = listed, False
        return listed

    def _own_topics(self, admin: ClusterAdmin, listed: set[str]) -> frozenset[str]:
        """Return those topics that are the application's own. Asks for an id only if a topic is named like one."""
        own, cluster = self._options.own_topics, self._single.cluster_id
        alike = own.topics & listed if own is not None else frozenset()
        if own is None or not alike:
            return frozenset()
        is_home = own.is_home(cluster, admin.kafka_id(min(alike)), partial(home_id_of, self._options))
        return alike if is_home else frozenset()
