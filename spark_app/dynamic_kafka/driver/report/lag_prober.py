"""Ask the clusters for the end offsets of their splits, independently of the queries. Driver, in a thread of its own.

A planner reports lag only when it plans. Between plans and during a long batch, only the clusters themselves have the
current end offsets. So the prober asks all of them every ten seconds, each in a thread of its own. Nothing waits for
the prober. It records each round in the `DrainTracker`, which needs more than the latest ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from dynamic_kafka.driver.cluster_clients import ClusterProbes, request_of
from dynamic_kafka.driver.heap_trim import HeapTrimmer
from dynamic_kafka.driver.report.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.kafka.probe import ObservationRequest, collect_observations
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.splits import Split

INTERVAL_S = 10.0
"""The pause between two rounds."""
ANSWER_TIMEOUT_S = 5.0
"""How long a round waits for the clusters."""
METADATA_POLL_S = 1.0
"""How often the metadata is compared between rounds. A new revision starts a round at once, for topics that drain."""

log = logging.getLogger(__name__)


class LagProber:
    """The end offsets of all splits, from the clusters that answered in the last round.

    Args:
        drains: gets the result of each round.
    """

    def __init__(
        self,
        options: SourceOptions,
        discovery: MetadataDiscovery,
        interval_s: float = INTERVAL_S,
        *,
        drains: DrainTracker | None = None,
    ) -> None:
        self._options, self._discovery, self._interval_s = options, discovery, interval_s
        self._drains = drains or DrainTracker()
        self._probes = ClusterProbes(options)
        self._ends: Mapping[Split, int] = {}
        self._named: frozenset[str] = frozenset()
        self._unreachable: Mapping[str, str] = {}
        self._asked: dict[str, tuple[float, frozenset[str]]] = {}
        self._draining: Mapping[str, frozenset[str]] = {}
        self._revision: Revision | None = None
        self._started = False
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the prober's thread, unless it runs already."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="lag-prober", daemon=True).start()

    def stop(self) -> None:
        """Stop the prober. Does not wait for its thread."""
        self._stopped.set()

    def ends(self) -> Mapping[Split, int]:
        """Return the end offsets of the last round. A cluster that did not answer has none, so its lag is unknown."""
        return self._ends

    def named(self) -> frozenset[str]:
        """Return the clusters that metadata named in the last round."""
        return self._named

    def unreachable(self) -> Mapping[str, str]:
        """Return the named clusters whose last answer was an error, with its text. No plan of a query is needed."""
        return self._unreachable

    def _run(self) -> None:
        failing, trim = False, HeapTrimmer()
        while True:
            try:
                self._ends = self._ask()
                failing = False
            except Exception as error:  # after any error: old numbers must not be shown as new ones
                self._ends = {}
                self._drains.record(self._draining, {}, failed=self._draining.keys())
                expected = isinstance(error, DynamicKafkaError)
                if not failing:
                    log.warning("the lag is not known for now: %s", error, exc_info=not expected)
                failing = True
            trim.count_round()
            if not self._wait():
                self._probes.close()
                return

    def _wait(self) -> bool:
        """Wait until the next round is due or metadata has changed; return False when the prober is stopped."""
        due = time.monotonic() + self._interval_s
        while (left := due - time.monotonic()) > METADATA_POLL_S:
            if self._stopped.wait(METADATA_POLL_S):
                return False
            if self._discovery.status().revision != self._revision:
                return True
        return not self._stopped.wait(max(0.0, left))

    def _ask(self) -> dict[Split, int]:
        metadata = self._discovery.current()
        self._revision, subscription = metadata.revision, metadata.subscription
        draining = {name: named.draining for name, named in subscription.clusters.items() if named.draining}
        self._draining = draining
        probes, broken = self._probes.for_subscription(subscription)

        def request(cluster: str) -> ObservationRequest:
            high = draining.get(cluster, frozenset())
            # Set when the request is sent: if an older request is still under way, its time and topics stay.
            self._asked[cluster] = (time.monotonic(), high)
            return request_of(self._options, subscription, cluster, high=high)

        pending = {name: probe.observe(lambda name=name: request(name)) for name, probe in probes.items()}  # type: ignore[misc]
        answers, failures = collect_observations(pending, timeout_s=ANSWER_TIMEOUT_S)
        for cluster in (*answers, *failures):
            probes[cluster].mark_used()
        # A cluster without an answer yet stays as it was: if it hangs, its request takes as long as its client waits.
        unanswered = {c: why for c, why in self._unreachable.items() if c in pending and c not in answers}
        failed = {cluster: str(error) for cluster, error in {**broken, **failures}.items()}
        self._named, self._unreachable = frozenset(subscription.clusters), {**unanswered, **failed}
        answered_s = time.monotonic()
        listings = {
            cluster: ClusterListing(asked_s, answered_s, asked_draining, answers[cluster])
            for cluster, (asked_s, asked_draining) in self._asked.items()
            if cluster in answers
        }
        self._drains.record(draining, listings, failed=failed)
        return {
            Split(cluster, name, partition): end
            for cluster, answer in answers.items()
            for name, topic in answer.topics.items()
            for partition, end in topic.latest.items()
        }
