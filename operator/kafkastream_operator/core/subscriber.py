"""A subscription as the status of a stream sees it: its document, its application, its own status. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkastream_operator.core.application import ALIVE, FAILED
from kafkastream_operator.core.document import Streams
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus


@dataclass(frozen=True)
class Subscriber:
    """A subscription that reads the stream, or still drains topics of it.

    Attributes:
        rendered: the streams of its document.
        orphan: the document's ConfigMap, if the subscription is gone; "" if it is not.
        unknown: it had a document, and neither the document nor a copy can be read.
        revision: the token of its document; "" if it has none.
        asks: whether its spec asks for the stream; if not, it only drains topics of it.
        spec: what it asks for; None if this version cannot read it, and for a document that was left behind.
    """

    name: str
    application: str
    life: str
    status: SubscriptionStatus
    rendered: Streams = field(default_factory=dict)
    orphan: str = ""
    unknown: bool = False
    revision: str = ""
    asks: bool = True
    spec: SubscriptionSpec | None = None

    @property
    def is_behind(self) -> bool:
        """Whether its driver may still use an older document; a driver takes the newest at its start."""
        rollout = self.status.rollout
        if self.life not in ALIVE:
            return False
        if rollout is None:
            return bool(self.revision)  # its status is lost, or not written yet
        return rollout.token != self.revision or rollout.phase != "Confirmed"

    @property
    def why_not_in_force(self) -> str:
        """Why its driver may not use its document; "" if it does, or is to take it at its start."""
        if self.life in FAILED:
            return "it has failed"
        if self.life not in ALIVE:
            return ""
        if self.is_behind or not self.has_condition("RolledOut"):
            return f"revision {self.revision.rpartition('/')[2]} is not in force yet"
        if self.has_condition("Mounted", "False"):
            return "its driver lacks a mount"
        return "its driver has yet to report" if self.has_condition("Ready", "Unknown") else ""

    def has_condition(self, kind: str, status: str = "True") -> bool:
        """Return whether a condition of the subscription has this status."""
        return any(known.type == kind and known.status == status for known in self.status.conditions)

    @property
    def rejection(self) -> str:
        """Why its driver does not use its document; "" if it does not reject it."""
        conditions = self.status.conditions
        return next(
            (known.message for known in conditions if (known.type, known.reason) == ("RolledOut", "Rejected")), ""
        )

    @property
    def ready_reason(self) -> str:
        """The reason of the subscription's `Ready`; "" without one."""
        return next((known.reason for known in self.status.conditions if known.type == "Ready"), "")

    @property
    def is_rolling_out(self) -> bool:
        """Whether its newest document is on its way into force.

        A change that waits for a driver does not count, as in the subscription's own conditions: it may wait for ever.
        """
        return self.has_condition("Reconciling") or (self.is_behind and not self.has_condition("RolledOut", "Unknown"))
