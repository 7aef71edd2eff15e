"""Our progress in a Spark checkpoint: the document that was committed last, and the batch that is pending.

Tools only; reads, never writes. A query may join several sources; ours are told by their offset documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dynamic_kafka.app.query.checkpoints import Batches, Checkpoint, Logged, our_document
from dynamic_kafka.errors import OffsetDocumentError, OptionError
from dynamic_kafka.planning.amendments import Amendment, Amendments
from dynamic_kafka.planning.codec import decode, fingerprint
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import SplitRange


@dataclass(frozen=True)
class Saved:
    """What a checkpoint says of one of our sources.

    Attributes:
        batches: Spark's own numbers.
        source: the source's place among those of the query.
        start: the document before the pending batch; without one the latest that was committed.
        end: the end of the pending batch; None when no batch is pending, or it reads nothing from this source.
    """

    batches: Batches
    source: str
    start: OffsetDocument
    end: OffsetDocument | None

    @property
    def latest(self) -> OffsetDocument:
        """What the next plan goes on from."""
        return self.end or self.start

    @property
    def key(self) -> tuple[str, str]:
        """The two documents of the pending batch, as amendments name it."""
        assert self.end is not None
        return fingerprint(self.start), fingerprint(self.end)

    def ranges(self) -> list[SplitRange]:
        """What the pending batch was planned to read."""
        return ranges_between(self.start, self.end) if self.end is not None else []

    def remaining(self, amendments: Iterable[Amendment]) -> list[SplitRange]:
        """What is still to be read of it."""
        return Amendments(amendments).remaining(self.ranges(), self.key) if self.end is not None else []


def read_saved(checkpoint: Checkpoint, source: str | None = None) -> Saved:
    """Read our progress.

    Args:
        source: the source's place among those of the query; only needed where several are ours.

    Raises:
        OptionError: there is none of ours in it, or several and none was chosen.
        OffsetDocumentError: a document is damaged or newer than this version.
    """
    batches = checkpoint.batches()
    if batches.planned is None and (found := checkpoint.looks_like()):
        raise OptionError(f"{checkpoint.uri} {found}; a query's own checkpoint or an app.yaml is needed")
    if batches.planned is None:
        raise OptionError(
            f"{checkpoint.uri} holds no batch of a Spark query (no file in `offsets`): give the query's own checkpoint,"
            " once it has planned something"
        )
    logged = checkpoint.offsets(batches.planned)
    chosen = _ours(logged, source, checkpoint)
    latest = decode(chosen.text or "{}")
    if batches.pending is None:
        return Saved(batches, chosen.name, latest, None)
    start, before = OffsetDocument(), None
    if batches.planned > 0:
        before = next(item for item in checkpoint.offsets(batches.planned - 1) if item.name == chosen.name).text
        start = decode(before) if before is not None else start
    # A batch that another source brought about, or a watermark, reads nothing from this one.
    return Saved(batches, chosen.name, start, None if before == chosen.text else latest)


def nothing_saved() -> Saved:
    """The progress of a query that has not begun."""
    return Saved(Batches(None, None), "0", OffsetDocument(), None)


def _ours(logged: tuple[Logged, ...], source: str | None, checkpoint: Checkpoint) -> Logged:
    ours = [item for item in logged if item.text is not None and our_document(item.text) is not None]
    if not ours and len(logged) == 1 and logged[0].text is not None:
        decode(logged[0].text)  # says what is wrong with the only one there is
    found = [item for item in ours if source in (None, item.name)]
    if len(found) == 1:
        return found[0]
    if not ours:
        raise OffsetDocumentError(f"{checkpoint.uri}: none of the query's sources is dynamic-kafka")
    places = ", ".join(item.name for item in ours)
    raise OptionError(f"{checkpoint.uri}: choose one of the query's sources with --source; ours are {places}")
