"""Plan batches over all clusters: the driver's half of the source.

Driver only; one per query, called by Spark one call at a time (`stream_reader.py` is the edge). A plan is: read the
metadata in force, observe all clusters at once, filter restored splits, find what is new, admit, and write all of it
into the next offset document. The decisions are pure functions of `planning/`; this module fetches, calls and applies.

If the process dies anywhere in here, nothing is lost: the only writes are amendments (before their batch runs, in
`replay.py`), and a document counts only once Spark has logged it.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dynamic_kafka.clusters import ClusterProbes, client_of
from dynamic_kafka.errors import ClusterError, DataLossError, DynamicKafkaError, IdentityError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.commits import CommitMark, GroupCommitter, check_group
from dynamic_kafka.kafka.probe import ClusterProbe, Question, gather, resolve
from dynamic_kafka.kafka.reader import ReadTask
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.lookups import Discovered
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.batch import Situation, plan_batch
from dynamic_kafka.planning.codec import decode, encode
from dynamic_kafka.planning.dataloss import DataLoss, describe, skip_losses
from dynamic_kafka.planning.identity import identity_problems, saved_identity
from dynamic_kafka.planning.observation import Note, WantedCluster
from dynamic_kafka.planning.plan import Limits, Plan
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled, forget
from dynamic_kafka.planning.splits import Split, slice_ranges
from dynamic_kafka.planning.starting import (
    OffsetQuery,
    Resolution,
    check_positions,
    resolve_start,
    resolve_stop,
    starting_spec,
)
from dynamic_kafka.replay import Replays, World
from dynamic_kafka.services import make_discovery
from dynamic_kafka.state import StateLocation
from dynamic_kafka.status import PlanStatus
from dynamic_kafka.tasks import make_tasks

GRACE_S = 2.0
"""How long a plan waits for a slow cluster; then it goes on with the others, and the answer counts for a later one."""
FIRST_GRACE_S = 10.0
"""The same for the first look of a process, under `clusterFailurePolicy=stall`; under `fail` it waits for everyone."""
RECONSIDER_S = 30.0
"""How often rejected metadata is tried again: a missing topic may be created, wrong servers may be put right."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observed(World):
    """One look at the world: the metadata in force, and who answered."""

    found: Discovered
    probes: Mapping[str, ClusterProbe]
    new_revision: bool

    def without(self, cluster: str) -> Observed:
        """The same look, as if one cluster had not answered."""
        return replace(self, answers={name: answer for name, answer in self.answers.items() if name != cluster})


class Enumerator:
    """Plans the batches of one query.

    Making one costs nothing and asks nobody: Spark makes a reader twice, once only to send it to executors. The first
    call that needs the world starts the discovery.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.status = PlanStatus()
        self.probes = ClusterProbes(options)
        self.state = StateLocation(options.state_location) if options.state_location else None
        self.replays = Replays(options, self.state, self._look)
        self._committer: GroupCommitter | None = None
        self._discovery: MetadataDiscovery | None = None
        self._found: Discovered | None = None
        self._good: Discovered | None = None
        self._rejected_at: float | None = None
        self._group_checked = False
        self._targets: Mapping[Split, int] | None = None
        self._opened: set[str] = set()
        self._met: set[str] = set()
        self._late: set[str] = set()
        self._described_at: dict[str, tuple[float, int]] = {}
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
        self.replays.restore(logged)
        plan = self._plan(logged, unlimited)
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
        self.replays.restore(last)
        ranges = self.replays.ranges(first, last)
        sliced = slice_ranges(
            ranges,
            min_partitions=self.options.min_partitions,
            max_records=self.options.max_records_per_partition,
        )
        return make_tasks(self.options, self._in_force().subscription, last, sliced)

    def prepare_available_now(self) -> None:
        """Take the ends as they are now: a run of `Trigger.AvailableNow` reads up to there and no further."""
        observed = self._look()
        self._targets = {
            Split(cluster, name, partition): end
            for cluster, answer in observed.answers.items()
            for name, topic in answer.topics.items()
            for partition, end in topic.latest.items()
        }

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
                lambda cluster: client_of(self.options, self._in_force().subscription, cluster),
                allow_old_checkpoint=self.options.allow_old_checkpoint,
            )
        self._committer.commit(decode(end))

    def report(self) -> dict[str, Any]:
        """The summary for Spark's progress event."""
        return self.status.summary(self._latest)

    def stop(self) -> None:
        """End discovery and drop the clients. Never waits for a cluster or a metadata service."""
        if self._discovery is not None:
            self._discovery.stop()
        if self._committer is not None:
            self._committer.close()
        self.probes.close()

    # -- metadata ------------------------------------------------------------------------------------------------

    def _fresh(self) -> Discovered:
        """The newest metadata that was not rejected. The first call waits for the first look-up.

        Raises:
            MetadataError: there is none, or more look-ups in a row failed than are tolerated.
        """
        if self._discovery is None:
            for warning in self.options.warnings:
                log.warning("%s", warning)
            discovery = make_discovery(self.options)
            discovery.start()
            self._discovery = discovery
        if self._targets is not None and self._found is not None:
            return self._found  # Trigger.AvailableNow ends where it began
        if self._rejected_at is not None and time.monotonic() - self._rejected_at > RECONSIDER_S:
            self._rejected_at = None
            self._discovery.reconsider()
        self._found = self._discovery.current()
        status = self._discovery.status()
        self.status.metadata_failures = status.consecutive_failures
        self.status.rejected = status.rejected
        revision = self._found.revision
        self.status.revision = revision.hash if revision.counter is None else str(revision.counter)
        return self._found

    def _in_force(self) -> Discovered:
        """The metadata that the batch at hand was planned with, however old that is by now."""
        return self._found or self._fresh()

    # -- planning ------------------------------------------------------------------------------------------------

    def _plan(self, logged: OffsetDocument, unlimited: bool) -> Plan:
        while True:
            try:
                return self._plan_without_broken(logged, self._look(), unlimited)
            except RevisionRejectedError as rejected:
                # What came last does not fit the clusters it names. That is not this query's fault, unless there was
                # nothing before, or it was found good earlier and the cluster itself has changed since.
                if self._discovery is None or self._good is None or not rejected.observed.new_revision:
                    raise rejected.error from None
                self._discovery.reject(rejected.observed.found, str(rejected.error), keep=self._good)
                self._rejected_at = time.monotonic()

    def _plan_without_broken(self, logged: OffsetDocument, observed: Observed, unlimited: bool) -> Plan:
        """Plan; under `stall`, a cluster that fails in the middle of it is left out and the rest planned again."""
        while True:
            try:
                return self._plan_with(logged, observed, unlimited)
            except ClusterError as error:
                if error.cluster not in observed.answers or self._fails(logged, observed):
                    raise
                self._judge({error.cluster: error})
                observed = observed.without(error.cluster)

    def _fails(self, logged: OffsetDocument, observed: Observed) -> bool:
        """Whether a cluster's failure ends the query. A bounded run resolves everything in its first plan."""
        bounded = logged.is_initial and self._is_bounded(observed.subscription)
        return self.options.cluster_failure_policy == "fail" or bounded

    def _plan_with(self, logged: OffsetDocument, observed: Observed, unlimited: bool) -> Plan:
        situation = self.situation(logged, observed, unlimited=unlimited)
        done = plan_batch(situation, _PlanEdge(self, logged, observed))
        # Only now, not with a look that a replay or `Trigger.AvailableNow` made: their first offsets judged no split.
        self._opened |= observed.answers.keys()
        self._met |= observed.answers.keys()
        # Good is what all clusters answered to. Under `stall` one may be away from the start: what the others were read
        # by is what there is to go back to, then.
        if self._good is None or len(observed.answers) == len(observed.subscription.clusters):
            self._good = observed.found
        self._check_group(logged, observed)
        self.status.note([*done.notes, *_new_notes(done.new)])
        self.status.lag = done.plan.lag
        return done.plan

    def situation(self, logged: OffsetDocument, observed: Observed, *, unlimited: bool = False) -> Situation:
        """What a plan is made from. The tool `plan` plans with it too, and writes nothing."""
        progress, rewound = self.replays.after(logged)
        return Situation(
            logged=logged,
            progress=progress,
            rewound=rewound,
            wanted=wanted_clusters(observed.subscription),
            observed=observed.answers,
            now_ms=time.time_ns() // 1_000_000,
            retention_ms=self.options.removed_cluster_retention_ms,
            limits=self._limits(unlimited),
            query=self._query,
            bounded=logged.is_initial and self._is_bounded(observed.subscription),
        )

    def _check_group(self, logged: OffsetDocument, observed: Observed) -> None:
        """Once, before the first batch: is the group somebody else's, or ahead of this checkpoint?"""
        group = self.options.group_id
        commits = self.options.commit_offsets or self.options.raw.get("applicationcommits") == "true"
        if self._group_checked or not commits or group is None:
            return
        mark = CommitMark(self._query_of(logged), logged.number, 0)
        allow_old = self.options.allow_old_checkpoint
        checks = {}
        for cluster, answer in observed.answers.items():
            keys = [(name, partition) for name, topic in answer.topics.items() for partition in topic.latest]
            checks[cluster] = observed.probes[cluster].ask(
                partial(ClusterAdmin.committed, group=group, partitions=keys)
            )
        for cluster, check in checks.items():
            try:
                check_group(cluster, group, check.result(), mark, allow_old=allow_old)
            except ClusterError as error:
                log.warning("the commits of group %s cannot be looked at: %s", group, error)
        self._group_checked = True

    def verified(self, progress: OffsetDocument, observed: Observed) -> OffsetDocument:
        """Refuse clusters that are not the saved ones; forget the progress of those that a person accepted."""
        accepted: Mapping[str, str] = {}
        problems = identity_problems(progress, observed.answers, accepted)
        if problems and self.state is not None:
            # Looked at only when it matters: a plan is made every trigger, and the state may be an object store.
            accepted = self.state.accepted_identities(self._query_of(progress))
            problems = identity_problems(progress, observed.answers, accepted)
        if problems:
            text = "; ".join(problem.text for problem in problems)
            raise RevisionRejectedError(IdentityError(text), observed)
        for cluster, answer in observed.answers.items():
            absent = sorted(
                topic
                for topic in answer.missing
                if progress.topic(cluster, topic) is None
                and topic not in (progress.parked[cluster].topics if cluster in progress.parked else {})
            )
            if absent and (cluster not in self._met or observed.new_revision):
                error = ClusterError(
                    cluster,
                    f"has no topic {', '.join(map(repr, absent))}: create it, or take it out of the stream",
                )
                raise RevisionRejectedError(error, observed)
            if answer.kafka_id is None:
                text = f"cluster {cluster!r} tells no cluster.id: that it is still the same one cannot be checked"
                self.status.once(logging.WARNING, "no-id", cluster, text=text)
        swapped = {
            cluster
            for cluster, answer in observed.answers.items()
            if accepted.get(cluster) == answer.kafka_id
            and saved_identity(progress, cluster) not in (None, answer.kafka_id)
        }
        return forget(progress, swapped) if swapped else progress

    def _query_of(self, document: OffsetDocument) -> str:
        return document.query or self._query

    def _is_bounded(self, subscription: Subscription) -> bool:
        own = [cluster.stopping_offsets is not None for cluster in subscription.clusters.values()]
        return self.options.bounded or (bool(own) and all(own))

    def resolved(
        self, logged: OffsetDocument, done: Reconciled, observed: Observed
    ) -> tuple[dict[Split, int], dict[Split, int]]:
        """Starts of new splits, and stops of splits that should have one: numbers that the document then keeps."""
        options, clusters = self.options, observed.subscription.clusters
        if logged.is_initial:
            seen = {c: {name: t.latest for name, t in answer.topics.items()} for c, answer in observed.answers.items()}
            check_positions(options, {**dict.fromkeys(clusters), **seen})
        starts: dict[Split, Resolution] = {}
        for split, new_topic in done.new.items():
            own = clusters[split.cluster].starting_offsets
            spec = starting_spec(
                first_plan=logged.is_initial,
                new_topic=new_topic,
                configured=options.starting_for(split.cluster),
                own=own,
            )
            starts[split] = resolve_start(
                spec,
                split,
                lenient=not logged.is_initial or (own is not None and spec.kind == "timestamp"),
                strategy=options.starting_strategy,
                strict=logged.is_initial and own is None,
            )
        stops: dict[Split, Resolution] = {}
        candidates = {split: True for split in done.document.splits()} | dict(done.new)
        for split in candidates if self._has_stops(observed.subscription) else ():
            ending = clusters[split.cluster].stopping_offsets if split.cluster in clusters else None
            ending = ending or options.ending_for(split.cluster)
            topic = done.document.topic(split.cluster, split.topic)
            if ending is not None and _is_seen(observed, split) and not (topic and split.partition in topic.stops):
                stops[split] = resolve_stop(ending, split)
        return self._numbers(starts, observed), self._numbers(stops, observed)

    def _has_stops(self, subscription: Subscription) -> bool:
        return self.options.ending is not None or any(c.stopping_offsets for c in subscription.clusters.values())

    def _numbers(self, wanted: Mapping[Split, Resolution], observed: Observed) -> dict[Split, int]:
        numbers = {split: offset for split, offset in wanted.items() if isinstance(offset, int)}
        queries: dict[Split, OffsetQuery] = {}
        for split, query in wanted.items():
            if isinstance(query, int):
                continue
            seen = observed.answers[split.cluster].topics[split.topic]
            if query.kind == "latest":
                numbers[split] = seen.latest[split.partition]
            elif query.kind == "earliest" and split.partition in seen.earliest:
                numbers[split] = seen.earliest[split.partition]
            else:
                queries[split] = query
        if queries:
            numbers |= resolve(observed.probes, queries, self.options.group_id)
        return numbers

    def behind(
        self, opened: OffsetDocument, losses: list[DataLoss]
    ) -> tuple[OffsetDocument, frozenset[Split], list[Note]]:
        accepted = self.state.accepted_losses(self._query_of(opened)) if self.state else []
        allowed = {
            Split(wire["cluster"], wire["topic"], int(wire["partition"])): int(wire["from"]) for wire in accepted
        }
        # An acceptance holds for the one offset that a person saw, not for whatever that split loses later.
        refused = [loss for loss in losses if allowed.get(loss.split) != opened.next_of(loss.split)]
        if self.options.fail_on_data_loss and refused:
            raise DataLossError(
                f"data loss: {describe(refused)}. Restore the records, or accept the loss once with"
                " `python -m dynamic_kafka.app accept app.yaml --data-loss`, or for good with failOnDataLoss=false"
            )
        opened, moved = skip_losses(opened, losses)
        return (
            opened,
            moved,
            [Note("data-loss", loss.split.cluster, f"data loss accepted: {describe([loss])}") for loss in losses],
        )

    def _limits(self, unlimited: bool) -> Limits:
        options = self.options
        if unlimited:
            return Limits(targets=self._targets)
        waited = float("inf") if self._last_batch_at is None else (time.monotonic() - self._last_batch_at) * 1000
        return Limits(
            max_offsets=options.max_offsets_per_trigger,
            # A run that ends must not wait for records that never come.
            min_offsets=None if self._targets is not None else options.min_offsets_per_trigger,
            max_delay_ms=options.max_trigger_delay_ms,
            waited_ms=int(min(waited, 1e15)),
            targets=self._targets,
        )

    # -- observing -----------------------------------------------------------------------------------------------

    def _look(self) -> Observed:
        """Ask all clusters that metadata names at once, and wait a little for the slower ones.

        Raises:
            DynamicKafkaError: under `clusterFailurePolicy=fail`, the failure of a cluster.
        """
        found = self._fresh()
        subscription = found.subscription
        probes, broken = self.probes.for_subscription(subscription)
        pending = {
            cluster: probe.observe(functools.partial(self._question, subscription, cluster))
            for cluster, probe in probes.items()
        }
        first = self._good is None
        everyone = first and (self.options.cluster_failure_policy == "fail" or self._is_bounded(subscription))
        # Each hanging cluster is waited for once, and then no more until it has answered.
        patient = {c: future for c, future in pending.items() if c not in self.status.stalled and c not in self._late}
        gather(patient, grace_s=FIRST_GRACE_S if first else GRACE_S, everyone=everyone)
        answers, failures = gather(pending, grace_s=0, everyone=False)
        self._late = pending.keys() - answers.keys() - failures.keys()
        for cluster in (*answers, *failures):
            probes[cluster].taken()
            if cluster in answers and self.status.stalled.pop(cluster, None) is not None:
                log.warning("cluster %s answers again", cluster)
        # A cluster that failed is opened anew when it is back: its log may have moved on meanwhile.
        self._opened = (self._opened - failures.keys()) & subscription.clusters.keys()
        if everyone and (broken or failures):
            raise next(iter({**broken, **failures}.values()))
        self._judge({**broken, **failures})
        new_revision = self._good is None or self._good.subscription.fingerprint != subscription.fingerprint
        return Observed(subscription, answers, found, probes, new_revision)

    def _judge(self, failures: Mapping[str, DynamicKafkaError]) -> None:
        if failures and self.options.cluster_failure_policy == "fail":
            raise next(iter(failures.values()))
        for cluster, error in failures.items():
            if cluster not in self.status.stalled:
                log.warning("cluster %s is stalled, the others are read on: %s", cluster, error)
            self.status.stalled[cluster] = str(error)

    def _question(self, subscription: Subscription, cluster: str) -> Question:
        single = self.options.single
        now, sequence = time.monotonic(), self._in_force().sequence
        at, seen = self._described_at.get(cluster, (0.0, -1))
        interval = self.options.partition_discovery_interval_ms
        if interval is None:
            interval = self.options.metadata_discovery_interval_ms
            describe_now = sequence != seen or (interval > 0 and now - at >= interval / 1000)
        else:
            describe_now = seen < 0 or (interval > 0 and now - at >= interval / 1000)
        if describe_now:
            self._described_at[cluster] = (now, sequence)
        return Question(
            topics=tuple(sorted(subscription.clusters[cluster].topics)),
            partitions=single.assign if single else None,
            # First offsets are looked at when a cluster is opened; later on executors notice what has expired.
            earliest=cluster not in self._opened,
            describe=describe_now,
        )


@dataclass(frozen=True)
class _PlanEdge:
    """Answers what one plan asks (`planning.batch.Edge`) from the clusters and the query's state."""

    enumerator: Enumerator
    logged: OffsetDocument
    observed: Observed

    def verify(self, progress: OffsetDocument) -> OffsetDocument:
        return self.enumerator.verified(progress, self.observed)

    def resolve(self, done: Reconciled) -> tuple[Mapping[Split, int], Mapping[Split, int]]:
        return self.enumerator.resolved(self.logged, done, self.observed)

    def accept(
        self, opened: OffsetDocument, losses: list[DataLoss]
    ) -> tuple[OffsetDocument, frozenset[Split], list[Note]]:
        return self.enumerator.behind(opened, losses)


class RevisionRejectedError(Exception):
    """What was observed contradicts what is saved; whether that ends the query depends on who brought it."""

    def __init__(self, error: DynamicKafkaError, observed: Observed) -> None:
        super().__init__(str(error))
        self.error, self.observed = error, observed


def _is_seen(observed: Observed, split: Split) -> bool:
    answer = observed.answers.get(split.cluster)
    topic = answer.topics.get(split.topic) if answer else None
    return topic is not None and split.partition in topic.latest


def wanted_clusters(subscription: Subscription) -> dict[str, WantedCluster]:
    """What metadata wants, as the planner reads it."""
    return {
        cluster: WantedCluster(named.topics, named.renamed_from) for cluster, named in subscription.clusters.items()
    }


def _new_notes(new: Iterable[Split]) -> list[Note]:
    counts: dict[tuple[str, str], int] = {}
    for split in new:
        counts[split.cluster, split.topic] = counts.get((split.cluster, split.topic), 0) + 1
    return [
        Note("new", cluster, f"{count} new splits: topic {topic!r} of cluster {cluster!r}", topic)
        for (cluster, topic), count in sorted(counts.items())
    ]
