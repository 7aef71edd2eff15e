"""What a sink already has, compared with its checkpoint, before a query starts. Driver; reads only.

Spark's file sink skips a batch whose number is in its log already. That is right for the one batch that was written
but not committed, and silently wrong for a checkpoint that was restored from a backup or begun anew.
"""

from __future__ import annotations

import logging

from dynamic_kafka.app.checkpoints import Checkpoint, newest_in_sink
from dynamic_kafka.errors import StaleCheckpointError

log = logging.getLogger(__name__)


def refuse_old_checkpoint(checkpoint: Checkpoint, path: str, *, allowed: bool) -> None:
    """Refuse a checkpoint that is older than what its file sink has.

    Raises:
        StaleCheckpointError: it is, and the user has not allowed it.
    """
    delivered, planned = newest_in_sink(path), checkpoint.planned
    if delivered is None or (planned is not None and planned >= delivered):
        return
    known = "has no batch yet" if planned is None else f"ends at batch {planned}"
    text = (
        f"the checkpoint {checkpoint.uri} {known}, but the log of the sink {path} has batch {delivered}: the checkpoint"
        " was restored from a backup, or is a new one for old files, and the sink would silently skip the batches up"
        f" to {delivered}"
    )
    if not allowed:
        raise StaleCheckpointError(
            f"{text}. Restore the newer checkpoint, write to a new path, or set the option allowOldCheckpoint=true to"
            " go on all the same"
        )
    log.warning("%s; allowOldCheckpoint is set, so it goes on", text)
