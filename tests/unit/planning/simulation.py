"""A world small enough to be turned over in every way: clusters, metadata, Spark, and a sink that skips what it has.

The simulated Spark logs offset documents as text, replays what it has not committed, and dies where it is told to. What
it calls in between is the product's own: `plan_batch`, `Replays`, the codec, `slice_ranges`, amendments as saved files.
Every record has a name of its own, so that "delivered exactly once" is a matter of counting.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from dynamic_kafka.driver.replay import Replays, World
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import PendingRangesError
from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.batch import Edge, Planned, Situation, plan_batch
from dynamic_kafka.planning.codec import decode, encode, fingerprint
from dynamic_kafka.planning.dataloss import DataLoss, skip_losses
from dynamic_kafka.planning.identity import identity_problems
from dynamic_kafka.planning.observation import ClusterObservation, Note, TopicObservation, WantedCluster
from dynamic_kafka.planning.plan import Limits, ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled
from dynamic_kafka.planning.splits import Split, SplitRange, slice_ranges
from dynamic_kafka.planning.starting import OffsetQuery, resolve_start, starting_spec

RETENTION_MS = 1000

CrashPoint = Literal["planned", "logged", "amended", "reading", "delivered"]
"""Where Spark dies: a plan not logged yet; logged, nothing read; ranges known and amendments written; in the middle of
reading; the sink has the batch, the commit log does not."""


class Record(NamedTuple):
    """One record, in one lifetime of its topic's progress: what is expired and comes back is read as new."""

    topic_id: str
    partition: int
    lifetime: int
    offset: int


@dataclass
class SimulatedTopic:
    """A topic's logs: partition → end offset."""

    topic_id: str
    ends: dict[int, int]
    described: bool = True


@dataclass
class SimulatedCluster:
    """A physical cluster. Metadata may call it by several ids over time, one at a time."""

    kafka_id: str
    topics: dict[str, SimulatedTopic]
    name: str
    renamed_from: str | None = None
    reachable: bool = True
    named: set[str] = field(default_factory=set)
    """The topics that metadata names; none of them: metadata does not name the cluster."""


class MemoryState(StateLocation):
    """A `stateLocation` without a disk: the same files, the same names, the same order."""

    def __init__(self) -> None:
        self.uri = "memory"
        self.files: dict[str, str] = {}

    def write(self, path: str, content: Mapping[str, Any]) -> None:
        self.files[path] = json.dumps(content)

    def read_folder(self, path: str) -> dict[str, dict[str, Any]]:
        return {name: json.loads(self.files[name]) for name in sorted(self.files) if name.startswith(f"{path}/")}


class Simulation:
    """One query over its whole life.

    Attributes:
        log: Spark's offset log, batch by batch; the first `committed` of them are in its commit log.
        sink: rows by batch id; a batch that is there is never written again.
        reported: how often each record was said to be possibly delivered, and was.
    """

    def __init__(self, *, starting: Literal["earliest", "latest"], refuse: bool = False, ids: bool = True) -> None:
        self.starting = OffsetSpec(starting)
        self.tells_ids = ids
        self.options = parse_options(
            {
                "streamIds": "s",
                "metadataPath": "/streams.yaml",
                "stateLocation": "memory",
                "clusterFailurePolicy": "stall",
                "pendingRemovedRanges": "refuse" if refuse else "filter",
                "failOnDataLoss": "false",
            },
            mode="streaming",
        )
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
        self.origins: dict[tuple[str, int, int], int] = {}
        self.back_in_time: set[str] = set()
        self.remaining: dict[int, set[SplitRange]] = {}
        self.process: Replays | None = None

    # -- the world -----------------------------------------------------------------------------------------------

    def physical(self, cluster: str) -> SimulatedCluster:
        return self.clusters[cluster.partition("-")[0]]

    def subscription(self) -> Subscription:
        return Subscription(
            {
                cluster.name: SubscribedCluster(
                    dict.fromkeys(sorted(cluster.named), "s"),
                    {"bootstrap.servers": "127.0.0.1:9092"},
                    renamed_from=cluster.renamed_from,
                )
                for cluster in self.clusters.values()
                if cluster.named
            },
            ("s",),
        )

    def answers(self) -> dict[str, ClusterObservation]:
        return {
            cluster.name: ClusterObservation(
                {
                    name: TopicObservation(dict(topic.ends), topic_id=topic.topic_id if self.tells_ids else None)
                    for name, topic in cluster.topics.items()
                    if name in cluster.named and topic.described
                },
                cluster.kafka_id,
            )
            for cluster in self.clusters.values()
            if cluster.named and cluster.reachable
        }

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
        """What Spark does next: replay what is pending, else plan and run one batch. False if there was nothing.

        Args:
            skips: the sink is Spark's file sink: of a batch that it has, the source is not even asked for the ranges.
        """
        if self.process is None:
            self.process = Replays(self.options, self.state, self.look)
        if not self.pending and not self.plan(crash, limits):
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
        except PendingRangesError:
            assert self.options.pending_removed_ranges == "refuse"
            return False
        if crash in ("amended", "reading"):
            return False
        rows = self.read(batch, slice_ranges(ranges, min_partitions=pieces, max_records=None))
        if batch not in self.sink:
            self.sink[batch] = rows
            self.delivered.update(rows)
        return True

    def look(self) -> World:
        return World(self.subscription(), self.answers())

    def plan(self, crash: CrashPoint | None, limits: Limits) -> bool:
        """Plan and log a batch, unless Spark dies before; False when there is no news."""
        assert self.process is not None
        logged = self.document(len(self.log) - 1)
        self.process.restore(logged)
        planned, situation = self.planned(logged, limits)
        end = planned.plan.document
        if end is logged:
            self.keep_track(logged, planned, situation.wanted)
            return False
        assert text(end) != text(logged)
        assert text(decode(text(end))) == text(end)
        if crash == "planned":
            self.process = None
            return True
        self.keep_track(logged, planned, situation.wanted)
        self.log.append(text(end))
        self.lifetimes_of_batch.append(Counter(self.lifetimes))
        self.remaining[len(self.log) - 1] = set(ranges_between(logged, end))
        self.process.planned(logged, end)
        if crash == "logged":
            self.process = None
        return True

    def planned(self, logged: OffsetDocument, limits: Limits) -> tuple[Planned, Situation]:
        assert self.process is not None
        progress = self.process.amendments.after(logged)
        situation = Situation(
            logged=logged,
            progress=progress,
            wanted={
                cluster: WantedCluster(named.topics, named.renamed_from)
                for cluster, named in self.subscription().clusters.items()
            },
            observed=self.answers(),
            now_ms=self.now_ms,
            retention_ms=RETENTION_MS,
            limits=limits,
            query="q",
        )
        planned = plan_batch(situation, self.edge(logged.is_initial))
        assert plan_batch(situation, self.edge(logged.is_initial)) == planned, "a plan is a function"
        return planned, situation

    def edge(self, initial: bool) -> Edge:
        return SimulatedEdge(self, initial)

    def ranges(self, batch: int) -> list[SplitRange]:
        """The ranges of a batch, as the product gives them; what it left out since the last attempt is accounted."""
        assert self.process is not None
        start, end = self.document(batch - 1), self.document(batch)
        self.process.restore(end)
        before = self.amendments(end)
        ranges = self.process.ranges(start, end)
        assert self.process.ranges(start, end) == ranges, "Spark may ask as often as it likes"
        made = [amendment for amendment in self.amendments(end) if amendment not in before]
        for amendment in made:
            self.account(amendment, batch)
        left_out = {part for amendment in made for part in amendment.left_out}
        assert set(ranges) == self.remaining[batch] - left_out, "a replay reads what the attempt before it read"
        assert len(ranges) == len({part.split for part in ranges})
        self.remaining[batch] = set(ranges)
        return ranges

    def account(self, amendment: Amendment, batch: int) -> None:
        if batch in self.sink:
            for part in amendment.left_out:
                self.reported.update(self.records(batch, part))

    def amendments(self, end: OffsetDocument) -> list[Amendment]:
        return [found for found in self.state.amendments(end.query) if found.end == fingerprint(end)]

    def read(self, batch: int, ranges: Iterable[SplitRange]) -> list[Record]:
        rows = []
        for part in ranges:
            cluster = self.physical(part.split.cluster)
            assert cluster.reachable
            assert part.split.topic in cluster.named
            assert part.end <= cluster.topics[part.split.topic].ends[part.split.partition]
            rows.extend(self.records(batch, part))
        return rows

    def records(self, batch: int, part: SplitRange) -> list[Record]:
        topic_id = self.topic_id(self.document(batch), part.split.cluster, part.split.topic)
        lifetime = self.lifetimes_of_batch[batch][topic_id]
        return [Record(topic_id, part.split.partition, lifetime, offset) for offset in range(part.start, part.end)]

    def topic_id(self, document: OffsetDocument, cluster: str, topic: str) -> str:
        active = document.topic(cluster, topic)
        parked = document.parked[cluster].topics.get(topic) if cluster in document.parked else None
        found = active or parked
        return (found.topic_id if found else None) or self.physical(cluster).topics[topic].topic_id

    # -- what must hold ------------------------------------------------------------------------------------------

    def keep_track(self, logged: OffsetDocument, planned: Planned, wanted: Mapping[str, WantedCluster]) -> None:
        """Follow parking and expiry with a bookkeeping of our own, and enter the starts of what is new."""
        end = planned.plan.document
        before = {
            (self.physical(cluster).kafka_id, topic): kept
            for cluster, parked in logged.parked.items()
            for topic, kept in parked.topics.items()
        }
        for note in planned.notes:
            if note.kind != "expired":
                continue
            assert note.topic is not None
            physical = self.physical(note.cluster)
            kept = before[physical.kafka_id, note.topic]
            topic_id = kept.topic_id or physical.topics[note.topic].topic_id
            assert kept.until_ms <= self.now_ms
            assert topic_id not in self.back_in_time, "what metadata named again in time is not expired"
            self.lifetimes[topic_id] += 1
        for (kafka_id, topic), kept in before.items():
            cluster = self.clusters[kafka_id]
            topic_id = kept.topic_id or cluster.topics[topic].topic_id
            if topic in (wanted[cluster.name].topics if cluster.name in wanted else {}):
                if kept.until_ms > self.now_ms:
                    self.back_in_time.add(topic_id)
            else:
                self.back_in_time.discard(topic_id)
        self.back_in_time &= {
            self.topic_id(end, cluster, topic) for cluster, parked in end.parked.items() for topic in parked.topics
        }
        self.check_parked(end, before, wanted)
        self.enter_origins(logged, end)

    def check_parked(
        self, end: OffsetDocument, before: Mapping[tuple[str, str], Any], wanted: Mapping[str, WantedCluster]
    ) -> None:
        for cluster, parked in end.parked.items():
            named = wanted[cluster].topics if cluster in wanted else {}
            for topic, kept in parked.topics.items():
                assert topic not in (end.clusters[cluster].topics if cluster in end.clusters else {})
                if topic in named:
                    continue
                assert self.now_ms < kept.until_ms <= self.now_ms + RETENTION_MS, "parked past its retention"
                was = before.get((self.physical(cluster).kafka_id, topic))
                if was is not None and not was.awaited:
                    assert kept.until_ms == was.until_ms, "a deadline is written once"

    def enter_origins(self, logged: OffsetDocument, end: OffsetDocument) -> None:
        for split in end.splits():
            topic_id = self.topic_id(end, split.cluster, split.topic)
            key = (topic_id, split.partition, self.lifetimes[topic_id])
            if key not in self.origins:
                topic = end.topic(split.cluster, split.topic)
                assert topic is not None
                origin = topic.starts[split.partition]
                # What is found after a query's first plan is read from its first record on.
                assert origin == 0 or (logged.is_initial and self.starting.kind == "latest")
                self.origins[key] = origin

    def check_delivered(self) -> None:
        """Whatever progress says is read was delivered once; nothing else was, but what was reported."""
        batch = len(self.log) - 1
        if batch not in self.sink:
            batch -= 1
        if batch < 0:
            assert not self.delivered
            return
        document = self.document(batch)
        rewound = {part.split: part.start for amendment in self.amendments(document) for part in amendment.left_out}
        for split, following in everything(document):
            topic_id = self.topic_id(document, split.cluster, split.topic)
            lifetime = self.lifetimes_of_batch[batch][topic_id]
            end = rewound.get(split, following)
            for offset in range(self.origins[topic_id, split.partition, lifetime], end):
                record = Record(topic_id, split.partition, lifetime, offset)
                assert self.delivered[record] >= 1, f"lost: {record}"
        for record, count in self.delivered.items():
            assert count <= 1 + self.reported[record], f"delivered {count} times: {record}"
        progress = {
            (topic_id := self.topic_id(document, split.cluster, split.topic), split.partition): (
                self.lifetimes_of_batch[batch][topic_id],
                rewound.get(split, following),
            )
            for split, following in everything(document)
        }
        for record in self.delivered:
            lifetime, end = progress.get((record.topic_id, record.partition), (-1, 0))
            if record.lifetime == lifetime and record.offset >= end:
                assert self.delivered[record] <= self.reported[record], f"will be delivered again, unreported: {record}"

    def check_at_rest(self) -> None:
        """Who says that there is no news has delivered all that can be read."""
        for cluster in self.clusters.values():
            for name in cluster.named if cluster.reachable else ():
                topic = cluster.topics[name]
                for partition, end in topic.ends.items() if topic.described else ():
                    lifetime = self.lifetimes[topic.topic_id]
                    for offset in range(self.origins[topic.topic_id, partition, lifetime], end):
                        record = Record(topic.topic_id, partition, lifetime, offset)
                        assert self.delivered[record] >= 1, f"no news, but not delivered: {record}"

    def drain(self) -> None:
        """Everything answers, then everything is named as well: all of it arrives, and there is nothing more to do."""
        for cluster in self.clusters.values():
            cluster.reachable = True
            for topic in cluster.topics.values():
                topic.described = True
        if self.options.pending_removed_ranges == "filter":
            self.come_to_rest()
        for cluster in self.clusters.values():
            cluster.named = set(cluster.topics)
        self.come_to_rest()
        document = self.last_document()
        assert not document.parked
        for cluster in self.clusters.values():
            for name, topic in cluster.topics.items():
                progress = document.topic(cluster.name, name)
                assert progress is not None
                assert progress.next == topic.ends

    def come_to_rest(self) -> None:
        for _ in range(20):
            if not self.step():
                return
            self.check_delivered()
        raise AssertionError("the query does not come to rest")


@dataclass(frozen=True)
class SimulatedEdge:
    """Answers a plan's questions from the simulated world."""

    world: Simulation
    first: bool

    def verify(self, progress: OffsetDocument) -> OffsetDocument:
        assert identity_problems(progress, self.world.answers(), {}) == [], "identities follow their cluster"
        return progress

    def resolve(self, done: Reconciled) -> tuple[Mapping[Split, int], Mapping[Split, int]]:
        return {split: self.start(split, new_topic) for split, new_topic in done.new.items()}, {}

    def start(self, split: Split, new_topic: bool) -> int:
        spec = starting_spec(first_plan=self.first, new_topic=new_topic, configured=self.world.starting, own=None)
        found = resolve_start(spec, split, lenient=not self.first)
        assert isinstance(found, OffsetQuery)
        return (
            0
            if found.kind == "earliest"
            else self.world.answers()[split.cluster].topics[split.topic].latest[split.partition]
        )

    def accept(self, opened: OffsetDocument, losses: list[DataLoss]) -> tuple[OffsetDocument, list[Note]]:
        assert all(loss.recreated for loss in losses), f"nothing was lost, but the plan says {losses}"
        return skip_losses(opened, losses), []


def everything(document: OffsetDocument) -> Iterable[tuple[Split, int]]:
    """All splits with their next offset, active and parked."""
    for found in (document.clusters, document.parked):
        for cluster, content in found.items():
            for topic, progress in content.topics.items():
                for partition, following in progress.next.items():
                    yield Split(cluster, topic, partition), following


def text(document: OffsetDocument) -> str:
    """A document as Spark's log holds it."""
    return json.dumps(encode(document))
