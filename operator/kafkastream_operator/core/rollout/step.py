"""The values of a roll-out: the goal, the times, and one step. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Patch, Refresh
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.subscription import Rollout


@dataclass(frozen=True)
class Timing:
    """The operator's time limits.

    Attributes:
        confirm: a patch for a restart counts as lost after this time.
        confirm_live: a live change counts as not confirmed after this time. The kubelet alone may need a minute and a
            half. A driver may also take this long for its first report.
        between_restarts: the least time between two restarts of one application.
        gather: a change that needs a restart waits this long for more changes, so that one restart brings them all.
    """

    confirm: timedelta = timedelta(seconds=90)
    confirm_live: timedelta = timedelta(seconds=120)
    between_restarts: timedelta = timedelta(seconds=60)
    gather: timedelta = timedelta(seconds=2)


DEFAULT_TIMING = Timing()


@dataclass(frozen=True)
class Wanted:
    """The revision that should be in force for a subscription with this UID, and the Secrets that it needs mounted."""

    revision: Revision
    secrets: frozenset[str]
    subscription: str

    @property
    def token(self) -> str:
        """The revision as annotations have it."""
        return self.revision.token


@dataclass(frozen=True)
class Step:
    """One step of a roll-out.

    Attributes:
        rollout: for the status, written before the effect.
        condition: `RolledOut`, for the status.
        effect: the one write that follows; None if there is none.
        after: for the status, written after the effect; None if `rollout` still holds then.
        again: when to reconcile again, if nothing happens before.
        restarted: whether the effect restarts the application.
    """

    rollout: Rollout | None
    condition: Condition
    effect: Patch | Refresh | None = None
    after: Rollout | None = None
    again: datetime | None = None
    restarted: bool = False
