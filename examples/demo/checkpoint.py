"""Reads Spark's checkpoint of a query: which batches were planned and committed, and their offset documents.

Looks only, while the query runs or after a crash. The layout is Spark's: `offsets/N` is written before batch N runs,
`commits/N` after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dynamic_kafka.planning.codec import decode
from dynamic_kafka.planning.progress import OffsetDocument


class Checkpoint:
    """The checkpoint of one query with one source."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist yet."""
        self.offsets = folder / "offsets"
        self.commits = folder / "commits"
        self._documents: dict[int, OffsetDocument] = {}

    def planned(self) -> int:
        """The newest batch that was planned, -1 before the first."""
        return _newest(self.offsets)

    def committed(self) -> int:
        """The newest batch that was committed, -1 before the first."""
        return _newest(self.commits)

    def document(self, batch: int) -> OffsetDocument:
        """The source's progress at the end of a planned batch; it never changes, so it is read once."""
        if batch not in self._documents:
            # v1, the batch's own settings, then one line per source.
            self._documents[batch] = decode((self.offsets / str(batch)).read_text().splitlines()[2])
        return self._documents[batch]

    def documents(self) -> Iterator[tuple[int, OffsetDocument]]:
        """All batches planned so far."""
        for batch in range(self.planned() + 1):
            yield batch, self.document(batch)

    def committed_next(self, cluster: str, topic: str) -> dict[int, int]:
        """{partition: next offset} as of the last committed batch; empty when it does not read there."""
        batch = self.committed()
        found = self.document(batch).topic(cluster, topic) if batch >= 0 else None
        return dict(found.next) if found else {}

    def parked_next(self, cluster: str, topic: str) -> dict[int, int]:
        """{partition: offset to resume at} as of the last committed batch; empty when the cluster is not parked."""
        batch = self.committed()
        if batch < 0:
            return {}
        parked = self.document(batch).parked.get(cluster)
        return dict(parked.topics[topic].next) if parked and topic in parked.topics else {}


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return -1
    return max((int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()), default=-1)
