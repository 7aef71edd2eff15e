"""What probes are told. A thread of its own answers, from the first moment to the last: also while another operator
holds the lease, when kopf does not run yet.

- Live: it waits for the lease, or the event loop has shown within `STUCK_S` that it goes round, nothing that has to go
  on with it has ended, and every watch tells of what changes.
- Ready: as soon as it could do its work: it waits for the lease, or has listed everything and serves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from kafkastream_operator.handlers.watch_health import Hearing

STUCK_S = 30.0
BEAT_S = 1.0
READY_PATH = "/readyz"

Phase = Literal["standby", "starting", "serving"]


class Health:
    """How it stands. Thread-safe.

    Args:
        clock: monotonic seconds.

    Attributes:
        hearing: what the watches have told.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phase: Phase = "standby"
        self._beat = clock()
        self._broken = ""
        self.hearing = Hearing(clock)

    def becomes(self, phase: Phase) -> None:
        """It has come so far."""
        self._beat = self._clock()
        self._phase = phase

    def breaks(self, text: str) -> None:
        """Something in it has ended for good: only another process helps."""
        self._broken = text

    async def beat(self) -> None:
        """Show that the event loop goes round, until cancelled."""
        while True:
            self._beat = self._clock()
            await asyncio.sleep(BEAT_S)

    def live(self) -> tuple[bool, str]:
        """Whether it should go on, and in which phase it is."""
        if self._broken:
            return False, self._broken
        silent_s = self._clock() - self._beat
        if self._phase != "standby" and silent_s > STUCK_S:
            return False, f"{self._phase}: the event loop has stood still for {silent_s:.0f} s"
        if deaf := self.hearing.deaf():
            return False, f"{self._phase}: {deaf}"
        return True, self._phase

    def ready(self) -> tuple[bool, str]:
        """Whether it does its work, or would as soon as it gets the lease."""
        live, text = self.live()
        return live and self._phase != "starting", text


def address(url: str) -> tuple[str, int, str]:
    """Host, port and path of `http://0.0.0.0:8080/healthz`. Raises ValueError if it is no such URL."""
    found = urlsplit(url)
    if found.scheme != "http" or not found.hostname or not found.port or found.path in ("", "/", READY_PATH):
        raise ValueError(f"{url!r} is no place to answer at; write it as http://0.0.0.0:8080/healthz")
    return found.hostname, found.port, found.path


def answer_probes(health: Health, url: str) -> ThreadingHTTPServer:
    """Answer from now on, in a thread: liveness at the URL's path, readiness at `/readyz` beside it.

    Raises:
        OSError: nobody can listen there.
    """
    host, port, path = address(url)
    asked = {path: health.live, READY_PATH: health.ready}

    class Answer(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            ask = asked.get(urlsplit(self.path).path)
            good, text = ask() if ask is not None else (False, f"ask for {path} or {READY_PATH}")
            body = f"{text}\n".encode()
            self.send_response(200 if good else 404 if ask is None else 503)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds."""

    server = ThreadingHTTPServer((host, port), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server
