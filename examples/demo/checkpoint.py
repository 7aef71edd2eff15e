"""A reader of Spark's checkpoint: the planned and committed batches, and their offset documents.

It never writes, and works while the query runs or after a crash. Spark writes `offsets/N` before batch N runs, and
`commits/N` after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument


class Checkpoint:
    """The checkpoint of one query with one source."""

    def __init__(self, folder: Path) -> None:
        """Read the checkpoint in `folder`, which need not exist yet."""
        self.offsets = folder / "offsets"
        self.commits = folder / "commits"
        self._documents: dict[int, OffsetDocument] = {}

    def planned(self) -> int:
        """Return the newest planned batch, -1 before the first."""
        return _newest(self.offsets)

    def committed(self) -> int:
        """Return the newest committed batch, -1 before the first."""
        return _newest(self.commits)

    def document(self, batch: int) -> OffsetDocument:
        """Return the offset document at the end of a planned batch. It never changes, so it is read once."""
        if batch not in self._documents:
            # The lines of the file: its version, the batch's settings, then one line per source.
            self._documents[batch] = decode((self.offsets / str(batch)).read_text().splitlines()[2])
        return self._documents[batch]

    def documents(self) -> Iterator[tuple[int, OffsetDocument]]:
        """Yield the number and offset document of all planned batches."""
        for batch in range(self.planned() + 1):
            yield batch, self.document(batch)

    def stop_records(self, topic: str) -> dict[str, dict[int, int]] | None:
        """Return {cluster: {partition: offset of its stop record}} of a query that is over; None if it is not."""
        last = self.document(self.committed())
        if not last.over:
            return None
        return {name: dict(cluster.topics[topic].ended) for name, cluster in last.clusters.items()}

    def parked_next(self, cluster: str, topic: str) -> dict[int, int]:
        """Return {partition: parked offset} in the last committed batch; empty if the cluster is not parked."""
        batch = self.committed()
        if batch < 0:
            return {}
        parked = self.document(batch).parked.get(cluster)
        return dict(parked.topics[topic].progress.next) if parked and topic in parked.topics else {}


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return -1
    return max((int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()), default=-1)
