"""Answer liveness and readiness probes. Operator; a thread of its own answers for the whole life of the process.

The thread also answers while another operator holds the lease, when kopf does not run yet.

- Live: the operator waits for the lease. Or its event loop has run within `MAX_LOOP_PAUSE_S`, none of its tasks has
  ended, and every watch delivers events.
- Ready: the operator waits for the lease. Or it has listed everything and serves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Literal

from kafkastream_operator.handlers.http_server import READY_PATH, Answer, parse_address, serve
from kafkastream_operator.handlers.watch_health import WatchHealth

MAX_LOOP_PAUSE_S = 30.0
"""The longest time for which the event loop may not run."""
HEARTBEAT_S = 1.0
LIVENESS_EXAMPLE = "http://0.0.0.0:8080/healthz"

Phase = Literal["standby", "starting", "serving"]


class Health:
    """The health of this operator. Thread-safe.

    Args:
        clock: returns monotonic seconds.

    Attributes:
        watches: the events that the watches owe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase: Phase = "standby"
        self._beat = clock()
        self._broken = ""
        self.watches = WatchHealth(clock)

    def enter(self, phase: Phase) -> None:
        """Enter a phase of the start."""
        self._beat = self._clock()
        self._phase = phase

    def fail(self, text: str) -> None:
        """Report that a part of the operator has ended for good: from now on it is not live."""
        self._broken = text

    async def run_heartbeat(self) -> None:
        """Record that the event loop runs, every `HEARTBEAT_S`, until cancelled."""
        while True:
            self._beat = self._clock()
            await asyncio.sleep(HEARTBEAT_S)

    def serving(self) -> bool:
        """Return whether the operator serves."""
        return self._phase == "serving"

    def live(self) -> tuple[bool, str]:
        """Return whether the operator is live, with its phase or the reason."""
        if self._broken:
            return False, self._broken
        silent_s = self._clock() - self._beat
        if self._phase != "standby" and silent_s > MAX_LOOP_PAUSE_S:
            return False, f"{self._phase}: the event loop has not run for {silent_s:.0f} s"
        if overdue := self.watches.overdue():
            return False, f"{self._phase}: {overdue}"
        return True, self._phase

    def ready(self) -> tuple[bool, str]:
        """Return whether the operator serves, or would as soon as it gets the lease; with its phase or the reason."""
        live, text = self.live()
        return live and self._phase != "starting", text


def answer_probes(health: Health, url: str) -> ThreadingHTTPServer:
    """Start the thread that answers probes: liveness at the URL's path, readiness at `/readyz` on the same port.

    Raises:
        OSError: the process cannot listen at this address.
    """

    def answered(ask: Callable[[], tuple[bool, str]]) -> Answer:
        good, text = ask()
        return Answer(200 if good else 503, f"{text}\n")

    host, port, path = parse_address(url, LIVENESS_EXAMPLE)
    return serve(host, port, {path: lambda: answered(health.live), READY_PATH: lambda: answered(health.ready)})
