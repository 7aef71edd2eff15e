"""Making, comparing and deleting the topics of one cluster, for the application's internal topics.

Runs on the driver and in the command `init`; blocks the calling thread.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin, id_of
from dynamic_kafka.kafka.errors import TRANSIENT, UNREACHABLE, is_transient, kafka_error_of
from dynamic_kafka.kafka.retries import PAUSE_S, retry_while_transient
from dynamic_kafka.wording import first_few

_CLUSTER_DEFAULT = -1
"""Kafka's number for the replication factor that the cluster itself sets."""
_RIGHTS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


@dataclass(frozen=True)
class FoundTopic:
    """A topic as its cluster has it. `topic_id` is None if the brokers report none."""

    topic_id: str | None
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class WantedTopic:
    """A topic to make. `replication_factor` None takes the cluster's default."""

    name: str
    partitions: int
    replication_factor: int | None
    config: Mapping[str, str]

    def request(self) -> NewTopic:
        """Return the request of an admin client."""
        replicas = _CLUSTER_DEFAULT if self.replication_factor is None else self.replication_factor
        return NewTopic(self.name, self.partitions, replicas, config=dict(self.config))


@dataclass(frozen=True)
class Creation:
    """The results of one request to make topics, by name.

    Attributes:
        made: this request made them.
        existed: another client has made them meanwhile.
        unclear: no answer came in time, so each may have been made.
        refused: the cluster refuses them, with the reason.
    """

    made: frozenset[str]
    existed: frozenset[str]
    unclear: frozenset[str]
    refused: Mapping[str, ClusterError]


class TopicAdmin(ClusterAdmin):
    """An admin client that makes and deletes topics."""

    def found(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        """Return those of the topics that exist, with their configurations. Several brokers confirm absent ones.

        Raises:
            ClusterError: the cluster does not answer, refuses, or does not settle a topic that is being made or moved.
        """
        deadline = time.monotonic() + self.deadline_s
        while True:
            described, absent = self._described_topics(names, self.deadline_s)
            if absent:
                absent = self.absent_topics(absent)
            configs = self._described_configs(list(described))
            # One broker that does not have a topic yet, or any more, proves nothing.
            unknown = described.keys() - configs.keys()
            gone = self.absent_topics(unknown) if unknown else frozenset()
            unsettled = sorted(set(names) - configs.keys() - absent - gone)
            if not unsettled:
                break
            if time.monotonic() + PAUSE_S > deadline:
                text = f"it lists the topic {first_few(unsettled)} but does not describe it: start again in a moment"
                raise ClusterUnreachableError(self.cluster, text)
            time.sleep(PAUSE_S)
        return {
            name: FoundTopic(
                topic_id=id_of(topic),
                partitions=len(topic.partitions),
                replication_factor=min((len(partition.replicas) for partition in topic.partitions), default=0),
                config=configs[name],
            )
            for name, topic in described.items()
            if name in configs
        }

    def create(self, topics: Sequence[WantedTopic], *, validate_only: bool = False) -> Creation:
        """Make topics by one request, so that the controller makes all that it accepts at once.

        Args:
            validate_only: let the controller check the request, without a change.
        """
        made, existed, unclear, refused = set(), set(), set(), {}
        for name, raised in self._ask_to_create(topics, validate_only=validate_only).items():
            error = kafka_error_of(raised) if raised is not None else None
            if raised is None:
                made.add(name)
            elif error is not None and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                existed.add(name)
            elif error is None or error.code() in UNREACHABLE | TRANSIENT:
                unclear.add(name)
            else:
                refused[name] = self._refusal("make", "CREATE", name, error)
        return Creation(frozenset(made), frozenset(existed), frozenset(unclear), refused)

    def _ask_to_create(self, topics: Sequence[WantedTopic], *, validate_only: bool) -> dict[str, Exception | None]:
        """Return the result of the request for each topic. Those with a transient error are asked for again."""
        deadline = time.monotonic() + self.deadline_s
        requests = {topic.name: topic.request() for topic in topics}
        results: dict[str, Exception | None] = {}
        while requests:
            left_s = max(0.1, deadline - time.monotonic())
            times = {"operation_timeout": left_s, "request_timeout": left_s}
            futures = self._client.create_topics(list(requests.values()), validate_only=validate_only, **times)
            results |= self._results(futures)
            again = {name for name, raised in results.items() if raised is not None and is_transient(raised)}
            if time.monotonic() + PAUSE_S > deadline:
                break
            requests = {name: request for name, request in requests.items() if name in again}
            time.sleep(PAUSE_S if requests else 0.0)
        return results

    def delete(self, names: Sequence[str]) -> dict[str, ClusterError]:
        """Delete topics and wait until the broker lists none of them; return the failures.

        That a topic is gone already is no failure.
        """
        deadline = time.monotonic() + self.deadline_s
        futures = self._client.delete_topics(list(names), operation_timeout=self.deadline_s)
        failures = {}
        for name, raised in self._results(futures).items():
            error = kafka_error_of(raised) if raised is not None else None
            if raised is None or (error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                continue
            failures[name] = self._translated(f"delete topic {name!r}", raised)
        # The controller answers before the brokers have its decision.
        while self.list_topics() & (set(names) - failures.keys()) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
        return failures

    def _described_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        try:
            return retry_while_transient(lambda left_s: self._configs(names), self.deadline_s)
        except KafkaException as raised:
            raise self._translated("describe the configuration of topics", raised) from None

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return {topic: {key: value}}; without topics that the broker does not have."""
        if not names:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        futures = self._client.describe_configs(resources, request_timeout=self.deadline_s)
        topics = {}
        for resource, future in futures.items():
            try:
                entries = future.result(timeout=self.deadline_s + 1)
            except Exception as raised:
                error = kafka_error_of(raised)
                if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if is_transient(raised):
                    raise
                if error is not None and error.code() in _RIGHTS:
                    raise self._refusal("compare", "DESCRIBE_CONFIGS", resource.name, error) from None
                raise self._translated(f"describe the configuration of topic {resource.name!r}", raised) from None
            topics[resource.name] = {key: str(entry.value) for key, entry in entries.items() if entry.value is not None}
        return topics

    def _results(self, futures: Mapping[str, Future[Any]]) -> dict[str, Exception | None]:
        results: dict[str, Exception | None] = {}
        for name, future in futures.items():
            try:
                future.result(timeout=self.deadline_s + 1)
                results[name] = None
            except Exception as raised:
                results[name] = raised
        return results

    def _refusal(self, action: str, right: str, name: str, error: KafkaError) -> ClusterError:
        remedy = f": give the user {right} on the topic" if error.code() in _RIGHTS else ""
        return ClusterError(self.cluster, f"could not {action} topic {name!r}: {error.str()}{remedy}")
