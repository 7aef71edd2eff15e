"""Announced clusters: the clock waits for their first records. Pure; `planning.plan` applies it to each aligned plan.

The records of a cluster that joins late may be older than those of the others. So its metadata announces it
(`state: Announced`), before it has its records, its topics or even its brokers. From the first plan that has this, the
clock stands still until a batch has records of the cluster. From then on its splits hold the clock as all others do.
The wait ends after `announcedTimeout` at the latest. Its end is in the offset document, so no restart prolongs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from dynamic_kafka.metadata.subscription import SubscribedCluster
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.observation import Note

_ARRIVED = 0
"""The end of the wait for a cluster that has come. It stays until metadata announces the cluster no more."""


def note_announced(
    progress: OffsetDocument,
    wanted: Mapping[str, SubscribedCluster],
    *,
    now_ms: int,
    timeout_ms: int,
    keeps_all: bool = False,
) -> OffsetDocument:
    """Return progress with the clusters that metadata announces.

    Args:
        keeps_all: whether clusters that these metadata do not announce stay announced, since newer metadata may do so.
    """
    end_ms = now_ms + timeout_ms  # a timeout that was shortened counts at once, and a time that was set back is no gain
    announced = {c: min(progress.announced.get(c, end_ms), end_ms) for c in wanted if wanted[c].state == "Announced"}
    before = progress.announced if keeps_all else {}
    return replace(progress, announced=dict(sorted({**before, **announced}.items())))


def arrived(announced: Mapping[str, int], clusters: Collection[str]) -> dict[str, int]:
    """Return the announced clusters after a batch with records of some clusters."""
    return {cluster: _ARRIVED if cluster in clusters else until_ms for cluster, until_ms in announced.items()}


def not_arrived(progress: OffsetDocument) -> dict[str, int]:
    """Return the end of the wait for each announced cluster that has not come, milliseconds since the epoch."""
    return {cluster: until_ms for cluster, until_ms in progress.announced.items() if until_ms != _ARRIVED}


def announcement_notes(before: OffsetDocument, after: OffsetDocument) -> Iterator[Note]:
    """Yield the waits that begin with a batch, and those that end by it.

    Args:
        before, after: the documents around the batch, renames applied to both.
    """
    for cluster, until_ms in after.announced.items():
        was_ms = before.announced.get(cluster)
        if was_ms is None and until_ms != _ARRIVED:
            until = f"{datetime.fromtimestamp(until_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
            text = (
                f"cluster {cluster!r} is announced: the clock waits for its first record, until {until} at the latest"
            )
            yield Note("announced", cluster, text)
        elif was_ms != until_ms == _ARRIVED:
            yield Note("announced", cluster, f"cluster {cluster!r} has come: the clock waits for it no longer")
