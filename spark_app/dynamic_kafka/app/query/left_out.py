"""What a sink's query had to leave out of a batch that it repeated: not read, whatever its document says. Driver.

Ranges are left out of a batch that a start of the query repeats, before it runs; of those that are planned after it,
nothing is. So the state is read for the first documents after each start only.
"""

from __future__ import annotations

from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.planning.amendments import Amendments
from dynamic_kafka.planning.progress import OffsetDocument


class LeftOut:
    """The account of one sink's query.

    Args:
        state: its `stateLocation`; None: nothing is ever left out.
    """

    def __init__(self, state: str | None) -> None:
        self._state = state
        self._first: int | None = None
        self._known: tuple[OffsetDocument, OffsetDocument] | None = None

    def started(self) -> None:
        """The query starts, or starts again."""
        self._first = self._known = None

    def after(self, committed: OffsetDocument) -> OffsetDocument:
        """Progress after a document that Spark has committed.

        Raises:
            DynamicKafkaError: the state cannot be read.
        """
        if self._state is None or committed.is_initial:
            return committed
        first, known = self._first, self._known
        if known is not None and known[0] == committed:
            return known[1]
        if first is not None and committed.number > first + 1:
            return committed
        progress = Amendments(StateLocation(self._state).amendments(committed.query)).after(committed)
        # The first may still be the one before the batch that is repeated.
        self._first = committed.number if first is None else first
        self._known = (committed, progress)
        return progress
