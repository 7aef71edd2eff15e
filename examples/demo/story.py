"""The story: A, then B, then C, then A again, under kills. `kubectl apply` of the stream is all that users ever do.

Each act waits for what it has caused. What the seed decides (which moments the driver is killed at) is drawn up front.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from demo import journal
from demo.checkpoint import Checkpoint
from demo.journal import Change, ChangeKind, Drain, Kill
from demo.kube import NOT_SEEN
from demo.producers import COUNT
from demo.settings import TOPIC
from demo.stage import Stage, StoryError

AFTER_EDIT = "right after kubectl apply"
IN_BATCH = "in the middle of a batch"
IN_SINK = "between the sink's commit and Spark's"

_ALL_KILLS_S = 240.0
"""A story of this length has time for a kill at each kind of moment."""
_HUNT_S = 20.0
"""How long to lie in wait for a moment; then the driver is killed anyway."""
_STRAGGLERS = 2
"""Producers that do not know yet that A was taken out of Git."""
_LATE_S = 4.0
"""How long they go on to write to it."""
_BURST = 6000
"""Records that come all at once right before that, so that there is a tail that nobody has read."""


@dataclass(frozen=True)
class Fate:
    """Where the driver dies: at two of three kinds of moments, unless there is time for all.

    Attributes:
        moments: which two. Where changes are restarts, an edit ends the driver anyway, and it is the other two.
        edit: what the edit does to which cluster.
        in_batch: the cluster that producers move to when it dies in the middle of a batch.
        in_sink: likewise, when it dies between the two commits.
        delay_s: how long after the edit, and within the batch.
    """

    moments: frozenset[str]
    edit: tuple[ChangeKind, str]
    in_batch: str
    in_sink: str
    delay_s: tuple[float, float]

    @classmethod
    def of(cls, seed: int) -> Fate:
        """What a seed means."""
        chance = random.Random(seed)
        in_batch, in_sink = chance.sample(["B", "C", "A"], 2)
        # Not an addition: how soon its first record comes is measured.
        edits: list[tuple[ChangeKind, str]] = [("remove", "A"), ("remove", "B")]
        edit, delay_s = chance.choice(edits), (chance.uniform(0, 1.5), chance.uniform(0, 0.1))
        return cls(frozenset(chance.sample([AFTER_EDIT, IN_BATCH, IN_SINK], 2)), edit, in_batch, in_sink, delay_s)


class Story:
    """Plays on an open stage."""

    def __init__(self, stage: Stage) -> None:
        """Nothing happens yet."""
        self.stage = stage
        self.fate = Fate.of(stage.settings.seed)
        if stage.settings.strategy == "restart":
            self.moments = frozenset((IN_BATCH, IN_SINK))
        elif stage.settings.duration >= _ALL_KILLS_S:
            self.moments = frozenset((AFTER_EDIT, IN_BATCH, IN_SINK))
        else:
            self.moments = self.fate.moments

    def play(self) -> None:
        """From the first batch to the last record. Raises whatever did not go as told."""
        stage = self.stage
        stage.linger(0.05)
        self._add("B", "add", stay=_STRAGGLERS)
        stage.linger(0.30)
        self._remove("A", late=_STRAGGLERS)
        stage.linger(0.44)
        self._add("C", "add")
        stage.linger(0.58)
        self._remove("B")
        stage.linger(0.72)
        self._add("A", "return")
        stage.linger(1.0)
        self._finish()

    def _add(self, cluster: str, kind: ChangeKind, stay: int = 0) -> None:
        stage = self.stage
        if not stage.clusters[cluster].broker.running:
            stage.clusters[cluster].start().wait_ready()
            journal.begin(stage.journal.broker, cluster, time.time())
            stage.say("story", f"the broker of {cluster} is started again, on the data it had")
        before = stage.producers.counts().get(cluster, 0)
        stage.producers.move(1, cluster)
        stage.wait(f"records in {cluster}", lambda: stage.producers.counts().get(cluster, 0) > before)
        stage.say("story", f"one of {COUNT} producers moves to {cluster}, which the stream does not read yet")
        back = " back" if kind == "return" else ""
        change = self._change(f"{cluster} is added{back}", kind, cluster, (*stage.members, cluster))
        stage.wait(f"the first record of {cluster}", lambda: stage.first_row(cluster, change.at))
        first = stage.first_row(cluster, change.at)
        assert first is not None
        change.first_record_s = first - change.at
        stage.say(
            "change", f"the first record of {cluster} is in the sink {change.first_record_s:.1f} s after the apply"
        )
        self._in_force(change)
        self._move_rest(cluster, stay)

    def _move_rest(self, cluster: str, stay: int) -> None:
        stage = self.stage
        behind = f", but for {stay}" if stay else ""
        stage.say("story", f"the other producers move to {cluster}, one by one{behind}")
        for moved in range(COUNT - 1 - stay):
            stage.producers.move(1, cluster)
            if moved == COUNT // 2 - 1 - stay // 2:
                if cluster == self.fate.in_batch and IN_BATCH in self.moments:
                    self._kill(IN_BATCH, self._amid_batch, self.fate.delay_s[1])
                elif cluster == self.fate.in_sink and IN_SINK in self.moments:
                    self._kill(IN_SINK, self._amid_commits, 0.0)
            done = len(stage.batches)
            stage.wait("the next batch", lambda done=done: len(stage.batches) > done)  # type: ignore[misc]

    def _remove(self, cluster: str, late: int = 0) -> None:
        """Take a cluster out of Git before anybody knows whether it is drained; `late` producers still write to it."""
        stage = self.stage
        if late:
            stage.producers.burst(cluster, _BURST)
        left = tuple(name for name in stage.members if name != cluster)
        stage.look()
        before = stage.producers.counts()[cluster]
        unread = before - stage.delivered[cluster]
        change = self._change(f"{cluster} is removed", "remove", cluster, left)
        drain = Drain(cluster, change.at, unread)
        stage.journal.drains.append(drain)
        self._leave(cluster, drain, before, late)
        stage.wait(f"{cluster} to be drained", lambda: self._is_drained(drain))
        drain.drained_s = time.time() - drain.removed
        stage.draining.discard(cluster)
        journal.end(stage.journal.member, cluster, time.time())
        stage.say(
            "change", f"{cluster} is drained, by the driver's own reports, {drain.drained_s:.1f} s after the apply"
        )
        self._in_force(change)
        stage.wait("SafeToDecommission", lambda: self._is_safe(drain))
        drain.safe_s = time.time() - drain.removed
        stage.clusters[cluster].stop()
        journal.end(stage.journal.broker, cluster, time.time())
        # If it comes back, what was left would be read after all: that it was not is shown now, or never.
        ends = stage.producers.ends(cluster)
        drain.left = max(_left(query, cluster, ends) for query in (stage.parquet, stage.aggregate))
        kept = stage.parquet.parked_next(cluster, TOPIC)
        stage.say(
            "story",
            f"SafeToDecommission after {drain.safe_s:.1f} s: only now the broker of {cluster} is stopped;"
            f" kept offsets: {sorted(kept.items())}",
        )

    def _leave(self, cluster: str, drain: Drain, before: int, late: int) -> None:
        """The last producers go, and it is counted what came after the removal."""
        stage = self.stage
        if late:
            stage.say(
                "story",
                f"too early: {drain.unread:,} records of {cluster} are in no batch yet, and {late} producers write on",
            )
            until = drain.removed + _LATE_S
            stage.wait("the last producers", lambda: time.time() > until)
            stage.producers.move(late, stage.members[-1])
        stage.producers.settle(cluster)
        self._ask_broker(cluster)
        drain.written_after = stage.producers.counts()[cluster] - before
        if late:
            stage.say(
                "story", f"the last producers leave {cluster}: {drain.written_after:,} records came after its removal"
            )

    def _hear(self, drain: Drain) -> None:
        """Note whom the operator waits for, each text once."""
        waits = self.stage.plane.waits
        if waits not in ("", NOT_SEEN, *drain.waited_for):
            drain.waited_for.append(waits)
            self.stage.say("story", f"the operator: {waits}")

    def _is_drained(self, drain: Drain) -> bool:
        """Whether the document no longer has it."""
        self._hear(drain)
        return self.stage.drained(drain.cluster)

    def _is_safe(self, drain: Drain) -> bool:
        """Whether the stream's `SafeToDecommission` is true."""
        self._hear(drain)
        return not self.stage.plane.waits

    def _finish(self) -> None:
        stage = self.stage
        stage.producers.stop()
        stage.say("story", "the producers end; the stream reads to the end")
        for last in stage.members:
            self._ask_broker(last)
            ends = stage.producers.ends(last)
            for query in (stage.parquet, stage.aggregate):
                stage.wait(f"{last} to be read", partial(_is_read, query, last, ends))
        stage.journal.ended = time.time()
        stage.look()
        stage.plane.git.suspend()
        stage.say("change", "kubectl apply -f git/sparkapplication.yaml: suspended")
        stage.wait("the driver to end", lambda: stage.driver.pid is None)
        if not stage.driver.ended_in_order():
            raise StoryError(f"the driver did not stop in order; log: {stage.driver.log}\n{stage.driver.last_words()}")
        stage.say("story", "the driver is stopped, in order this time")

    # Git

    def _change(self, what: str, kind: ChangeKind, cluster: str, clusters: tuple[str, ...]) -> Change:
        stage = self.stage
        change = Change(what, kind, cluster, clusters, at=stage.name_clusters(clusters))
        stage.journal.changes.append(change)
        lives = " and ".join(clusters)
        applied = f"kubectl apply -f git/kafkastream.yaml: {what}; the stream lives on {lives}"
        stage.say("change", applied, at=change.at)  # what follows is timed from the call, which takes a moment
        if self.fate.edit == (kind, cluster) and AFTER_EDIT in self.moments:
            self._kill(AFTER_EDIT, lambda: True, self.fate.delay_s[0])
        return change

    def _in_force(self, change: Change) -> None:
        """Wait until both queries have committed a batch that was planned with the change; a restart is confirmed."""
        stage, wanted = self.stage, set(change.clusters) | self.stage.draining
        for query in (stage.parquet, stage.aggregate):
            stage.wait(f"'{change.what}' to be in force", lambda query=query: _reads(query) == wanted)  # type: ignore[misc]
            change.in_force_s = change.in_force_s or time.time() - change.at
        if change.kind == "remove":
            stage.say("change", f"{change.cluster} is out of the query {change.in_force_s:.1f} s after the apply")
        if stage.settings.strategy == "restart":
            plane = stage.plane
            stage.wait(
                f"'{change.what}' to be confirmed",
                lambda: set(plane.document) == wanted and plane.revision in plane.confirmed,
            )

    def _ask_broker(self, cluster: str) -> None:
        """A second witness for what was produced."""
        self.stage.journal.broker_ends[cluster] = sum(self.stage.clusters[cluster].end_offsets(TOPIC).values())

    # Kills

    def _kill(self, moment: str, has_come: Callable[[], bool], delay_s: float) -> None:
        """Lie in wait for a moment, kill -9, and wait for the next batch: Kubeflow's operator submits it again."""
        stage = self.stage
        stage.wait("a driver", lambda: stage.driver.pid)
        deadline = time.monotonic() + _HUNT_S
        while not has_come() and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(delay_s)
        processes = stage.driver.kill()
        kill = Kill(time.time(), moment, self._what_it_left(), processes)
        committed = stage.parquet.committed()
        kill.repeated = stage.parquet.planned() > committed
        stage.journal.kills.append(kill)
        stage.say("kill", f"kill -9, {moment}: {processes} processes die; {kill.found}")
        stage.wait("a batch after the kill", lambda: stage.parquet.committed() > committed)
        kill.recovered_s = time.time() - kill.at
        which = f"batch {committed + 1}, repeated," if kill.repeated else "its next batch"
        stage.say("kill", f"the driver goes on; {kill.recovered_s:.1f} s after the kill {which} is committed")

    def _amid_batch(self) -> bool:
        planned = self.stage.parquet.planned()
        return planned > self.stage.parquet.committed() and not self.stage.sink.has(planned)

    def _amid_commits(self) -> bool:
        planned = self.stage.parquet.planned()
        return self.stage.sink.has(planned) and planned > self.stage.parquet.committed()

    def _what_it_left(self) -> str:
        planned, committed = self.stage.parquet.planned(), self.stage.parquet.committed()
        if planned == committed:
            return f"batch {committed} was committed, none was under way"
        if self.stage.sink.has(planned):
            return f"batch {planned} was in the sink, and not committed by Spark"
        return f"batch {planned} was planned, and not in the sink"


def _is_read(query: Checkpoint, cluster: str, ends: dict[int, int]) -> bool:
    at = query.committed_next(cluster, TOPIC)
    return all(at.get(partition, 0) >= end for partition, end in ends.items())


def _left(query: Checkpoint, cluster: str, ends: dict[int, int]) -> int:
    """How many records of a cluster that is parked a query has not read."""
    kept = query.parked_next(cluster, TOPIC)
    return sum(max(0, end - kept.get(partition, 0)) for partition, end in ends.items())


def _reads(query: Checkpoint) -> set[str]:
    committed = query.committed()
    return set(query.document(committed).clusters) if committed >= 0 else set()
