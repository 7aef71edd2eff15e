"""The messages about an amendment: an error where the options do not allow it, otherwise a warning. Driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from dynamic_kafka.errors import ClusterUnreachableError, DynamicKafkaError, PendingRangesError, StaleCheckpointError
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.amendments import Amendment, Reason
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.wording import first_few, tool_command

REMOVED_RANGES_CHOICES = (
    "Choices: name the cluster and topic again until the batch is done (state Draining is enough), set stateLocation"
    " with pendingRemovedRanges=filter, or leave the ranges out once with"
    f" {tool_command('abandon', 'CLUSTER')}"
)
"""The user's choices when metadata no longer names ranges of a pending batch."""

_REASON_TEXTS: Mapping[Reason, str] = {
    "removed": "cluster removed",
    "unreachable": "cluster unreachable",
    "recreated": "topic re-created or deleted",
    "abandoned": "cluster abandoned",
}

log = logging.getLogger(__name__)


def log_left_out(amendment: Amendment) -> None:
    """Log each range that an amendment leaves out."""
    for part in amendment.left_out:
        log.warning(
            "left out of the pending batch, possibly delivered by an earlier attempt: %s (%s). Once the"
            " cluster is read again, those that still exist come, a second time if the sink has them already",
            part,
            _REASON_TEXTS[amendment.reasons[part.split.cluster]],
        )


def older_than_state(document: OffsetDocument, state: str, held: str, newest: int) -> StaleCheckpointError:
    """Return the error that a checkpoint ends before something that the state location holds.

    Args:
        state: the URI of the state location.
        held: what it holds, of the document `newest`.
    """
    return StaleCheckpointError(
        f"the checkpoint ends at document {document.number} of query {document.query}, but {state} holds {held} of"
        f" document {newest}: the checkpoint was restored from a backup. Restore the newer one, or, without a file"
        " sink, set allowOldCheckpoint=true"
    )


def refusal_of(amendment: Amendment, options: SourceOptions, *, is_recorded: bool) -> DynamicKafkaError | None:
    """Return the error if the options do not allow an amendment, None if they do.

    Args:
        is_recorded: whether there is a `stateLocation`.
    """
    left_out, reasons = amendment.left_out, amendment.reasons
    named = first_few(left_out)
    unreachable = sorted(cluster for cluster, reason in reasons.items() if reason == "unreachable")
    unrecorded = None if is_recorded else "not left out without a stateLocation"
    if unreachable and unrecorded:
        return ClusterUnreachableError(
            unreachable[0],
            f"does not answer, and the pending batch needs it: {named} ({unrecorded}). Bring the cluster back, and"
            " start again",
        )
    removed = "removed" in reasons.values()
    if removed and (unrecorded or options.pending_removed_ranges == "refuse"):
        why = unrecorded or "not left out with pendingRemovedRanges=refuse"
        return PendingRangesError(
            f"metadata no longer names ranges of the pending batch: {named} ({why}). {REMOVED_RANGES_CHOICES}"
        )
    return None
