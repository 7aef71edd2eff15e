"""Compare a checkpoint with the log of a file sink, by batch numbers. Driver and tools; pure.

A file sink's log is `<path>/_spark_metadata/<batch>`; every tenth file is `<batch>.compact`.
"""

from __future__ import annotations

from collections.abc import Iterable

from dynamic_kafka.errors import StaleCheckpointError

SINK_LOG = "_spark_metadata"


def newest_of(names: Iterable[str]) -> int | None:
    """Return the highest batch number among the file names of one of Spark's logs; None if there is none."""
    plain = [name.removesuffix(".compact") for name in names]
    return max((int(name) for name in plain if name.isdecimal()), default=None)


def old_checkpoint_error(
    checkpoint: str, planned: int | None, path: str, delivered: int | None
) -> StaleCheckpointError | None:
    """Return the error for a checkpoint that is older than the log of its file sink; None if it is not.

    Args:
        checkpoint: its URI.
        planned: the last batch of the checkpoint.
        path: the sink's folder.
        delivered: the last batch of the sink's log.
    """
    if delivered is None or (planned is not None and planned >= delivered):
        return None
    known = "has no batch yet" if planned is None else f"ends at batch {planned}"
    first = 0 if planned is None else planned + 1
    skipped, its = (f"batches {first} to {delivered}", "their") if delivered > first else (f"batch {delivered}", "its")
    start = (
        "with the new checkpoint"
        if planned is None
        else "and a new checkpoint, with startingOffsets from what `inspect` shows of this one"
    )
    # The text does not offer allowOldCheckpoint: the sink would still skip by number and lose the records.
    return StaleCheckpointError(
        f"the checkpoint {checkpoint} {known}, but the log of the sink {path} has batch {delivered}. The sink would"
        f" skip {skipped} as already written, and all {its} records would be LOST. Restore the newer checkpoint, or"
        f" write to a new path {start}"
    )
