"""Observations of all clusters at once, without one cluster delaying the others.

Runs on the driver, for the observer and for the application's lag metrics. Each cluster has a thread of its own and at
most one running observation. A plan waits a short time for observations. It leaves a slower cluster out, whose
observation keeps running and is there, as an answer or a failure, for a later plan.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import UnknownTopicError, translate
from dynamic_kafka.kafka.retries import PAUSE_S
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.starting import OffsetQuery

LATEST = OffsetQuery("latest")
EARLIEST = OffsetQuery("earliest")
ANY_TOPIC = "__consumer_offsets"
"""The topic in the request for the cluster's id when no topic is wanted."""
NO_TOPIC = "dynamic-kafka-no-topic"
"""The topic in that request, which need not exist, when all wanted topics are large: it makes the answer small."""
FEW_PARTITIONS = 50
"""The most partitions of a topic that is not large."""
RECHECK_S = 10.0
"""The longest time in seconds between two checks of the topics' ids, even if nothing has changed."""
UNKNOWN_RETRIES = 10
"""How often topics are described again, with pauses, when the cluster no longer has one that it described."""


@dataclass(frozen=True)
class ObservationRequest:
    """The request of one plan to one cluster.

    Attributes:
        partitions: with `assign`: the wanted partitions per topic; None wants all.
        earliest: whether to list the earliest offsets too.
        describe: whether to look for new topics and partitions, instead of using the last description.
        high: topics whose high watermarks are listed too, under `read_committed`.
        idle: whether the plan reads nothing of this cluster unless an end has moved. Then the ids of the topics are
            checked again only if one has, or after `RECHECK_S`.
    """

    topics: tuple[str, ...]
    partitions: Mapping[str, tuple[int, ...]] | None = None
    earliest: bool = False
    describe: bool = True
    high: frozenset[str] = frozenset()
    idle: bool = False


Described = dict[str, tuple[str | None, list[int]]]
"""The id and the partitions of each topic."""
Offsets = dict[tuple[str, int], tuple[int, int | None]]
"""An offset and its leader epoch by (topic, partition)."""


class ClusterProbe:
    """The thread that talks to one cluster.

    Args:
        make_admin: makes the client, with secrets resolved; runs in the probe's thread.
    """

    def __init__(self, cluster: str, make_admin: Callable[[], ClusterAdmin]) -> None:
        self.cluster = cluster
        self._make_admin = make_admin
        self._admin: ClusterAdmin | None = None
        self._described: tuple[str | None, Described, frozenset[str]] | None = None
        self._described_for: tuple[str, ...] | None = None
        self._checked: tuple[float, Described, Offsets, Offsets] | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[ClusterAdmin], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._observing: Future[ClusterObservation] | None = None
        threading.Thread(target=self._work, name=f"dynamic-kafka-probe-{cluster}", daemon=True).start()

    def observe(self, request: Callable[[], ObservationRequest]) -> Future[ClusterObservation]:
        """Return the running observation, or start one. Only a new one calls `request`.

        A running one may answer an earlier plan's request. Its offsets are then older than possible, but not wrong.
        """
        if self._observing is None:
            asked = request()
            self._observing = self.ask(lambda admin: self._observe(admin, asked))
        return self._observing

    def mark_used(self) -> None:
        """Mark the observation as used: the next call of `observe` starts a new one."""
        self._observing = None

    def ask(self, call: Callable[[ClusterAdmin], Any]) -> Future[Any]:
        """Run a call of the admin client in the probe's thread. The future raises ClusterError."""
        future: Future[Any] = Future()
        self._jobs.put((call, future))
        return future

    def close(self) -> None:
        """End the thread after its present call and drop the client. Return at once."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future = job
            try:
                if self._admin is None:
                    self._admin = self._make_admin()
                future.set_result(call(self._admin))
            except DynamicKafkaError as error:
                if isinstance(error, ClusterUnreachableError):
                    self._drop_client()  # it never finds its brokers again (see `admin.kafka_id`)
                future.set_exception(error)
            except Exception as error:
                future.set_exception(translate(self.cluster, "ask the cluster", error))
        self._drop_client()

    def _drop_client(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close_in_background()

    def _observe(self, admin: ClusterAdmin, request: ObservationRequest) -> ClusterObservation:
        for _ in range(UNKNOWN_RETRIES):
            try:
                return self._observe_once(admin, request)
            except UnknownTopicError:
                # The topic was deleted, re-created or just created: the last description is out of date.
                self._described = None
                time.sleep(PAUSE_S)
        return self._observe_once(admin, request)

    def _observe_once(self, admin: ClusterAdmin, request: ObservationRequest) -> ClusterObservation:
        """Observe the cluster once, in an order that makes the answers consistent.

        Raises:
            UnknownTopicError: a topic differs from its description, or was re-created during the observation.
        """
        # Ask for the cluster's id each time: another cluster may answer at the same address, with offsets of its own.
        known = self._described[1] if self._described is not None else {}
        topics = [name for name in request.topics if name in known] or request.topics or (ANY_TOPIC,)
        sizes = {name: len(known[name][1]) if name in known else 0 for name in topics}
        smallest = min(sizes, key=lambda name: sizes[name])
        kafka_id = admin.kafka_id(smallest, NO_TOPIC if sizes[smallest] > FEW_PARTITIONS else None)
        due = request.describe or self._described is None or self._described_for != request.topics
        if due or (self._described and self._described[0] != kafka_id):
            self._described = None  # if the next call fails, the next observation has to describe again
            self._described = (kafka_id, *admin.describe_topics(request.topics))
            # A topic that is being created or moved is in neither result: the next plan describes again.
            complete = not set(request.topics) - self._described[1].keys() - self._described[2]
            self._described_for = request.topics if complete else None
        assert self._described is not None
        _, described, missing = self._described
        partitions = {
            name: [p for p in numbers if p in request.partitions[name]] if request.partitions else numbers
            for name, (_, numbers) in described.items()
        }
        keys = [(name, partition) for name, numbers in partitions.items() for partition in numbers]
        earliest = admin.offsets(dict.fromkeys(keys, EARLIEST)) if request.earliest else {}
        # List ends after starts, so that no start is after its end.
        latest = admin.offsets(dict.fromkeys(keys, LATEST))
        # List high watermarks after ends, so that they cover a transaction that was open then.
        watched = [key for key in keys if key[0] in request.high] if admin.read_committed else []
        high = admin.offsets(dict.fromkeys(watched, LATEST), uncommitted=True) if watched else {}
        if not (request.idle and not earliest and self._is_checked(described, latest, high)):
            now = time.monotonic()
            self._check_same_topics(admin, described)
            self._checked = (now, described, latest, high)
        return ClusterObservation(
            kafka_id=kafka_id,
            missing=missing,
            topics={
                name: TopicObservation(
                    topic_id=described[name][0],
                    latest={p: latest[name, p][0] for p in numbers},
                    earliest={p: earliest[name, p][0] for p in numbers if (name, p) in earliest},
                    epochs={p: epoch for p in numbers if (epoch := latest[name, p][1]) is not None},
                    high={p: high[name, p][0] for p in numbers if (name, p) in high},
                )
                for name, numbers in partitions.items()
            },
        )

    def _is_checked(self, described: Described, latest: Offsets, high: Offsets) -> bool:
        """Return whether the very same answers were checked a short time ago."""
        if self._checked is None:
            return False
        at, *checked = self._checked
        is_recent = time.monotonic() - at < RECHECK_S
        return is_recent and checked[0] is described and checked[1:] == [latest, high]

    def _check_same_topics(self, admin: ClusterAdmin, described: Described) -> None:
        # Offsets carry no topic id. They belong to the described topics only if those exist unchanged afterwards.
        now, _ = admin.describe_topics(described)
        for name, (topic_id, _) in described.items():
            if name not in now or now[name][0] != topic_id:
                raise UnknownTopicError(self.cluster, f"topic {name!r} was re-created while it was observed")


def collect_observations(
    pending: Mapping[str, Future[ClusterObservation]], *, timeout_s: float | None
) -> tuple[dict[str, ClusterObservation], dict[str, ClusterError]]:
    """Return the observations that are ready.

    Args:
        timeout_s: seconds to wait for the slower clusters. None waits until each has answered or failed, however long
            its own deadline is (a query's first plan).

    Returns:
        Answers and failures by cluster. Clusters that have not answered yet are in neither.
    """
    wait(pending.values(), timeout=timeout_s)
    answers: dict[str, ClusterObservation] = {}
    failures: dict[str, ClusterError] = {}
    for cluster, future in pending.items():
        if not future.done():
            continue
        error = future.exception()
        if error is None:
            answers[cluster] = future.result()
        elif isinstance(error, ClusterError):
            failures[cluster] = error
        else:
            raise error
    return answers, failures
