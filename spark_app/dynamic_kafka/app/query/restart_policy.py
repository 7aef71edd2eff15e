"""Decide whether a failed query is restarted within the process, and after which pause. Driver; pure.

A batch fails after `readTimeout` when one of its clusters hangs or refuses the login. A restart then lets the replay
leave that cluster's ranges out. Every other failure ends the application. The supervisor calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamic_kafka.errors import ErrorCode

RESTARTABLE = ("READ_TIMEOUT", "CLUSTER_UNREACHABLE", "CLUSTER_REFUSED")
MAX_PAUSE_S = 30.0
MAX_IN_VAIN = 10
"""So many restarts without a batch with rows are made; the next failure ends the application."""


@dataclass
class RestartPolicy:
    """The restarts of one query.

    Args:
        stall: whether `clusterFailurePolicy` is `stall`.
        is_named: returns whether fresh metadata still names a cluster; may look it up.
        pause_s: the pause before the first restart in seconds; it doubles with each restart in vain.
        in_vain: the restarts since the last batch with rows.
    """

    stall: bool
    is_named: Callable[[str], bool]
    pause_s: float
    in_vain: int = 0

    def pause_before(self, failure: str) -> float | None:
        """Return the seconds to wait before a restart after this failure; None if the failure is final."""
        found = ErrorCode.find(failure)
        if found is None or found.code not in RESTARTABLE or self.in_vain >= MAX_IN_VAIN:
            return None
        if not self.stall and self.is_named(found.cluster):
            return None
        pause = min(MAX_PAUSE_S, self.pause_s * 2**self.in_vain)
        self.in_vain += 1
        return float(pause)

    def progressed(self) -> None:
        """Set the count of restarts back: a batch with rows was committed."""
        self.in_vain = 0
