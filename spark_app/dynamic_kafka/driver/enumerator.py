"""Plan batches over all clusters: the driver's half of the source.

Driver only; one per query, called by Spark one call at a time (`stream_reader.py` is the edge). A plan is: read the
metadata in force, observe all clusters at once, filter restored splits, find what is new, admit, and write all of it
into the next offset document. The decisions are pure functions of `planning/`; this module fetches, calls and applies.

If the process dies anywhere in here, nothing is lost: the only writes are amendments (before their batch runs, in
`replay.py`), and a document counts only once Spark has logged it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.driver.observer import (
    GRACE_S,
    Lookout,
    Observed,
    RevisionRejectedError,
    is_bounded,
    must_find_all,
    wanted_clusters,
)
from dynamic_kafka.driver.offset_resolution import Decisions
from dynamic_kafka.driver.read_tasks import make_tasks
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.driver.status import PlanStatus, new_notes
from dynamic_kafka.errors import ClusterError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.commits import CommitMark, GroupCommitter, check_group
from dynamic_kafka.kafka.groups import Commits
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.batch import Situation, plan_batch
from dynamic_kafka.planning.codec import decode, encode
from dynamic_kafka.planning.deleted_topics import tell_deleted
from dynamic_kafka.planning.ending import Targets, still_to_read
from dynamic_kafka.planning.observation import ClusterObservation, WantedCluster
from dynamic_kafka.planning.plan import Limits, Plan
from dynamic_kafka.planning.progress import Column, OffsetDocument
from dynamic_kafka.planning.splits import slice_ranges

log = logging.getLogger(__name__)


class Enumerator:
    """Plans the batches of one query.

    Making one costs nothing and asks nobody: Spark makes a reader twice, once only to send it to executors. The first
    call that needs the world starts the discovery.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.status = PlanStatus()
        self.lookout = Lookout(options, self.status)
        self.state = StateLocation(options.state_location) if options.state_location else None
        self.replays = Replays(options, self.state, self.lookout.look)
        self._committer: GroupCommitter | None = None
        self._group_checked: set[str] = set()
        self._group_looks: dict[str, Future[Commits]] = {}
        self._targets: Targets | None = None
        self._absent: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()
        self._ends: dict[str, dict[str, Column]] = {}
        self._last_batch_at: float | None = None
        self._latest = OffsetDocument()
        self._query = uuid.uuid4().hex

    # -- the calls that Spark makes ------------------------------------------------------------------------------

    def latest(self, start: Mapping[str, Any], *, unlimited: bool = False) -> Mapping[str, Any]:
        """The next offset document after `start`; `start` itself, to the letter, when there is nothing to do.

        Args:
            start: the document of the last batch, as Spark saved it.
            unlimited: `Trigger.Once` takes everything, whatever the rate options say.
        """
        logged = decode(start)
        self._restore(logged)
        plan = self._plan(logged, unlimited)
        if plan.document is logged:
            plan = self._before_the_end(plan, unlimited)
        self._latest = plan.document
        if plan.document is logged:
            return start
        if plan.admitted or logged.is_initial:
            self._last_batch_at = time.monotonic()
        self.replays.planned(logged, plan.document)
        return encode(plan.document)

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadTask]:
        """The read tasks of the batch between two documents, planned just now or by an earlier run."""
        first, last = decode(start), decode(end)
        self._restore(last)
        if self._commits and not self.replays.is_settled(first, last):
            # A restored backup usually has a pending batch, and that would be delivered again before the first plan.
            self.check_group(last, self.lookout.look())
        ranges = self.replays.ranges(first, last)
        sliced = slice_ranges(
            ranges,
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )
        return make_tasks(self.options, self.lookout.in_force().subscription, last, sliced)

    def prepare_available_now(self) -> None:
        """Take the ends as they are now: a run of `Trigger.AvailableNow` reads up to there and no further."""
        observed = self.lookout.look()
        self.lookout.freeze()
        self._targets = Targets()
        self._targets.fix(observed.answers)

    def committed(self, end: Mapping[str, Any]) -> None:
        """Commit a batch's offsets to the clusters' groups, aside. Spark tells of a batch when it constructs the next,
        and never of the last one: the bundled application commits from its listener instead.

        Raises:
            GroupInUseError, StaleCheckpointError: see `GroupCommitter.commit`.
        """
        group = self.options.group_id
        if not self.options.commit_offsets or group is None:
            return
        if self._committer is None:
            self._committer = GroupCommitter(
                group,
                lambda cluster: client_of(self.options, self.lookout.in_force().subscription, cluster),
                allow_old_checkpoint=self.options.allow_old_checkpoint,
            )
        # What the batch had to leave out is not read.
        self._committer.commit(self.replays.amendments.after(decode(end)))

    def report(self) -> dict[str, Any]:
        """The summary for Spark's progress event."""
        progress = self.replays.amendments.after(self._latest)
        return self.status.summary(self._latest, finished=progress.finished)

    def stop(self) -> None:
        """End discovery and drop the clients. Never waits for a cluster or a metadata service."""
        self.lookout.stop()
        if self._committer is not None:
            self._committer.close()

    def end(self) -> None:
        """`stop`, and give a user's metadata service a moment to be closed: the process ends right after."""
        self.stop()
        self.lookout.wait_closed()

    # -- planning ------------------------------------------------------------------------------------------------

    def _restore(self, saved: OffsetDocument) -> None:
        self.replays.restore(saved)
        if saved.bounded:
            self.lookout.freeze()

    def _plan(self, logged: OffsetDocument, unlimited: bool, *, everyone: bool = False) -> Plan:
        while True:
            try:
                observed = self.lookout.look(initial=logged.is_initial, everyone=everyone)
                return self._plan_without_broken(logged, observed, unlimited, everyone=everyone)
            except RevisionRejectedError as rejected:
                # What came last does not fit the clusters it names. That is not this query's fault, unless there was
                # nothing before, or it was found good earlier and the cluster itself has changed since.
                if not self.lookout.reject(rejected.observed, str(rejected.error)):
                    raise rejected.error from None

    def _plan_without_broken(
        self, logged: OffsetDocument, observed: Observed, unlimited: bool, *, everyone: bool
    ) -> Plan:
        """Plan; under `stall`, a cluster that fails in the middle of it is left out and the rest planned again."""
        while True:
            try:
                return self._plan_with(logged, observed, unlimited)
            except ClusterError as error:
                if error.cluster not in observed.answers or everyone or self._fails(logged, observed):
                    raise self.lookout.explained({error.cluster: error}) from None
                self.lookout.judge({error.cluster: error})
                observed = observed.without(error.cluster)

    def _fails(self, logged: OffsetDocument, observed: Observed) -> bool:
        """Whether a cluster's failure ends the query: a first plan without it may be no first plan for it any more."""
        needed = logged.is_initial and must_find_all(self.options, observed.subscription)
        return self.options.cluster_failure_policy == "fail" or needed

    def _before_the_end(self, plan: Plan, unlimited: bool) -> Plan:
        """A plan without news may be the end of a run that ends by itself: not before all its clusters are read.

        A bounded run just goes on. Spark ends a run of `Trigger.AvailableNow` here, so a cluster that is still to be
        read has to answer now.

        Raises:
            ClusterError: it does not answer.
        """
        progress = self.replays.amendments.after(plan.document)
        awaited = still_to_read(progress, self._absent, self._targets)
        if awaited and self._targets is not None:
            try:
                return self._plan(plan.document, unlimited, everyone=True)
            except ClusterError as error:
                told = (
                    f"{error.message}. The clusters that answer are read; without this one the run of"
                    " Trigger.AvailableNow is not complete: check the cluster, and start the run again"
                )
                raise type(error)(error.cluster, told) from None
        stalled = awaited & self.status.stalled.keys()
        if stalled - self._awaited:
            names = ", ".join(sorted(stalled))
            log.warning("the clusters that answer are read: the bounded run waits for %s", names)
        self._awaited = stalled
        return plan

    def _plan_with(self, logged: OffsetDocument, observed: Observed, unlimited: bool) -> Plan:
        if self._targets is not None:
            self._targets.fix(observed.answers)
        self._absent = frozenset(observed.subscription.clusters.keys() - observed.answers.keys())
        situation = self.situation(logged, observed, unlimited=unlimited)
        done = plan_batch(situation, self.decisions(logged, observed))
        self.lookout.adopt(observed)
        for cluster, answer in observed.answers.items():
            seen = {name: topic.latest for name, topic in answer.topics.items()}
            self._ends[cluster] = {**self._ends.get(cluster, {}), **seen}
        self.check_group(logged, observed)
        self.status.note([*done.notes, *new_notes(done.new)])
        self.status.lag = done.plan.left
        return done.plan

    def situation(self, logged: OffsetDocument, observed: Observed, *, unlimited: bool = False) -> Situation:
        """What a plan is made from. The tool `plan` plans with it too, and writes nothing."""
        progress = self.replays.amendments.after(logged)
        wanted, answers = self._with_deleted(progress, observed)
        return Situation(
            logged=logged,
            progress=progress,
            wanted=wanted,
            observed=answers,
            now_ms=time.time_ns() // 1_000_000,
            retention_ms=self.options.removed_cluster_retention_ms,
            limits=self._limits(unlimited),
            query=self._query,
            bounded=logged.is_initial and is_bounded(self.options, observed.subscription),
        )

    def _with_deleted(
        self, progress: OffsetDocument, observed: Observed
    ) -> tuple[dict[str, WantedCluster], dict[str, ClusterObservation]]:
        """What is wanted, and what was answered; see `planning.deleted`."""
        wanted, answers, single = wanted_clusters(observed.subscription), dict(observed.answers), self.options.single
        reading = progress.clusters.get(single.cluster_id) if single is not None else None
        if single is None or single.pattern is None or reading is None or not self.options.fail_on_data_loss:
            return wanted, answers
        name = single.cluster_id
        if name not in wanted:  # it has listed its topics, and none is there any more
            wanted[name], answers[name] = WantedCluster({}), ClusterObservation({})
        if name in answers:
            # A run that ends by itself counts its topics at its start, and would wait for one that is parked.
            ends = {} if progress.bounded or self._targets is not None else self._ends.get(name, {})
            wanted[name], answers[name] = tell_deleted(single.pattern, reading, wanted[name], answers[name], ends)
        return wanted, answers

    def decisions(self, logged: OffsetDocument, observed: Observed) -> Decisions:
        """What a plan asks back. The tool `plan` asks the same."""
        met = frozenset(self.lookout.met)
        return Decisions(self.options, self.state, self.status, logged, observed, met, self._query)

    @property
    def _commits(self) -> bool:
        return self.options.group_id is not None and (self.options.commit_offsets or self.options.application_commits)

    def check_group(self, logged: OffsetDocument, observed: Observed) -> None:
        """Once a cluster, when it first answers: is the group somebody else's there, or ahead of this checkpoint?
        What a slow cluster says counts for a later plan.

        Raises:
            GroupInUseError, StaleCheckpointError: it is.
        """
        group = self.options.group_id
        if not self._commits or group is None:
            return
        mark = CommitMark(logged.query or self._query, logged.number, 0)
        allow_old = self.options.allow_old_checkpoint
        start = not (self._group_checked or self._group_looks)
        asked = []
        for cluster, answer in observed.answers.items():
            if cluster in self._group_checked or cluster in self._group_looks:
                continue
            keys = [(name, partition) for name, topic in answer.topics.items() for partition in topic.latest]
            look = observed.probes[cluster].ask(partial(ClusterAdmin.committed, group=group, partitions=keys))
            self._group_looks[cluster] = look
            asked.append(look)
        # A start must know, since a sink may skip what is read again. Later on a cluster that hangs holds up no other.
        wait(asked, timeout=None if start else GRACE_S)
        for cluster, look in [each for each in self._group_looks.items() if each[1].done()]:
            del self._group_looks[cluster]
            if cluster not in observed.subscription.clusters:
                continue
            try:
                check_group(cluster, group, look.result(), mark, allow_old=allow_old)
            except ClusterError as error:
                log.warning("the commits of group %s cannot be looked at: %s", group, error)
            self._group_checked.add(cluster)

    def _limits(self, unlimited: bool) -> Limits:
        options = self.options
        targets = self._targets.ends if self._targets is not None else None
        if unlimited:
            return Limits(targets=targets)
        waited = float("inf") if self._last_batch_at is None else (time.monotonic() - self._last_batch_at) * 1000
        return Limits(
            max_offsets=options.max_offsets_per_trigger,
            # A run that ends must not wait for records that never come.
            min_offsets=None if targets is not None else options.min_offsets_per_trigger,
            max_delay_ms=options.max_trigger_delay_ms,
            waited_ms=int(min(waited, 1e15)),
            targets=targets,
        )
