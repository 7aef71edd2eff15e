"""Queries to one Kafka cluster, in bulk and with a deadline: topics, partitions, ids, offsets, a group's commits.

There is one `ClusterAdmin` for each cluster and configuration. On the driver `probe.py` runs it in threads of its own,
because each call blocks its thread up to the deadline. Executors use it to check the end of a log. All calls are bulk
calls (`bulk_offsets`): for 2,000 partitions one call per partition takes 930 ms, four lists of 500 take 13 ms.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ClusterMetadata, ListOffsetsResultInfo, TopicDescription

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.background import drop_in_background, quiet_logger
from dynamic_kafka.kafka.bulk_offsets import list_offsets
from dynamic_kafka.kafka.epochs import ends_of_epochs
from dynamic_kafka.kafka.errors import (
    ConnectionProblem,
    UnknownTopicError,
    client_creation_error,
    has_no_leader,
    is_transient,
    kafka_error_of,
    translate,
)
from dynamic_kafka.kafka.groups import Commits, GroupClient
from dynamic_kafka.kafka.retries import IDLE_ADVICE, PAUSE_S, retry_while_transient, used_client_s
from dynamic_kafka.metadata.names import address_of
from dynamic_kafka.metadata.topic_ids import NO_TOPIC_ID
from dynamic_kafka.planning.questions import EpochCheck, TimedOffset
from dynamic_kafka.planning.starting import OffsetQuery
from dynamic_kafka.wording import first_few

T = TypeVar("T")
NO_SUCH_RECORD = -1
"""Kafka's answer when no record is as new as a timestamp. A lower number means that there is no answer: for a broker
that misses the deadline, librdkafka returns -1001 and raises nothing."""

CONFIRMING_BROKERS = 3
"""The number of other brokers that are asked for a topic that one broker does not have."""

log = logging.getLogger(__name__)


class ClusterAdmin:
    """An admin client of one cluster.

    Args:
        config: resolved librdkafka properties; secrets in them stay in memory.
        read_committed: whether ends are last stable offsets, as readers with this isolation see them.
        deadline_s: the longest duration of one call in seconds, retries included. It may be changed between calls.
    """

    def __init__(self, cluster: str, config: Mapping[str, Any], *, read_committed: bool, deadline_s: float) -> None:
        self.cluster, self.read_committed = cluster, read_committed
        self.deadline_s = deadline_s
        self._last_problem: ConnectionProblem | None = None
        self.config = config
        self._groups: dict[str, GroupClient] = {}
        self._refused: set[str] = set()
        self._is_used = False
        self._epoch_ends: dict[tuple[tuple[str, int], tuple[str | None, int, int]], int | None] = {}
        self._client = self._make_client()

    def kafka_id(self, topic: str, instead: str | None = None) -> str | None:
        """Return Kafka's own `cluster.id`, or None if the brokers report none.

        Args:
            topic: the request for the id needs a topic. It need not exist and is not created. A topic with few
                partitions makes the answer small.
            instead: a name in its place, unless the brokers have refused that: they log each refusal.
        """
        asked = topic if instead is None or instead in self._refused else instead
        # Avoid `describe_cluster`: an answer without brokers, as from a broker that is starting and still fenced, fails
        # an assertion in librdkafka, which ends the whole process.
        deadline = time.monotonic() + self.deadline_s
        renewed = False
        described: ClusterMetadata | None = None
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                described = retry_while_transient(partial(self._metadata, asked), left_s if renewed else left_s / 2)
            except Exception as raised:
                translated = self._translated("describe the cluster", raised)
                if renewed or not isinstance(translated, ClusterUnreachableError):
                    raise translated from None
            if described is not None and described.brokers:
                break
            if time.monotonic() + PAUSE_S > deadline:
                raise ClusterUnreachableError(self.cluster, "could not describe the cluster: it has no brokers yet")
            # After an answer without brokers a client of librdkafka never finds a broker again (issue 5301). The answer
            # may also be one to a request of its own, so a new client gets the second half of the time.
            self._renew()
            renewed = True
            time.sleep(PAUSE_S)
        self._client.poll(0)  # serve the errors from before this answer, which explain no later failure
        self._last_problem = None
        for name, metadata in described.topics.items():
            if metadata.error is not None and metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                self._refused.add(name)
        return described.cluster_id or None

    def describe_topics(self, topics: Iterable[str]) -> tuple[dict[str, tuple[str | None, list[int]]], frozenset[str]]:
        """Return the ids and partitions of topics.

        Returns:
            {topic: (topic id or None, partitions)}, and the topics that the cluster's own list lacks. A topic that is
            unknown but in that list is being created or moved: it is in neither result.
        """
        names = list(topics)
        described, absent = self._over_working_connections(partial(self._described_topics, names))
        ids_and_partitions = {
            name: (id_of(topic), sorted(partition.id for partition in topic.partitions))
            for name, topic in described.items()
        }
        return ids_and_partitions, absent

    def _described_topics(
        self, names: Sequence[str], limit_s: float
    ) -> tuple[dict[str, TopicDescription], frozenset[str]]:
        """Return the descriptions of topics, and the absent ones, as `describe_topics` does."""
        descriptions: dict[str, TopicDescription] = {}
        unknown: set[str] = set()
        if not names:
            return descriptions, frozenset()
        deadline = time.monotonic() + limit_s
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=limit_s)
        for name, future in futures.items():
            try:
                descriptions[name] = future.result(timeout=max(0.0, deadline - time.monotonic()) + 1)
            except Exception as raised:
                error = kafka_error_of(raised)
                unknown_here = error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                if not unknown_here and not is_transient(raised):
                    raise self._translated(f"describe topic {name!r}", raised) from None
                unknown.add(name)
        if not unknown:
            return descriptions, frozenset()
        return descriptions, frozenset(unknown - _names(self._listed(max(0.1, deadline - time.monotonic()))))

    def unreadable(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that this client may describe but not read. Brokers without rights report none."""
        names = sorted(topics)
        if not names:
            return []
        futures = self._client.describe_topics(
            TopicCollection(names), include_authorized_operations=True, request_timeout=self.deadline_s
        )
        denied = []
        for name, future in futures.items():
            try:
                allowed = future.result(timeout=self.deadline_s + 1).authorized_operations
            except Exception as raised:
                raise self._translated(f"ask for the rights on topic {name!r}", raised) from None
            if allowed is not None and AclOperation.READ not in allowed:
                denied.append(name)
        return denied

    def absent_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of the topics that the cluster does not have, as several brokers confirm.

        One broker may have old metadata.

        Raises:
            ClusterError: the cluster refuses to describe a topic, or no second broker answers.
        """
        _, absent = self.describe_topics(topics)
        if not absent:
            return absent
        listed = self._listed(self.deadline_s)
        absent -= _names(listed)
        others = [broker for id, broker in listed.brokers.items() if id != listed.orig_broker_id]
        confirmed = False
        # A cluster of one broker answers again over a new connection.
        for broker in (others or list(listed.brokers.values()))[:CONFIRMING_BROKERS]:
            # A new client asks the broker that it is given, whatever others that one lists.
            config = {**self.config, "bootstrap.servers": address_of(broker.host, broker.port)}
            admin = ClusterAdmin(self.cluster, config, read_committed=False, deadline_s=self.deadline_s)
            try:
                absent -= admin.list_topics()
                confirmed = True
            except ClusterUnreachableError as error:
                log.warning("broker %s of cluster %s does not list its topics: %s", broker.id, self.cluster, error)
            finally:
                admin.close_in_background()
        if absent and not confirmed:
            text = f"one broker does not have the topics {first_few(sorted(absent), 5)}, and no other one answers"
            raise ClusterUnreachableError(self.cluster, text)
        return absent

    def list_topics(self) -> set[str]:
        """Return the names of all topics that this client may see."""
        return _names(self._listed(self.deadline_s))

    def offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], *, uncommitted: bool = False
    ) -> dict[tuple[str, int], tuple[int, int | None]]:
        """Return the offsets that the queries ask for: {(topic, partition): (offset, leader epoch or None)}.

        Args:
            queries: one query per partition; all go into one call.
            uncommitted: whether ends are high watermarks, which include open transactions, whatever the isolation is.

        Returns:
            For a timestamp after the last record the offset is -1.

        Raises:
            UnknownTopicError: a topic does not exist (any more).
            ClusterError: the cluster did not answer, or with another error.
        """
        listed = self._over_working_connections(partial(self._listed_offsets, queries, uncommitted))
        return {key: (answer.offset, answer.leader_epoch) for key, answer in listed.items()}

    def record_times(self, since_ms: Mapping[tuple[str, int], int | None]) -> dict[tuple[str, int], TimedOffset]:
        """Return records by their times, as `RecordTimesQuestion` says. Raises as `offsets` does."""
        queries = {
            key: OffsetQuery("newest") if since is None else OffsetQuery("timestamp", since)
            for key, since in since_ms.items()
        }
        listed = self._over_working_connections(partial(self._listed_offsets, queries, False))
        return {key: TimedOffset(found.offset, found.timestamp) for key, found in listed.items() if found.offset >= 0}

    def _listed_offsets(
        self, queries: Mapping[tuple[str, int], OffsetQuery], uncommitted: bool, limit_s: float
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        committed = self.read_committed and not uncommitted
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers: dict[tuple[str, int], ListOffsetsResultInfo] = {}
        waiting = dict(queries)
        deadline = time.monotonic() + limit_s
        while waiting:
            left_s = max(0.1, deadline - time.monotonic())
            leaderless: set[str] = set()
            for key, answer in list_offsets(self._client, waiting, isolation, left_s):
                if isinstance(answer, Exception):
                    if not is_transient(answer) or time.monotonic() > deadline:
                        raise self._translated(f"list offsets of {key[0]}[{key[1]}]", answer) from None
                    leaderless |= {key[0]} if has_no_leader(answer) else set()
                elif answer.offset >= NO_SUCH_RECORD:
                    answers[key] = answer
                    del waiting[key]
                elif time.monotonic() > deadline:
                    raise self._translated(f"list offsets of {key[0]}[{key[1]}]", TimeoutError("no answer in time"))
            # The client says the same about a topic that was deleted, and no retry gets an answer then.
            left_s = max(0.1, deadline - time.monotonic())
            if leaderless and (absent := self._described_topics(sorted(leaderless), left_s)[1]):
                raise UnknownTopicError(self.cluster, f"topic {min(absent)!r} does not exist any more")
            if waiting:
                time.sleep(PAUSE_S)
        return answers

    def epoch_ends(self, checks: Mapping[tuple[str, int], EpochCheck]) -> dict[tuple[str, int], int]:
        """Return the end of the saved leader epochs, as `ends_of_epochs` does. Raises ClusterError.

        An idle partition keeps its saved epoch, and each plan asks again. So the answers are kept until there is a new
        leader.
        """
        asked = {key: check for key, check in checks.items() if (key, check[:3]) not in self._epoch_ends}
        asked_ends = ends_of_epochs(self.cluster, self.config, asked, self.deadline_s) if asked else {}
        ends = {key: asked_ends.get(key) if key in asked else self._epoch_ends[key, checks[key][:3]] for key in checks}
        self._epoch_ends = {(key, checks[key][:3]): end for key, end in ends.items()}
        return {key: end for key, end in ends.items() if end is not None}

    def committed(self, group: str, partitions: Iterable[tuple[str, int]]) -> Commits:
        """Return the commits of a group; partitions without a commit are absent. Raises ClusterError."""
        if group not in self._groups:
            self._groups[group] = GroupClient(self.cluster, group, self.config, deadline_s=self.deadline_s)
        return self._groups[group].committed(partitions)

    def close_in_background(self) -> None:
        """Drop the client in a background thread, because a hung cluster may delay its destruction."""
        drop_in_background([self.__dict__.pop("_client", None)], f"close-{self.cluster}")
        for client in self._groups.values():
            client.close_in_background()

    def _over_working_connections(self, ask: Callable[[float], T]) -> T:
        """Ask with the seconds that it may take. If a used client gets no answer, a new one gets the rest of the time.

        Something may have dropped an idle connection to one of the brokers in silence. An error that lasts may end with
        the rest of the time as well, such as a partition without a leader.
        """
        begun = time.monotonic()
        deadline = begun + self.deadline_s
        if self._is_used:
            limit_s = used_client_s(self.deadline_s)
            try:
                return ask(limit_s)
            except ClusterError as error:
                silent = isinstance(error, ClusterUnreachableError)
                if isinstance(error, UnknownTopicError) or not (silent or time.monotonic() >= begun + limit_s):
                    raise
                if silent:
                    log.warning("%s. The connections were used before, new ones are tried. %s", error, IDLE_ADVICE)
                self._renew()
        answer = ask(max(0.1, deadline - time.monotonic()))
        self._is_used = True
        return answer

    def _make_client(self) -> AdminClient:
        settings: dict[str, Any] = {**self.config, "error_cb": self._on_error}
        try:
            return AdminClient(settings, logger=quiet_logger())
        except KafkaException as raised:
            raise client_creation_error(self.cluster, raised) from None

    def _renew(self) -> None:
        client = self._make_client()  # first: if it fails, the present client stays for the next call
        drop_in_background([self.__dict__.pop("_client", None)], f"close-{self.cluster}")
        self._client, self._is_used = client, False

    def _listed(self, limit_s: float) -> ClusterMetadata:
        try:
            return self._client.list_topics(timeout=limit_s)
        except Exception as raised:
            raise self._translated("list topics", raised) from None

    def _metadata(self, topic: str, left_s: float) -> ClusterMetadata:
        return self._client.list_topics(topic, timeout=left_s)

    def _translated(self, action: str, raised: BaseException) -> ClusterError:
        self._client.poll(0)  # serve error_cb, which records connection problems
        translated = translate(self.cluster, action, raised, self._last_problem)
        explained = isinstance(translated, ClusterUnreachableError | ClusterRefusedError)
        return translated if explained else translate(self.cluster, action, raised)

    def _on_error(self, error: KafkaError) -> None:
        # "All brokers are down" explains less than the error before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._last_problem is None:
            self._last_problem = ConnectionProblem.of(error)


def id_of(topic: TopicDescription) -> str | None:
    """Return the id of a described topic; None if the broker reports none."""
    topic_id = str(topic.topic_id)
    return None if topic_id == NO_TOPIC_ID else topic_id


def _names(listed: ClusterMetadata) -> set[str]:
    return {name for name, topic in listed.topics.items() if topic.error is None}
