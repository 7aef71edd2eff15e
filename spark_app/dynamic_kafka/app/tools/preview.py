"""Preview the next start of a query: observe metadata and clusters, plan a batch, and write nothing. Tools only.

The code of the query itself decides (`planning.plan`, `Replays.judge`, `Enumerator`), but without its effects. Errors
that would end the query are collected instead, so that one run reports all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dynamic_kafka.app.tools.announced_waits import announced_waits
from dynamic_kafka.app.tools.saved_query import SavedProgress
from dynamic_kafka.driver.changed_topics import standing_verdicts
from dynamic_kafka.driver.cluster_clients import ClusterProbes, request_of
from dynamic_kafka.driver.cluster_failures import with_choices
from dynamic_kafka.driver.enumerator import Enumerator
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.errors import (
    ClusterError,
    DataLossError,
    DynamicKafkaError,
    GroupInUseError,
    IdentityError,
    OptionError,
    SecretWithheldError,
    StaleCheckpointError,
    StateMismatchError,
    TopicIntegrityError,
)
from dynamic_kafka.kafka.probe import collect_observations
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import Plan
from dynamic_kafka.planning.awaited import must_answer, never_read
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.dataloss import DataLoss
from dynamic_kafka.planning.observation import TopicObservation, observed_topic
from dynamic_kafka.planning.plan import Planned
from dynamic_kafka.planning.reconcile import Reconciled
from dynamic_kafka.planning.sameness.cluster_renames import carry_over, current_ids
from dynamic_kafka.planning.sameness.identity import identity_problems, saved_identity
from dynamic_kafka.planning.sameness.integrity import TopicChange, changes_of, integrity_error
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.wording import tool_command


@dataclass(frozen=True)
class Refusal:
    """An error that would end the query, or reject the metadata.

    Attributes:
        cluster: None if the error is not about one cluster.
    """

    cluster: str | None
    error: DynamicKafkaError


@dataclass(frozen=True)
class Preview:
    """The preview of the next start.

    Attributes:
        observed: the observation that it follows from, without the answers of refused clusters.
        silent: {cluster: error} of clusters that do not answer; `fatal` are those of them whose failure ends a start.
        refusals: errors that would refuse the start, except data losses.
        answering: {cluster: Kafka `cluster.id` of the servers that answer now}; None where they send no id.
        swapped: those ids that are neither the saved nor an accepted one.
        pending: the ranges of the pending batch that a replay would still read.
        left_out: the ranges of it that a restart would leave out, with the reasons by cluster; None if there are none.
        unreadable: {split: reason} of those ranges whose records are gone.
        before: the progress from which the plan starts, after the pending batch and with amendments.
        opened: the progress with new splits opened; None if no plan could be made.
        reconciled: the progress in line with metadata, and the splits that are new; None if no plan could be made.
        losses: data losses; `refused` are those that no user accepted.
        plan: the next document; None if no plan could be made.
        changed: the topics that would end the query for good (`planning.sameness.integrity`).
    """

    observed: LiveObservation
    silent: Mapping[str, DynamicKafkaError]
    refusals: tuple[Refusal, ...]
    answering: Mapping[str, str | None]
    swapped: Mapping[str, str]
    pending: tuple[SplitRange, ...]
    left_out: Amendment | None
    before: OffsetDocument
    unreadable: Mapping[Split, str] = field(default_factory=dict)
    opened: OffsetDocument | None = None
    reconciled: Reconciled | None = None
    losses: tuple[DataLoss, ...] = ()
    refused: tuple[DataLoss, ...] = ()
    plan: Plan | None = None
    changed: tuple[TopicChange, ...] = ()

    @property
    def fatal(self) -> Mapping[str, DynamicKafkaError]:
        """The silent clusters without which the query does not start; the others are stalled, or awaited."""
        return {cluster: error for cluster, error in self.silent.items() if cluster in self.observed.required}


def preview(options: SourceOptions, saved: SavedProgress, *, delivered: bool = False) -> Preview:
    """Read the metadata, ask the clusters, and plan.

    Args:
        saved: the saved progress; `nothing_saved()` for a query that starts anew.
        delivered: whether the sink has the pending batch, so that none of it is read again.

    Raises:
        MetadataError: there is no valid metadata.
    """
    enumerator = Enumerator(options)
    probes = ClusterProbes(options)
    try:
        observed, silent = _observe(options, probes, saved.latest)
        return _PreviewRun(options, enumerator, saved, observed, silent, delivered=delivered).run()
    finally:
        probes.close()
        enumerator.stop()


def _observe(
    options: SourceOptions, probes: ClusterProbes, progress: OffsetDocument
) -> tuple[LiveObservation, dict[str, DynamicKafkaError]]:
    """Ask all clusters and wait for all; return the observation, and the errors of clusters without an answer."""
    discovery = make_discovery(options)
    discovery.start(refuse_missing=progress.is_initial)
    metadata = discovery.current()
    discovery.stop()
    subscription = metadata.subscription
    made, broken = probes.for_subscription(subscription)
    pending = {}
    for cluster, probe in made.items():
        # Ask for high watermarks too, since records after the start of an open transaction are not gone.
        high = frozenset(subscription.clusters[cluster].topics)
        request = partial(request_of, options, subscription, cluster, earliest=True, high=high)
        pending[cluster] = probe.observe(request)
    with announced_waits(pending):
        answers, failures = collect_observations(pending, timeout_s=None)
    silent = {name: with_choices(error, [name], options, subscription) for name, error in failures.items()}
    required, new = must_answer(options, subscription, progress), never_read(progress, subscription.clusters)
    observed = LiveObservation(subscription, answers, metadata, made, True, required, new)
    return observed, {**broken, **silent}


@dataclass
class _PreviewRun:
    """One call of `preview`, with its results so far."""

    options: SourceOptions
    enumerator: Enumerator
    saved: SavedProgress
    observed: LiveObservation
    silent: dict[str, DynamicKafkaError]
    delivered: bool
    refusals: list[Refusal] = field(default_factory=list)
    swapped: dict[str, str] = field(default_factory=dict)
    changed: dict[tuple[str, str, str, str], TopicChange] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The id that metadata has now for each saved cluster, refused or not.
        self.current_ids = current_ids(self.saved.latest, self.observed)

    def run(self) -> Preview:
        latest = self.saved.latest
        replays = self.enumerator.replays
        answering = {cluster: answer.kafka_id for cluster, answer in self.observed.answers.items()}
        for cluster, error in self.silent.items():
            if isinstance(error, SecretWithheldError):
                self.refuse(cluster, error)  # the start is refused under either policy
        self.silent = {name: error for name, error in self.silent.items() if not isinstance(error, SecretWithheldError)}
        try:
            replays.restore(latest)
        except (StaleCheckpointError, StateMismatchError) as error:
            self.refuse(None, error)
        clusters = self.observed.subscription.clusters
        self.check_identities(carry_over(latest.settled(), clusters, self.observed.answers)[0])
        pending, left_out = self.judge_pending()
        unreadable = self.find_unreadable(pending, left_out)
        if left_out is not None:
            replays.amendments.add(left_out)
        before = replays.amendments.after(latest)
        planned = self.plan(latest)
        if planned is not None:
            self.changed |= {change.key: change for change in planned.changed}
        state, subscription = self.enumerator.state, self.observed.subscription
        standing, _ = standing_verdicts(state, latest, self.options, lambda: subscription, self.have_ids)
        self.changed |= {change.key: change for change in standing}
        if self.changed:
            self.refuse(None, integrity_error(self.changed.values()))
        # The application compares the group with the last committed batch; a pending batch has no commits there yet.
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
            unreadable=unreadable,
            before=before,
            opened=planned.opened if planned else None,
            reconciled=planned.reconciled if planned else None,
            losses=planned.losses if planned else (),
            refused=planned.refused if planned else (),
            plan=planned.plan if planned else None,
            changed=tuple(sorted(self.changed.values())),
        )

    def have_ids(self, ids: Mapping[tuple[str, str], str], _: object) -> frozenset[tuple[str, str]]:
        seen = {key: observed_topic(self.observed.answers, *key) for key in ids}
        return frozenset(key for key, topic in seen.items() if topic is not None and topic.topic_id == ids[key])

    def refuse(self, cluster: str | None, error: DynamicKafkaError) -> None:
        self.refusals.append(Refusal(cluster, error))
        if cluster is not None:
            self.observed = self.observed.without(cluster)

    def check_identities(self, progress: OffsetDocument) -> None:
        state = self.enumerator.state
        accepted = state.accepted_identities(progress) if state else {}
        for problem in identity_problems(progress, self.observed.answers, accepted, pending=self.pending_clusters()):
            answer = self.observed.answers.get(problem.cluster)
            saved = saved_identity(progress, problem.cluster)
            if answer is not None and answer.kafka_id and saved not in (None, answer.kafka_id):
                self.swapped[problem.cluster] = answer.kafka_id
            self.refuse(problem.cluster, IdentityError(problem.text))

    def pending_clusters(self) -> dict[str, str]:
        """Return the clusters that a replay would still read: {id in the metadata: saved id}.

        Call it before `judge_pending` leaves ranges out.
        """
        saved, amendments = self.saved, self.enumerator.replays.amendments
        ranges = amendments.remaining(saved.ranges(), saved.key) if saved.end is not None else []
        return {self.current_ids.get(part.split.cluster, ""): part.split.cluster for part in ranges}

    def judge_pending(self) -> tuple[list[SplitRange], Amendment | None]:
        saved = self.saved
        if saved.end is None or self.delivered:
            return [], None
        replays = self.enumerator.replays
        pending = replays.amendments.remaining(saved.ranges(), saved.key)
        # Refused clusters have no answers any more, but must not be judged as silent.
        refused = {refusal.cluster for refusal in self.refusals if refusal.cluster}
        judged = [part for part in pending if self.current_ids.get(part.split.cluster) not in refused]
        left_out = None
        try:
            left_out = replays.judge(judged, saved.end, saved.key, self.observed)
        except TopicIntegrityError as error:
            self.changed |= {change.key: change for change in changes_of(error)}
        except (IdentityError, DataLossError, ClusterError) as error:
            self.refuse(None, error)
        if left_out is None:
            return pending, None
        refusal = replays.refusal(left_out)
        if refusal is not None:
            self.refusals.append(Refusal(None, refusal))
        if "unreachable" in left_out.reasons.values() and self.options.cluster_failure_policy == "fail":
            # Under `fail` these ranges are not left out: the query fails, with the error in `silent`.
            kept = tuple(p for p in left_out.left_out if left_out.reasons[p.split.cluster] != "unreachable")
            left_out = replace(left_out, left_out=kept) if kept else None
        return pending, left_out

    def find_unreadable(self, pending: list[SplitRange], left_out: Amendment | None) -> dict[Split, str]:
        skipped = set(left_out.left_out) if left_out else set()
        unreadable = find_unreadable((part for part in pending if part not in skipped), self.topic_of)
        if unreadable and self.options.fail_on_data_loss:
            self.refusals.append(Refusal(None, unreadable_error(unreadable)))
        return unreadable

    def topic_of(self, split: Split) -> TopicObservation | None:
        cluster = self.current_ids.get(split.cluster)
        return observed_topic(self.observed.answers, cluster, split.topic) if cluster else None

    def check_group(self, latest: OffsetDocument) -> None:
        try:
            self.enumerator.group_check.check(latest, self.observed)
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


# -- unreadable ranges ------------------------------------------------------------------------------------------


def find_unreadable(
    ranges: Iterable[SplitRange], topic_of: Callable[[Split], TopicObservation | None]
) -> dict[Split, str]:
    """Return the splits whose ranges cannot be read as they were planned, each with the reason.

    Args:
        topic_of: returns what a split's cluster answered about its topic, with first offsets and high watermarks; None
            if it did not answer.
    """
    unreadable: dict[Split, str] = {}
    for part in ranges:
        topic = topic_of(part.split)
        if topic is None:
            continue
        partition = part.split.partition
        # With `read_committed`, `latest` is the start of the first open transaction, and records after it still exist.
        first, end = topic.earliest.get(partition), topic.high.get(partition, topic.latest.get(partition))
        if first is not None and part.start < first:
            unreadable[part.split] = f"records {part.start}..{min(first, part.end)} have expired"
        elif end is not None and end < part.end:
            unreadable[part.split] = f"records {max(end, part.start)}..{part.end} are gone: the log ends at {end}"
    return unreadable


def unreadable_error(unreadable: Mapping[Split, str]) -> DataLossError:
    """Return the error of a restart, with the two commands for each split that let the query continue."""
    steps = []
    for split, reason in unreadable.items():
        name = "/".join(map(str, split))
        abandon, accept = tool_command("abandon", name), tool_command("accept", name, flag="--data-loss")
        steps.append(f"{name}: {reason}: abandon the range with {abandon}, then accept the loss with {accept}")
    return DataLossError(f"the pending batch cannot be read again, unless its records are restored: {'; '.join(steps)}")
