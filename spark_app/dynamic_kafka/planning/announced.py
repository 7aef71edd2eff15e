"""Announced clusters: the clock waits for their first records. Pure; `planning.plan` applies it to each aligned plan.

The records of a cluster that joins late may be older than those of the others. So its metadata announces it
(`state: Announced`), before it has its records, its topics or even its brokers. From the first plan that has this, the
clock stands still until a batch has records of the cluster. From then on its splits hold the clock as all others do.
The wait ends after `announcedTimeout` at the latest. Its end is in the offset document, so no restart prolongs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import OffsetDocument

_ARRIVED = 0
"""The end of the wait for a cluster that has come. It stays until metadata announces the cluster no more."""


def note_announced(
    progress: OffsetDocument, wanted: Mapping[str, SubscribedCluster], *, now_ms: int, timeout_ms: int
) -> OffsetDocument:
    """Return progress with the clusters that metadata announces now."""
    clusters = sorted(cluster for cluster, named in wanted.items() if named.state == "Announced")
    return replace(progress, announced={c: progress.announced.get(c, now_ms + timeout_ms) for c in clusters})


def arrived(announced: Mapping[str, int], clusters: Collection[str]) -> dict[str, int]:
    """Return the announced clusters after a batch with records of some clusters."""
    return {cluster: _ARRIVED if cluster in clusters else until_ms for cluster, until_ms in announced.items()}


def waited_for(progress: OffsetDocument, now_ms: int) -> tuple[str, ...]:
    """Return the clusters that the clock waits for."""
    return tuple(cluster for cluster, until_ms in progress.announced.items() if now_ms < until_ms)


def given_up(progress: OffsetDocument, now_ms: int) -> tuple[str, ...]:
    """Return the announced clusters that did not come in time, and have not come since."""
    return tuple(cluster for cluster, until_ms in progress.announced.items() if _ARRIVED < until_ms <= now_ms)
