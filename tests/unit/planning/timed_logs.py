"""Clusters whose logs are the times of their records, for tests of the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dynamic_kafka.metadata.model import ClusterState
from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.advance import Limits, ranges_between
from dynamic_kafka.planning.clock import Memory
from dynamic_kafka.planning.clock_of_values import horizon_ms
from dynamic_kafka.planning.document.amendments import Amendments
from dynamic_kafka.planning.document.codec import decode, encode
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import Planned, plan_batch
from dynamic_kafka.planning.questions import Question, RecordTimesQuestion, TimedOffset, run_steps
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.planning.plans import all_logs_begin_at_zero, plan_input

DRIFT, IDLE = 10, 60
NOW = 1_000_000
SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}
STALLING = {"stateLocation": "/s", "clusterFailurePolicy": "stall"}


@dataclass
class World:
    """Clusters of one topic with one partition, whose logs are the times of their records.

    Attributes:
        read: the times of the rows of each batch, by cluster.
        asked: the questions about times.
        unseen: how many records producers have written since the ends were observed, by cluster.
        fenced: clusters that do not name their newest record: it may still be taken back.
        announced: clusters whose metadata announce them.
        partitions: the number of partitions of a cluster, 1 by default; further ones are empty.
        renamed: {cluster: the id that it had before}.
        incomplete: why newer metadata may name more.
        values: whether only executors see the times; a record without one is None in its log.
        found: where executors have ended the ranges of the last batch.
    """

    logs: dict[str, list[int]]
    drift: int = DRIFT
    silent: set[str] = field(default_factory=set)
    named: set[str] | None = None
    now_ms: int = NOW
    limits: Limits = field(default_factory=Limits)
    logged: OffsetDocument = field(default_factory=OffsetDocument)
    memory: Memory = field(default_factory=Memory)
    read: list[dict[str, list[int]]] = field(default_factory=list)
    asked: list[Mapping[Split, int | None]] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    fenced: set[str] = field(default_factory=set)
    announced: set[str] = field(default_factory=set)
    partitions: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    incomplete: str = ""
    values: bool = False
    found: Amendments = field(default_factory=Amendments)

    def plan(self) -> Planned:
        """Plan the next batch, and take it for read."""
        named = self.logs.keys() if self.named is None else self.named
        answers = {
            cluster: ClusterObservation({"t": TopicObservation(self.ends(cluster))})
            for cluster in named
            if cluster not in self.silent
        }
        options = {"watermarkAlignmentMaxDrift": f"{self.drift}ms", "idleTimeout": f"{IDLE}ms", **self.options}
        if self.values:
            options |= {"timestampAssigner": "tests:times", "stateLocation": "/s"}
        given = plan_input(
            self.logged,
            {cluster: self.metadata(cluster) for cluster in named},
            answers,
            progress=self.found.after(self.logged),
            now_ms=self.now_ms,
            options=options if self.drift else {},
            alignment=self.memory,
            incomplete_metadata=self.incomplete,
        )
        planned = run_steps(plan_batch(replace(given, limits=self.limits)), self.answer)
        self.memory = planned.aligned.memory
        document = decode(encode(planned.plan.document))
        rows: dict[str, list[int]] = {}
        if planned.plan.document is not self.logged:
            ranges = ranges_between(self.logged, document)
            rows = {part.split.cluster: self.logs[part.split.cluster][part.start : part.end] for part in ranges}
            if self.values:
                horizon = horizon_ms(document, self.drift)
                self.found = Amendments().with_stop_records(
                    document, [self.end(part, rows, horizon) for part in ranges]
                )
            self.logged = document
        self.read.append({cluster: [time for time in times if time is not None] for cluster, times in rows.items()})
        return planned

    def end(self, part: SplitRange, rows: dict[str, list[int]], horizon: int) -> StopRecord:
        """End a range as an executor does: `rows` keeps those before the end."""
        times = rows[part.split.cluster]
        pause = next((at for at, time in enumerate(times) if time is not None and time >= horizon), None)
        rows[part.split.cluster] = times[:pause]
        if pause is not None:
            return StopRecord(part.split, part.start + pause, None, "pause", times[pause])
        return StopRecord(part.split, part.end, None, "whole", max((t for t in times if t is not None), default=None))

    def answer(self, question: Question) -> Any:
        if not isinstance(question, RecordTimesQuestion):
            return all_logs_begin_at_zero(question)
        self.asked.append(question.since_ms)
        answers = {
            split: None if since is None and split.cluster in self.fenced else record(self.logs[split.cluster], since)
            for split, since in question.since_ms.items()
            if split.partition == 0
        }
        return {split: answer for split, answer in answers.items() if answer is not None}

    def metadata(self, cluster: str) -> SubscribedCluster:
        state: ClusterState = "Announced" if cluster in self.announced else "Active"
        return SubscribedCluster({"t": "s"}, SERVERS, renamed_from=self.renamed.get(cluster), state=state)

    def ends(self, cluster: str) -> dict[int, int]:
        end = max(len(self.rows(cluster)), len(self.logs[cluster]) - self.unseen.get(cluster, 0))
        return {0: end} | dict.fromkeys(range(1, self.partitions.get(cluster, 1)), 0)

    def restarts(self) -> World:
        self.memory = Memory()
        return self

    @property
    def clock(self) -> int | None:
        return self.logged.clock_ms

    def rows(self, cluster: str) -> list[int]:
        return [time for batch in self.read for time in batch.get(cluster, ())]


def record(log: list[int], since: int | None) -> TimedOffset | None:
    """Return a broker's answer: the newest record, or the first that is not older than a time."""
    if since is None:
        return TimedOffset(log.index(max(log)), max(log)) if log else None
    return next((TimedOffset(offset, time) for offset, time in enumerate(log) if time >= since), None)


def steps(first: int, count: int, step: int = 1) -> list[int]:
    return list(range(first, first + count * step, step))


def late(world: World) -> int:
    """Return how many rows are behind Spark's watermark, with a delay of the drift."""
    watermark, count = -1, 0
    for _ in range(300):
        world.plan()
        rows = [time for times in world.read[-1].values() for time in times]
        count += sum(time <= watermark for time in rows)
        watermark = max([watermark, *(time - DRIFT for time in rows)])
        world.now_ms += 0 if rows else IDLE
    assert all(world.rows(cluster) == log for cluster, log in world.logs.items())
    return count
