"""Receives what executors report of the ranges they have read, for the metrics. Driver; a thread of its own.

Kept in memory only: counters begin anew with the application, as Prometheus expects of them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dynamic_kafka.executor.metrics_sender import ReadReport, ReportAddress
from dynamic_kafka.planning.splits import Split

KEPT_S = 600.0
"""How long a split's numbers are kept that has gone: a report may come before the event that names its split."""
LINE_BYTES = 4096
"""No report is longer: a topic's and a cluster's name have 249 characters at most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitReads:
    """What was read of one split.

    Attributes:
        size: bytes of keys and values.
        event_lag_s: how old the latest record of the last range was when it had been read; None: no record had a
            timestamp yet.
        heard: when it was last reported, in seconds of the monotonic clock.
    """

    records: int = 0
    size: int = 0
    event_lag_s: float | None = None
    heard: float = 0.0

    def with_report(self, report: ReadReport, now: float) -> SplitReads:
        """The same with one more range."""
        lag = self.event_lag_s
        if report.event_ms is not None:
            lag = max(0.0, (report.read_ms - report.event_ms) / 1000)
        return SplitReads(self.records + report.records, self.size + report.size, lag, now)


class ReadCounts:
    """What each sink's query has read, by split."""

    def __init__(self, sinks: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._keys = {sink: secrets.token_hex(8) for sink in sinks}
        self._sinks = {key: sink for sink, key in self._keys.items()}
        self._reads: dict[str, dict[Split, SplitReads]] = {sink: {} for sink in self._keys}

    def key(self, sink: str) -> str:
        """Marks the reports of a sink's query."""
        return self._keys[sink]

    def take(self, line: bytes) -> None:
        """Count a report. Raises ValueError if it is none of ours."""
        key, report = ReadReport.decode(line)
        if key not in self._sinks:
            raise ValueError("a report of another application")
        now = self._clock()
        with self._lock:
            reads = self._reads[self._sinks[key]]
            reads[report.split] = reads.get(report.split, SplitReads()).with_report(report, now)

    def of(self, sink: str, active: Iterable[Split]) -> Mapping[Split, SplitReads]:
        """What was reported of these splits. Others are forgotten once they have been silent for `KEPT_S`."""
        wanted, now = set(active), self._clock()
        with self._lock:
            kept = {
                split: reads
                for split, reads in self._reads[sink].items()
                if split in wanted or now - reads.heard < KEPT_S
            }
            self._reads[sink] = kept
            return {split: reads for split, reads in kept.items() if split in wanted}


class ReadReportServer:
    """Listens for reports. What is no report ends its connection; nothing is ever answered."""

    def __init__(self, counts: ReadCounts) -> None:
        self._counts = counts
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="read-reports", daemon=True)

    def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError if that cannot be done."""
        self._thread.start()
        opening = asyncio.start_server(self._receive, host, port, limit=LINE_BYTES)
        try:
            self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        except OSError:
            self.stop()
            raise
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Hang up on everyone."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._counts.take(line)
        except ValueError as error:  # also a line that is too long
            log.warning("%s sent no report: %s", (writer.get_extra_info("peername") or ("?",))[0], error)
        except OSError:
            pass  # an executor that has gone
        except asyncio.CancelledError:
            pass  # `stop`: asyncio logs a traceback of a connection that ends by being cancelled
        finally:
            writer.close()


def serve_read_reports(
    counts: ReadCounts, sinks: Iterable[str], *, host: str, listen: str, port: int
) -> tuple[Mapping[str, str], Callable[[], None]]:
    """Listen for the reports of the sinks' queries.

    Args:
        host: the driver's name or address, as executors know it.
        listen: the address to listen on.
        port: 0 for any that is free.

    Returns:
        The value of the option `readReports` for each sink, and what ends it.

    Raises:
        OSError: the address cannot be listened on.
    """
    server = ReadReportServer(counts)
    bound = server.start(listen, port)
    return {sink: str(ReportAddress(host, bound, counts.key(sink))) for sink in sinks}, server.stop
