"""Receive executors' reports of their reads and their Kafka clients, for the metrics. Driver, in a thread of its own.

The counts are kept in memory only. They begin at 0 with the application, as Prometheus expects of counters. The other
end is `executor/metrics_sender.py`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dynamic_kafka.executor.client_statistics import ClientCounts
from dynamic_kafka.executor.metrics_sender import ClientReport, ReadReport, ReportAddress, decode_report
from dynamic_kafka.planning.splits import Split

KEPT_S = 600.0
"""How long the counts of inactive splits are kept. A report may come before the event that makes its split active."""
LINE_BYTES = 4096
"""The longest line. A topic's and a cluster's name have at most 249 characters, so reports are shorter."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitReads:
    """The counts of one split.

    Attributes:
        size: bytes of their keys and values.
        event_lag_s: age of the latest record of the last range when it was read; None while no record had a timestamp.
        reported_at: when the last report came, in seconds of the monotonic clock.
    """

    records: int = 0
    size: int = 0
    event_lag_s: float | None = None
    reported_at: float = 0.0

    def with_report(self, report: ReadReport, now: float) -> SplitReads:
        """Return these counts with one more range."""
        lag = self.event_lag_s
        if report.event_ms is not None:
            lag = max(0.0, (report.read_ms - report.event_ms) / 1000)
        return SplitReads(self.records + report.records, self.size + report.size, lag, now)


class ReadCounts:
    """The counts of each sink's query, by split."""

    def __init__(self, sinks: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._keys = {sink: secrets.token_hex(8) for sink in sinks}
        self._sinks = {key: sink for sink, key in self._keys.items()}
        self._reads: dict[str, dict[Split, SplitReads]] = {sink: {} for sink in self._keys}
        self._clients: dict[str, dict[str, ClientCounts]] = {sink: {} for sink in self._keys}

    def key(self, sink: str) -> str:
        """Return the key that marks the reports of a sink's query."""
        return self._keys[sink]

    def take(self, line: bytes) -> None:
        """Add a report to the counts.

        Raises:
            ValueError: the line is not a report of this application.
        """
        key, report = decode_report(line)
        if key not in self._sinks:
            raise ValueError("a report of another application")
        now, sink = self._clock(), self._sinks[key]
        with self._lock:
            if isinstance(report, ClientReport):
                clients = self._clients[sink]
                clients[report.cluster] = clients.get(report.cluster, ClientCounts()) + report.counts
                return
            reads = self._reads[sink]
            reads[report.split] = reads.get(report.split, SplitReads()).with_report(report, now)

    def of(self, sink: str, active: Iterable[Split]) -> Mapping[Split, SplitReads]:
        """Return the counts of active splits. Drop those of other splits `KEPT_S` after their last report."""
        wanted, now = set(active), self._clock()
        with self._lock:
            kept = {
                split: reads
                for split, reads in self._reads[sink].items()
                if split in wanted or now - reads.reported_at < KEPT_S
            }
            self._reads[sink] = kept
            return {split: reads for split, reads in kept.items() if split in wanted}

    def clients(self, sink: str) -> Mapping[str, ClientCounts]:
        """Return the counts of the executors' consumers, by cluster."""
        with self._lock:
            return dict(self._clients[sink])


class ReadReportServer:
    """The TCP server for reports. It never answers, and closes a connection that sends anything else."""

    def __init__(self, counts: ReadCounts) -> None:
        self._counts = counts
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="read-reports", daemon=True)

    def start(self, host: str, port: int) -> int:
        """Start to listen, and return the port.

        Raises:
            OSError: the address is taken or not allowed.
        """
        self._thread.start()
        opening = asyncio.start_server(self._receive, host, port, limit=LINE_BYTES)
        try:
            self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result()
        except OSError:
            self.stop()
            raise
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Close all connections and stop listening."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._counts.take(line)
        except ValueError as error:  # also a line that is too long
            log.warning(
                "%s sent a line that is not a report: %s", (writer.get_extra_info("peername") or ("?",))[0], error
            )
        except OSError:
            pass  # the executor has ended
        except asyncio.CancelledError:
            pass  # `stop` cancels connections; asyncio would log a traceback for each
        finally:
            writer.close()


def serve_read_reports(
    counts: ReadCounts, sinks: Iterable[str], *, host: str, listen: str, port: int
) -> tuple[Mapping[str, str], Callable[[], None]]:
    """Start to receive the reports of the sinks' queries.

    Args:
        host: the driver's name or address by which executors reach it.
        port: the port; 0 for any free one.

    Returns:
        The value of the option `readReports` for each sink, and the function that stops the server.

    Raises:
        OSError: the address is taken or not allowed.
    """
    server = ReadReportServer(counts)
    bound = server.start(listen, port)
    return {sink: str(ReportAddress(host, bound, counts.key(sink))) for sink in sinks}, server.stop
