"""A SparkApplication, whichever operator's it is, and what can be done to it. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

Life = Literal["Running", "Starting", "Suspended", "Completed", "Failed", "Absent"]


@dataclass(frozen=True)
class Application:
    """A SparkApplication, whichever operator's it is.

    Attributes:
        life: what it is doing; `Starting` is anything between submission and a driver.
        token, attempt: the revision that its spec names, and which patch for it that was.
        submission: changes with each submission.
        mounts: the Secrets that are mounted for the driver and for executors, by this operator or its user.
        document: whether its spec mounts the document; None: it cannot be told.
        driver_pod: the name of the driver's pod, by its status.
        restarts_itself: a change of its spec restarts it. Else its spec is read at the next start only, a restart
            takes the end of its driver, and is made only where the strategy says so.
        unwilling: why it would not start again if its driver were ended, with what to do; "" if it would.
        willing_at: when `unwilling` passes by itself.
    """

    name: str
    uid: str
    resource_version: str
    life: Life
    token: str = ""
    attempt: int = 0
    submission: str = ""
    mounts: frozenset[str] = frozenset()
    document: bool | None = None
    driver_pod: str = ""
    generation: int = 0
    restarts_itself: bool = True
    unwilling: str = ""
    willing_at: datetime | None = None

    def refuses_restart(self, now: datetime) -> bool:
        """Whether ending its driver now would be its end."""
        return bool(self.unwilling) and (self.willing_at is None or now < self.willing_at)


class Pod(NamedTuple):
    """A pod, and no other that may get its name later."""

    name: str
    uid: str


@dataclass(frozen=True)
class Patch:
    """What to patch into the application: the token and what has to be mounted.

    Attributes:
        attempt: changes with each patch: one that was lost left the spec as it should be, and the same again is no
            change.
        expected: the application's resourceVersion: whatever it has become since, the patch is not for that.
        ends: the driver's pod to delete afterwards, where the application does not restart by itself.
    """

    token: str
    secrets: frozenset[str]
    attempt: int
    expected: str
    ends: Pod | None = None


@dataclass(frozen=True)
class Refresh:
    """Bump the driver pod's annotation, so that the kubelet refreshes its volumes at once."""

    pod: str
    token: str
