"""What a sink already has, compared with its checkpoint, before a query starts. Driver; reads only.

Spark's file sink skips a batch whose number is in its log already. That is right for the one batch that was written
but not committed, and silently wrong for a checkpoint that was restored from a backup or begun anew.
"""

from __future__ import annotations

import logging

from dynamic_kafka.app.query.checkpoints import Checkpoint, newest_in_sink
from dynamic_kafka.errors import StaleCheckpointError

log = logging.getLogger(__name__)


def refuse_old_checkpoint(checkpoint: Checkpoint, path: str, *, allowed: bool) -> None:
    """Refuse a checkpoint that is older than what its file sink has.

    Raises:
        StaleCheckpointError: it is, and the user has not allowed it.
    """
    error = find_old_checkpoint(checkpoint, path)
    if error is None:
        return
    if not allowed:
        raise error
    log.warning("%s. The option allowOldCheckpoint is set, so it goes on without them", error)


def find_old_checkpoint(checkpoint: Checkpoint, path: str) -> StaleCheckpointError | None:
    """What is wrong with a checkpoint that is older than the log of the file sink at `path`; None if it is not."""
    delivered, planned = newest_in_sink(path), checkpoint.planned
    if delivered is None or (planned is not None and planned >= delivered):
        return None
    known = "has no batch yet" if planned is None else f"ends at batch {planned}"
    first = 0 if planned is None else planned + 1
    skipped = f"batches {first} to {delivered}" if delivered > first else f"batch {delivered}"
    start = (
        "with the new checkpoint"
        if planned is None
        else "and a new checkpoint, with startingOffsets from what `inspect` shows of this one"
    )
    # allowOldCheckpoint is no way out here: the sink skips by number alone.
    return StaleCheckpointError(
        f"the checkpoint {checkpoint.uri} {known}, but the log of the sink {path} has batch {delivered}: the checkpoint"
        f" was restored from a backup, or is a new one for old files. Restore the newer checkpoint, or write to a new"
        f" path {start}. Here the sink would skip {skipped} as written already, and all records in there,"
        " new ones among them, would be LOST for this sink"
    )
