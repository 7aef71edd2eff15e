"""The content of a cluster: topics, records and offsets, over its plaintext listener.

`KafkaCluster` inherits these methods. Each waits until the broker is done, and raises the broker's refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from dynamic_kafka.metadata.topic_ids import shown_topic_id
from tests.support.kafka import records
from tests.support.kafka.broker import random_id
from tests.support.kafka.errors import BrokerError
from tests.support.waiting import wait_until

_SECONDS = 60.0


class Content:
    """Topics, records and offsets of the cluster at `bootstrap`.

    Attributes:
        name: how messages call the cluster.
        bootstrap: `host:port` of a plaintext listener.
        folder: where its logs are, for messages.
    """

    def __init__(self, name: str, bootstrap: str, folder: Path) -> None:
        """Connect to nothing yet."""
        self.name = name
        self.bootstrap = bootstrap
        self.folder = folder
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        """An admin client, for what has no convenience here."""
        if self._admin is None:
            # Silent: brokers that go away are what tests are about.
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def forget_admin(self) -> None:
        """Close the admin client; the next use makes another one without its cached metadata."""
        self._admin = None

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create `topic`, wait until every partition has a leader that answers, and return its name."""
        wanted = NewTopic(topic, partitions, 1, config=dict(config or {}))
        self._wait("its broker to be there for the controller", lambda: self._placed(wanted))
        self._wait(f"topic {topic} to have leaders", lambda: self._leaders(topic) == partitions)
        self.end_offsets(topic)
        return topic

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow `topic` to `total` partitions and wait until each has a leader that answers."""
        results(self.admin.create_partitions([NewPartitions(topic, total)]))
        self._wait(f"topic {topic} to grow", lambda: self._leaders(topic) == total)
        self.end_offsets(topic)

    def delete_topic(self, topic: str) -> None:
        """Delete `topic` and wait until it is gone from the broker's metadata."""
        results(self.admin.delete_topics([topic]))
        self._wait(f"topic {topic} to vanish", lambda: self._leaders(topic) == 0)

    def topic_id(self, topic: str) -> str:
        """Return the topic's id as Kafka's tools print it; a topic that is created again has another one."""
        described = results(self.admin.describe_topics(TopicCollection([topic])))
        return str(shown_topic_id(str(described[topic].topic_id)))

    def produce(self, topic: str, values: Iterable[records.Value], *, partition: int | None = None) -> None:
        """Send bare values or `Record`s and wait until all are acknowledged."""
        records.produce({"bootstrap.servers": self.bootstrap}, topic, values, partition)

    def transaction(self, transactional_id: str | None = None) -> records.Transaction:
        """Begin a transaction: commit or abort it, or use it as a context manager."""
        return records.Transaction({"bootstrap.servers": self.bootstrap}, transactional_id or f"tests-{random_id()}")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Truncate the partition's log: its first offset becomes `before`."""
        results(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Return the first offset of every partition."""
        return self._offsets(topic, OffsetSpec.earliest())

    def end_offsets(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        """Return the end offset of every partition; with `committed` the last stable offset."""
        return self._offsets(topic, OffsetSpec.latest(), committed=committed)

    def wait_decided(self, topic: str) -> None:
        """Wait until no transaction is open in `topic`: a commit returns before its markers are written."""
        self._wait(f"{topic} to be decided", lambda: self.end_offsets(topic, committed=True) == self.end_offsets(topic))

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that `group` has committed, by topic and partition."""
        return {(at.topic, at.partition): at.offset for at in self.committed(group)}

    def committed(self, group: str) -> list[TopicPartition]:
        """Return the offsets and metadata that `group` has committed, by topic and partition."""
        listed = self.admin.list_topics(timeout=_SECONDS).topics
        asked = [TopicPartition(name, partition) for name, topic in listed.items() for partition in topic.partitions]
        offsets: list[TopicPartition] = []
        self._with_group(group, lambda consumer: offsets.extend(consumer.committed(asked, timeout=_SECONDS)))
        return [at for at in offsets if at.offset >= 0]

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of `group`, by topic and partition, as another application would."""
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        self._with_group(group, lambda consumer: consumer.commit(offsets=wanted, asynchronous=False))

    def _with_group(self, group: str, ask: Callable[[Consumer], object]) -> None:
        # Through a consumer: the admin client's calls end the process while a coordinator is being made
        # (librdkafka issue 5040), and "the coordinator is loading" is an answer that passes.
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            self._settled(f"the coordinator of group {group!r}", lambda: ask(consumer))
        finally:
            consumer.close()

    def _settled(self, what: str, ask: Callable[[], object]) -> None:
        """Ask, and ask again while a leader or coordinator is just moving."""

        def answered() -> bool:
            try:
                ask()
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() not in _PASSING:
                    raise
                return False
            return True

        self._wait(what, answered)

    def _offsets(self, topic: str, spec: OffsetSpec, *, committed: bool = False) -> dict[int, int]:
        partitions = self.admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): spec for partition in partitions}
        offsets: dict[Any, Any] = {}
        self._settled(
            f"the leaders of {topic}",
            lambda: offsets.update(results(self.admin.list_offsets(asked, isolation_level=level))),
        )
        return {at.partition: result.offset for at, result in offsets.items()}

    def _placed(self, wanted: NewTopic) -> bool:
        """Create it; False while the controller has no broker for it, as it may be right after a pause (fenced)."""
        try:
            results(self.admin.create_topics([wanted]))
        except KafkaException as raised:
            if raised.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    def _leaders(self, topic: str) -> int:
        """How many partitions of `topic` have a leader; 0 when there is no such topic."""
        metadata = self.admin.list_topics(topic, timeout=_SECONDS).topics[topic]
        if metadata.error is not None:
            return 0
        return sum(partition.leader >= 0 for partition in metadata.partitions.values())

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        wait_until(
            done,
            f"{what} on {self.name}",
            timeout_s=_SECONDS,
            details=lambda: f"logs: {self.folder}",
            error=BrokerError,
        )


_PASSING = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)


def results(futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
    """Wait for all results of an admin call and return them. Raises the first failure."""
    return {key: future.result(_SECONDS) for key, future in futures.items()}
