"""Ask one Kafka cluster, in bulk and with a deadline: topics, partitions, ids, offsets, commits of a group.

Runs on the driver, for the enumerator and for the application's committer. One `ClusterAdmin` a cluster and set of
resolved properties; every call here blocks the calling thread at most for its deadline, `probe.py` keeps such threads
apart from the planner's. Only bulk calls: a call per partition costs 930 ms for 2,000 partitions, one list 50 ms.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.errors import ConnectionProblem, client_creation_error, is_transient, kafka_error_of, translate
from dynamic_kafka.kafka.groups import Commits, GroupClient
from dynamic_kafka.kafka.retries import PAUSE_S, retry_while_transient
from dynamic_kafka.planning.starting import OffsetQuery

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's text for a topic id of all zeros: a broker that tells none."""
NO_SUCH_RECORD = -1
"""Kafka's answer where no record is as new as a timestamp. Anything below is no answer: librdkafka says -1001 for a
broker that did not answer in time, and raises nothing."""

log = logging.getLogger(__name__)


class ClusterAdmin:
    """An admin client of one cluster.

    Args:
        cluster: the user's id of the cluster, for messages.
        config: resolved librdkafka properties; secrets in them stay in memory.
        read_committed: list ends by the last stable offset, as readers with this isolation see them.
        deadline_s: seconds that one call may take in all, its retries included.
    """

    def __init__(self, cluster: str, config: Mapping[str, Any], *, read_committed: bool, deadline_s: float) -> None:
        self.cluster, self.read_committed = cluster, read_committed
        self._deadline_s = deadline_s
        self._hint: ConnectionProblem | None = None
        self._config = config
        self._groups: dict[str, GroupClient] = {}
        self._client = self._made()

    def kafka_id(self, topic: str) -> str | None:
        """Kafka's own `cluster.id`, None if the brokers tell none.

        Args:
            topic: the id comes with the metadata of a topic; it need not exist, and is not created. The fewer
                partitions it has the better.
        """
        # Not `describe_cluster`: on an answer without brokers, as from one that is just coming back and still fenced,
        # librdkafka's assertion ends the whole process.
        deadline = time.monotonic() + self._deadline_s
        renewed = False
        described: ClusterMetadata | None = None
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                described = retry_while_transient(partial(self._metadata, topic), left if renewed else left / 2)
            except Exception as raised:
                translated = self._translated("describe the cluster", raised)
                if renewed or not isinstance(translated, ClusterUnreachableError):
                    raise translated from None
            if described is not None and described.brokers:
                break
            if time.monotonic() + PAUSE_S > deadline:
                raise ClusterUnreachableError(self.cluster, "could not describe the cluster: it has no brokers yet")
            # After an answer without brokers librdkafka has nobody left to ask, for good (issue 5301), whether the
            # answer was this one or one that it asked for by itself: hence another client for half of the time.
            self._renew()
            renewed = True
            time.sleep(PAUSE_S)
        self._client.poll(0)  # what went wrong before it answered explains nothing that goes wrong later
        self._hint = None
        return described.cluster_id or None

    def describe_topics(self, topics: Iterable[str]) -> tuple[dict[str, tuple[str | None, list[int]]], frozenset[str]]:
        """Ids and partitions of topics.

        Returns:
            {topic: (topic id or None, partitions)} and the topics that the cluster's own list does not name. A topic
            that answers "unknown" while the list names it is being created or moved: it is in neither.
        """
        names = list(topics)
        found: dict[str, tuple[str | None, list[int]]] = {}
        unknown: set[str] = set()
        if not names:
            return found, frozenset()
        deadline = time.monotonic() + self._deadline_s
        futures = self._client.describe_topics(TopicCollection(names), request_timeout=self._deadline_s)
        for name, future in futures.items():
            try:
                described = future.result(timeout=max(0.0, deadline - time.monotonic()) + 1)
            except Exception as raised:
                error = kafka_error_of(raised)
                unknown_here = error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                if not unknown_here and not is_transient(raised):
                    raise self._translated(f"describe topic {name!r}", raised) from None
                unknown.add(name)
                continue
            topic_id = str(described.topic_id)
            found[name] = (
                None if topic_id == NO_TOPIC_ID else topic_id,
                sorted(partition.id for partition in described.partitions),
            )
        return found, frozenset(unknown - self.list_topics()) if unknown else frozenset()

    def list_topics(self) -> set[str]:
        """Names of all topics that this client may see."""
        try:
            listed = self._client.list_topics(timeout=self._deadline_s)
        except Exception as raised:
            raise self._translated("list topics", raised) from None
        return {name for name, topic in listed.topics.items() if topic.error is None}

    def offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], *, uncommitted: bool = False
    ) -> dict[tuple[str, int], tuple[int, int | None]]:
        """Answer many questions in one call: {(topic, partition): (offset, leader epoch or None)}.

        A timestamp behind the last record is answered by -1. `uncommitted` counts open transactions in, whatever the
        readers' isolation is: ends are high watermarks.
        """
        committed = self.read_committed and not uncommitted
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers: dict[tuple[str, int], tuple[int, int | None]] = {}
        waiting = {key: _SPECS[query.kind](query) for key, query in queries.items()}
        deadline = time.monotonic() + self._deadline_s
        while waiting:
            asked = {TopicPartition(topic, partition): spec for (topic, partition), spec in waiting.items()}
            left = max(0.1, deadline - time.monotonic())
            futures = self._client.list_offsets(asked, isolation_level=isolation, request_timeout=left)
            for asked_for, future in futures.items():
                key = (asked_for.topic, asked_for.partition)
                try:
                    found = future.result(timeout=left + 1)
                except Exception as raised:
                    if not is_transient(raised) or time.monotonic() > deadline:
                        raise self._translated(f"list offsets of {key[0]}[{key[1]}]", raised) from None
                    continue
                if found.offset < NO_SUCH_RECORD:
                    if time.monotonic() > deadline:
                        raise self._translated(f"list offsets of {key[0]}[{key[1]}]", TimeoutError("no answer in time"))
                    continue
                answers[key] = (found.offset, found.leader_epoch)
                del waiting[key]
            if waiting:
                time.sleep(PAUSE_S)
        return answers

    def committed(self, group: str, partitions: Iterable[tuple[str, int]]) -> Commits:
        """What a group has committed; partitions without a commit are absent. Raises ClusterError."""
        if group not in self._groups:
            self._groups[group] = GroupClient(self.cluster, group, self._config, deadline_s=self._deadline_s)
        return self._groups[group].committed(partitions)

    def close_in_background(self) -> None:
        """Let the client go in a thread of its own: a hung cluster may hold its destruction up."""
        drop_in_background([self.__dict__.pop("_client", None)], f"close-{self.cluster}")
        for client in self._groups.values():
            client.close_in_background()

    def _made(self) -> AdminClient:
        settings: dict[str, Any] = {**self._config, "error_cb": self._on_error}
        try:
            return AdminClient(settings, logger=quiet_logger())
        except KafkaException as raised:
            raise client_creation_error(self.cluster, raised) from None

    def _renew(self) -> None:
        client = self._made()  # first: if that fails, the one that there is serves the next question
        drop_in_background([self.__dict__.pop("_client", None)], f"close-{self.cluster}")
        self._client = client

    def _metadata(self, topic: str, left: float) -> ClusterMetadata:
        return self._client.list_topics(topic, timeout=left)

    def _translated(self, doing: str, raised: BaseException) -> ClusterError:
        self._client.poll(0)  # serves error_cb: what the connections have to say
        translated = translate(self.cluster, doing, raised, self._hint)
        explained = isinstance(translated, ClusterUnreachableError | ClusterRefusedError)
        return translated if explained else translate(self.cluster, doing, raised)

    def _on_error(self, error: KafkaError) -> None:
        # "All brokers are down" says less than the reason that came before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._hint is None:
            self._hint = ConnectionProblem.of(error)


_SPECS: Mapping[str, Callable[[OffsetQuery], OffsetSpec]] = {
    "earliest": lambda _: OffsetSpec.earliest(),
    "latest": lambda _: OffsetSpec.latest(),
    "timestamp": lambda query: OffsetSpec.for_timestamp(query.timestamp_ms or 0),
}
