"""How far each split's end is ahead, asked beside the queries. Driver; a thread of its own, which nothing waits for.

The planner tells the lag of a cluster when it plans. Between plans, during a long batch or while a cluster is parked,
only the clusters themselves know: they are asked every ten seconds, all at once, each in its own thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial

from dynamic_kafka.clusters import ClusterProbes, question_of
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.kafka.probe import gather
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.splits import Split

INTERVAL_S = 10.0
PATIENCE_S = 5.0

log = logging.getLogger(__name__)


class LagProber:
    """Knows the end offsets of all splits of the clusters that answered last."""

    def __init__(self, options: SourceOptions, discovery: MetadataDiscovery, interval_s: float = INTERVAL_S) -> None:
        self._options, self._discovery, self._interval_s = options, discovery, interval_s
        self._probes = ClusterProbes(options)
        self._ends: Mapping[Split, int] = {}
        self._named: frozenset[str] = frozenset()
        self._unreachable: Mapping[str, str] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin asking."""
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
        failing = False
        while True:
            try:
                self._ends = self._ask()
                failing = False
            except Exception as error:  # whatever it is: old numbers must not go on to look like new ones
                self._ends = {}
                expected = isinstance(error, DynamicKafkaError)
                if not failing:
                    log.warning("the lag is not known for now: %s", error, exc_info=not expected)
                failing = True
            if self._stopped.wait(self._interval_s):
                self._probes.close()
                return

    def _ask(self) -> dict[Split, int]:
        subscription = self._discovery.current().subscription
        probes, broken = self._probes.for_subscription(subscription)
        pending = {
            cluster: probe.observe(partial(question_of, self._options, subscription, cluster))
            for cluster, probe in probes.items()
        }
        answers, failures = gather(pending, grace_s=PATIENCE_S, everyone=False)
        for cluster in (*answers, *failures):
            probes[cluster].taken()
        # Who is still thinking is what it was before: a cluster that hangs is asked for as long as its client waits.
        thinking = {c: why for c, why in self._unreachable.items() if c in pending and c not in answers}
        failed = {cluster: str(error) for cluster, error in {**broken, **failures}.items()}
        self._named, self._unreachable = frozenset(subscription.clusters), {**thinking, **failed}
        return {
            Split(cluster, name, partition): end
            for cluster, answer in answers.items()
            for name, topic in answer.topics.items()
            for partition, end in topic.latest.items()
        }
