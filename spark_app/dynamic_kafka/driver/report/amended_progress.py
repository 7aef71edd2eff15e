"""Progress after a committed batch, without the ranges that a replay left out, and up to stop records. Driver.

An offset document names the ranges that a batch was planned to read. A replay may leave some of them out, by amendments
in the `stateLocation`: their splits are back at the start of these ranges. A record evaluator may end some of them at a
stop record. Commits to consumer groups and the driver report count only what was read.
"""

from __future__ import annotations

from dynamic_kafka.planning.document.amendments import Amendments, check_reported
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.state.store import StateLocation, apply_reports


class AmendedProgress:
    """The progress of one source of a query.

    Args:
        state: the query's `stateLocation`; without one, nothing is ever left out.
    """

    def __init__(self, state: str | None) -> None:
        self._state = state
        self._last: tuple[OffsetDocument, OffsetDocument] | None = None

    def after(self, committed: OffsetDocument) -> OffsetDocument:
        """Return the progress after the batch that ends with a document that Spark has committed.

        Raises:
            DynamicKafkaError: the state cannot be read, or lacks reports of executors.
        """
        if self._state is None or committed.is_initial:
            return committed
        last = self._last
        # Amendments and stop records are durable before their batch ends. Where some are missing still, this raises.
        if last is None or last[0] != committed:
            state = StateLocation(self._state)
            amendments = Amendments(state.amendments(committed.query, since=committed.number))
            apply_reports(amendments, state, committed)
            progress = amendments.after(committed)
            check_reported(progress, self._state)
            last = self._last = (committed, progress)
        return last[1]
