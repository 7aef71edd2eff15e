"""The story: producers move from A to B to C and back to A, and the stream with them, while its driver is killed.

Each change is one `kubectl apply`, and each act waits for its effects. The seed decides the kills in advance.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from demo import journal
from demo.checkpoint import Checkpoint
from demo.driver import COMPLETED
from demo.journal import Change, ChangeKind, Drain, Ending, Kill
from demo.producers import COUNT
from demo.settings import TOPIC
from demo.stage import Stage

AFTER_EDIT = "right after kubectl apply"
IN_BATCH = "in the middle of a batch"
IN_SINK = "between the sink's commit and Spark's"

_ALL_KILLS_S = 240.0
"""A story of this length has time for a kill at all three moments."""
_HUNT_S = 20.0
"""Longest wait for a moment; then the driver is killed anyway."""
_STRAGGLERS = 2
"""Producers that still write to A after its removal from Git."""
_LATE_S = 4.0
"""How long they still write to it."""
_BURST = 6000
"""Records written at once right before the removal, so that unread records remain."""


@dataclass(frozen=True)
class KillPlan:
    """When the driver is killed: at two of three moments, or at all of them in a long story.

    Attributes:
        moments: the two moments. With restarts, an edit ends the driver anyway, and the other two are used.
        in_batch: the kill in the middle of a batch happens while producers move to this cluster.
        in_sink: the same for the kill between the two commits.
        delay_s: seconds from the edit to the kill, and from the beginning of the batch.
    """

    moments: frozenset[str]
    in_batch: str
    in_sink: str
    delay_s: tuple[float, float]

    @classmethod
    def from_seed(cls, seed: int) -> KillPlan:
        """Return the plan of a seed."""
        chance = random.Random(seed)
        in_batch, in_sink = chance.sample(["B", "C", "A"], 2)
        delay_s = (chance.uniform(0, 1.5), chance.uniform(0, 0.1))
        return cls(frozenset(chance.sample([AFTER_EDIT, IN_BATCH, IN_SINK], 2)), in_batch, in_sink, delay_s)


class Story:
    """The acts of the demo, on an open stage."""

    def __init__(self, stage: Stage) -> None:
        """Plan the kills. Starts nothing."""
        self.stage = stage
        self.kill_plan = KillPlan.from_seed(stage.settings.seed)
        if stage.settings.strategy == "restart":
            self.moments = frozenset((IN_BATCH, IN_SINK))
        elif stage.settings.duration >= _ALL_KILLS_S:
            self.moments = frozenset((AFTER_EDIT, IN_BATCH, IN_SINK))
        else:
            self.moments = self.kill_plan.moments

    def play(self) -> None:
        """Run the story from the first batch to the last record. Raises the first failure."""
        stage = self.stage
        stage.run_until(0.05)
        self._add("B", "add", stay=_STRAGGLERS)
        stage.run_until(0.30)
        self._remove("A", _STRAGGLERS)
        stage.run_until(0.55)
        self._add("C", "add")
        stage.run_until(0.75)
        self._add("A", "return")
        stage.run_until(1.0)
        self._finish()

    def _add(self, cluster: str, kind: ChangeKind, stay: int = 0) -> None:
        stage = self.stage
        if not stage.clusters[cluster].broker.running:
            stage.clusters[cluster].start().wait_ready()
            journal.begin(stage.journal.broker, cluster, time.time())
            stage.log("story", f"the broker of {cluster} is started again, on its old data")
        before = stage.producers.counts().get(cluster, 0)
        stage.producers.move(1, cluster)
        stage.wait(f"records in {cluster}", lambda: stage.producers.counts().get(cluster, 0) > before)
        stage.log("story", f"one of {COUNT} producers moves to {cluster}, which the stream does not read yet")
        back = " back" if kind == "return" else ""
        change = self._change(f"{cluster} is added{back}", kind, cluster, (*stage.members, cluster))
        stage.wait(f"the first record of {cluster}", lambda: stage.first_row(cluster, change.at))
        first = stage.first_row(cluster, change.at)
        assert first is not None
        change.first_record_s = first - change.at
        stage.log(
            "change", f"the first record of {cluster} is in the sink {change.first_record_s:.1f} s after the apply"
        )
        self._in_force(change)
        self._move_rest(cluster, stay)

    def _move_rest(self, cluster: str, stay: int) -> None:
        stage = self.stage
        but = f", except {stay}" if stay else ""
        stage.log("story", f"the other producers move to {cluster}, one by one{but}")
        for moved in range(COUNT - 1 - stay):
            stage.producers.move(1, cluster)
            if moved == COUNT // 2 - 1 - stay // 2:
                if cluster == self.kill_plan.in_batch and IN_BATCH in self.moments:
                    self._kill(IN_BATCH, self._amid_batch, self.kill_plan.delay_s[1])
                elif cluster == self.kill_plan.in_sink and IN_SINK in self.moments:
                    self._kill(IN_SINK, self._amid_commits, 0.0)
            done = len(stage.batches)
            stage.wait("the next batch", lambda done=done: len(stage.batches) > done)  # type: ignore[misc]

    def _remove(self, cluster: str, late: int) -> None:
        """Remove a cluster from Git before it is drained; `late` producers still write to it."""
        stage = self.stage
        stage.producers.burst(cluster, _BURST)
        left = tuple(name for name in stage.members if name != cluster)
        stage.refresh()
        before = stage.producers.counts()[cluster]
        unread = before - stage.delivered[cluster]
        change = self._change(f"{cluster} is removed", "remove", cluster, left)
        drain = Drain(cluster, change.at, unread)
        stage.journal.drains.append(drain)
        self._move_last_producers(cluster, drain, before, late)
        stage.wait(f"{cluster} to be drained", lambda: self._is_drained(drain))
        drain.drained_s = time.time() - drain.removed
        stage.draining.discard(cluster)
        journal.end(stage.journal.member, cluster, time.time())
        stage.log("change", f"{cluster} is drained, by the driver's report, {drain.drained_s:.1f} s after the apply")
        self._in_force(change)
        stage.wait(f"{cluster} to be released", lambda: self._is_released(drain))
        drain.safe_s = time.time() - drain.removed
        stage.clusters[cluster].stop()
        journal.end(stage.journal.broker, cluster, time.time())
        # Count unread records now: if the cluster comes back, they would be read later and hide the mistake.
        ends = stage.producers.ends(cluster)
        drain.left = max(_left(query, cluster, ends) for query in (stage.parquet, stage.aggregate))
        kept = stage.parquet.parked_next(cluster, TOPIC)
        stage.log(
            "story",
            f"the operator has released {cluster} after {drain.safe_s:.1f} s: only now its broker is stopped;"
            f" parked offsets: {sorted(kept.items())}",
        )

    def _move_last_producers(self, cluster: str, drain: Drain, before: int, late: int) -> None:
        """Move the last producers away, and count the records written after the removal."""
        stage = self.stage
        stage.log(
            "story",
            f"removed too early: {drain.unread:,} records of {cluster} are unread; {late} producers still write",
        )
        until = drain.removed + _LATE_S
        stage.wait("the last producers", lambda: time.time() > until)
        stage.producers.move(late, stage.members[-1])
        stage.producers.finish(cluster)
        self._note_end_offsets(cluster)
        drain.written_after = stage.producers.counts()[cluster] - before
        stage.log(
            "story", f"the last producers leave {cluster}; they wrote {drain.written_after:,} records after its removal"
        )

    def _note_wait(self, drain: Drain) -> None:
        """Note the operator's reason to wait, each text once."""
        reason = self.stage.plane.waits_for(drain.cluster)
        if reason not in ("", *drain.waited_for):
            drain.waited_for.append(reason)
            self.stage.log("story", f"the operator: {reason}")

    def _is_drained(self, drain: Drain) -> bool:
        """Return whether the cluster has left the document."""
        self._note_wait(drain)
        return self.stage.drained(drain.cluster)

    def _is_released(self, drain: Drain) -> bool:
        """Return whether the operator has released the cluster."""
        self._note_wait(drain)
        return self.stage.plane.has_released(drain.cluster)

    def _finish(self) -> None:
        stage = self.stage
        stage.producers.stop()
        stage.driver.may_complete = True
        for last in stage.members:
            self._note_end_offsets(last)
            stage.producers.end_day(last)
        sent = time.time()
        where = ", ".join(stage.members)
        stage.log("story", f"the producers stop; each partition of {where} gets its end of day, and a record behind it")
        stage.wait("the job to end by itself", lambda: stage.plane.application_state() == COMPLETED)
        stage.journal.ended = time.time()
        stage.refresh()
        queries = {"parquet": stage.parquet, "aggregate": stage.aggregate}
        stage.journal.ending = ending = Ending(
            sent=sent,
            took_s=stage.journal.ended - sent,
            in_order=stage.driver.ended_in_order(),
            stop_records={name: query.stop_records(TOPIC) for name, query in queries.items()},
        )
        code = "with exit code 0" if ending.in_order else "not in order"
        stage.log("story", f"the job has ended by itself, {code}; the SparkApplication is {COMPLETED}")

    # Git

    def _change(self, what: str, kind: ChangeKind, cluster: str, clusters: tuple[str, ...]) -> Change:
        stage = self.stage
        change = Change(what, kind, cluster, clusters, at=stage.apply_clusters(clusters))
        stage.journal.changes.append(change)
        applied = f"kubectl apply -f git/kafkastream.yaml: {what}; the stream reads {' and '.join(clusters)}"
        stage.log("change", applied, at=change.at)  # the times below count from the call of kubectl
        # A kill would spoil the measured time of an addition's first record.
        if kind == "remove" and AFTER_EDIT in self.moments:
            self._kill(AFTER_EDIT, lambda: True, self.kill_plan.delay_s[0])
        return change

    def _in_force(self, change: Change) -> None:
        """Wait until both queries have committed a batch with the change, and a restart is confirmed."""
        stage, wanted = self.stage, set(change.clusters) | self.stage.draining
        for query in (stage.parquet, stage.aggregate):
            stage.wait(f"'{change.what}' to be in force", lambda query=query: _reads(query) == wanted)  # type: ignore[misc]
            change.in_force_s = change.in_force_s or time.time() - change.at
        if change.kind == "remove":
            stage.log(
                "change", f"the query no longer reads {change.cluster}, {change.in_force_s:.1f} s after the apply"
            )
        if stage.settings.strategy == "restart":
            plane = stage.plane
            stage.wait(
                f"'{change.what}' to be confirmed",
                lambda: set(plane.document) == wanted and plane.revision in plane.confirmed,
            )

    def _note_end_offsets(self, cluster: str) -> None:
        """Note the broker's end offsets, a second count of the produced records."""
        self.stage.journal.broker_ends[cluster] = sum(self.stage.clusters[cluster].end_offsets(TOPIC).values())

    # Kills

    def _kill(self, moment: str, has_come: Callable[[], bool], delay_s: float) -> None:
        """Wait for a moment, send SIGKILL, and wait until the new driver has committed a batch."""
        stage = self.stage
        stage.wait("a driver", lambda: stage.driver.pid)
        deadline = time.monotonic() + _HUNT_S
        while not has_come() and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(delay_s)
        processes = stage.driver.kill()
        kill = Kill(time.time(), moment, self._state_after_kill(), processes)
        committed = stage.parquet.committed()
        kill.repeated = stage.parquet.planned() > committed
        stage.journal.kills.append(kill)
        stage.log("kill", f"kill -9, {moment}: {processes} processes die; {kill.found}")
        stage.wait("a batch after the kill", lambda: stage.parquet.committed() > committed)
        kill.recovered_s = time.time() - kill.at
        batch = f"batch {committed + 1} (repeated)" if kill.repeated else "the next batch"
        stage.log("kill", f"the driver is back: {batch} is committed {kill.recovered_s:.1f} s after the kill")

    def _amid_batch(self) -> bool:
        planned = self.stage.parquet.planned()
        return planned > self.stage.parquet.committed() and not self.stage.sink.has(planned)

    def _amid_commits(self) -> bool:
        planned = self.stage.parquet.planned()
        return self.stage.sink.has(planned) and planned > self.stage.parquet.committed()

    def _state_after_kill(self) -> str:
        planned, committed = self.stage.parquet.planned(), self.stage.parquet.committed()
        if planned == committed:
            return f"batch {committed} was committed, and none was running"
        if self.stage.sink.has(planned):
            return f"batch {planned} was in the sink, but Spark had not committed it"
        return f"batch {planned} was planned, but not in the sink"


def _left(query: Checkpoint, cluster: str, ends: dict[int, int]) -> int:
    """Return how many records of a parked cluster a query has not read."""
    kept = query.parked_next(cluster, TOPIC)
    return sum(max(0, end - kept.get(partition, 0)) for partition, end in ends.items())


def _reads(query: Checkpoint) -> set[str]:
    committed = query.committed()
    return set(query.document(committed).clusters) if committed >= 0 else set()
