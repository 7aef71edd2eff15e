"""A small simulated world: clusters, metadata, Spark, and a sink that skips batches that it has.

The simulated Spark logs offset documents as text, replays batches that it has not committed, and dies at a given point.
It calls the product's own code: `plan_batch`, `Replays`, the codec, `slice_ranges`, amendments as files. The simulation
only answers the questions of a plan, from its clusters. Every record has a name of its own, so that "delivered exactly
once" is a matter of counting.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

from dynamic_kafka.driver.changed_topics import recorded_verdicts, refuse_standing
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import (
    ClusterError,
    ClusterUnreachableError,
    DataLossError,
    DynamicKafkaError,
    PendingRangesError,
    StateMismatchError,
    TopicIntegrityError,
)
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch, begin
from dynamic_kafka.executor.read_task import BatchReports, ReadTask
from dynamic_kafka.executor.reading import topic_identity
from dynamic_kafka.executor.reading.topic_identity import of_planned_topic
from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.metadata.topic_ids import shown_topic_id
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.advance import Limits, ranges_between
from dynamic_kafka.planning.awaited import must_answer
from dynamic_kafka.planning.clock import NOT_ALIGNED, Memory
from dynamic_kafka.planning.clock_of_values import horizon_ms
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.codec import decode, encode, fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.losses.dataloss import DataLoss
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation, observed_topic
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.plan_input import PlanInput
from dynamic_kafka.planning.questions import (
    AbsentTopicsQuestion,
    AcceptedIdentitiesQuestion,
    AcceptedLossesQuestion,
    AcceptedTopicsQuestion,
    DisputedIdsQuestion,
    EpochEndsQuestion,
    HighWatermarksQuestion,
    OffsetsQuestion,
    Question,
    RecordTimesQuestion,
    TimedOffset,
    run_steps,
)
from dynamic_kafka.planning.sameness.integrity import TopicChange, changes_of
from dynamic_kafka.planning.splits import Split, SplitRange, slice_ranges
from dynamic_kafka.state.folder import RANGE_END, STOP_RECORD, TOPIC_ID, StateFile
from dynamic_kafka.state.store import StateLocation
from dynamic_kafka.state.verdicts import save_change, saved_changes

SEEDS = 3 if os.environ.get("SEEDS") == "all" else 1
"""How many times the usual number of cases the simulations look at; a release looks at three times as many."""

ENDS = (STOP_RECORD, RANGE_END)
RETENTION_MS = 1000
DRIFT_MS, IDLE_MS = 15, 300
ALIGNED = {
    "watermarkAlignmentMaxDrift": f"{DRIFT_MS}ms",
    "idleTimeout": f"{IDLE_MS}ms",
    "announcedTimeout": f"{5 * IDLE_MS}ms",
}
SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}
NEVER_ANSWERS = {"never": SubscribedCluster({"t": "s"}, SERVERS)}
"""A further cluster, always named and never read. It has no stopping offsets, so no query is a bounded run."""

CrashPoint = Literal["planned", "logged", "amended", "reading", "read", "delivered"]
"""Where Spark dies: a plan not logged yet; logged, nothing read; ranges known and amendments written; in the middle of
reading; everything read, with all reports of executors. Last, the sink has the batch, the commit log does not."""

Answer = Literal["described", "not described", "one lacks it"]
"""The answer of a cluster about a topic; the last: of one broker, which does not have the topic yet."""

Rule = Literal["earliest", "latest"] | int | None
"""A starting or stopping rule; a number is an explicit offset."""

Key = tuple[str, int, int]
"""Topic id, partition, lifetime."""

Ends = dict[str, dict[tuple[str, int], int]]
"""{cluster id: {(topic id, partition): end}}"""


class Record(NamedTuple):
    """One record, in one lifetime of its topic's progress: expired progress that comes back is read as new."""

    topic_id: str
    partition: int
    lifetime: int
    offset: int
    epoch: int = 0


@dataclass
class SimulatedTopic:
    """A topic's logs.

    Attributes:
        ends: partition → end offset.
        first: partition → first available offset, 0 where it is not here.
        described: whether the cluster describes the topic now; it lists it anyway.
        unlisted_by: the brokers that do not have the topic now, though it exists.
        readable: whether its records can be read now.
        deleted: a deleted topic comes back as another one.
    """

    topic_id: str
    ends: dict[int, int]
    described: bool = True
    readable: bool = True
    unlisted_by: Literal["none", "one", "all"] = "none"
    first: dict[int, int] = field(default_factory=dict)
    deleted: bool = False

    @property
    def answers(self) -> bool:
        """Whether an observation holds the topic."""
        return self.described and not self.deleted and self.unlisted_by == "none"


@dataclass
class SimulatedCluster:
    """A physical cluster. Metadata may name it by several ids over time, one at a time.

    Attributes:
        named: the topics that metadata names; if empty, metadata does not name the cluster.
        reports_id: whether its brokers report a `cluster.id`.
        start, stop: the starting and stopping offsets of its metadata.
        announced: whether its metadata announce it.
    """

    kafka_id: str
    topics: dict[str, SimulatedTopic]
    name: str
    renamed_from: str | None = None
    reachable: bool = True
    named: set[str] = field(default_factory=set)
    reports_id: bool = True
    start: Rule = None
    stop: Rule = None
    announced: bool = False


class Named(NamedTuple):
    """One cluster of the metadata."""

    physical: SimulatedCluster
    name: str
    renamed_from: str | None
    topics: frozenset[str]


@dataclass
class SimulatedAdmin:
    """The cluster's answers to an executor that asks for a topic's id."""

    topic: Callable[[], SimulatedTopic]

    def describe_topics(self, names: list[str]) -> tuple[dict[str, tuple[str, list[int]]], frozenset[str]]:
        return {name: (self.topic().topic_id, []) for name in names}, frozenset()


@dataclass(frozen=True)
class SimulatedReports(BatchReports):
    """The place for executors' reports, in memory."""

    state: StateLocation = field(kw_only=True)
    takes_verdicts: bool = True

    def save_verdict(self, change: TopicChange) -> None:
        if self.takes_verdicts:
            super().save_verdict(change)

    def _folder(self) -> StateLocation:
        return self.state


class SimulatedSearch(StopSearch):
    """The search for the end of a range, whose evaluator is a function of simulated records."""

    def until_end(self, fetched: Iterator[list[Record]]) -> Iterator[list[Record]]:
        is_end: Any = self._evaluator.is_end
        for [record] in fetched:
            if is_end is not None and is_end(record):
                self.stop_offset, self._ends = record.offset, "split"
                return
            time = time_ms(record.topic_id, record.partition, record.offset)
            if self._task.pauses_at_ms is not None and time >= self._task.pauses_at_ms:
                self.stop_offset, self._ends, self._time_ms = record.offset, "pause", time
                return
            self._time_ms = time
            yield [record]


class ReadFailed(Exception):
    """A range that cannot be read now."""


class MemoryState(StateLocation):
    """A `stateLocation` without a disk: the same files, the same names, the same order. All files are years old."""

    def __init__(self) -> None:
        self.uri = "memory"
        self.files: dict[str, str] = {}

    def write(self, path: str, content: Mapping[str, Any], *, replace: bool = True) -> None:
        if replace or path not in self.files:
            self.files[path] = json.dumps(content)

    def read_folder(
        self, path: str, names: Collection[str] | None = None, *, skip_damaged: bool = False
    ) -> dict[str, dict[str, Any]]:
        chosen = [name for name, _ in self.list_folder(path)] if names is None else sorted(names)
        return {name: json.loads(self.files[f"{path}/{name}"]) for name in chosen if f"{path}/{name}" in self.files}

    def list_folder(self, path: str) -> list[StateFile]:
        paths = [name.rpartition("/") for name in sorted(self.files)]
        return [StateFile(name, 0.0) for folder, _, name in paths if folder == path]

    def list_folders(self, path: str) -> list[str]:
        below = [name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/")]
        return sorted({name.partition("/")[0] for name in below if "/" in name})

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_folder(self, path: str) -> None:
        for name in [name for name in self.files if name.startswith(f"{path}/")]:
            del self.files[name]


class SimulatedReplays(Replays):
    """Replays that keep the reports about the last batch alone."""

    kept_reports = 1


class Simulation:
    """One query over its whole life.

    Attributes:
        log: Spark's offset log, batch by batch; the first `committed` of them are in its commit log.
        sink: rows by batch id; a batch that is in the sink is never written again.
        reported: how often each record was delivered and then reported as possibly delivered.
        origins: where each split started.
        epochs: the leader epochs of each log, as (first offset, epoch).
        stops: the stopping offsets as they were first resolved.
        limits: where reading ends for that reason: at the stop, or where the split already was.
        recreation: a topic's re-creation, and how many records are read before it.
        given_up: records of ranges that executors did not read, since another topic has the name.
        evaluator: which records end their split; None without a record evaluator.
        decided: where splits have ended.
        aligned: whether records have times, and the splits are aligned by them.
        values: whether only executors see these times.
        alignment: what the last plan of the process left for the next one.
        quiet_since: since when splits had no unread record when their cluster last answered.
    """

    def __init__(
        self,
        *,
        starting: Literal["earliest", "latest"],
        policy: Literal["fail", "stall"] = "stall",
        refuse: bool = False,
        topic_ids: bool = True,
        first_offsets: bool = False,
        fail_on_loss: bool = False,
        integrity: bool = False,
        evaluator: Callable[[Record], bool] | None = None,
        aligned: bool = False,
        values: bool = False,
    ) -> None:
        self.starting: Rule = starting
        self.reports_topic_ids = topic_ids
        self.observes_first_offsets = first_offsets
        self.options = parse_options(
            {
                "streamIds": "s",
                "metadataPath": "/streams.yaml",
                "stateLocation": "memory",
                "clusterFailurePolicy": policy,
                "pendingRemovedRanges": "refuse" if refuse else "filter",
                "failOnDataLoss": str(fail_on_loss).lower(),
                "topicIntegrityCheck": str(integrity).lower(),
                "startingOffsets": starting,
                "removedClusterRetention": str(RETENTION_MS),
                **({"recordEvaluator": "simulated"} if evaluator is not None else {}),
                **(ALIGNED if aligned or values else {}),
                **({"timestampAssigner": "simulated:times"} if values else {}),
            },
            mode="streaming",
        )
        self.evaluator = evaluator
        self.aligned, self.values = aligned or values, values
        self.alignment = Memory()
        self.quiet_since: dict[Split, int] = {}
        # Without an evaluator, no query is over: this cluster changes nothing then.
        self.never_answers = NEVER_ANSWERS if evaluator is None else {}
        self.decided: dict[Key, int] = {}
        self.clusters: dict[str, SimulatedCluster] = {}
        self.state = MemoryState()
        self.now_ms = 1_000_000
        self.log: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[Record]] = {}
        self.delivered: Counter[Record] = Counter()
        self.reported: Counter[Record] = Counter()
        self.lifetimes: Counter[str] = Counter()
        self.lifetimes_of_batch: list[Counter[str]] = []
        self.origins: dict[Key, int] = {}
        self.stops: dict[Key, int] = {}
        self.limits: dict[Key, int] = {}
        self.expired: dict[tuple[str, int], int] = {}
        self.back_in_time: set[str] = set()
        self.explicit_ids: dict[tuple[str, str], str] = {}
        self.epochs: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)])
        self.accepts_losses = True
        self.accepts_by: Literal["pin", "tool"] = "pin"
        self.verdicts_are_lost = False
        self.pins: dict[tuple[str, str], str] = {}
        self.acceptances = 0
        self.recreation: tuple[int, Callable[[], None]] | None = None
        self.given_up: set[Record] = set()
        self.remaining: dict[int, set[SplitRange]] = {}
        self.process: Replays | None = None
        self.frozen: list[Named] | None = None
        self.targets: Targets | None = None
        self.noted: dict[str, set[str]] = {}
        self.planned: Planned | None = None

    # -- the world -----------------------------------------------------------------------------------------------

    def physical(self, cluster: str) -> SimulatedCluster:
        return self.clusters[cluster.partition("-")[0]]

    def view(self) -> list[Named]:
        """The clusters that metadata names, as the query sees them."""
        if self.frozen is not None:
            return self.frozen
        return [
            Named(cluster, cluster.name, cluster.renamed_from, frozenset(cluster.named))
            for cluster in self.clusters.values()
            if cluster.named
        ]

    def observe(self, progress: OffsetDocument) -> Observation:
        """Observe all clusters; ClusterUnreachableError if one that must answer does not."""
        subscription, answers = self.subscription(), self.answers()
        # Unlike a real query's, the first plan does without the cluster that never answers.
        required = must_answer(self.options, subscription, progress)
        required -= self.never_answers.keys() if progress.is_initial else set()
        for cluster in sorted(required - answers.keys()):
            saved = {self.physical(name).kafka_id for name in (*progress.clusters, *progress.parked)}
            known = cluster not in self.never_answers and self.physical(cluster).kafka_id in saved
            assert progress.is_initial or known, "it was never read, and ends a query"
            raise ClusterUnreachableError(cluster, "does not answer")
        return Observation(subscription, answers)

    def subscription(self) -> Subscription:
        clusters = {
            named.name: SubscribedCluster(
                dict.fromkeys(sorted(named.topics), "s"),
                SERVERS,
                starting_offsets=offset_spec(named.physical.start),
                stopping_offsets=offset_spec(named.physical.stop),
                renamed_from=named.renamed_from,
                state="Announced" if named.physical.announced else "Active",
                topic_ids={topic: pin for topic in sorted(named.topics) if (pin := self.pin(named.physical, topic))},
            )
            for named in self.view()
        }
        return Subscription(clusters | self.never_answers, ("s",))

    def pin(self, cluster: SimulatedCluster, topic: str) -> str | None:
        """The id that metadata pins a topic to, as Kafka's tools print it."""
        return shown_topic_id(self.pins.get((cluster.kafka_id, topic)))

    def answers(self) -> dict[str, ClusterObservation]:
        answers = {}
        for named in self.view():
            cluster = named.physical
            if not cluster.reachable:
                continue
            topics, missing = {}, set()
            for name in named.topics:
                topic = cluster.topics[name]
                if topic.deleted or topic.unlisted_by != "none":
                    missing.add(name)
                elif topic.described:
                    topics[name] = TopicObservation(
                        dict(topic.ends),
                        {p: topic.first.get(p, 0) for p in topic.ends} if self.observes_first_offsets else {},
                        epochs={p: self.epochs[topic.topic_id, p][-1][1] for p in topic.ends},
                        topic_id=topic.topic_id if self.reports_topic_ids else None,
                    )
            kafka_id = cluster.kafka_id if cluster.reports_id else None
            answers[named.name] = ClusterObservation(topics, kafka_id, frozenset(missing))
        return answers

    def create_anew(self, cluster: SimulatedCluster, topic: str, ends: dict[int, int]) -> None:
        """Let another topic take the name."""
        self.note_expired()
        prefix, _, generation = cluster.topics[topic].topic_id.rpartition("/")
        cluster.topics[topic] = SimulatedTopic(f"{prefix}/{int(generation) + 1}", ends)

    def step_and_recreate(
        self, cluster: SimulatedCluster, name: str, ends: dict[int, int], after: int, **step: Any
    ) -> None:
        """Take a step with news, and let another topic take the name once that many records of the batch are read."""
        for topic in cluster.topics.values():
            topic.ends = {partition: end + (0 if topic.deleted else 2) for partition, end in topic.ends.items()}
        self.recreation = (after, lambda: self.create_anew(cluster, name, ends))
        self.step(**step)
        self.recreation = None

    def elect(self, cluster: SimulatedCluster, name: str, partition: int, cut: int, grown: int) -> None:
        """Elect a leader whose log ends at `cut`, and let it grow."""
        topic = cluster.topics[name]
        key = (topic.topic_id, partition)
        newest = self.epochs[key][-1][1] + 1
        self.epochs[key] = [(at, epoch) for at, epoch in self.epochs[key] if at < cut] + [(cut, newest)]
        topic.ends[partition] = cut + grown
        for origin, at in self.origins.items():
            if origin[:2] == key:
                self.origins[origin] = min(at, cut)

    def epoch_end(self, topic_id: str, partition: int, epoch: int) -> float:
        """The end of the records of an epoch and those before it."""
        return min((at for at, later in self.epochs[topic_id, partition] if later > epoch), default=math.inf)

    def record(self, topic_id: str, partition: int, lifetime: int, offset: int) -> Record:
        """The record that the log has at an offset now."""
        epoch = max(epoch for at, epoch in self.epochs[topic_id, partition] if at <= offset)
        return Record(topic_id, partition, lifetime, offset, epoch)

    def last_document(self) -> OffsetDocument:
        return decode(self.log[-1]) if self.log else OffsetDocument()

    def document(self, batch: int) -> OffsetDocument:
        """The document at the end of a batch; -1 is what Spark asks for at the very start."""
        return decode(self.log[batch]) if batch >= 0 else decode(text(OffsetDocument()))

    # -- Spark ---------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        return len(self.log) > self.committed

    def step(
        self,
        *,
        crash: CrashPoint | None = None,
        limits: Limits = Limits(),  # noqa: B008
        pieces: int | None = None,
        skips: bool = False,
    ) -> bool:
        """Do Spark's next step: replay the pending batch, else plan and run one. False if there was nothing to do.

        Args:
            skips: the sink is Spark's file sink: Spark does not even ask for the ranges of a batch that the sink has.
        """
        if self.process is None:
            if standing := self.standing():
                self.accept_changes(standing)
                return True
            self.process = SimulatedReplays(self.options, self.state, self.observe, lambda asked, _: self.answer(asked))
            self.alignment = Memory()
        if not self.pending and (self.last_document().over or not self.plan(crash, limits)):
            if limits == Limits():
                self.check_at_rest()
            return False
        if self.process is None:
            return True
        batch = len(self.log) - 1
        skipped = skips and batch in self.sink
        if (skipped or self.deliver(batch, crash, pieces)) and crash != "delivered":
            self.committed += 1
        else:
            self.process = None
        return True

    def deliver(self, batch: int, crash: CrashPoint | None, pieces: int | None) -> bool:
        """Read a batch and hand it to the sink. False if Spark dies before, or the source refuses."""
        try:
            ranges = self.ranges(batch)
            if crash in ("amended", "reading"):
                return False
            pieces = pieces if self.evaluator is None and not self.values else None
            rows = self.read(batch, slice_ranges(ranges, min_partitions=pieces, max_records=None))
            if crash == "read":
                return False
            self.ranges(batch)  # a second job of `foreachBatch`: it gets no range that executors have left out
        except (PendingRangesError, DataLossError, TopicIntegrityError) as refused:
            self.check_refused_batch(refused)
            return False
        except (ReadFailed, ClusterUnreachableError):
            return False
        if self.values:
            self.check_times(batch, rows)
        if batch not in self.sink:
            self.sink[batch] = rows
            self.delivered.update(rows)
        return True

    def check_refused_batch(self, refused: DynamicKafkaError) -> None:
        """Check that the source refuses a pending batch for a reason, and accept that if the user does so."""
        if isinstance(refused, TopicIntegrityError):
            self.end_for_good(refused)
        elif isinstance(refused, PendingRangesError):
            assert self.options.pending_removed_ranges == "refuse"
        else:
            assert re.search("re-created|truncated", str(refused)) and self.options.fail_on_data_loss
            if self.accepts_losses:
                self.abandon_recreated()

    def plan(self, crash: CrashPoint | None, limits: Limits) -> bool:
        """Plan and log a batch, unless Spark dies before; False when there is no news."""
        assert self.process is not None
        logged = self.document(len(self.log) - 1)
        self.process.begin(logged)
        self.process.batch_ended(logged)
        try:
            given = self.plan_input(logged, limits)
        except ClusterUnreachableError:
            self.process = None
            return True
        try:
            planned = run_steps(plan_batch(given), self.answer)
        except ClusterError as refused:
            # Only a first plan refuses a topic without a description; the query is then started again.
            assert logged.is_initial and "does not describe it" in str(refused)
            self.process = None
            return True
        except (DataLossError, TopicIntegrityError) as refused:
            if isinstance(refused, TopicIntegrityError):
                self.end_for_good(refused)
            else:
                self.check_refusal(given)
            self.process = None
            return True
        assert run_steps(plan_batch(given), self.answer) == planned, "a plan is a function"
        self.planned, self.alignment = planned, planned.aligned.memory
        for loss in planned.losses:
            self.check_loss(loss, planned.opened)
        end = planned.plan.document
        self.check_accepted(logged, end)
        if end.over:
            self.check_over(end)
        if self.aligned:
            self.check_clock(logged, planned)
        if end is logged:
            self.keep_track(logged, planned, given.observation.subscription.clusters)
            return False
        assert text(end) != text(logged)
        assert text(decode(text(end))) == text(end)
        if crash == "planned":
            self.process = None
            return True
        self.keep_track(logged, planned, given.observation.subscription.clusters)
        self.log.append(text(end))
        self.lifetimes_of_batch.append(Counter(self.lifetimes))
        self.remaining[len(self.log) - 1] = set(ranges_between(logged, end))
        self.process.planned(logged, end)
        if crash == "logged":
            self.process = None
        return True

    def plan_input(self, logged: OffsetDocument, limits: Limits) -> PlanInput:
        assert self.process is not None
        observation = self.observe(logged)
        if self.targets is not None:
            self.targets.fix(observation.answers)
            limits = replace(limits, targets=self.targets.ends)
        return PlanInput(
            options=self.options,
            logged=logged,
            progress=self.process.amendments.after(logged),
            observation=observation,
            now_ms=self.now_ms,
            limits=limits,
            new_query_id="q",
            state=self.process.incarnation.state_id,
            # Metadata is never new here: then no plan rejects it for a topic that does not exist.
            read_before=frozenset(observation.answers),
            alignment=self.alignment,
        )

    def absent(self, topics: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Those of the topics that no broker has."""
        physical_topics = {(cluster, name): self.physical(cluster).topics[name] for cluster, name in topics}
        return frozenset(key for key, topic in physical_topics.items() if topic.deleted or topic.unlisted_by == "all")

    def end_for_good(self, error: TopicIntegrityError) -> None:
        """End the process, as its verdict ends each start, until a user accepts what has changed."""
        self.process = None
        changes, query = changes_of(error), self.last_document().query
        assert changes
        if not self.verdicts_are_lost:
            with suppress(TopicIntegrityError), recorded_verdicts(self.state, query):
                raise error
            document, named = self.last_document(), {cluster.name for cluster in self.view()}
            # Under the former id of a renamed cluster, the next start asks the brokers again.
            known = [
                change
                for change in changes
                if change.cluster in named and (change.pinned or document.topic(*change.key[:2]) is not None)
            ]
            assert {change.key for change in known} <= {change.key for change in self.standing()}
        self.accept_changes(changes)

    def accept_changes(self, changes: Iterable[TopicChange]) -> None:
        """Let the user accept what has ended the query, if it is a user who does."""
        query = self.last_document().query
        for change in changes if self.accepts_losses else ():
            physical, topic = self.physical(change.cluster), self.physical(change.cluster).topics[change.topic]
            assert change.expected != change.found
            assert change.pinned or self.options.topic_integrity_check
            if change.pinned and not change.found:
                del self.pins[physical.kafka_id, change.topic]
            elif change.pinned or (self.accepts_by == "pin" and change.found):
                self.pins[physical.kafka_id, change.topic] = topic.topic_id
            else:
                save_change(self.state, query, "accepted", change)
        if self.accepts_losses:
            assert not any(change in self.standing() for change in changes)

    def check_accepted(self, logged: OffsetDocument, end: OffsetDocument) -> None:
        """Check that no topic takes the place of one that is read and checked, unless a user accepted that."""
        if not self.options.topic_integrity_check:
            return
        accepted = {
            key[1:] for key in (change.key for change in saved_changes(self.state, logged.query, "accepted").values())
        }
        old = {
            (self.physical(cluster).kafka_id, topic): progress.topic_id
            for cluster, content in logged.clusters.items()
            for topic, progress in content.topics.items()
        }
        for cluster, content in end.clusters.items():
            for topic, progress in content.topics.items():
                place = (self.physical(cluster).kafka_id, topic)
                was, now = old.get(place), progress.topic_id
                if None not in (was, now) and was != now and not all(map(progress.finished, progress.next)):
                    assert self.pins.get(place) == now or (topic, was, now) in accepted, f"{place} is {now}, not {was}"

    def standing(self) -> tuple[TopicChange, ...]:
        """The verdicts that would end a start now."""
        try:
            refuse_standing(self.state, [self.last_document()], self.options, self.subscription, self.have_ids)
        except TopicIntegrityError as error:
            return changes_of(error)
        return ()

    def have_ids(self, ids: Mapping[tuple[str, str], str], _: object) -> frozenset[tuple[str, str]]:
        """Those of the topics that have this id now."""
        by_key = {key: self.physical(key[0]).topics[key[1]] for key in ids}
        absent = self.absent(ids)
        return frozenset(key for key, topic in by_key.items() if key not in absent and topic.topic_id == ids[key])

    def check_refusal(self, given: PlanInput) -> None:
        """Check that refused records are gone, and accept the losses, as the tool `accept` records them."""
        assert self.options.fail_on_data_loss
        planned = run_steps(plan_batch(replace(given, refuse_losses=False)), self.answer)
        assert planned.refused
        for loss in planned.refused:
            self.check_loss(loss, planned.opened)
            pin = self.pins.get((self.physical(loss.split.cluster).kafka_id, loss.split.topic))
            named = pin == self.topic_of(loss.split).topic_id
            assert not (loss.recreated and named), "the metadata name the new id, and that accepts its loss"
            following, epoch = planned.opened.next_of(loss.split), planned.opened.epoch_of(loss.split)
            assert following is not None
            accepted = AcceptedLoss(
                following, loss.topic_id, loss.resume_at, given.logged.number, epoch, loss.kind(following)
            )
            if self.accepts_losses:
                # A purge may have deleted files: their number is not the next free one.
                self.acceptances += 1
                self.state.write(f"{given.query}/accepted/{self.acceptances:06d}-x.json", accepted.to_wire(loss.split))

    def abandon_recreated(self) -> None:
        """Leave out the ranges of topics that were re-created or truncated since the batch was planned."""
        batch = len(self.log) - 1
        end = self.document(batch)
        for part in list(self.remaining[batch]):
            planned = end.topic(part.split.cluster, part.split.topic)
            assert planned is not None
            changed = planned.topic_id != self.topic_of(part.split).topic_id
            if changed or self.is_truncated(planned.topic_id or "", part):
                self.abandon(self.physical(part.split.cluster).kafka_id, part.split.topic)

    def answer(self, question: Question) -> Any:
        """Answer a plan's question from the simulated clusters."""
        match question:
            case OffsetsQuestion(queries):
                assert {query.kind for query in queries.values()} == {"earliest"}, "other offsets are observed"
                return {split: self.topic_of(split).first.get(split.partition, 0) for split in queries}
            case HighWatermarksQuestion(_, new):
                # Every cluster is read with `read_uncommitted`.
                return {split: self.topic_of(split).ends[split.partition] for split in new}
            case AcceptedIdentitiesQuestion():
                return {}  # identities follow their cluster: the plan fails if it finds another one
            case AcceptedLossesQuestion() | AcceptedTopicsQuestion():
                return self.accepted(question)
            case AbsentTopicsQuestion() | DisputedIdsQuestion() | RecordTimesQuestion():
                return self.asked_of_brokers(question)
            case EpochEndsQuestion(checks):
                ends = {s: self.epoch_end(self.topic_of(s).topic_id, s.partition, c.saved) for s, c in checks.items()}
                return {split: end for split, end in ends.items() if end < checks[split].end}

    def record_times(self, question: RecordTimesQuestion) -> dict[Split, TimedOffset]:
        """The newest record of each log, or the first that is not older."""
        found = {}
        for split, since_ms in question.since_ms.items():
            topic = self.topic_of(split)
            log = range(topic.first.get(split.partition, 0), topic.ends[split.partition])
            records = [TimedOffset(offset, time_ms(topic.topic_id, split.partition, offset)) for offset in log]
            if matching := records[-1:] if since_ms is None else [r for r in records if r.time_ms >= since_ms]:
                found[split] = matching[0]
        return found

    def asked_of_brokers(self, question: AbsentTopicsQuestion | DisputedIdsQuestion | RecordTimesQuestion) -> Any:
        if isinstance(question, RecordTimesQuestion):
            return self.record_times(question)
        if isinstance(question, AbsentTopicsQuestion):
            return self.absent(question.topics)
        return frozenset(question.ids) - self.have_ids(question.ids, None)

    def accepted(self, question: AcceptedLossesQuestion | AcceptedTopicsQuestion) -> Any:
        if isinstance(question, AcceptedTopicsQuestion):
            return set(saved_changes(self.state, question.query, "accepted").values())
        assert self.options.fail_on_data_loss
        return self.state.accepted_losses(question.query)

    def topic_of(self, split: Split) -> SimulatedTopic:
        return self.physical(split.cluster).topics[split.topic]

    def ranges(self, batch: int) -> list[SplitRange]:
        """The ranges of a batch, as the product gives them. Ranges that it newly left out are accounted for."""
        assert self.process is not None
        start, end = self.document(batch - 1), self.document(batch)
        self.process.begin(end)
        before = self.amendments(end)
        ranges = self.process.ranges(start, end)
        assert self.process.ranges(start, end) == ranges, "Spark may ask as often as it likes"
        made = [amendment for amendment in self.amendments(end) if amendment not in before]
        for amendment in made:
            self.account(amendment, batch)
        left_out = {part.split for amendment in made for part in amendment.left_out}
        reports = self.state.seen(end.query, fingerprint(end))
        left_out |= {report.split for report in reports if report.kind == TOPIC_ID}
        ends = {report.split: report.content["offset"] for report in reports if report.kind in ENDS}
        parts = [replace(part, end=ends.get(part.split, part.end)) for part in self.remaining[batch]]
        remaining = {part for part in parts if part.split not in left_out and part.size > 0}
        assert set(ranges) == remaining, "a replay reads what the attempt before it read"
        assert len(ranges) == len({part.split for part in ranges})
        self.remaining[batch] = set(ranges)
        return ranges

    def account(self, amendment: Amendment, batch: int) -> None:
        if batch in self.sink:
            document = self.document(batch)
            for part in amendment.left_out:
                key = (self.topic_id(document, *part.split[:2]), part.split.partition)
                rows = (row for row in self.sink[batch] if row[:2] == key and part.start <= row.offset < part.end)
                self.reported.update(rows)

    def amendments(self, end: OffsetDocument) -> list[Amendment]:
        return [amendment for amendment in self.state.amendments(end.query) if amendment.end == fingerprint(end)]

    def read(self, batch: int, ranges: Iterable[SplitRange]) -> list[Record]:
        """Read ranges as executors do: each task is tried twice, and only the rows of the last attempt count."""
        rows: list[Record] = []
        for part in ranges:
            self.interrupt()
            topic = self.topic_of(part.split)
            if topic.deleted or topic.unlisted_by != "none" or not topic.readable:
                raise ReadFailed
            try:
                rows.extend(self.attempt(batch, part))
            except ClusterError as changed:
                assert "re-created while" in str(changed) and not self.options.fail_on_data_loss
                rows.extend(self.attempt(batch, part))
        return rows

    def attempt(self, batch: int, part: SplitRange) -> list[Record]:
        end = self.document(batch)
        planned = end.topic(part.split.cluster, part.split.topic)
        assert planned is not None

        assert self.process is not None
        reports = SimulatedReports(
            "memory",
            end.query,
            fingerprint(end),
            end.number,
            self.process.incarnation.name,
            RANGE_END if end.by_value is not None else STOP_RECORD,
            state=self.state,
            takes_verdicts=not self.verdicts_are_lost,
        )
        known = {record.split for record in self.process.amendments.stop_records_of(end)}
        task = ReadTask(
            part,
            "s",
            kafka_id=None,
            client=None,  # type: ignore[arg-type]
            active=frozenset(),
            read_timeout_s=1.0,
            include_headers=False,
            fail_on_data_loss=self.options.fail_on_data_loss,
            topic_id=planned.topic_id,
            reports=reports,
            has_stop_record=part.split in known or part.split.partition in planned.ended,
            pin=self.pins.get((self.physical(part.split.cluster).kafka_id, part.split.topic)),
            topic_integrity=self.options.topic_integrity_check,
            is_reported=part.split in known,
            pauses_at_ms=horizon_ms(end, DRIFT_MS) if end.by_value and part.split not in known else None,
        )
        loaded = Evaluator("simulated", "", self.evaluator, None, None)
        named = {"evaluator": self.evaluator and "simulated", "assigner": "simulated" if self.values else None}
        simulated = SimpleNamespace(**named, looks_at_rows=self.values, load=lambda: loaded)
        evaluation: Any = simulated if self.evaluator or self.values else None
        task, evaluator = begin(task, evaluation)
        cached: Any = SimpleNamespace(topic_ids={}, admin=SimulatedAdmin(lambda: self.topic_of(part.split)))
        batches: Any = self.fetched(batch, task.part)
        search = SimulatedSearch(task, evaluator) if evaluator is not None else None
        if search is not None:
            batches = search.until_end(batches)
        confirmed = search.settle if search is not None else None
        with patch.object(topic_identity, "disputed_ids", lambda *_: frozenset()):  # the brokers agree
            delivered = [record for records in of_planned_topic(task, cached, batches, confirmed) for record in records]
        for kind, split, content, driver in self.state.seen(end.query, fingerprint(end)):
            if split == part.split and kind == TOPIC_ID:
                self.given_up.update(self.records(batch, part))
            elif split == part.split and driver == reports.driver and content.get("ends", "split") == "split":
                self.decide(batch, part, content["offset"])
        return delivered

    def decide(self, batch: int, part: SplitRange, offset: int) -> None:
        """Note where a split has ended, and check that the evaluator says so."""
        topic_id = self.topic_id(self.document(batch), *part.split[:2])
        key = (topic_id, part.split.partition, self.lifetimes_of_batch[batch][topic_id])
        if key not in self.decided:
            assert self.evaluator is not None
            ends = [record.offset for record in self.records(batch, part) if self.evaluator(record)]
            assert offset == ends[0], f"{part} ends at {offset}, not at {ends}"
        assert self.decided.setdefault(key, offset) == offset, "a split ends once"

    def fetched(self, batch: int, part: SplitRange) -> Iterator[list[Record]]:
        """The records that an attempt fetches, whatever topic has the name meanwhile."""
        cluster, topic = self.physical(part.split.cluster), self.topic_of(part.split)
        named = next(named for named in self.view() if named.physical is cluster)
        assert cluster.reachable
        assert part.split.topic in named.topics
        if self.is_truncated(topic.topic_id, part):
            if self.options.fail_on_data_loss:
                raise DataLossError("the log was truncated")
        else:
            assert part.end <= topic.ends[part.split.partition]
        first = topic.first.get(part.split.partition, 0)
        kept = self.epoch_end(topic.topic_id, part.split.partition, part.end_epoch)
        for record in self.records(batch, part):
            self.interrupt()
            now = self.topic_of(part.split)
            if now is topic and first <= record.offset < kept:
                yield [record]
            elif now is not topic and record.offset < now.ends.get(part.split.partition, 0):
                yield [self.record(now.topic_id, part.split.partition, self.lifetimes[now.topic_id], record.offset)]
            elif now is not topic and self.options.fail_on_data_loss:
                raise DataLossError("the log ends")

    def interrupt(self) -> None:
        """Count down to the re-creation of a topic while a batch is read."""
        if self.recreation is not None:
            left, recreate = self.recreation
            self.recreation = (left - 1, recreate) if left > 0 else None
            if left == 0:
                recreate()

    def is_truncated(self, topic_id: str, part: SplitRange) -> bool:
        """Whether the log was cut off within a range since it was planned."""
        return self.epoch_end(topic_id, part.split.partition, part.end_epoch) < part.end

    def records(self, batch: int, part: SplitRange) -> list[Record]:
        topic_id = self.topic_id(self.document(batch), part.split.cluster, part.split.topic)
        lifetime = self.lifetimes_of_batch[batch][topic_id]
        key = (topic_id, part.split.partition, lifetime)
        return [self.record(*key, offset) for offset in range(part.start, part.end)]

    def topic_id(self, document: OffsetDocument, cluster: str, topic: str) -> str:
        progress = document.any_topic(cluster, topic)
        return (progress.topic_id if progress else None) or self.physical(cluster).topics[topic].topic_id

    # -- the user, and whole runs --------------------------------------------------------------------------------

    def abandon(self, cluster: str, topic: str | None = None) -> None:
        """Do what the tool `abandon` does: leave a cluster's ranges out of the pending batch of a stopped query."""
        self.process = None
        if not self.pending:
            return
        batch = len(self.log) - 1
        start, end = self.document(batch - 1), self.document(batch)
        parts = tuple(
            part
            for part in sorted(self.remaining[batch], key=str)
            if self.physical(part.split.cluster).kafka_id == cluster and topic in (None, part.split.topic)
        )
        if parts:
            reasons: dict[str, Any] = {part.split.cluster: "abandoned" for part in parts}
            amendment = Amendment(end.query, end.number, fingerprint(start), fingerprint(end), parts, reasons, 0)
            self.state.save_amendment(amendment)
            self.account(amendment, batch)
            self.remaining[batch] -= set(parts)

    def start_elsewhere(self, what: Literal["emptied", "dropped", "another"]) -> None:
        """Start the query with a state location that lacks its state: it refuses, and the next start is as before."""
        self.process = None
        end = self.last_document()
        if not end.state:
            return
        other_state = MemoryState()
        if what == "another":
            other_state.bind(end.query, "another")
        elsewhere = Replays(self.options, None if what == "dropped" else other_state, self.observe)
        try:
            elsewhere.begin(end)
        except StateMismatchError:
            return
        raise AssertionError("the ranges that the last batch left out are never read")

    def run_available_now(self, limit: int | None, changes: list[tuple[str, set[str], bool, Answer]]) -> None:
        """Do a run from start to end. Metadata is looked up once; brokers come and go, records continue to arrive."""
        self.process = None
        self.frozen = self.view()
        self.targets = Targets()
        self.targets.fix(self.answers())
        ends: Ends = {}
        self.noted = {}
        try:
            for _ in range(400 if self.values else 40):
                self.note_ends(ends)
                before = len(self.log)
                if not self.step(limits=Limits(max_offsets=limit)):
                    if not self.pending:
                        self.check_run(ends)
                    return
                if self.process is None:
                    return
                self.check_ends(before, ends)
                self.check_delivered()
                if changes:
                    self.change_meanwhile(*changes.pop())
            raise AssertionError("the run does not end")
        finally:
            self.frozen = self.targets = None
            self.process = None

    def change_meanwhile(self, cluster: str, topics: set[str], reachable: bool, answer: Answer) -> None:
        self.clusters[cluster].named, self.clusters[cluster].reachable = topics, reachable
        for topic in self.clusters[cluster].topics.values():
            if not topic.deleted:
                topic.ends[0] += 1
        for name in topics:
            topic = self.clusters[cluster].topics[name]
            topic.described = answer == "described"
            topic.unlisted_by = "one" if answer == "one lacks it" else "none"

    def note_ends(self, ends: Ends) -> None:
        """Note the ends of each topic when it is first described in a run."""
        for named in self.view():
            for name in named.topics - self.noted.get(named.name, set()) if named.physical.reachable else ():
                topic = named.physical.topics[name]
                if topic.answers:
                    self.noted.setdefault(named.name, set()).add(name)
                    cluster_ends = ends.setdefault(named.name, {})
                    cluster_ends |= {(topic.topic_id, partition): end for partition, end in topic.ends.items()}

    def drain(self, *, abandon: bool = False) -> None:
        """Let every cluster answer, then name everything: all of it arrives, and nothing is left to do.

        Args:
            abandon: a user abandons a pending batch that the source refuses to filter.
        """
        for cluster in self.clusters.values():
            cluster.reachable = cluster.reports_id = True
            for topic in cluster.topics.values():
                topic.described = topic.readable = True
                topic.unlisted_by = "none"
        self.accepts_losses = True
        for cluster in self.clusters.values():
            for name in [name for name, topic in cluster.topics.items() if topic.deleted]:
                self.create_anew(cluster, name, {0: 2})
        if self.options.pending_removed_ranges == "filter":
            self.come_to_rest()
        for cluster in self.clusters.values():
            cluster.named = set(cluster.topics)
        if abandon and self.pending and self.options.pending_removed_ranges == "refuse":
            for cluster in self.clusters.values():
                self.abandon(cluster.kafka_id)
        self.come_to_rest()
        document = self.last_document()
        if document.over:
            return
        assert not document.parked
        for cluster in self.clusters.values():
            for name, topic in cluster.topics.items():
                progress = document.topic(cluster.name, name)
                assert progress is not None
                for partition, end in topic.ends.items():
                    assert progress.stops or progress.finished(partition) or progress.next[partition] == end

    def come_to_rest(self) -> None:
        for _ in range(300 if self.values else 30):
            if not self.step():
                aligned = self.planned.aligned if self.planned is not None else NOT_ALIGNED
                if self.last_document().over or (aligned.held_by is None and not aligned.waits_for):
                    return
                self.now_ms += IDLE_MS
            self.check_delivered()
        raise AssertionError("the query does not come to rest")

    # -- what must hold ------------------------------------------------------------------------------------------

    def check_over(self, end: OffsetDocument) -> None:
        """A query is over only once each split has ended that metadata names, or may name again in time."""
        assert next(end.splits(), None) is not None
        for split, following in everything(end):
            kept = end.parked_topic(split.cluster, split.topic)
            if kept is not None and self.now_ms < kept.until_ms:
                bounds = [
                    ends[split.partition]
                    for ends in (kept.progress.stops, kept.progress.ended)
                    if split.partition in ends
                ]
                assert bounds and following >= min(bounds), f"{split} is open"
        for named in self.view():
            assert named.physical.reachable, "a cluster without an answer may have more splits"
            for topic in (named.physical.topics[name] for name in named.topics):
                if topic.deleted or topic.unlisted_by == "all":
                    continue
                assert topic.answers, "a topic without a description may have more splits"
                for partition in topic.ends:
                    assert (topic.topic_id, partition, self.lifetimes[topic.topic_id]) in self.decided

    def check_loss(self, loss: DataLoss, opened: OffsetDocument) -> None:
        """A plan finds losses only where records are gone."""
        physical, topic = self.physical(loss.split.cluster), self.topic_of(loss.split)
        following = opened.next_of(loss.split)
        assert following is not None
        expired = following < topic.first.get(loss.split.partition, 0)
        explicit_start = following > topic.ends.get(loss.split.partition, 0) and isinstance(physical.start, int)
        missing = topic.deleted or (loss.missing and topic.unlisted_by == "all")
        cut = loss.truncated and self.epoch_end(topic.topic_id, loss.split.partition, opened.epoch_of(loss.split) or 0)
        assert loss.recreated or missing or expired or (cut is not False and cut < following) or explicit_start, (
            f"nothing is lost, but: {loss}"
        )

    def keep_track(self, logged: OffsetDocument, planned: Planned, wanted: Mapping[str, SubscribedCluster]) -> None:
        """Follow parking and expiry with independent bookkeeping, and note the starts and stops of new splits."""
        end = planned.plan.document
        before = {
            (self.physical(cluster).kafka_id, topic): (cluster, kept)
            for cluster, parked in logged.parked.items()
            for topic, kept in parked.topics.items()
        }
        for note in planned.notes:
            if note.kind != "expired":
                continue
            assert note.topic is not None
            physical = self.physical(note.cluster)
            _, kept = before[physical.kafka_id, note.topic]
            topic_id = kept.progress.topic_id or physical.topics[note.topic].topic_id
            assert kept.until_ms <= self.now_ms
            assert topic_id not in self.back_in_time, "a topic that metadata named again in time must not expire"
            self.lifetimes[topic_id] += 1
        for (kafka_id, topic), (name, kept) in before.items():
            physical = self.clusters[kafka_id]
            topic_id = kept.progress.topic_id or physical.topics[topic].topic_id
            same = physical.name in wanted and name in (physical.name, wanted[physical.name].renamed_from)
            if same and topic in wanted[physical.name].topics:
                if kept.until_ms > self.now_ms:
                    self.back_in_time.add(topic_id)
            else:
                self.back_in_time.discard(topic_id)
        self.back_in_time &= {
            self.topic_id(end, cluster, topic) for cluster, parked in end.parked.items() for topic in parked.topics
        }
        self.check_parked(end, before, wanted)
        self.follow(logged, end)

    def check_parked(
        self,
        end: OffsetDocument,
        before: Mapping[tuple[str, str], tuple[str, Any]],
        wanted: Mapping[str, SubscribedCluster],
    ) -> None:
        for cluster, parked in end.parked.items():
            named = wanted[cluster].topics if cluster in wanted else {}
            for topic, kept in parked.topics.items():
                if topic in named:
                    continue
                assert self.now_ms < kept.until_ms <= self.now_ms + RETENTION_MS, "parked past its retention"
                _, was = before.get((self.physical(cluster).kafka_id, topic), ("", None))
                if was is not None and not (was.awaited or was.missing):
                    assert kept.until_ms == was.until_ms, "a deadline is written once"
        names = [(self.physical(c).kafka_id, t) for c in end.clusters for t in end.clusters[c].topics]
        names += [(self.physical(c).kafka_id, t) for c in end.parked for t in end.parked[c].topics]
        assert len(names) == len(set(names)), "a topic has one progress, active or parked"

    def follow(self, logged: OffsetDocument, end: OffsetDocument) -> None:
        """Note the starts and stops of new splits, and compare them with the design's own rules."""
        self.follow_explicit_ids(logged)
        known = {(topic_id, lifetime) for topic_id, _, lifetime in self.origins}
        old, before = {}, {}
        for split, following in everything(logged):
            topic_id = self.topic_id(logged, split.cluster, split.topic)
            old[self.physical(split.cluster).kafka_id, split.topic] = topic_id
            before[topic_id, split.partition, self.lifetimes[topic_id]] = following
        for split in end.splits():
            topic_id = self.topic_id(end, split.cluster, split.topic)
            key = (topic_id, split.partition, self.lifetimes[topic_id])
            progress = end.topic(split.cluster, split.topic)
            assert progress is not None
            if key not in self.origins:
                was = old.get((self.physical(split.cluster).kafka_id, split.topic))
                origin = self.origin(logged, split, topic_id, known, was)
                assert progress.starts[split.partition] == origin, f"{split} starts at {progress.starts}, not {origin}"
                self.origins[key] = origin
                if isinstance(self.physical(split.cluster).start, int) and self.reports_topic_ids:
                    self.explicit_ids.setdefault((split.cluster, split.topic), was or topic_id)
            stop = progress.stops.get(split.partition)
            if stop is not None:
                if key not in self.limits:
                    # A range that a replay left out may have been delivered: then the split was there before.
                    delivered = [record.offset + 1 for record in self.delivered if record[:3] == key]
                    self.limits[key] = max(stop, before.get(key, 0), *delivered)
                assert self.stops.setdefault(key, stop) == stop, "a stop is resolved once"
            else:
                assert key not in self.stops, "a stop is kept"

    def follow_explicit_ids(self, logged: OffsetDocument) -> None:
        """Let the ids that explicit offsets hold for follow renames, and drop them with those offsets."""
        wanted = {named.name: named for named in self.view()}
        saved = {split.cluster for split, _ in everything(logged)}
        for name, topic in list(self.explicit_ids):
            new = next((cluster for cluster in wanted.values() if cluster.physical is self.physical(name)), None)
            if new is None or name == new.name or name in wanted:
                continue
            # Without `renamedFrom`, only an answer shows the rename; the progress may expire before it comes.
            recognised = name in saved and new.physical.reachable and new.physical.reports_id
            if (name == new.renamed_from and new.name not in logged.clusters) or recognised:
                first = self.explicit_ids.pop((name, topic))
                self.explicit_ids[new.name, topic] = first
        for key in list(self.explicit_ids):
            if key[0] in wanted and not isinstance(wanted[key[0]].physical.start, int):
                del self.explicit_ids[key]

    def origin(
        self, logged: OffsetDocument, split: Split, topic_id: str, known: set[tuple[str, int]], was: str | None
    ) -> int:
        """Where a new split starts: the row `Start` of the design, and decisions 007 and 011.

        Args:
            known: topic ids and lifetimes that were there before.
            was: id of the topic that progress under this name belonged to.
        """
        physical = self.physical(split.cluster)
        topic = physical.topics[split.topic]
        first, last = topic.first.get(split.partition, 0), topic.ends[split.partition]
        is_active = any(
            (self.physical(c).kafka_id, t) == (physical.kafka_id, split.topic) for c, t, _ in logged.splits()
        )
        rule = physical.start
        if logged.is_initial:
            rule = rule or self.starting
        elif isinstance(rule, int):
            first_id = self.explicit_ids.get((split.cluster, split.topic), topic_id)
            rule = rule if topic_id == first_id and was in (None, topic_id) else "earliest"
        elif is_active or (rule == "latest" and (topic_id, self.lifetimes[topic_id]) in known):
            rule = "earliest"  # a new topic under the name of an active one, a new partition, or expired progress
        if isinstance(rule, int):
            return max(first, min(rule, last))
        return last if rule == "latest" else first

    def note_expired(self) -> None:
        for cluster in self.clusters.values():
            for topic in cluster.topics.values():
                for partition, first in topic.first.items():
                    self.expired[topic.topic_id, partition] = first

    def check_delivered(self) -> None:
        """All records that progress has passed were delivered once, and no others, except for the reported ones."""
        batch = len(self.log) - 1
        if batch not in self.sink:
            batch -= 1
        if batch < 0:
            assert not self.delivered
            return
        self.note_expired()
        document = self.document(batch)
        rewound = {part.split: part.start for amendment in self.amendments(document) for part in amendment.left_out}
        paused = {end.split: end.offset for end in self.state.stop_records(document) if end.ends == "pause"}
        progress = {}
        for split, following in everything(document):
            topic_id = self.topic_id(document, split.cluster, split.topic)
            lifetime = self.lifetimes_of_batch[batch][topic_id]
            end = min(rewound.get(split, following), paused.get(split, following))
            progress[topic_id, split.partition] = (lifetime, end)
            # Behind a truncation that no plan has found yet, the log has records that are still to be read.
            saved = document.any_topic(*split[:2])
            assert saved is not None
            kept = self.epoch_end(topic_id, split.partition, saved.epochs[split.partition])
            key = (topic_id, split.partition, lifetime)
            for offset in range(self.origins[key], int(min(end, kept, self.decided.get(key, end)))):
                record = self.record(topic_id, split.partition, lifetime, offset)
                gone = self.has_expired(record) or record in self.given_up
                assert self.delivered[record] >= 1 or gone, f"lost: {record}"
        for record, count in self.delivered.items():
            assert count <= 1 + self.reported[record], f"delivered {count} times: {record}"
            key = record[:3]
            assert record.offset >= self.origins[key]
            assert record.offset < self.limits.get(key, record.offset + 1), f"behind its stop: {record}"
            assert record.offset < self.decided.get(key, record.offset + 1), f"behind its stop record: {record}"
            lifetime, end = progress.get((record.topic_id, record.partition), (-1, 0))
            exists = record == self.record(*record[:4])
            if record.lifetime == lifetime and record.offset >= end and exists:
                assert count <= self.reported[record], f"will be delivered again, unreported: {record}"

    def has_expired(self, record: Record) -> bool:
        return record.offset < self.expired.get((record.topic_id, record.partition), 0)

    def check_at_rest(self) -> None:
        """A plan without news comes only after all readable records were delivered."""
        if self.targets is not None or self.last_document().over:
            return
        if self.planned is not None and self.planned.aligned.waits_for:
            return
        if self.planned is not None and (holder := self.planned.aligned.held_by) is not None:
            following = self.last_document().next_of(holder)
            answer = observed_topic(self.planned.answers, holder.cluster, holder.topic)
            assert answer is None or answer.latest[holder.partition] == following, "the holder has records, but no news"
            return
        for cluster in self.clusters.values():
            for name in cluster.named if cluster.reachable else ():
                topic = cluster.topics[name]
                if not topic.answers:
                    continue
                for partition, end in topic.ends.items():
                    self.check_complete(topic, partition, end, "no news, but not delivered")

    def check_ends(self, before: int, ends: Ends) -> None:
        """A run of `Trigger.AvailableNow` reads no further than its ends."""
        for batch in range(before, len(self.log)):
            end = self.document(batch)
            for part in ranges_between(self.document(batch - 1), end):
                topic_id = self.topic_id(end, part.split.cluster, part.split.topic)
                assert part.end <= ends[part.split.cluster][topic_id, part.split.partition]

    def check_clock(self, logged: OffsetDocument, planned: Planned) -> None:
        """The clock never goes back, and no other split has made a row of an active one late."""
        end = planned.plan.document
        clock, before = end.clock_ms, logged.clock_ms
        assert before is None or (clock is not None and clock >= before), "the clock goes back"
        assert clock == before or not planned.aligned.waits_for, "the clock waits for an announced cluster"
        for part in ranges_between(logged, end) if end is not logged and not self.values else ():
            newest = time_ms(self.topic_id(end, *part.split[:2]), part.split.partition, part.end - 1)
            assert clock is not None and newest < clock + DRIFT_MS, f"{part} runs ahead of {clock}"
        for split in end.open_splits():
            topic = end.topic(split.cluster, split.topic)
            assert topic is not None
            following = topic.next[split.partition]
            was = logged.next_of(split)
            start = was if end is logged else topic.starts.get(split.partition, was)
            if self.values and end is logged:
                assert self.process is not None
                start = self.process.amendments.after(logged).next_of(split)
            assert start is not None
            # Executors end a range where the plan does not: what they have read counts at the next plan.
            following = start if self.values else following
            topic_id = self.topic_id(end, *split[:2])
            was_late = before is not None and time_ms(topic_id, split.partition, start) < before
            seen = observed_topic(planned.answers, split.cluster, split.topic)
            if seen is not None and seen.latest[split.partition] > start:
                self.quiet_since.pop(split, None)
            elif seen is not None:
                self.quiet_since.setdefault(split, self.now_ms)
            never_had_any = before is None and seen is not None and seen.latest[split.partition] == 0
            # In a run of `Trigger.AvailableNow`, a split lets go at its target.
            is_idle = (
                never_had_any
                or self.targets is not None
                or self.now_ms - self.quiet_since.get(split, self.now_ms) >= IDLE_MS
            )
            is_late = clock is not None and time_ms(topic_id, split.partition, following) < clock
            assert was_late or is_idle or not is_late, f"{split} is late at {following}: {before}, {clock}"

    def check_times(self, batch: int, rows: Iterable[Record]) -> None:
        """No row is as new as the clock and the drift."""
        horizon = horizon_ms(self.document(batch), DRIFT_MS)
        assert all(time_ms(row.topic_id, row.partition, row.offset) < horizon for row in rows)

    def check_run(self, ends: Ends) -> None:
        """A run that has ended has read everything, except for the clusters that it reports as still to read."""
        assert self.process is not None and self.planned is not None
        progress = self.process.amendments.after(self.last_document())
        wanted = {named.name: named.topics for named in self.view()}
        unread = still_to_read(progress, wanted, self.planned.answers, self.targets)
        for named in self.view():
            for name in named.topics - set(unread.get(named.name, ())):
                topic = named.physical.topics[name]
                if named.physical.reachable and (topic.deleted or topic.unlisted_by == "all"):
                    continue
                for partition in topic.ends:
                    end = ends.get(named.name, {}).get((topic.topic_id, partition))
                    if end is not None:
                        self.check_complete(topic, partition, end, "the run has ended, but not delivered")
                assert name in self.noted.get(named.name, ()), "a run ends without a topic, and does not report it"

    def check_complete(self, topic: SimulatedTopic, partition: int, end: int, failure: str) -> None:
        self.note_expired()
        key = (topic.topic_id, partition, self.lifetimes[topic.topic_id])
        if key not in self.origins and self.last_document().over:
            return  # a query that is over reads no topic that was created since
        for offset in range(self.origins[key], min(end, self.stops.get(key, end), self.decided.get(key, end))):
            record = self.record(*key, offset)
            assert self.delivered[record] >= 1 or self.has_expired(record), f"{failure}: {record}"


def time_ms(topic_id: str, partition: int, offset: int) -> int:
    """The time of a record. Each log has a speed of its own."""
    return 1000 + offset * {"a": 3, "b": 7}[topic_id[0]] + 40 * ("/u/" in topic_id) + 11 * partition


def offset_spec(rule: Rule) -> OffsetSpec | None:
    if isinstance(rule, int):
        return OffsetSpec("explicit", offsets={t: dict.fromkeys(range(4), rule) for t in ("t", "u")})
    return None if rule is None else OffsetSpec(rule)


def everything(document: OffsetDocument) -> Iterable[tuple[Split, int]]:
    """All splits with their next offset, active and parked."""
    saved = [(c, name, topic) for c, content in document.clusters.items() for name, topic in content.topics.items()]
    saved += [(c, name, topic.progress) for c, kept in document.parked.items() for name, topic in kept.topics.items()]
    for cluster, name, topic in saved:
        for partition, following in topic.next.items():
            yield Split(cluster, name, partition), following


def text(document: OffsetDocument) -> str:
    """A document as Spark's log holds it."""
    return json.dumps(encode(document))
