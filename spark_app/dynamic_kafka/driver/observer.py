"""The metadata in force and the answers of its clusters, observed once per plan. Driver; owned by the enumerator.

`Observer.observe` is the main call, for each plan and each replay: it asks all clusters of the newest metadata at once,
and waits a little. After a plan the enumerator calls `adopt` (it succeeded), `reject` (the metadata does not fit its
clusters) or `note_failures` (a cluster failed meanwhile). `freeze` keeps the metadata of a run that ends by itself.

It keeps what one observation needs from the last: the connections, the last good metadata, when to retry rejected
metadata, and which clusters hang, so that no plan waits for them twice.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from dynamic_kafka.driver.cluster_clients import ClusterProbes, request_of
from dynamic_kafka.driver.cluster_failures import as_one_error, servers_of, with_choices
from dynamic_kafka.driver.grace import FIRST_GRACE_S, GRACE_S, grace_s
from dynamic_kafka.driver.live_observation import LiveObservation
from dynamic_kafka.driver.metadata_services import NEWER, make_discovery, newer_than
from dynamic_kafka.driver.status import NO_ANSWER_YET, NOT_ACTIVE, PlanStatus
from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError, SecretWithheldError
from dynamic_kafka.kafka.probe import ObservationRequest, collect_observations
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.discovery_state import Discovered
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.revision import described
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.awaited import must_answer, never_read
from dynamic_kafka.planning.checks import RevisionRejectedError
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.planning.starting import is_bounded

RECONSIDER_S = 30.0
"""Seconds between retries of rejected metadata: a missing topic may be created, wrong servers may be corrected."""

log = logging.getLogger(__name__)


class Observer:
    """Observes the metadata and clusters of one query.

    Creating one does no I/O; the first observation starts the discovery.

    Attributes:
        read_before: the clusters that an earlier plan of this process used.
    """

    def __init__(self, options: SourceOptions, status: PlanStatus) -> None:
        self.options, self.status = options, status
        self.read_before: set[str] = set()
        self._probes = ClusterProbes(options)
        self._discovery: MetadataDiscovery | None = None
        self._found: Discovered | None = None
        self._good: Discovered | None = None
        self._planned: Discovered | None = None
        self._planned_before: Discovered | None = None
        self._rejected_at: float | None = None
        self._logged_revision: tuple[Revision, str] | None = None
        self._frozen = False
        self._opened: set[str] = set()
        self._late: set[str] = set()
        self._described_at: dict[str, tuple[float, int]] = {}

    def observe(self, progress: OffsetDocument | None, *, everyone: bool = False) -> LiveObservation:
        """Ask all clusters that metadata names at once, and wait a little for the slower ones.

        Args:
            progress: the query's progress, which decides which clusters must answer (`must_answer`). None if it is not
                known yet: then a failure is left to the next observation.
            everyone: each cluster must answer, whatever the policy.

        Raises:
            DynamicKafkaError: the failure of a cluster that must answer.
            SecretWithheldError: at the start: metadata would send a secret to a server that is not allowed.
            RevisionRejectedError: while running: new metadata would do that, or, under `fail`, brought a cluster that
                cannot be used.
        """
        initial = progress is not None and progress.is_initial
        metadata = self.newest_metadata(initial=initial)
        subscription = metadata.subscription
        if initial and is_bounded(self.options, subscription):
            self.freeze()
        probes, broken = self._probes.for_subscription(subscription)
        self._refuse_unusable(broken, subscription)
        required = new = frozenset[str]()
        if progress is not None:
            new = never_read(progress, subscription.clusters)
            required = must_answer(self.options, subscription, progress, everyone=everyone)
        pending = {c: probe.observe(functools.partial(self._request, subscription, c)) for c, probe in probes.items()}
        first = self._good is None
        answers, failures = self._wait(pending, required if everyone or first or initial else frozenset(), progress)
        for cluster in (*answers, *(failures if progress is not None else ())):
            probes[cluster].mark_used()
            if cluster in answers and self.status.stalled.pop(cluster, None) is not None:
                log.warning("cluster %s answers %s", cluster, "now" if cluster in new else "again")
        # A cluster that failed is opened again when it is back: records may have expired meanwhile.
        self._opened = (self._opened - failures.keys()) & subscription.clusters.keys()
        observed = LiveObservation(subscription, answers, metadata, probes, self._is_new(metadata), required, new)
        if progress is not None:
            silent = {c: ClusterUnreachableError(c, NO_ANSWER_YET) for c in self._late & new} if first else {}
            if self.note_failures({**silent, **broken, **failures}, observed):
                return self.observe(progress, everyone=everyone)
            self.status.unanswered = new & self._late - self.status.stalled.keys()
        return observed

    def adopt(self, observed: LiveObservation) -> None:
        """Record that a plan succeeded with this observation: its clusters are open, and its metadata may be good."""
        revision = (observed.discovered.revision, observed.subscription.fingerprint)
        if revision != self._logged_revision:
            clusters = ", ".join(observed.subscription.clusters) or "none"
            log.info("metadata %s is in force; clusters: %s", described(observed.discovered.revision), clusters)
            self._logged_revision = revision
        # Only a plan compares splits with the first offsets of an observation. After the observation of a replay or of
        # `Trigger.AvailableNow`, the next plan must ask for first offsets again.
        self._opened |= observed.answers.keys()
        self.read_before |= observed.answers.keys()
        if self._planned is None or not self._planned.agrees_with(observed.discovered):
            self._planned_before = self._planned
        self._planned = observed.discovered
        # Metadata is good once all clusters have answered. One may be down from the start: then the metadata with which
        # the others are read is the one to go back to.
        if self._good is None or len(observed.answers) == len(observed.subscription.clusters):
            self._good = observed.discovered

    def reject(self, reason: str) -> bool:
        """Put the last other metadata in force again: those of a plan, or else the last good ones.

        A plan may have succeeded with the rejected metadata, because the cluster that they name wrongly was slow.

        Returns:
            False if there is no other: the rejected metadata is the last good one, or the first, or frozen.
        """
        if self._frozen or self._discovery is None or self._found is None or self._good is None:
            return False
        if not self._is_new(self._found):
            return False
        planned = (metadata for metadata in (self._planned, self._planned_before) if metadata is not None)
        keep = next((metadata for metadata in planned if not metadata.agrees_with(self._found)), self._good)
        self._discovery.reject(self._found, reason, keep=keep)
        self._planned, self._planned_before = keep, None
        self._rejected_at = time.monotonic()
        return True

    def look_again(self) -> bool:
        """Look the metadata up now, with what was rejected; return False if they stay as they are in this run."""
        if self._frozen or self._discovery is None:
            return False
        self._discovery.reconsider()
        self._discovery.refresh()
        return True

    def incomplete_metadata(self) -> str:
        """Look metadata up now, and return why they may name more than those in force do; empty if they do not."""
        metadata = self.in_force()
        if self._discovery is None or self._frozen or not self.options.metadata_discovery_interval_ms:
            return newer_than(metadata, self.options)
        self._discovery.refresh()
        return NEWER if not metadata.agrees_with(self.newest_metadata()) else self.status.incomplete_metadata

    def note_failures(self, failures: Mapping[str, DynamicKafkaError], observed: LiveObservation) -> bool:
        """Report failed clusters, as stalled or as never reached; return whether newer metadata came into force.

        One that must answer does not end the query if metadata, asked anew, says that it is not active any more.

        Raises:
            DynamicKafkaError: one of them must answer; the error names all that must and failed.
        """
        fatal = {cluster: error for cluster, error in failures.items() if cluster in observed.required}
        inactive = self._no_longer_active(fatal)
        if fatal.keys() - inactive:
            raise self.explained({cluster: error for cluster, error in fatal.items() if cluster not in inactive})
        if inactive and not observed.discovered.agrees_with(self.newest_metadata()):
            return True
        causes = {c: f"{NOT_ACTIVE}; {error}" if c in inactive else str(error) for c, error in failures.items()}
        for new in failures.keys() & observed.never_read:
            causes[new] += f"; {servers_of([new], self.options, observed.subscription)}"
        self.status.note_silent(causes, observed.subscription.clusters, observed.never_read)
        return False

    def _no_longer_active(self, failed: Collection[str]) -> frozenset[str]:
        """Ask metadata which of the failed clusters are not active any more; not if it is looked up only once."""
        asks = failed and self.options.metadata_discovery_interval_ms > 0 and not self._frozen
        return self._discovery.refresh(failed) if asks and self._discovery is not None else frozenset()

    def explained(self, failures: Mapping[str, DynamicKafkaError]) -> DynamicKafkaError:
        """Return the failures that end the query as one error, with advice."""
        error = as_one_error(failures)
        return with_choices(error, failures, self.options, self._found.subscription) if self._found else error

    def newest_metadata(self, *, initial: bool = False) -> Discovered:
        """Return the newest metadata that was not rejected. The first call waits for the first lookup.

        Args:
            initial: for a query's first plan: each stream that is subscribed by its id must exist.

        Raises:
            MetadataError: there is none, or more lookups in a row failed than are tolerated.
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
        self.status.note_metadata(self._found.revision, self._discovery.status())
        if self._frozen:
            self._discovery.stop()
        return self._found

    def in_force(self) -> Discovered:
        """Return the metadata that the current batch was planned with, however old it is by now."""
        return self._found or self.newest_metadata()

    def freeze(self) -> None:
        """Stop looking metadata up: the metadata in force, or that of the first lookup, stays until the run ends.

        This is for runs that end by themselves: bounded runs and those of `Trigger.AvailableNow`. A cluster that is
        removed in the middle of one would be parked unread, and the run would report that it has read everything.
        """
        self._frozen = True
        if self._discovery is not None and self._found is not None:
            self._discovery.stop()

    def stop(self) -> None:
        """End discovery and drop the clients. Never waits for a cluster or a metadata service."""
        if self._discovery is not None:
            self._discovery.stop()
        self._probes.close()

    def wait_closed(self) -> None:
        """Wait, as long as the caller's thread may, until the metadata service has been closed."""
        if self._discovery is not None:
            self._discovery.closed.wait()

    def _refuse_unusable(self, broken: Mapping[str, DynamicKafkaError], subscription: Subscription) -> None:
        """Refuse a revision with unusable properties that the last plan did not have in this form.

        One that would misdirect a secret is refused under either policy, others under `fail`.
        """
        withheld = {cluster: error for cluster, error in broken.items() if isinstance(error, SecretWithheldError)}
        if withheld and self._good is None:
            raise as_one_error(withheld)
        # If a Secret is not mounted before the next restart, its revision must not end the running query.
        planned = self._planned.subscription.clusters if self._planned is not None else subscription.clusters
        unusable = {
            cluster: error
            for cluster, error in (broken if self.options.cluster_failure_policy == "fail" else withheld).items()
            if cluster not in planned or planned[cluster].access != subscription.clusters[cluster].access
        }
        if unusable:
            raise RevisionRejectedError(as_one_error(unusable))

    def _request(self, subscription: Subscription, cluster: str) -> ObservationRequest:
        now, sequence = time.monotonic(), self.in_force().sequence
        at, seen = self._described_at.get(cluster, (0.0, -1))
        own = self.options.partition_discovery_interval_ms
        interval = self.options.metadata_discovery_interval_ms if own is None else own
        due = interval > 0 and now - at >= interval / 1000
        describe_now = due or (sequence != seen if own is None else seen < 0)
        if describe_now:
            self._described_at[cluster] = (now, sequence)
        # First offsets are fetched when a cluster is opened; later, executors notice records that have expired.
        opens, idle = cluster not in self._opened, self.status.lag.get(cluster) == 0
        return request_of(self.options, subscription, cluster, earliest=opens, describe=describe_now, idle=idle)

    def _wait(
        self,
        pending: Mapping[str, Future[ClusterObservation]],
        required: frozenset[str],
        progress: OffsetDocument | None,
    ) -> tuple[dict[str, ClusterObservation], dict[str, ClusterError]]:
        """Return the answers and failures of the required clusters, and those that are there after the time of grace.

        A plan waits once for each hanging cluster, and not again until it has answered, unless it must.
        """
        collect_observations({c: future for c, future in pending.items() if c in required}, timeout_s=None)
        hanging = {*self.status.stalled, *self._late} - required
        patient = {cluster: future for cluster, future in pending.items() if cluster not in hanging}
        least_s = FIRST_GRACE_S if self._good is None else GRACE_S
        collect_observations(patient, timeout_s=grace_s(least_s, progress, patient))
        answers, failures = collect_observations(pending, timeout_s=0)
        self._late = pending.keys() - answers.keys() - failures.keys()
        return answers, failures

    def _is_new(self, metadata: Discovered) -> bool:
        return self._good is None or not self._good.agrees_with(metadata)
