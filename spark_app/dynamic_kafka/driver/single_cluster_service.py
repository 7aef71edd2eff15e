"""The metadata service of a single cluster: each topic is a stream of its own name. Driver.

Flink's `SingleClusterTopicMetadataService`; also what Spark's `kafka.bootstrap.servers` with `subscribe`,
`subscribePattern` or `assign` means here. Topics given by name need no look-up; for a pattern the cluster is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from dynamic_kafka.errors import ClusterError, MetadataUnavailableError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.metadata.model import ClusterMetadata, KafkaStream
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.options import SingleCluster

DEADLINE_S = 30.0
log = logging.getLogger(__name__)

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics: a pattern does not match them, as in Spark's source; they may be named."""


class SingleClusterService(KafkaMetadataService):
    """Topics of one cluster as streams.

    Args:
        single: the cluster's id and the topics, if they are given by name.
        properties: client properties as given, `bootstrap.servers` among them; secrets by reference.
        stall: `clusterFailurePolicy=stall`: while the cluster does not answer, it has the topics that it had last. The
            planner asks it too, and tells that it is stalled.
    """

    def __init__(self, single: SingleCluster, properties: Mapping[str, str], *, stall: bool = False) -> None:
        self._stall = stall
        self._last: set[str] | None = None
        self._silent = False
        self._single = single
        self._client = ClusterClient(single.cluster_id, properties, {})
        self._servers = properties["bootstrap.servers"]
        self._admin: ClusterAdmin | None = None

    def get_all_streams(self) -> list[KafkaStream]:
        """A stream per topic: those given by name, or all that the cluster lists."""
        given = self._single.topics or (tuple(self._single.assign) if self._single.assign else None)
        return [self._stream(topic) for topic in (given if given is not None else sorted(self._listed()))]

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        """The streams among `stream_ids`. Topics given by name are streams whether or not they exist yet: the planner
        says which of them are missing."""
        given = self._single.topics or tuple(self._single.assign or ())
        known = set(given) if given else self._listed()
        return {topic: self._stream(topic) for topic in stream_ids if topic in known}

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Whether this is the one cluster."""
        return cluster_id == self._single.cluster_id

    def close(self) -> None:
        """Drop the client aside."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close_in_background()

    def _stream(self, topic: str) -> KafkaStream:
        cluster = ClusterMetadata(topics=(topic,), properties={"bootstrap.servers": self._servers})
        return KafkaStream(topic, {self._single.cluster_id: cluster})

    def _listed(self) -> set[str]:
        if self._admin is None:
            config = self._client.admin_config()
            self._admin = ClusterAdmin(
                self._single.cluster_id,
                config,
                read_committed=self._client.read_committed,
                deadline_s=DEADLINE_S,
            )
        try:
            listed = self._admin.list_topics() - INTERNAL
        except ClusterError as error:
            self.close()  # a client that has lost its brokers finds none again (see `admin.kafka_id`)
            if not self._stall or self._last is None:
                raise MetadataUnavailableError(str(error)) from error
            if not self._silent:
                log.warning("its topics are not listed, those that it had are kept until it answers: %s", error)
            self._silent = True
            return self._last
        self._last, self._silent = listed, False
        return listed
