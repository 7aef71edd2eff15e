"""What the next start would do: one look at metadata and clusters, planned like a batch, and nothing written.

Tools only. The decisions are those of the query itself (`planning.batch`, `Replays.judge`, `Enumerator`); here they are
asked without their effects, and what would end a query is collected, so that one answer names everything.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from dynamic_kafka.app.tools.pending import cannot_be_repeated, find_gone
from dynamic_kafka.app.tools.saved_query import SavedProgress
from dynamic_kafka.driver.cluster_clients import ClusterProbes, question_of
from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.observer import LiveObservation, with_choices
from dynamic_kafka.driver.replay import named_as
from dynamic_kafka.errors import (
    ClusterError,
    DataLossError,
    DynamicKafkaError,
    GroupInUseError,
    IdentityError,
    OptionError,
    StaleCheckpointError,
)
from dynamic_kafka.kafka.probe import collect_observations
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.amendments import Amendment
from dynamic_kafka.planning.batch import Planned
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.dataloss import DataLoss
from dynamic_kafka.planning.identity import identity_problems, saved_identity
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.plan import Plan
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.reconcile import Reconciled, carry_over
from dynamic_kafka.planning.splits import Split, SplitRange

SILENCE_S = 3.0
"""After this long a person is told whom the tool is waiting for."""


@dataclass(frozen=True)
class Refusal:
    """Something that would end the query, or keep metadata out of force. `cluster` None: not about one cluster."""

    cluster: str | None
    error: DynamicKafkaError


@dataclass(frozen=True)
class Preview:
    """The answer.

    Attributes:
        observed: the look that it follows from; clusters that are refused or silent are not in its answers.
        silent: clusters that do not answer, and why.
        refusals: what would be refused, data losses apart.
        answering: {cluster: Kafka `cluster.id` that answers now}, None where it tells none.
        swapped: those of them that are neither the saved nor an accepted one.
        pending: the ranges of the pending batch that are still to be read.
        left_out: those that a restart would leave out, with the reasons by cluster; None if there are none.
        gone: {split: what is wrong} of those that their clusters do not have whole any more.
        before: progress that the plan builds upon, pending batch and amendments included.
        opened: progress with new splits opened; None when no plan could be made.
        done: what changed between them.
        losses: records that are gone; `refused` are those nobody has accepted.
        plan: the next document.
    """

    observed: LiveObservation
    silent: Mapping[str, DynamicKafkaError]
    refusals: tuple[Refusal, ...]
    answering: Mapping[str, str | None]
    swapped: Mapping[str, str]
    pending: tuple[SplitRange, ...]
    left_out: Amendment | None
    before: OffsetDocument
    gone: Mapping[Split, str] = field(default_factory=dict)
    opened: OffsetDocument | None = None
    done: Reconciled | None = None
    losses: tuple[DataLoss, ...] = ()
    refused: tuple[DataLoss, ...] = ()
    plan: Plan | None = None


def preview(options: SourceOptions, saved: SavedProgress, *, delivered: bool = False) -> Preview:
    """Ask metadata and clusters, and plan.

    Args:
        options: the source's.
        saved: the checkpoint; an empty one plans a query that starts now.
        delivered: the sink has the pending batch and skips it: nothing of it is read again.

    Raises:
        MetadataError: there is no valid metadata.
    """
    enumerator = Enumerator(options)
    probes = ClusterProbes(options)
    try:
        observed, silent = _look(options, probes, initial=saved.latest.is_initial)
        return _Previewing(options, enumerator, saved, observed, silent, delivered=delivered).run()
    finally:
        probes.close()
        enumerator.stop()


def _look(
    options: SourceOptions, probes: ClusterProbes, *, initial: bool
) -> tuple[LiveObservation, dict[str, DynamicKafkaError]]:
    """Ask everyone, and wait for everyone: a tool has the time, and says who is silent."""
    discovery = make_discovery(options)
    discovery.start(refuse_missing=initial)
    found = discovery.current()
    discovery.stop()
    subscription = found.subscription
    made, broken = probes.for_subscription(subscription)
    pending = {
        # High watermarks, since what lies behind the beginning of an open transaction is not gone.
        cluster: probe.observe(
            partial(
                question_of,
                options,
                subscription,
                cluster,
                earliest=True,
                high=frozenset(subscription.clusters[cluster].topics),
            )
        )
        for cluster, probe in made.items()
    }
    with telling(pending):
        answers, failures = collect_observations(pending, timeout_s=None)
    silent = {name: with_choices(error, [name], options, subscription) for name, error in failures.items()}
    return LiveObservation(subscription, answers, found, made, new_revision=True), {**broken, **silent}


@contextlib.contextmanager
def telling(pending: Mapping[str, Future[ClusterObservation]]) -> Iterator[None]:
    """Say on standard error who is being waited for, once that takes long."""

    def tell() -> None:
        waiting = ", ".join(cluster for cluster, future in pending.items() if not future.done())
        if waiting:
            print(f"asking {waiting} …", file=sys.stderr, flush=True)

    timer = threading.Timer(SILENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass
class _Previewing:
    """One call of `preview`, with its findings so far."""

    options: SourceOptions
    enumerator: Enumerator
    saved: SavedProgress
    observed: LiveObservation
    silent: dict[str, DynamicKafkaError]
    delivered: bool
    refusals: list[Refusal] = field(default_factory=list)
    swapped: dict[str, str] = field(default_factory=dict)

    def run(self) -> Preview:
        latest = self.saved.latest
        replays = self.enumerator.replays
        answering = {cluster: answer.kafka_id for cluster, answer in self.observed.answers.items()}
        try:
            replays.restore(latest)
        except StaleCheckpointError as error:
            self.refuse(None, error)
        clusters = self.observed.subscription.clusters
        self.check_identities(carry_over(latest.settled(), clusters, self.observed.answers)[0])
        pending, left_out = self.judge_pending()
        gone = self.judge_ranges(pending, left_out)
        if left_out is not None:
            replays.amendments.add(left_out)
        before = replays.amendments.after(latest)
        planned = self.plan(latest)
        # The application compares what Spark has committed: a batch to be repeated has no mark in the group yet.
        repeats = self.saved.end is not None and not self.saved.start.is_initial
        self.check_group(self.saved.start if repeats else latest)
        return Preview(
            observed=self.observed,
            silent=self.silent,
            refusals=tuple(self.refusals),
            answering=answering,
            swapped=self.swapped,
            pending=tuple(pending),
            left_out=left_out,
            gone=gone,
            before=before,
            opened=planned.opened if planned else None,
            done=planned.reconciled if planned else None,
            losses=planned.losses if planned else (),
            refused=planned.refused if planned else (),
            plan=planned.plan if planned else None,
        )

    def refuse(self, cluster: str | None, error: DynamicKafkaError) -> None:
        self.refusals.append(Refusal(cluster, error))
        if cluster is not None:
            self.observed = self.observed.without(cluster)

    def check_identities(self, progress: OffsetDocument) -> None:
        state = self.enumerator.state
        accepted = state.accepted_identities(progress.query) if state and progress.query else {}
        for problem in identity_problems(progress, self.observed.answers, accepted, pending=self.pending_clusters()):
            answer = self.observed.answers.get(problem.cluster)
            saved = saved_identity(progress, problem.cluster)
            if answer is not None and answer.kafka_id and saved not in (None, answer.kafka_id):
                self.swapped[problem.cluster] = answer.kafka_id
            self.refuse(problem.cluster, IdentityError(problem.text))

    def pending_clusters(self) -> dict[str, str]:
        """The clusters that the pending batch is still to read: {the id that metadata has, the id it was saved under}.

        To be asked before `judge_pending` has left anything out.
        """
        saved, amendments = self.saved, self.enumerator.replays.amendments
        ranges = amendments.remaining(saved.ranges(), saved.key) if saved.end is not None else []
        subscription = self.observed.subscription
        return {named_as(subscription, part.split.cluster) or "": part.split.cluster for part in ranges}

    def judge_pending(self) -> tuple[list[SplitRange], Amendment | None]:
        saved = self.saved
        if saved.end is None or self.delivered:
            return [], None
        replays = self.enumerator.replays
        pending = replays.amendments.remaining(saved.ranges(), saved.key)
        # What is refused already does not count as silent.
        judged = [part for part in pending if part.split.cluster not in {each.cluster for each in self.refusals}]
        left_out = None
        try:
            left_out = replays.judge(judged, saved.end, saved.key, self.observed)
        except (IdentityError, DataLossError) as error:
            self.refuse(None, error)
        if left_out is None:
            return pending, None
        refusal = replays.refusal(left_out)
        if refusal is not None:
            self.refusals.append(Refusal(None, refusal))
        if "unreachable" in left_out.reasons.values() and self.options.cluster_failure_policy == "fail":
            # Then nothing is left out: the query fails, as `silent` says, and the range waits.
            kept = tuple(p for p in left_out.left_out if left_out.reasons[p.split.cluster] != "unreachable")
            left_out = replace(left_out, left_out=kept) if kept else None
        return pending, left_out

    def judge_ranges(self, pending: list[SplitRange], left_out: Amendment | None) -> dict[Split, str]:
        out = set(left_out.left_out) if left_out else set()
        gone = find_gone((part for part in pending if part not in out), self.seen)
        if gone and self.options.fail_on_data_loss:
            self.refusals.append(Refusal(None, cannot_be_repeated(gone)))
        return gone

    def seen(self, split: Split) -> TopicObservation | None:
        cluster = named_as(self.observed.subscription, split.cluster)
        answer = self.observed.answers.get(cluster) if cluster else None
        return answer.topics.get(split.topic) if answer else None

    def check_group(self, latest: OffsetDocument) -> None:
        try:
            self.enumerator.check_group(latest, self.observed)
        except (GroupInUseError, StaleCheckpointError) as error:
            self.refusals.append(Refusal(None, error))

    def plan(self, latest: OffsetDocument) -> Planned | None:
        while True:
            try:
                given = replace(self.enumerator.plan_input(latest, self.observed), refuse_losses=False)
                return self.enumerator.plan_once(given, self.observed)
            except RevisionRejectedError as rejected:
                error = rejected.error
            except (ClusterError, OptionError) as raised:
                error = raised
            if not isinstance(error, ClusterError) or error.cluster not in self.observed.answers:
                self.refusals.append(Refusal(None, error))
                return None
            self.refuse(error.cluster, error)
