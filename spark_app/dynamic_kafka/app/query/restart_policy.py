"""Which failed query is restarted within the process, and when. Pure.

A range in flight on a cluster that hangs, or lets nobody in any more, fails its batch after `readTimeout`. Restarting
the query is what lets the replay leave that cluster's ranges out; every other failure ends the application.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamic_kafka.errors import ErrorCode

RESTARTABLE = ("READ_TIMEOUT", "CLUSTER_UNREACHABLE", "CLUSTER_REFUSED")
MAX_PAUSE_S = 30.0
MAX_IN_VAIN = 10
"""Restarts in a row without one committed batch, before the failure counts."""


@dataclass
class RestartPolicy:
    """The restarts of one query.

    Args:
        stall: `clusterFailurePolicy=stall`.
        is_named: whether fresh metadata still names a cluster; may look it up.
        pause_s: the pause before the first restart; doubled with each one in vain.
    """

    stall: bool
    is_named: Callable[[str], bool]
    pause_s: float
    in_vain: int = 0

    def pause_before(self, failure: str) -> float | None:
        """Seconds to wait before the restart that a failure asks for; None if it asks for none."""
        found = ErrorCode.find(failure)
        if found is None or found.code not in RESTARTABLE or self.in_vain >= MAX_IN_VAIN:
            return None
        if not self.stall and self.is_named(found.cluster):
            return None
        pause = min(MAX_PAUSE_S, self.pause_s * 2**self.in_vain)
        self.in_vain += 1
        return float(pause)

    def progressed(self) -> None:
        """A batch was committed."""
        self.in_vain = 0
