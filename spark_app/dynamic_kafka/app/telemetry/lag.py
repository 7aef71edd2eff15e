"""How far each split's end is ahead, asked beside the queries. Driver; a thread of its own, which nothing waits for.

The planner tells the lag of a cluster when it plans. Between plans, during a long batch or while a cluster is parked,
only the clusters themselves know: they are asked every ten seconds, all at once, each in its own thread. Of topics that
drain more has to be known than the latest ends: `drain_tracker.py` keeps it, and hears of every round.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from dynamic_kafka.app.telemetry.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.driver.cluster_clients import ClusterProbes, question_of
from dynamic_kafka.driver.heap_trim import HeapTrimmer
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.kafka.probe import Question, collect_observations
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.splits import Split

INTERVAL_S = 10.0
PATIENCE_S = 5.0
LOOK_S = 1.0
"""How often metadata is looked at in between: what drains from now on is asked for at once."""

log = logging.getLogger(__name__)


class LagProber:
    """Knows the end offsets of all splits of the clusters that answered last.

    Args:
        drains: hears what came of each round.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        options: SourceOptions,
        discovery: MetadataDiscovery,
        interval_s: float = INTERVAL_S,
        *,
        drains: DrainTracker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._discovery, self._interval_s = options, discovery, interval_s
        self._drains, self._clock = drains or DrainTracker(), clock
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
        """Begin asking, unless that was done before."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="lag-prober", daemon=True).start()

    def stop(self) -> None:
        """Stop asking. Waits for nobody."""
        self._stopped.set()

    def ends(self) -> Mapping[Split, int]:
        """The ends that were found last. A cluster that did not answer has none: its lag is not known."""
        return self._ends

    def named(self) -> frozenset[str]:
        """The clusters that metadata named when they were last asked."""
        return self._named

    def unreachable(self) -> Mapping[str, str]:
        """Those of them whose last answer was an error, with its text: whether or not a query plans meanwhile."""
        return self._unreachable

    def _run(self) -> None:
        failing, trim = False, HeapTrimmer()
        while True:
            try:
                self._ends = self._ask()
                failing = False
            except Exception as error:  # whatever it is: old numbers must not go on to look like new ones
                self._ends = {}
                self._drains.take(self._draining, {}, failed=self._draining.keys())
                expected = isinstance(error, DynamicKafkaError)
                if not failing:
                    log.warning("the lag is not known for now: %s", error, exc_info=not expected)
                failing = True
            trim.count_round()
            if not self._wait():
                self._probes.close()
                return

    def _wait(self) -> bool:
        """Until the next round is due, or metadata has changed. False when stopped."""
        due = time.monotonic() + self._interval_s
        while (left := due - time.monotonic()) > LOOK_S:
            if self._stopped.wait(LOOK_S):
                return False
            if self._discovery.status().revision != self._revision:
                return True
        return not self._stopped.wait(max(0.0, left))

    def _ask(self) -> dict[Split, int]:
        found = self._discovery.current()
        self._revision, subscription = found.revision, found.subscription
        draining = {name: named.draining for name, named in subscription.clusters.items() if named.draining}
        self._draining = draining
        probes, broken = self._probes.for_subscription(subscription)

        def question(cluster: str) -> Question:
            high = draining.get(cluster, frozenset())
            # Only when it is asked: a question that is still under way is an older one.
            self._asked[cluster] = (self._clock(), high)
            return question_of(self._options, subscription, cluster, high=high)

        pending = {name: probe.observe(lambda name=name: question(name)) for name, probe in probes.items()}  # type: ignore[misc]
        answers, failures = collect_observations(pending, timeout_s=PATIENCE_S)
        for cluster in (*answers, *failures):
            probes[cluster].mark_used()
        # Who is still thinking is what it was before: a cluster that hangs is asked for as long as its client waits.
        thinking = {c: why for c, why in self._unreachable.items() if c in pending and c not in answers}
        failed = {cluster: str(error) for cluster, error in {**broken, **failures}.items()}
        self._named, self._unreachable = frozenset(subscription.clusters), {**thinking, **failed}
        answered_s = self._clock()
        listings = {
            cluster: ClusterListing(asked_s, answered_s, asked_draining, answers[cluster])
            for cluster, (asked_s, asked_draining) in self._asked.items()
            if cluster in answers
        }
        self._drains.take(draining, listings, failed=failed)
        return {
            Split(cluster, name, partition): end
            for cluster, answer in answers.items()
            for name, topic in answer.topics.items()
            for partition, end in topic.latest.items()
        }
