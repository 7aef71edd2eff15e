"""The native reader: the same rows as the one in Python, whatever the records, and no crash of the process."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor import native
from dynamic_kafka.executor.reading import native_connection
from dynamic_kafka.executor.reading.columns import SIZE, arrow_schema
from dynamic_kafka.executor.reading.connection import Connection, Fetched, Wanted
from dynamic_kafka.executor.reading.message_connection import MessageConnection
from dynamic_kafka.executor.reading.native_connection import NativeConnection, connect, extension_for
from dynamic_kafka.executor.reading.rows import Rows, UnreadableHeadersError
from dynamic_kafka.options.columns import COLUMNS
from dynamic_kafka.planning.splits import Split
from tests.support.native import broker_within, checker, lacking, produce_header, require, sanitized
from tests.support.places import ROOT

RUN_S, FUZZ_S = 8, 5
SPLIT = Split("east", "orders", 0)
MOST_MS = (2**63 - 1) // 1000
"""The latest timestamp that fits into 64 bits of microseconds."""


def test_nothing_is_wrong_under_sanitizers(tmp_path: Path) -> None:
    """The reader in C reads ranges of a simulated client that sends anything."""
    program = checker(tmp_path)
    seed = random.randrange(1 << 32)
    done = subprocess.run([program, str(RUN_S), str(seed)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"seed {seed}: {done.stderr}"


def test_nothing_is_wrong_in_a_process_under_sanitizers() -> None:
    """The extension as Python loads it: the tests below that read or break something, in a process of its own."""
    require()
    chosen = "same_rows or same_bytes or assignment or utf_8 or closed or close_while or outlive"
    tests = [sys.executable, "-m", "pytest", "-p", sanitized.__name__, __file__, "-k", chosen]
    environment = os.environ | sanitized.build()
    done = subprocess.run(tests, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0 and " skipped" not in done.stdout, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


# -- both readers of one log -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[Producer, str]]:
    with broker_within() as made:
        yield made


def produce(producer: Producer, topic: str, records: list[dict[str, Any]]) -> None:
    for record in records:
        producer.produce(topic, partition=0, **record)
    assert producer.flush(30) == 0


def opened(address: str, *, reader: str, **more: Any) -> Connection:
    config: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": "g",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 10,
        **more,
    }
    if reader == "native":
        config[native.PLUGIN] = require().__file__
    made = connect("east", config, [])
    assert isinstance(made, NativeConnection if reader == "native" else MessageConnection)
    return made


def read(
    connection: Connection, topic: str, start: int, end: int, *, rows: int = 10_000, size: int = 1 << 23
) -> list[Rows]:
    """Return the records of a range, in batches of at most so many rows, and bytes if they are more than one."""
    split, position, batches = Split("east", topic, 0), start, []
    connection.assign(split, start, -1)
    deadline = time.monotonic() + 30
    while position < end:
        fetched = connection.fetch(Wanted(position, end, -1, rows, size, 100.0, headers=True), 0.1)
        position = fetched.position
        if fetched.rows:
            batches.append(connection.take(split, "shop"))
        if fetched.notice is not None and fetched.notice.error is not None:
            assert fetched.notice.error.code() == KafkaError._PARTITION_EOF
        assert time.monotonic() < deadline
    connection.unassign()
    return batches


def any_record(chance: random.Random) -> dict[str, Any]:
    def anything() -> bytes | None:
        size = chance.choice((0, 1, 7, 8, 9, 100, chance.randrange(3000)))
        return chance.randbytes(size) if chance.random() < 0.8 else None

    names = ("a", "", "é€😀", "x" * 300)
    headers = [(chance.choice(names), anything()) for _ in range(chance.choice((0, 0, 1, 5)))]
    return {
        "key": anything(),
        "value": anything(),
        "headers": headers,
        "timestamp": chance.choice((1, 1_700_000_000_123, chance.randrange(1 << 45))),
    }


def records_of(batches: list[Rows]) -> list[object]:
    return [rows.record(at) for rows in batches for at in range(len(rows))]


def rows_of(batches: list[Rows], columns: Sequence[str]) -> list[dict[str, object]]:
    return [row for rows in batches for row in rows.batch(arrow_schema(columns)).to_pylist()]


def test_both_readers_give_the_same_rows(broker: tuple[Producer, str]) -> None:
    seed = random.randrange(1 << 32)
    chance, (producer, address) = random.Random(seed), broker
    readers = {reader: opened(address, reader=reader) for reader in ("native", "python")}
    end = time.monotonic() + FUZZ_S
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        topic, count = f"any-{seed}-{rounds}", chance.randrange(1, 400)
        produce(producer, topic, [any_record(chance) for _ in range(count)])
        start = chance.randrange(count)
        limits = {"rows": chance.choice((1, 7, 64, 10_000)), "size": chance.choice((1, 5000, 1 << 23))}
        batches = {reader: read(made, topic, start, count, **limits) for reader, made in readers.items()}
        every = (*COLUMNS, SIZE)
        for columns in (every, chance.sample(every, chance.randrange(1, len(every)))):
            ours, theirs = (rows_of(batches[reader], columns) for reader in readers)
            assert ours == theirs and len(ours) == count - start, f"seed {seed}, round {rounds}"
        whole = rows_of(batches["native"], every)
        assert ours == [{name: row[name] for name in columns} for row in whole]
        assert [row[SIZE] for row in whole] == [len(row["key"] or b"") + len(row["value"] or b"") for row in whole]
        assert records_of(batches["native"]) == records_of(batches["python"]), f"seed {seed}, round {rounds}"
        assert [row["offset"] for row in whole] == [*range(start, count)]
        for rows in batches["native"]:
            assert len(rows) <= limits["rows"]
            assert [rows.has_value(at) for at in range(len(rows))] == [
                rows.record(at).value is not None for at in range(len(rows))
            ]
            rows.batch(arrow_schema(COLUMNS)).validate(full=True)
    for made in readers.values():
        made.close_in_background()


@pytest.mark.parametrize(("headers", "size"), [(True, 26), (False, 9)])
def test_both_readers_count_the_same_bytes(broker: tuple[Producer, str], headers: bool, size: int) -> None:
    """Keys and values, and headers where these are fetched: a record of large headers fills a batch, too."""
    producer, address = broker
    topic = f"counted-{headers}"
    records: list[dict[str, Any]] = [
        {"key": "key", "value": "value", "headers": [("é", b"0123456789"), ("none", None)]},
        {"value": "1", "headers": [("a", b"")]},
    ]
    produce(producer, topic, records)
    for reader in ("native", "python"):
        made, position, fetched = opened(address, reader=reader), 0, Fetched(None, 0, 0, 0, None)
        made.assign(Split("east", topic, 0), 0, -1)
        deadline = time.monotonic() + 30
        while position < 2 and time.monotonic() < deadline:
            fetched = made.fetch(Wanted(position, 2, -1, 10, 1 << 20, 100.0, headers), 0.1)
            position = fetched.position
        assert (fetched.rows, fetched.size) == (2, size), reader
        made.close_in_background()


def test_a_partition_reads_on_after_each_assignment(broker: tuple[Producer, str]) -> None:
    producer, address = broker
    produce(producer, "again", [{"value": str(number)} for number in range(50)])
    made = opened(address, reader="native")
    for start in (0, 49, 10, 10):
        values = [row["value"] for row in rows_of(read(made, "again", start, start + 1), ["value"])]
        assert values == [str(start).encode()]
    made.close_in_background()


def test_an_assignment_may_replace_one_that_has_not_begun(broker: tuple[Producer, str]) -> None:
    producer, address = broker
    produce(producer, "replaced", [{"value": str(number)} for number in range(50)])
    for _ in range(50):
        made = opened(address, reader="native")
        made.assign(Split("east", "replaced", 0), 7, -1)
        values = [row["value"] for row in rows_of(read(made, "replaced", 40, 41), ["value"])]
        assert values == [b"40"]
        made.close_in_background()


# -- nothing of it crashes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["native", "python"])
def test_a_header_key_that_is_not_utf_8_crashes_no_process(reader: str, broker: tuple[Producer, str]) -> None:
    """The collector runs within each call, the headers are asked for twice, and Python has optimised the code."""
    topic = f"latin-{reader}"
    produce(broker[0], topic, [{"value": "0"}])
    produce_header(broker[1], topic, b"caf\xe9")
    made = opened(broker[1], reader=reader)
    [others], [rows] = read(made, topic, 0, 1), read(made, topic, 1, 2)
    for _ in range(100):
        assert others.record(0).headers == ()
    errors: list[str] = []
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    for call in (lambda: rows.record(0), lambda: rows.batch(arrow_schema(COLUMNS))) * 2:
        try:
            call()
        except (UnreadableHeadersError, OptionError) as error:
            errors.append(str(error))
    gc.set_threshold(*thresholds)
    refused = f"a header key at offset 1 of east/{topic}[0] is not UTF-8"
    assert [error[: len(refused)] for error in errors] == ["", refused] * 2
    assert gc.isenabled()
    made.close_in_background()


def test_a_timestamp_of_too_many_bits_is_null(broker: tuple[Producer, str]) -> None:
    stamps = [MOST_MS, MOST_MS + 1, 1_700_000_000_000_000_000, 2**63 - 1, 7]
    produce(broker[0], "far", [{"value": "v", "timestamp": stamp} for stamp in stamps])
    for reader in ("native", "python"):
        made = opened(broker[1], reader=reader)
        batches = read(made, "far", 0, len(stamps))
        columns = [rows.batch(arrow_schema(["timestamp"])).column(0).cast(pa.int64()) for rows in batches]
        assert pa.chunked_array(columns).to_pylist() == [MOST_MS * 1000, None, None, None, 7000]
        assert [rows.record(at).timestamp for rows in batches for at in range(len(rows))] == stamps
        made.close_in_background()


def test_a_closed_client_is_an_error(broker: tuple[Producer, str]) -> None:
    made: Any = opened(broker[1], reader="native")
    made.assign(SPLIT, 0, -1)
    made.consumer.close()
    for call in (made._client.close, made._client.take, lambda: made._client.open("orders", 0)):
        with pytest.raises(RuntimeError, match="the Kafka client is closed"):
            call()


def test_a_client_may_close_while_it_reads(broker: tuple[Producer, str]) -> None:
    for _ in range(5):
        made: Any = opened(broker[1], reader="native")
        made.assign(SPLIT, 0, -1)
        begun, ended = threading.Event(), []

        def fetch(made: Any = made, begun: threading.Event = begun, ended: list[str] = ended) -> None:
            begun.set()
            try:
                while True:
                    made._client.fetch(0, 1 << 40, -1, 10, 1000, 1.0, False, 50)
            except RuntimeError as error:
                ended.append(str(error))

        thread = threading.Thread(target=fetch)
        thread.start()
        assert begun.wait(10)
        made.consumer.close()
        thread.join(10)
        assert ended == ["the Kafka client is closed"]


def test_a_fetch_without_an_assignment_is_an_error(broker: tuple[Producer, str]) -> None:
    made: Any = opened(broker[1], reader="native")
    with pytest.raises(RuntimeError, match="no partition is assigned"):
        made._client.fetch(0, 1, -1, 10, 1000, 1.0, False, 0)
    made.close_in_background()


def test_rows_outlive_their_client(broker: tuple[Producer, str]) -> None:
    producer, address = broker
    produce(producer, "outlive", [{"value": "x" * 1000}] * 100)
    made: Any = opened(address, reader="native")
    batches = read(made, "outlive", 0, 100)
    made.consumer.close()
    del made
    made = [rows.batch(arrow_schema(COLUMNS)) for rows in batches]
    batches.clear()
    assert [value for batch in made for value in batch.column("value").to_pylist()] == [b"x" * 1000] * 100


@pytest.mark.parametrize(("switch", "ends_as"), [("", pytest.fail.Exception), ("no", pytest.skip.Exception)])
def test_in_ci_what_is_lacking_fails_a_test(
    monkeypatch: pytest.MonkeyPatch, switch: str, ends_as: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(native.SWITCH, switch)
    with pytest.raises(ends_as, match="no compiler"):
        lacking("no compiler")


# -- the option `reader` -----------------------------------------------------------------------------------------------


def test_without_an_extension_auto_reads_in_python(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    native_connection._log_once.cache_clear()
    monkeypatch.setattr(native_connection, "load", lambda: "there is none")
    caplog.set_level("INFO")
    assert extension_for("auto") is extension_for("auto") is None
    assert caplog.messages == ["this process reads in Python: there is none"]
    with pytest.raises(OptionError, match=r"reader=native: there is none\. .*wheel"):
        extension_for("native")


def test_with_an_extension_the_option_decides(caplog: pytest.LogCaptureFixture) -> None:
    extension = require()
    native_connection._log_once.cache_clear()
    caplog.set_level("INFO")
    assert extension_for("python") is None
    assert extension_for("auto") is extension_for("native") is extension
    assert caplog.messages == [
        "this process reads in Python, as the option 'reader' says",
        "this process reads natively",
    ]


@pytest.mark.parametrize(("value", "is_found"), [("no", False), ("", True)])
def test_the_environment_can_switch_the_extension_off(
    monkeypatch: pytest.MonkeyPatch, value: str, is_found: bool
) -> None:
    require()
    monkeypatch.setenv(native.SWITCH, value)
    loaded = native.load.__wrapped__()
    assert (loaded != "DYNAMIC_KAFKA_NATIVE=no") == (not isinstance(loaded, str)) == is_found


def test_a_file_that_does_not_load_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ImportError("invalid ELF header")

    monkeypatch.setattr(native.importlib, "import_module", broken)
    why = native.load.__wrapped__()
    assert isinstance(why, str)
    assert "not part of this installation" in why and why.endswith(": invalid ELF header")


def test_a_record_of_the_consumers_own_queue_is_an_error() -> None:
    """Skipping it would lose it without a message."""

    class Record:
        def error(self) -> None:
            return None

        def offset(self) -> int:
            return 7

    class Consumer:
        def poll(self, timeout: float) -> Record:
            return Record()

    connection = NativeConnection("east", Consumer(), [], client=None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the record at offset 7 came"):
        connection.fetch(Wanted(0, 10, -1, 10, 1000, 100.0, headers=False), 1.0)
