"""Look at the world: which metadata is in force, and what its clusters answer.

Driver only, owned by the enumerator. It keeps what one look has to do with the next: the connections, which metadata
was found good, which was rejected and when to try it again, and which clusters hang: nobody waits for them twice.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dynamic_kafka.driver.cluster_clients import ClusterProbes, question_of
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.driver.replay import World
from dynamic_kafka.driver.status import PlanStatus, Reminders
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError
from dynamic_kafka.kafka.probe import ClusterProbe, Question, collect_observations
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.revision import described
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.observation import WantedCluster

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


class RevisionRejectedError(Exception):
    """What was observed contradicts what is saved; whether that ends the query depends on who brought it."""

    def __init__(self, error: DynamicKafkaError, observed: Observed) -> None:
        super().__init__(str(error))
        self.error, self.observed = error, observed


def wanted_clusters(subscription: Subscription) -> dict[str, WantedCluster]:
    """What metadata wants, as the planner reads it."""
    return {
        cluster: WantedCluster(named.topics, named.renamed_from) for cluster, named in subscription.clusters.items()
    }


def is_bounded(options: SourceOptions, subscription: Subscription) -> bool:
    """Whether a query that starts now ends by itself: by its options, or because all its clusters have a stop."""
    own = [cluster.stopping_offsets is not None for cluster in subscription.clusters.values()]
    return options.bounded or (bool(own) and all(own))


def starts_elsewhere(options: SourceOptions, subscription: Subscription, cluster: str) -> bool:
    """Whether what a query's first plan misses of a cluster would be found later, and read from another place: from
    its first record."""
    return (subscription.clusters[cluster].starting_offsets or options.starting_for(cluster)).kind != "earliest"


def must_find_all(options: SourceOptions, subscription: Subscription) -> bool:
    """Whether a query's first plan must have all its clusters, whatever the policy: it alone applies `startingOffsets`,
    and in a bounded run it finds all there is to read."""
    elsewhere = any(starts_elsewhere(options, subscription, cluster) for cluster in subscription.clusters)
    return elsewhere or is_bounded(options, subscription)


class Lookout:
    """The metadata in force and its clusters, as one query sees them.

    Making one asks nobody; the first look starts the discovery.
    """

    def __init__(self, options: SourceOptions, status: PlanStatus) -> None:
        self.options, self.status = options, status
        self.met: set[str] = set()
        self._probes = ClusterProbes(options)
        self._discovery: MetadataDiscovery | None = None
        self._found: Discovered | None = None
        self._good: Discovered | None = None
        self._rejected_at: float | None = None
        self._told: tuple[Revision, str] | None = None
        self._frozen = False
        self._opened: set[str] = set()
        self._late: set[str] = set()
        self._reminders = Reminders()
        self._described_at: dict[str, tuple[float, int]] = {}

    def fresh(self, *, initial: bool = False) -> Discovered:
        """The newest metadata that was not rejected. The first call waits for the first look-up.

        Args:
            initial: for a query's first plan: each stream that is subscribed by its id must exist.

        Raises:
            MetadataError: there is none, or more look-ups in a row failed than are tolerated.
        """
        if self._discovery is None:
            for warning in self.options.warnings:
                log.warning("%s", warning)
            discovery = make_discovery(self.options, once=self._frozen)
            discovery.start(refuse_missing=initial)
            self._discovery = discovery
        if initial and self._discovery.deferred_refusal is not None:
            raise self._discovery.deferred_refusal
        if self._frozen and self._found is not None:
            return self._found
        if self._rejected_at is not None and time.monotonic() - self._rejected_at > RECONSIDER_S:
            self._rejected_at = None
            self._discovery.reconsider()
        self._found = self._discovery.current()
        status = self._discovery.status()
        self.status.metadata_failures = status.consecutive_failures
        self.status.rejected, self.status.rejected_token = status.rejected, status.rejected_token
        self.status.missing = status.missing
        revision = self._found.revision
        self.status.revision = revision.hash if revision.counter is None else str(revision.counter)
        self.status.lineage = (revision.lineage or "") if revision.counter is not None else ""
        if self._frozen:
            self._discovery.stop()
        return self._found

    def in_force(self) -> Discovered:
        """The metadata that the batch at hand was planned with, however old that is by now."""
        return self._found or self.fresh()

    def freeze(self) -> None:
        """Look metadata up no more: what is in force, or what the first look finds, stays so until the run ends.

        For runs that end by themselves, bounded ones and those of `Trigger.AvailableNow`: a cluster that was taken out
        in the middle of one would be parked unread, and the run would say that it has read everything.
        """
        self._frozen = True
        if self._discovery is not None and self._found is not None:
            self._discovery.stop()

    def reject(self, observed: Observed, reason: str) -> bool:
        """Put the last good metadata in force again; False if there is none, or the one rejected was good before."""
        if self._frozen or self._discovery is None or self._good is None or not observed.new_revision:
            return False
        self._discovery.reject(observed.found, reason, keep=self._good)
        self._rejected_at = time.monotonic()
        return True

    def adopt(self, observed: Observed) -> None:
        """A plan was made with this look: its clusters are opened, its metadata is something to go back to."""
        told = (observed.found.revision, observed.subscription.fingerprint)
        if told != self._told:
            clusters = ", ".join(observed.subscription.clusters) or "none"
            log.info("metadata %s is in force; clusters: %s", described(observed.found.revision), clusters)
            self._told = told
        # Only now, not with a look that a replay or `Trigger.AvailableNow` made: their first offsets judged no split.
        self._opened |= observed.answers.keys()
        self.met |= observed.answers.keys()
        # Good is what all clusters answered to. Under `stall` one may be away from the start: what the others were read
        # by is what there is to go back to, then.
        if self._good is None or len(observed.answers) == len(observed.subscription.clusters):
            self._good = observed.found

    def stop(self) -> None:
        """End discovery and drop the clients. Never waits for a cluster or a metadata service."""
        if self._discovery is not None:
            self._discovery.stop()
        self._probes.close()

    def wait_closed(self) -> None:
        """Wait, as long as the caller's thread may, until the metadata service has been closed."""
        if self._discovery is not None:
            self._discovery.closed.wait()

    def look(self, *, initial: bool = False, everyone: bool = False) -> Observed:
        """Ask all clusters that metadata names at once, and wait a little for the slower ones.

        Args:
            initial: for a query's first plan, which may have to find all there is (`must_find_all`).
            everyone: wait until each cluster has answered or failed; each must answer, whatever the policy.

        Raises:
            DynamicKafkaError: under `clusterFailurePolicy=fail`, the failure of a cluster.
            RevisionRejectedError: under `fail`, while running: metadata brought what cannot be used here.
        """
        found = self.fresh(initial=initial)
        subscription = found.subscription
        bounded = initial and is_bounded(self.options, subscription)
        if bounded:
            self.freeze()
        probes, broken = self._probes.for_subscription(subscription)
        unusable = self._brought(broken, subscription) if self.options.cluster_failure_policy == "fail" else {}
        if unusable:
            raise RevisionRejectedError(_as_one(unusable), Observed(subscription, {}, found, probes, True))
        pending = {
            cluster: probe.observe(functools.partial(self._question, subscription, cluster))
            for cluster, probe in probes.items()
        }
        first = self._good is None
        needed = initial and must_find_all(self.options, subscription)
        everyone = everyone or needed or (first and self.options.cluster_failure_policy == "fail")
        # Each hanging cluster is waited for once, and then no more until it has answered, unless it must.
        known = set() if everyone else {*self.status.stalled, *self._late}
        patient = {cluster: future for cluster, future in pending.items() if cluster not in known}
        collect_observations(patient, timeout_s=None if everyone else FIRST_GRACE_S if first else GRACE_S)
        answers, failures = collect_observations(pending, timeout_s=0)
        self._late = pending.keys() - answers.keys() - failures.keys()
        for cluster in (*answers, *failures):
            probes[cluster].mark_used()
            if cluster in answers and self.status.stalled.pop(cluster, None) is not None:
                log.warning("cluster %s answers again", cluster)
        # A cluster that failed is opened anew when it is back: its log may have moved on meanwhile.
        self._opened = (self._opened - failures.keys()) & subscription.clusters.keys()
        if everyone and (broken or failures):
            raise self.explained({**broken, **failures})
        for gone in self.status.stalled.keys() - subscription.clusters.keys():
            del self.status.stalled[gone]
        self.judge({**broken, **failures})
        self._reminders.check(self.status.stalled)
        new_revision = self._good is None or self._good.subscription.fingerprint != subscription.fingerprint
        return Observed(subscription, answers, found, probes, new_revision)

    def _brought(
        self, broken: Mapping[str, DynamicKafkaError], subscription: Subscription
    ) -> Mapping[str, DynamicKafkaError]:
        """The clusters whose properties do not resolve, and that the last good metadata did not have so: a Secret that
        is not mounted until the next restart must not end what runs."""
        if self._good is None:
            return {}
        good = self._good.subscription.clusters
        return {
            cluster: error
            for cluster, error in broken.items()
            if cluster not in good or _access(good[cluster]) != _access(subscription.clusters[cluster])
        }

    def judge(self, failures: Mapping[str, DynamicKafkaError]) -> None:
        """Under `fail`, raise the failures as one error; under `stall`, note them."""
        if failures and self.options.cluster_failure_policy == "fail":
            raise self.explained(failures)
        for cluster, error in failures.items():
            if cluster not in self.status.stalled:
                log.warning("cluster %s is stalled, the others are read on: %s", cluster, error)
            self.status.stalled[cluster] = str(error)

    def explained(self, failures: Mapping[str, DynamicKafkaError]) -> DynamicKafkaError:
        """Failures that end the query as one error, with what to do."""
        error = _as_one(failures)
        return with_choices(error, failures, self.options, self._found.subscription) if self._found else error

    def _question(self, subscription: Subscription, cluster: str) -> Question:
        now, sequence = time.monotonic(), self.in_force().sequence
        at, seen = self._described_at.get(cluster, (0.0, -1))
        interval = self.options.partition_discovery_interval_ms
        if interval is None:
            interval = self.options.metadata_discovery_interval_ms
            describe_now = sequence != seen or (interval > 0 and now - at >= interval / 1000)
        else:
            describe_now = seen < 0 or (interval > 0 and now - at >= interval / 1000)
        if describe_now:
            self._described_at[cluster] = (now, sequence)
        # First offsets are looked at when a cluster is opened; later on executors notice what has expired.
        opens = cluster not in self._opened
        return question_of(self.options, subscription, cluster, earliest=opens, describe=describe_now)


def _access(named: SubscribedCluster) -> tuple[Mapping[str, str], str | None]:
    return named.properties, named.secret_folder


def with_choices(
    error: DynamicKafkaError, failed: Iterable[str], options: SourceOptions, subscription: Subscription
) -> DynamicKafkaError:
    """An error with which servers were asked and what to do about clusters that do not answer; others as they are.

    Args:
        failed: the clusters that it is about.
    """
    if not isinstance(error, ClusterUnreachableError):
        return error
    asked = {
        cluster: {**options.kafka_properties, **subscription.clusters[cluster].properties}.get("bootstrap.servers")
        for cluster in failed
        if cluster in subscription.clusters
    }
    servers = "; ".join(f"{cluster} has the bootstrap servers {found}" for cluster, found in asked.items())
    told = [f"{error.message}. {servers}. Put a wrong address right, or bring the cluster back"]
    if options.single is None:
        told.append("or take it out of the metadata: its offsets are kept for removedClusterRetention")
        if options.cluster_failure_policy == "fail":
            told.append(
                "or set clusterFailurePolicy=stall (with stateLocation): the others are read on, and a pending batch"
                " leaves its ranges out by itself"
            )
    return type(error)(error.cluster, ", ".join(told))


def _as_one(failures: Mapping[str, DynamicKafkaError]) -> DynamicKafkaError:
    """The first failure, whose kind decides what the application does, with all the other clusters named in it."""
    (_, first), *others = failures.items()
    if not others:
        return first
    # Without their codes: there is one code in an error, at its head.
    told = [f"{cluster}: {error.message if isinstance(error, ClusterError) else error}" for cluster, error in others]
    more = f". Further clusters failed: {'; '.join(told)}"
    if isinstance(first, ClusterError):
        return type(first)(first.cluster, first.message + more)
    return type(first)(f"{first}{more}")
