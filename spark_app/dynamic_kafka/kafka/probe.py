"""Observe all clusters at once, none of them holding up the others.

Runs on the driver, owned by the enumerator. Each cluster has a thread of its own and at most one question under way. A
planner that asks for observations waits for the ones that come within a short grace; a cluster that is slower is simply
left out of that plan, its question stays under way, and its answer or its failure is there for a later plan.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError, OptionError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import UnknownTopicError, translate
from dynamic_kafka.kafka.retries import PAUSE_S
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.planning.starting import OffsetQuery

LATEST = OffsetQuery("latest")
EARLIEST = OffsetQuery("earliest")
ANY_TOPIC = "__consumer_offsets"
"""Asked about where no topic is wanted."""
UNKNOWN_RETRIES = 10
"""How often topics are described again, a pause in between, when the cluster does not know one that it described."""


@dataclass(frozen=True)
class Question:
    """What one plan wants to know of one cluster.

    Attributes:
        topics: the wanted topics.
        partitions: with `assign`: the wanted partitions per topic; None wants all.
        earliest: also ask for the first offsets that are still there.
        describe: take up topics and partitions that are new, instead of those of the last time.
        high: topics whose high watermarks count as well, under `read_committed`.
    """

    topics: tuple[str, ...]
    partitions: Mapping[str, tuple[int, ...]] | None = None
    earliest: bool = False
    describe: bool = True
    high: frozenset[str] = frozenset()


class ClusterProbe:
    """The thread that talks to one cluster.

    Args:
        cluster: the user's id of the cluster.
        make_admin: makes the client, with secrets resolved; runs in the probe's thread.
    """

    def __init__(self, cluster: str, make_admin: Callable[[], ClusterAdmin]) -> None:
        self.cluster = cluster
        self._make_admin = make_admin
        self._admin: ClusterAdmin | None = None
        self._described: tuple[str | None, dict[str, tuple[str | None, list[int]]], frozenset[str]] | None = None
        self._described_for: tuple[str, ...] | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[ClusterAdmin], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._observing: Future[ClusterObservation] | None = None
        threading.Thread(target=self._work, name=f"dynamic-kafka-probe-{cluster}", daemon=True).start()

    def observe(self, question: Callable[[], Question]) -> Future[ClusterObservation]:
        """The observation under way, or a new one, for which alone `question` is called.

        One under way may answer an earlier plan's question: its offsets are older than they could be, never wrong.
        """
        if self._observing is None:
            asked = question()
            self._observing = self.ask(lambda admin: self._observe(admin, asked))
        return self._observing

    def mark_used(self) -> None:
        """Mark the observation as used: the next call of `observe` starts a new one."""
        self._observing = None

    def ask(self, question: Callable[[ClusterAdmin], Any]) -> Future[Any]:
        """Run any question in the probe's thread. Its future raises ClusterError."""
        future: Future[Any] = Future()
        self._jobs.put((question, future))
        return future

    def close(self) -> None:
        """End the thread after its question, and drop the client aside. Never waits."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            question, future = job
            try:
                if self._admin is None:
                    self._admin = self._make_admin()
                future.set_result(question(self._admin))
            except DynamicKafkaError as error:
                if isinstance(error, ClusterUnreachableError):
                    self._drop_client()  # one that has lost its brokers finds none again (see `admin.kafka_id`)
                future.set_exception(error)
            except Exception as error:
                future.set_exception(translate(self.cluster, "ask the cluster", error))
        self._drop_client()

    def _drop_client(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close_in_background()

    def _observe(self, admin: ClusterAdmin, question: Question) -> ClusterObservation:
        for _ in range(UNKNOWN_RETRIES):
            try:
                return self._look(admin, question)
            except UnknownTopicError:
                # Deleted, re-created or created a moment ago: what was described before is not so any more.
                self._described = None
                time.sleep(PAUSE_S)
        return self._look(admin, question)

    def _look(self, admin: ClusterAdmin, question: Question) -> ClusterObservation:
        """One look at everything, in an order that makes the answers fit each other.

        Raises:
            UnknownTopicError: a topic is not what it was described as, or became another one during the look.
        """
        # Who answers is asked each time: offsets of another cluster must not be taken for this one's.
        known = self._described[1] if self._described is not None else {}
        topics = [name for name in question.topics if name in known] or question.topics or (ANY_TOPIC,)
        kafka_id = admin.kafka_id(min(topics, key=lambda name: len(known[name][1]) if name in known else 0))
        due = question.describe or self._described is None or self._described_for != question.topics
        if due or (self._described and self._described[0] != kafka_id):
            self._described = None  # if what follows fails, the next look has to describe again
            self._described = (kafka_id, *admin.describe_topics(question.topics))
            # A topic that is being created or moved is in neither list: the next plan asks again, due or not.
            complete = not set(question.topics) - self._described[1].keys() - self._described[2]
            self._described_for = question.topics if complete else None
        assert self._described is not None
        _, described, missing = self._described
        partitions = {
            name: [p for p in found if p in question.partitions[name]] if question.partitions else found
            for name, (_, found) in described.items()
        }
        keys = [(name, partition) for name, found in partitions.items() for partition in found]
        earliest = admin.offsets(dict.fromkeys(keys, EARLIEST)) if question.earliest else {}
        # Ends last: whatever was there when the starts were read is inside them.
        latest = admin.offsets(dict.fromkeys(keys, LATEST))
        # After those, so that a transaction that was open before is still seen.
        watched = [key for key in keys if key[0] in question.high] if admin.read_committed else []
        high = admin.offsets(dict.fromkeys(watched, LATEST), uncommitted=True) if watched else {}
        self._check_same_topics(admin, described)
        return ClusterObservation(
            kafka_id=kafka_id,
            missing=missing,
            topics={
                name: TopicObservation(
                    topic_id=described[name][0],
                    latest={p: latest[name, p][0] for p in found},
                    earliest={p: earliest[name, p][0] for p in found if (name, p) in earliest},
                    epochs={p: epoch for p in found if (epoch := latest[name, p][1]) is not None},
                    high={p: high[name, p][0] for p in found if (name, p) in high},
                )
                for name, found in partitions.items()
            },
        )

    def _check_same_topics(self, admin: ClusterAdmin, described: Mapping[str, tuple[str | None, list[int]]]) -> None:
        """Offsets name no topic id: they are the described topics' only if those are still the same afterwards."""
        now, _ = admin.describe_topics(described)
        for name, (topic_id, _) in described.items():
            if name not in now or now[name][0] != topic_id:
                raise UnknownTopicError(self.cluster, f"topic {name!r} became another one while it was looked at")


def collect_observations(
    pending: Mapping[str, Future[ClusterObservation]], *, timeout_s: float | None
) -> tuple[dict[str, ClusterObservation], dict[str, ClusterError]]:
    """Return the observations that are ready.

    Args:
        pending: the running observation of each cluster.
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


def resolve(
    probes: Mapping[str, ClusterProbe],
    queries: Mapping[Split, OffsetQuery],
    group: str | None,
    ends: Mapping[Split, int],
) -> dict[Split, int]:
    """Answer the questions of new splits, one bulk call a kind and cluster, all clusters at once.

    Args:
        ends: the ends of the splits that ask by timestamp, seen before now: where no record is as new as the timestamp
            they start there. Ends of after that answer would pass over what was produced in between.

    Raises:
        OptionError: a strict question has no answer: no commit, or no record as new as the timestamp.
        ClusterError: a cluster did not answer.
    """
    by_cluster: dict[str, dict[Split, OffsetQuery]] = {}
    for split, query in queries.items():
        by_cluster.setdefault(split.cluster, {})[split] = query
    futures = [
        probes[cluster].ask(lambda admin, own=own: _resolve(admin, own, group, ends))  # type: ignore[misc]
        for cluster, own in by_cluster.items()
    ]
    answers: dict[Split, int] = {}
    for future in futures:
        answers.update(future.result())
    return answers


def _resolve(
    admin: ClusterAdmin, queries: Mapping[Split, OffsetQuery], group: str | None, ends: Mapping[Split, int]
) -> dict[Split, int]:
    committed = [split for split, query in queries.items() if query.kind == "committed"]
    listed = {split: query for split, query in queries.items() if query.kind != "committed"}
    answers: dict[Split, int] = {}
    if committed:
        if group is None:
            raise OptionError(
                "startingOffsets or stoppingOffsets `committed` needs `kafka.group.id`, whose commits count"
            )
        commits = admin.committed(group, [(split.topic, split.partition) for split in committed])
        without = [split for split in committed if (split.topic, split.partition) not in commits]
        answers = {s: commits[s.topic, s.partition][0] for s in committed if s not in without}
        strict = [split for split in without if not queries[split].lenient]
        if strict:
            raise OptionError(
                f"group {group!r} has no committed offset for {_some(strict)}, and startingOffsets is `committed`:"
                " commit there first, or choose earliest, latest, a timestamp or explicit offsets"
            )
        listed |= dict.fromkeys(without, EARLIEST)
    found = admin.offsets({(s.topic, s.partition): query for s, query in listed.items()}) if listed else {}
    late = [split for split in listed if found[split.topic, split.partition][0] < 0]
    strict = [split for split in late if not listed[split].lenient]
    if strict:
        raise OptionError(
            f"no record of {_some(strict)} is as new as the starting timestamp: choose an earlier one, or set"
            " startingOffsetsByTimestampStrategy=latest to start such partitions at their end"
        )
    answers |= {split: found[split.topic, split.partition][0] for split in listed}
    return answers | {split: ends[split] for split in late}


def _some(splits: Iterable[Split], limit: int = 5) -> str:
    names = [str(split) for split in splits]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
