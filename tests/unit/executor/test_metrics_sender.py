"""Read reports: executors send them, the application counts them, and no task waits for long."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dynamic_kafka.app.telemetry.metrics_receiver import (
    KEPT_S,
    LINE_BYTES,
    ReadCounts,
    ReadReportServer,
    SplitReads,
    serve_read_reports,
)
from dynamic_kafka.executor import metrics_sender
from dynamic_kafka.executor.client_statistics import STATISTICS, ClientCounts
from dynamic_kafka.executor.decoding.typed_rows import ValueFormat
from dynamic_kafka.executor.evaluating.evaluators import Evaluator
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch
from dynamic_kafka.executor.metrics_sender import (
    ClientReport,
    ReadReport,
    ReportAddress,
    ReportSender,
    decode_report,
    with_report,
)
from dynamic_kafka.executor.reading.columns import arrow_schema
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.planning.splits import Split, SplitRange
from tests.unit.executor.test_dead_letters import TASK as A_TASK
from tests.unit.executor.test_evaluators import Message

SPLIT = Split("east", "orders", 3)
TASK = replace(A_TASK, part=SplitRange(SPLIT, 0, 9), statistics=True, dead_letters=None)
REPORT = ReadReport(SPLIT, 5, 700, 1_000, 3_500)
CLIENT = ClientCounts(900, 60, 4, 12_000, 250, 1)


class Counts(ReadCounts):
    """Counts with a wait for the next report."""

    def __init__(self) -> None:
        super().__init__(["lake"])
        self.taken = threading.Condition()
        self.count = 0

    def take(self, line: bytes) -> None:
        super().take(line)
        with self.taken:
            self.count += 1
            self.taken.notify_all()

    def wait_for(self, count: int) -> SplitReads:
        with self.taken:
            assert self.taken.wait_for(lambda: self.count >= count, 30)
        return self.of("lake", [SPLIT])[SPLIT]


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def address(counts: Counts) -> Iterator[ReportAddress]:
    options, stop = serve_read_reports(counts, ["lake"], host="127.0.0.1", listen="127.0.0.1", port=0)
    yield ReportAddress.parse(options["lake"])
    stop()


@pytest.mark.parametrize("text", ["driver.example:4040/ab12", "10.0.0.1:1/x", "[::1]:65535/x"])
def test_an_address_is_parsed_and_printed_unchanged(text: str) -> None:
    assert str(ReportAddress.parse(text)) == text


@pytest.mark.parametrize("text", ["", "host/x", "host:0/x", "host:65536/x", "host:1/", ":1/x", "host:port/x"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ReportAddress.parse(text)


def test_a_report_is_decoded_as_it_was_encoded() -> None:
    strange = ReadReport(Split('e"a\nst', "tö", 0), 0, 0, None, 9)
    assert strange.encode("key").count(b"\n") == 1
    for report in (REPORT, strange, ClientReport('e"a\nst', CLIENT)):
        assert decode_report(report.encode("key")) == ("key", report)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x\n",
        b"{}\n",
        b"[1]\n",
        b'["k", ["a", "b"], 1, 1, 1, 1]\n',
        b"\xff\n",
        b"[[]]",
        b'["k", "east", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n',
        b'["k", "east", 1, null]\n',
        b'["k", ["a", "b", 0], Infinity, 1, 1, 1]\n',
        b"[" * (LINE_BYTES - 1) + b"\n",
    ],
)
def test_a_malformed_report_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no report"):
        decode_report(line)


def test_reports_add_up_and_the_last_one_sets_the_event_lag(
    counts: Counts, address: ReportAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a: (connections.append(a), connect(*a))[1])
    sender = ReportSender()
    sender.send(address, REPORT)
    sender.send(address, ReadReport(SPLIT, 2, 30, 4_000, 4_250))
    sender.send(address, ReadReport(SPLIT, 0, 0, None, 9_000))  # a range without records
    reads = counts.wait_for(3)
    assert (reads.records, reads.size, reads.event_lag_s) == (7, 730, 0.25)
    assert len(connections) == 1


def test_counts_of_clients_add_up_by_cluster(counts: Counts) -> None:
    for cluster in ("east", "west", "east"):
        counts.take(ClientReport(cluster, CLIENT).encode(counts.key("lake")))
    assert counts.clients("lake") == {"east": ClientCounts(1800, 120, 8, 24_000, 500, 2), "west": CLIENT}
    assert counts.of("lake", [SPLIT]) == {}


def test_clients_are_reported_whether_the_range_fails_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[object] = []
    monkeypatch.setattr(metrics_sender.SENDER, "send", lambda address, report: sent.append(report))

    def failing() -> Iterator[pa.RecordBatch]:
        STATISTICS.add("west", CLIENT)
        yield batch((None, b"v", 1))
        raise OSError("the network")

    STATISTICS.take()
    STATISTICS.add("east", CLIENT)
    assert len(list(with_report(iter([batch((None, b"v", 1))]), TASK, ReportAddress("h", 1, "k")))) == 1
    assert sent[1:] == [ClientReport("east", CLIENT)]
    with pytest.raises(OSError, match="the network"):
        list(with_report(failing(), TASK, ReportAddress("h", 1, "k")))
    assert sent[2:] == [ClientReport("west", CLIENT)]


def test_a_report_with_another_key_is_not_counted(counts: Counts) -> None:
    with pytest.raises(ValueError, match="another application"):
        counts.take(REPORT.encode("foreign"))
    assert counts.of("lake", [SPLIT]) == {}


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n\r\n", b"x" * (LINE_BYTES + 1), REPORT.encode("foreign")])
def test_anything_but_a_report_closes_the_connection(
    line: bytes, counts: Counts, address: ReportAddress, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection((address.host, address.port), 30) as connection:
        connection.sendall(line)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    assert re.search(r"127\.0\.0\.1 sent .*not a report", caplog.text)
    ReportSender().send(address, REPORT)
    assert counts.wait_for(1).records == 5


def test_a_sender_reconnects_after_the_application_restarts(counts: Counts) -> None:
    sender = ReportSender()
    first = ReadReportServer(counts)
    port = first.start("127.0.0.1", 0)
    address = ReportAddress("127.0.0.1", port, counts.key("lake"))
    sender.send(address, REPORT)
    counts.wait_for(1)
    first.stop()
    second = ReadReportServer(counts)
    second.start("127.0.0.1", port)
    sender.send(address, REPORT)
    assert counts.wait_for(2).records == 10
    second.stop()


def test_a_missing_application_is_tried_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ReportAddress("127.0.0.1", server.getsockname()[1], "k")
    tried = []
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a: (tried.append(a), connect(*a))[1])
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    sender = ReportSender()
    for second in (0, 1, 59, 61):
        now[0] = float(second)
        sender.send(address, REPORT)
    assert len(tried) == 2


def test_an_application_that_reads_nothing_delays_a_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver accepts no bytes: the buffers fill, then the sender gives up."""
    monkeypatch.setattr(metrics_sender, "SEND_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ReportAddress("127.0.0.1", server.getsockname()[1], "k" * 1_000_000)
        sender = ReportSender()
        for _ in range(100):
            sender.send(address, REPORT)
        assert sender._retry_at > time.monotonic()


def batch(*rows: tuple[bytes | None, bytes | None, int], columns: Sequence[str] = TASK.columns) -> pa.RecordBatch:
    """Return a batch of rows, as a reader makes it: key, value and timestamp in milliseconds."""
    messages: Any = [Message(0, value, key=key, stamp=(ms >= 0, ms)) for key, value, ms in rows]
    return MessageRows(messages, SPLIT, "shop").batch(arrow_schema(replace(TASK, columns=columns).reported_columns))


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], (0, 0, None)),
        ([batch((b"k", b"value", 7), (None, b"v", 9)), batch((b"kk", None, 8))], (3, 9, 9)),
        ([batch((None, None, -1))], (1, 0, None)),
    ],
)
def test_batches_pass_unchanged_and_are_counted(
    batches: list[pa.RecordBatch], expected: tuple[int, int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[ReadReport] = []
    monkeypatch.setattr(metrics_sender.SENDER, "send", lambda address, report: sent.append(report))
    passed = list(with_report(iter(batches), TASK, ReportAddress("h", 1, "k")))
    assert passed == [record_batch.select(TASK.columns) for record_batch in batches]
    assert [(report.records, report.size, report.event_ms) for report in sent] == [expected]
    assert sent[0].split == SPLIT


@pytest.mark.parametrize("columns", [("partition",), ("value",), ("timestamp", "key")])
def test_records_count_whole_whatever_columns_are_read(
    columns: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[ReadReport] = []
    monkeypatch.setattr(metrics_sender.SENDER, "send", lambda address, report: sent.append(report))
    read = [batch((b"k", b"value", 7), (None, b"v", 9), columns=columns)]
    [passed] = with_report(iter(read), replace(TASK, columns=columns), ReportAddress("h", 1, "k"))
    assert passed.schema == arrow_schema(columns)
    assert [(report.records, report.size, report.event_ms) for report in sent] == [(2, 7, 9)]


def test_decoded_values_count_with_the_bytes_that_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[ReadReport] = []
    monkeypatch.setattr(metrics_sender.SENDER, "send", lambda address, report: sent.append(report))
    messages: Any = [Message(0, b'{"id": 1}'), Message(1, b"no json"), Message(2, None)]
    schema = '{"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": true, "metadata": {}}]}'
    values = ValueFormat(schema, "dropmalformed", "_corrupt_record", "UTC").load()
    search = StopSearch(TASK, Evaluator("", "", None, None, None, values))
    batches = search.batches([MessageRows(messages, SPLIT, "shop")])
    [passed] = with_report(batches, TASK, ReportAddress("h", 1, "k"))
    assert passed.column("value").to_pylist() == [{"id": 1}, None]
    [report, counts] = sent
    assert (report.records, report.size) == (2, len(b'k{"id": 1}k'))
    assert counts.counts.dropped == 1


def test_an_attempt_that_fails_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[ReadReport] = []
    monkeypatch.setattr(metrics_sender.SENDER, "send", lambda address, report: sent.append(report))

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch((None, b"v", 1))
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        list(with_report(failing(), TASK, ReportAddress("h", 1, "k")))
    assert sent == []


def test_splits_without_reports_are_dropped_after_a_while() -> None:
    now = [0.0]
    counts = ReadCounts(["lake"], clock=lambda: now[0])
    gone = Split("west", "orders", 0)
    counts.take(REPORT.encode(counts.key("lake")))
    counts.take(ReadReport(gone, 1, 1, None, 0).encode(counts.key("lake")))
    assert counts.of("lake", [SPLIT]).keys() == {SPLIT}
    now[0] = KEPT_S - 1
    assert counts.of("lake", [gone, SPLIT]).keys() == {gone, SPLIT}  # it is back, or an event names it only now
    now[0] = KEPT_S + 1
    assert counts.of("lake", [SPLIT]).keys() == {SPLIT}
    assert counts.of("lake", [gone, SPLIT]).keys() == {SPLIT}


def test_the_end_closes_connections_without_a_log_line(counts: Counts, caplog: pytest.LogCaptureFixture) -> None:
    options, stop = serve_read_reports(counts, ["lake"], host="127.0.0.1", listen="127.0.0.1", port=0)
    address = ReportAddress.parse(options["lake"])
    with socket.create_connection((address.host, address.port), timeout=10) as executor:
        executor.sendall(REPORT.encode(address.key))
        counts.wait_for(1)
        stop()
        assert executor.recv(1) == b""
    assert [record.getMessage() for record in caplog.records] == []
