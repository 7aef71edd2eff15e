"""The simulated world with what is rarer in it: renames of several steps, ids that are not told, deleted and larger
re-created topics, expired records, starts and stops that metadata sets, and runs of `Trigger.AvailableNow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from dynamic_kafka.metadata.model import OffsetSpec
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.batch import Edge, Planned, Situation
from dynamic_kafka.planning.codec import fingerprint
from dynamic_kafka.planning.dataloss import DataLoss, skip_losses
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.identity import identity_problems
from dynamic_kafka.planning.observation import ClusterObservation, Note, TopicObservation, WantedCluster
from dynamic_kafka.planning.plan import Limits, ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.planning.starting import OffsetQuery, resolve_start, resolve_stop, starting_spec
from tests.unit.planning.simulation import (
    RETENTION_MS,
    CrashPoint,
    Record,
    SimulatedCluster,
    SimulatedTopic,
    Simulation,
    everything,
)

Own = Literal["earliest", "latest"] | int | None


@dataclass
class WildTopic(SimulatedTopic):
    """`first`: partition → first offset that Kafka still has. A deleted topic comes back as another one."""

    first: dict[int, int] = field(default_factory=dict)
    deleted: bool = False


@dataclass
class WildCluster(SimulatedCluster):
    """`start` and `stop`: what metadata says of the cluster's starting and stopping offsets."""

    topics: dict[str, WildTopic]  # type: ignore[assignment]
    tells: bool = True
    start: Own = None
    stop: Own = None


class Named(NamedTuple):
    """What metadata says of a cluster."""

    physical: WildCluster
    name: str
    renamed_from: str | None
    topics: frozenset[str]


class ReadFailed(Exception):
    """A range cannot be read: its topic is gone."""


Key = tuple[str, int, int]


class WildSimulation(Simulation):
    """See the module.

    Attributes:
        stops: the stopping offsets as they were resolved first.
        limits: where reading ends for that: there, or where it had been before.
    """

    clusters: dict[str, WildCluster]  # type: ignore[assignment]

    def __init__(self, *, starting: Literal["earliest", "latest"], refuse: bool = False, ids: bool = True) -> None:
        super().__init__(starting=starting, refuse=refuse, ids=ids)
        self.starting_rule: Own = starting
        self.frozen: list[Named] | None = None
        self.targets: Targets | None = None
        self.stops: dict[Key, int] = {}
        self.limits: dict[Key, int] = {}
        self.expired: dict[tuple[str, int], int] = {}

    # -- the world -----------------------------------------------------------------------------------------------

    def physical(self, cluster: str) -> WildCluster:
        return self.clusters[cluster.partition("-")[0]]

    @property
    def is_dead(self) -> bool:
        return self.process is None

    def view(self) -> list[Named]:
        if self.frozen is not None:
            return self.frozen
        return [
            Named(cluster, cluster.name, cluster.renamed_from, frozenset(cluster.named))
            for cluster in self.clusters.values()
            if cluster.named
        ]

    def subscription(self) -> Subscription:
        return Subscription(
            {
                named.name: SubscribedCluster(
                    dict.fromkeys(sorted(named.topics), "s"),
                    {"bootstrap.servers": "127.0.0.1:9092"},
                    renamed_from=named.renamed_from,
                )
                for named in self.view()
            },
            ("s",),
        )

    def answers(self) -> dict[str, ClusterObservation]:
        answers = {}
        for named in self.view():
            cluster = named.physical
            if not cluster.reachable:
                continue
            topics, missing = {}, set()
            for name in named.topics:
                topic = cluster.topics[name]
                if topic.deleted:
                    missing.add(name)
                elif topic.described:
                    topics[name] = TopicObservation(
                        dict(topic.ends),
                        {p: topic.first.get(p, 0) for p in topic.ends},
                        topic_id=topic.topic_id if self.tells_ids else None,
                    )
            answers[named.name] = ClusterObservation(
                topics, cluster.kafka_id if cluster.tells else None, frozenset(missing)
            )
        return answers

    def read(self, batch: int, ranges: Iterable[SplitRange]) -> list[Record]:
        rows: list[Record] = []
        for part in ranges:
            cluster = self.physical(part.split.cluster)
            named = next(named for named in self.view() if named.physical is cluster)
            topic = cluster.topics[part.split.topic]
            if topic.deleted or not topic.described:
                raise ReadFailed
            assert cluster.reachable
            assert part.split.topic in named.topics
            assert part.end <= topic.ends[part.split.partition]
            first = topic.first.get(part.split.partition, 0)
            rows.extend(record for record in self.records(batch, part) if record.offset >= first)
        return rows

    def deliver(self, batch: int, crash: CrashPoint | None, pieces: int | None) -> bool:
        try:
            return super().deliver(batch, crash, pieces)
        except ReadFailed:
            return False

    def planned(self, logged: OffsetDocument, limits: Limits) -> tuple[Planned, Situation]:
        if self.targets is not None:
            self.targets.fix(self.answers())
            limits = replace(limits, targets=self.targets.ends)
        return super().planned(logged, limits)

    def edge(self, initial: bool) -> Edge:
        return WildEdge(self, initial)

    # -- what a person and Spark do ------------------------------------------------------------------------------

    def abandon(self, cluster: str) -> None:
        """The tool: leaves a cluster's ranges out of the pending batch. The query is stopped meanwhile."""
        self.process = None
        if not self.pending:
            return
        batch = len(self.log) - 1
        start, end = self.document(batch - 1), self.document(batch)
        parts = tuple(
            part
            for part in sorted(self.remaining[batch], key=str)
            if self.physical(part.split.cluster).kafka_id == cluster
        )
        if parts:
            reasons: dict[str, Any] = {part.split.cluster: "abandoned" for part in parts}
            amendment = Amendment(end.query, end.number, fingerprint(start), fingerprint(end), parts, reasons, 0)
            self.state.save_amendment(amendment)
            self.account(amendment, batch)
            self.remaining[batch] -= set(parts)

    def run_available_now(self, limit: int | None, changes: list[tuple[str, set[str], bool]]) -> None:
        """A run from start to end. Metadata is looked up once; brokers come and go, records go on to arrive."""
        self.process = None
        self.frozen = self.view()
        self.targets = Targets()
        self.targets.fix(self.answers())
        ends: dict[str, dict[tuple[str, int], int]] = {}
        try:
            for _ in range(40):
                self.see_ends(ends)
                before = len(self.log)
                if not self.step(limits=Limits(max_offsets=limit)):
                    if not self.pending:
                        self.check_run(ends)
                    return
                if self.is_dead:
                    return
                self.check_ends(before, ends)
                self.check_delivered()
                if changes:
                    self.change_meanwhile(*changes.pop())
            raise AssertionError("the run does not end")
        finally:
            self.frozen = self.targets = None
            self.process = None

    def change_meanwhile(self, cluster: str, topics: set[str], reachable: bool) -> None:
        self.clusters[cluster].named, self.clusters[cluster].reachable = topics, reachable
        for topic in self.clusters[cluster].topics.values():
            if not topic.deleted:
                topic.ends[0] += 1

    def see_ends(self, ends: dict[str, dict[tuple[str, int], int]]) -> None:
        """The ends of each cluster at its first answer in a run, by topic id and partition."""
        for named in self.view():
            if named.physical.reachable and named.name not in ends:
                topics = [named.physical.topics[name] for name in named.topics]
                ends[named.name] = {
                    (topic.topic_id, partition): end
                    for topic in topics
                    if topic.described and not topic.deleted
                    for partition, end in topic.ends.items()
                }

    def check_ends(self, before: int, ends: dict[str, dict[tuple[str, int], int]]) -> None:
        """A run reads no further than its ends."""
        for batch in range(before, len(self.log)):
            end = self.document(batch)
            for part in ranges_between(self.document(batch - 1), end):
                topic_id = self.topic_id(end, part.split.cluster, part.split.topic)
                assert part.end <= ends[part.split.cluster][topic_id, part.split.partition]

    def check_run(self, ends: dict[str, dict[tuple[str, int], int]]) -> None:
        """A run that has ended has read all, but for the clusters that it says are still to read."""
        assert self.process is not None
        absent = {named.name for named in self.view() if not named.physical.reachable}
        progress = self.process.amendments.after(self.last_document())
        awaited = still_to_read(progress, absent, self.targets)
        for named in self.view():
            if named.name in awaited:
                continue
            assert named.name in ends, "a run ends without a cluster, and nobody is told"
            for name in named.topics:
                topic = named.physical.topics[name]
                if topic.deleted or (named.name not in absent and not topic.described):
                    continue
                for partition in topic.ends:
                    end = ends[named.name].get((topic.topic_id, partition))
                    if end is not None:
                        self.must_be_there(topic, partition, end, "the run has ended, but not delivered")

    # -- what must hold ------------------------------------------------------------------------------------------

    def keep_track(self, logged: OffsetDocument, planned: Planned, wanted: Mapping[str, WantedCluster]) -> None:
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
            topic_id = kept.topic_id or physical.topics[note.topic].topic_id
            assert kept.until_ms <= self.now_ms
            assert topic_id not in self.back_in_time, "what metadata named again in time is not expired"
            self.lifetimes[topic_id] += 1
        for (kafka_id, topic), (name, kept) in before.items():
            physical = self.clusters[kafka_id]
            topic_id = kept.topic_id or physical.topics[topic].topic_id
            known = physical.name in wanted and name in (physical.name, wanted[physical.name].renamed_from)
            if known and topic in wanted[physical.name].topics and not physical.topics[topic].deleted:
                if kept.until_ms > self.now_ms:
                    self.back_in_time.add(topic_id)
            else:
                self.back_in_time.discard(topic_id)
        self.back_in_time &= {
            self.topic_id(end, cluster, topic) for cluster, parked in end.parked.items() for topic in parked.topics
        }
        for cluster, parked in end.parked.items():
            named = wanted[cluster].topics if cluster in wanted else {}
            for topic in parked.topics:
                if topic not in named:
                    assert self.now_ms < parked.topics[topic].until_ms <= self.now_ms + RETENTION_MS
        names = [(self.physical(c).kafka_id, t) for c in end.clusters for t in end.clusters[c].topics]
        names += [(self.physical(c).kafka_id, t) for c in end.parked for t in end.parked[c].topics]
        assert len(names) == len(set(names)), "a topic has one progress"
        self.follow(logged, end)

    def follow(self, logged: OffsetDocument, end: OffsetDocument) -> None:
        """Enter the starts and stops of what is new, by the design's own rules."""
        known = {(topic_id, lifetime) for topic_id, _, lifetime in self.origins}
        old = {}
        for split, _ in everything(logged):
            old[self.physical(split.cluster).kafka_id, split.topic] = self.topic_id(logged, split.cluster, split.topic)
        before = {}
        for split, following in everything(logged):
            topic_id = self.topic_id(logged, split.cluster, split.topic)
            before[topic_id, split.partition, self.lifetimes[topic_id]] = following
        for split in end.splits():
            physical = self.physical(split.cluster)
            topic_id = self.topic_id(end, split.cluster, split.topic)
            lifetime = self.lifetimes[topic_id]
            key = (topic_id, split.partition, lifetime)
            progress = end.topic(split.cluster, split.topic)
            assert progress is not None
            if key not in self.origins:
                origin = self.origin(logged, split, topic_id, known, old.get((physical.kafka_id, split.topic)))
                assert progress.starts[split.partition] == origin, f"{split} starts at {progress.starts}, not {origin}"
                self.origins[key] = origin
            stop = progress.stops.get(split.partition)
            if stop is not None:
                self.limits.setdefault(key, max(stop, before.get(key, 0)))
                assert self.stops.setdefault(key, stop) == stop, "a stop is resolved once"
            else:
                assert key not in self.stops, "a stop is kept"

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
        rule: Own = physical.start
        if logged.is_initial:
            rule = rule or self.starting_rule
        elif (was not in (None, topic_id) and (is_active or isinstance(rule, int))) or (
            rule == "latest" and (is_active or (topic_id, self.lifetimes[topic_id]) in known)
        ):
            rule = "earliest"
        if isinstance(rule, int):
            return max(first, min(rule, last))
        return last if rule == "latest" else first

    def is_there(self, topic_id: str, partition: int, offset: int) -> bool:
        for cluster in self.clusters.values():
            for topic in cluster.topics.values():
                for found, first in topic.first.items():
                    self.expired[topic.topic_id, found] = first
        return offset >= self.expired.get((topic_id, partition), 0)

    def must_be_there(self, topic: SimulatedTopic, partition: int, end: int, told: str) -> None:
        key = (topic.topic_id, partition, self.lifetimes[topic.topic_id])
        for offset in range(self.origins[key], min(end, self.stops.get(key, end))):
            record = Record(topic.topic_id, partition, key[2], offset)
            if self.is_there(topic.topic_id, partition, offset):
                assert self.delivered[record] >= 1, f"{told}: {record}"

    def check_delivered(self) -> None:
        batch = len(self.log) - 1
        if batch not in self.sink:
            batch -= 1
        if batch < 0:
            assert not self.delivered
            return
        document = self.document(batch)
        rewound = {part.split: part.start for amendment in self.amendments(document) for part in amendment.left_out}
        progress = {}
        for split, following in everything(document):
            topic_id = self.topic_id(document, split.cluster, split.topic)
            lifetime = self.lifetimes_of_batch[batch][topic_id]
            end = rewound.get(split, following)
            progress[topic_id, split.partition] = (lifetime, end)
            key = (topic_id, split.partition, lifetime)
            for offset in range(self.origins[key], end):
                record = Record(topic_id, split.partition, lifetime, offset)
                assert self.delivered[record] >= 1 or not self.is_there(topic_id, split.partition, offset), (
                    f"lost: {record}"
                )
        for record, count in self.delivered.items():
            assert count <= 1 + self.reported[record], f"delivered {count} times: {record}"
            key = (record.topic_id, record.partition, record.lifetime)
            assert record.offset >= self.origins[key]
            assert record.offset < self.limits.get(key, record.offset + 1), f"behind its stop: {record}"
            lifetime, end = progress.get((record.topic_id, record.partition), (-1, 0))
            if record.lifetime == lifetime and record.offset >= end:
                assert count <= self.reported[record], f"will be delivered again, unreported: {record}"

    def check_at_rest(self) -> None:
        if self.targets is not None:
            return
        for cluster in self.clusters.values():
            for name in cluster.named if cluster.reachable else ():
                topic = cluster.topics[name]
                if not topic.described or topic.deleted:
                    continue
                for partition, end in topic.ends.items():
                    self.must_be_there(topic, partition, end, "no news, but not delivered")

    def drain(self) -> None:
        for cluster in self.clusters.values():
            cluster.reachable = cluster.tells = True
            for topic in cluster.topics.values():
                topic.described = True
        for cluster in self.clusters.values():
            for name in [name for name, topic in cluster.topics.items() if topic.deleted]:
                create_anew(self, cluster, name, {0: 2})
        if self.options.pending_removed_ranges == "filter":
            self.come_to_rest()
        for cluster in self.clusters.values():
            cluster.named = set(cluster.topics)
        if self.pending and self.options.pending_removed_ranges == "refuse":
            for cluster in self.clusters.values():
                self.abandon(cluster.kafka_id)
        self.come_to_rest()
        document = self.last_document()
        assert not document.parked
        for cluster in self.clusters.values():
            for name, topic in cluster.topics.items():
                progress = document.topic(cluster.name, name)
                assert progress is not None
                assert progress.stops or progress.next == topic.ends


def create_anew(world: WildSimulation, physical: WildCluster, topic: str, ends: dict[int, int]) -> None:
    """Another topic takes the name; a process reads what it has planned without another look."""
    world.is_there("", 0, 0)
    prefix, _, generation = physical.topics[topic].topic_id.rpartition("/")
    physical.topics[topic] = WildTopic(f"{prefix}/{int(generation) + 1}", ends)
    world.process = None


@dataclass(frozen=True)
class WildEdge:
    """Answers a plan's questions from the simulated world."""

    world: WildSimulation
    first: bool

    def verify(self, progress: OffsetDocument) -> OffsetDocument:
        problems = identity_problems(progress, self.world.answers(), {}, self.world.subscription().clusters)
        assert problems == [], f"identities follow their cluster: {problems}"
        return progress

    def spec(self, own: Own) -> OffsetSpec | None:
        if own is None:
            return None
        if isinstance(own, int):
            return OffsetSpec("explicit", offsets={t: {p: own for p in range(4)} for t in ("t", "u")})
        return OffsetSpec(own)

    def resolve(self, done: Reconciled) -> tuple[Mapping[Split, int], Mapping[Split, int]]:
        starts = {}
        for split, new_topic in done.new.items():
            own = self.spec(self.world.physical(split.cluster).start)
            spec = starting_spec(
                first_plan=self.first,
                new_topic=new_topic,
                configured=self.world.starting,
                own=own,
                anew=split in done.anew,
            )
            starts[split] = self.number(split, resolve_start(spec, split, lenient=not self.first))
        stops = {}
        for split in dict.fromkeys(done.document.splits(), True) | dict(done.new):
            own = self.spec(self.world.physical(split.cluster).stop)
            topic = done.document.topic(split.cluster, split.topic)
            if own is not None and self.seen(split) and not (topic and split.partition in topic.stops):
                stops[split] = self.number(split, resolve_stop(own, split))
        return starts, stops

    def seen(self, split: Split) -> bool:
        answer = self.world.answers().get(split.cluster)
        return bool(answer and split.topic in answer.topics and split.partition in answer.topics[split.topic].latest)

    def number(self, split: Split, found: int | OffsetQuery) -> int:
        if isinstance(found, int):
            return found
        topic = self.world.answers()[split.cluster].topics[split.topic]
        return topic.earliest[split.partition] if found.kind == "earliest" else topic.latest[split.partition]

    def accept(self, opened: OffsetDocument, losses: list[DataLoss]) -> tuple[OffsetDocument, list[Note]]:
        for loss in losses:
            physical = self.world.physical(loss.split.cluster)
            topic = physical.topics[loss.split.topic]
            following = opened.next_of(loss.split)
            assert following is not None
            expired = following < topic.first.get(loss.split.partition, 0)
            beyond = following > topic.ends.get(loss.split.partition, 0)  # an explicit start
            assert loss.recreated or topic.deleted or expired or (beyond and isinstance(physical.start, int)), loss
        return skip_losses(opened, losses), []
