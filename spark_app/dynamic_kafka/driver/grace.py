"""How long a plan waits for clusters that may answer late. Driver; used by the observer and the group check."""

from __future__ import annotations

from collections.abc import Iterable

from dynamic_kafka.planning.document.progress import OffsetDocument

GRACE_S = 2.0
"""How long a plan waits for slow clusters. Then it continues with the others; a late answer serves a later plan."""
FIRST_GRACE_S = 10.0
"""The same for the first observation of a process. It waits longer for the clusters that must answer."""
SPLITS_PER_S = 10_000
"""Splits for which a plan waits one second more (`grace_s`): reading their offsets takes this process 0.3 s of CPU."""


def grace_s(least_s: float, progress: OffsetDocument | None, clusters: Iterable[str]) -> float:
    """Return how many seconds a plan waits for clusters: longer for many splits.

    Otherwise a plan of many splits would leave healthy clusters out, only because this process reads answers so long.
    """
    known = progress.clusters if progress is not None else {}
    topics = (topic for cluster in clusters if cluster in known for topic in known[cluster].topics.values())
    return least_s + sum(len(topic.next) for topic in topics) / SPLITS_PER_S
