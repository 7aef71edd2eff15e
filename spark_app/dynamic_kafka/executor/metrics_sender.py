"""What executors tell the application of the ranges they have read: one line of JSON a range, over TCP.

Executor; best effort, for metrics only. Spark gives a Python source no way to report metrics of its own, and the driver
knows offsets, but neither records, bytes nor timestamps. Nothing depends on a report: one that cannot be sent is gone.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dynamic_kafka.planning.splits import Split

SEND_S = 0.5
"""Longest time that a task may lose to a report."""
SILENCE_S = 60.0
"""After a report that could not be sent, none is tried for so long: nobody waits for an address that is gone."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReportAddress:
    """Where reports go, as the option `readReports` says it: `host:port/key`.

    The key tells the receiver which sink's query is meant, and that it is its own.
    """

    host: str
    port: int
    key: str

    @classmethod
    def parse(cls, text: str) -> ReportAddress:
        """Raises ValueError if the text is none."""
        where, _, key = text.partition("/")
        host, _, port = where.rpartition(":")
        if not host or not key or not 0 < int(port) < 65536:
            raise ValueError(text)
        return cls(host.strip("[]"), int(port), key)

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/{self.key}"


@dataclass(frozen=True)
class ReadReport:
    """One range that a task has read to its end. An attempt that failed reports nothing; one that Spark repeats
    reports again.

    Attributes:
        size: bytes of keys and values.
        event_ms: latest timestamp of the records, None if there were none.
        read_ms: when the range was done, by the executor's clock.
    """

    split: Split
    records: int
    size: int
    event_ms: int | None
    read_ms: int

    def encode(self, key: str) -> bytes:
        """The line."""
        split = [self.split.cluster, self.split.topic, self.split.partition]
        return json.dumps([key, split, self.records, self.size, self.event_ms, self.read_ms]).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> tuple[str, ReadReport]:
        """The key and the report of a line. Raises ValueError if it is none."""
        try:
            key, (cluster, topic, partition), records, size, event_ms, read_ms = json.loads(line)
            event = None if event_ms is None else int(event_ms)
            split = Split(str(cluster), str(topic), int(partition))
            return str(key), cls(split, int(records), int(size), event, int(read_ms))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"no report: {error}") from None


class ReportSender:
    """This process's connection to the application. A forked process makes its own."""

    def __init__(self) -> None:
        self._process = 0
        self._socket: socket.socket | None = None
        self._address: ReportAddress | None = None
        self._silent_until = 0.0

    def send(self, address: ReportAddress, report: ReadReport) -> None:
        """Send a report, or drop it. Never raises for a network's sake, never waits longer than `SEND_S`."""
        if (self._process, self._address) != (os.getpid(), address):
            self._process, self._address, self._socket, self._silent_until = os.getpid(), address, None, 0.0
        if time.monotonic() < self._silent_until:
            return
        try:
            self._send(address, report.encode(address.key))
        except OSError as error:
            self._drop()
            self._silent_until = time.monotonic() + SILENCE_S
            log.info("what was read is not reported for %g s: %s:%d: %s", SILENCE_S, address.host, address.port, error)

    def _send(self, address: ReportAddress, line: bytes) -> None:
        if self._socket is None or _is_closed(self._socket):
            # The application may have restarted its query meanwhile, and with it this connection.
            self._drop()
            self._socket = socket.create_connection((address.host, address.port), SEND_S)
        self._socket.sendall(line)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None


SENDER = ReportSender()


def reporting(batches: Iterator[pa.RecordBatch], split: Split, address: ReportAddress) -> Iterator[pa.RecordBatch]:
    """The same batches; once the last one is taken, what they were is reported."""
    records, size, event_ms = 0, 0, None
    for batch in batches:
        records += batch.num_rows
        size += sum(pc.sum(pc.binary_length(batch[name])).as_py() or 0 for name in ("key", "value"))
        latest = pc.max(batch["timestamp"]).value
        if latest is not None and latest >= 0:  # -1 ms stands for a record without a timestamp
            event_ms = max(event_ms or 0, latest // 1000)
        yield batch
    SENDER.send(address, ReadReport(split, records, size, event_ms, time.time_ns() // 1_000_000))


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other side has hung up: it never writes, so what can be read is the end."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(SEND_S)
