"""Reports for metrics: after each range, an executor sends lines of JSON to the application over TCP.

Runs on executors; `app/telemetry/metrics_receiver.py` receives the reports. They serve metrics only and are best
effort: a report that cannot be sent is dropped. Decision record 010 explains why they need a channel of their own.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.columns import SIZE
from dynamic_kafka.planning.splits import Split

SEND_S = 0.5
"""Longest wait of a task for a connection, and for a write."""
RETRY_AFTER_S = 60.0
"""After a failure, reports are dropped for this long: tasks must not keep waiting for an address that is gone."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportAddress:
    """The receiver's address, as in the option `readReports`: `host:port/key`.

    The key identifies the application's run and the sink's query.
    """

    host: str
    port: int
    key: str

    @classmethod
    def parse(cls, text: str) -> ReportAddress:
        """Parse the option's value. Raises ValueError if it is malformed."""
        where, _, key = text.partition("/")
        host, _, port = where.rpartition(":")
        if not host or not key or not 0 < int(port) < 65536:
            raise ValueError(text)
        return cls(host.strip("[]"), int(port), key)

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/{self.key}"


@dataclass(frozen=True)
class ReadReport:
    """One range that a task has read to its end.

    A failed attempt reports nothing. A task that Spark repeats reports again.

    Attributes:
        size: bytes of keys and values.
        event_ms: latest timestamp of the records, in Unix milliseconds; None if none has one.
        read_ms: when the range was done, in Unix milliseconds by the executor's clock.
    """

    split: Split
    records: int
    size: int
    event_ms: int | None
    read_ms: int

    def encode(self, key: str) -> bytes:
        """Return the report as a line of JSON."""
        split = [self.split.cluster, self.split.topic, self.split.partition]
        return json.dumps([key, split, self.records, self.size, self.event_ms, self.read_ms]).encode() + b"\n"


@dataclass(frozen=True)
class ClientReport:
    """The counts of a cluster's consumers in this process since the last such report, also of ranges that failed."""

    cluster: str
    counts: ClientCounts

    def encode(self, key: str) -> bytes:
        """Return the report as a line of JSON."""
        return json.dumps([key, self.cluster, *astuple(self.counts)]).encode() + b"\n"


def decode_report(line: bytes) -> tuple[str, ReadReport | ClientReport]:
    """Return the key and the report of a line. Raises ValueError if the line is no report."""
    try:
        key, subject, *numbers = json.loads(line)
        if isinstance(subject, str):
            counts = ClientCounts(*(max(0, int(number)) for number in numbers))
            return str(key), ClientReport(subject, counts)
        cluster, topic, partition = subject
        records, size, event_ms, read_ms = numbers
        event = None if event_ms is None else int(event_ms)
        split = Split(str(cluster), str(topic), int(partition))
        return str(key), ReadReport(split, int(records), int(size), event, int(read_ms))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"no report: {error}") from None


class ReportSender:
    """This process's connection to the application. A forked process opens its own."""

    def __init__(self) -> None:
        self._process = 0
        self._socket: socket.socket | None = None
        self._address: ReportAddress | None = None
        self._retry_at = 0.0

    def send(self, address: ReportAddress, report: ReadReport | ClientReport) -> None:
        """Send a report, or drop it. Network errors are logged, not raised; see `SEND_S` for the longest wait."""
        if (self._process, self._address) != (os.getpid(), address):
            self._process, self._address, self._socket, self._retry_at = os.getpid(), address, None, 0.0
        if time.monotonic() < self._retry_at:
            return
        try:
            self._send(address, report.encode(address.key))
        except OSError as error:
            self._drop()
            self._retry_at = time.monotonic() + RETRY_AFTER_S
            log.info("no read reports for %g s: %s:%d: %s", RETRY_AFTER_S, address.host, address.port, error)

    def _send(self, address: ReportAddress, line: bytes) -> None:
        if self._socket is None or _is_closed(self._socket):
            # The application may have restarted its query, which closes this connection.
            self._drop()
            self._socket = socket.create_connection((address.host, address.port), SEND_S)
        self._socket.sendall(line)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


SENDER = ReportSender()


def with_report(batches: Iterator[pa.RecordBatch], task: ReadTask, address: ReportAddress) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the task's columns; after the last one, report their records, bytes and latest timestamp.

    The statistics of the clients are reported also if the range fails: they show why.
    """
    records, size, event_ms = 0, 0, None
    try:
        for batch in batches:
            records += batch.num_rows
            size += pc.sum(batch[SIZE]).as_py() or 0
            latest = pc.max(batch["timestamp"]).value
            if latest is not None and latest >= 0:  # -1 ms stands for a record without a timestamp
                event_ms = max(event_ms or 0, latest // 1000)
            yield batch.select(task.columns)
        SENDER.send(address, ReadReport(task.part.split, records, size, event_ms, time.time_ns() // 1_000_000))
    finally:
        for cluster, counts in STATISTICS.take().items():
            SENDER.send(address, ClientReport(cluster, counts))


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the receiver has closed the connection. It never writes, so readable means closed."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(SEND_S)
