"""A contest with another writer, which takes back again and again what the operator writes. Pure.

`core.decide` asks about the document's ConfigMap, and `handlers.reconcile` about a subscription that annotations ask
for. The operator writes again after a growing pause, and a condition or an Event names the contest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafkastream_operator.core.next_document import NextDocument
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import Rendered

MEMORY = timedelta(minutes=10)
"""A contest is over when nobody has taken anything back for this long."""
MAX_PAUSE_S = 60
"""The longest pause before the operator writes again."""
CONTESTED_FROM = 3
"""The document counts as contested when it has to be restored this many times in succession."""


@dataclass(frozen=True)
class Contest:
    """The answer to a document that another writer has changed or deleted.

    Attributes:
        restores: this plan writes the rendered revision again, or would do so after a pause.
        held_until: the end of the pause in which the document stays as the other writer left it; None: there is none.
        times: how often in succession the operator has written over what the other writer left, with this plan.
        at: the time of the last such write; None before the first.
    """

    restores: bool
    held_until: datetime | None
    times: int
    at: str | None

    @property
    def is_contested(self) -> bool:
        """Whether the document was restored so often that a person has to find the other writer."""
        return self.times + (self.held_until is not None) >= CONTESTED_FROM

    @property
    def again(self) -> datetime | None:
        """When to reconcile again: at the end of the pause, or when the count ends."""
        return self.held_until or (parse(self.at) + MEMORY if self.at is not None else None)

    def recorded(self, rendered: Rendered) -> Rendered:
        """Return the rendered document of a status with the restorations so far."""
        return rendered.model_copy(update={"restored": self.times or None, "restored_at": self.at})


def contest_over(view: View, content: NextDocument, *, older: bool) -> Contest:
    """Return whether this plan restores the document, and whether that has to wait.

    Args:
        older: whether somebody has put an earlier document of the operator into the ConfigMap.
    """
    last, config_map, document = view.status.rendered, view.config_map, content.document
    restored_at = last.restored_at if last is not None else None
    recent = restored_at is not None and view.now - parse(restored_at) < MEMORY
    times = (last.restored or 0) if last is not None and recent else 0
    known = Contest(False, None, times, restored_at if recent else None)
    if last is None or document is None or not content.written:
        return known
    if not (older or config_map is None or config_map.document is None or config_map.drifted):
        return known  # a new revision, or new rules for drains
    if document.revision.token != last.token:
        return Contest(False, None, times + 1, stamp(view.now))  # a change of the streams does not wait
    due = parse(restored_at) + pause_after(times) if restored_at is not None and recent else view.now
    if view.now < due:
        return replace(known, restores=True, held_until=due)
    return Contest(True, None, times + 1, stamp(view.now))


def pause_after(times: int) -> timedelta:
    """Return the pause after so many writes in succession that another writer has taken back."""
    return timedelta(seconds=min(MAX_PAUSE_S, 2 ** min(times - 2, 10))) if times > 1 else timedelta()
