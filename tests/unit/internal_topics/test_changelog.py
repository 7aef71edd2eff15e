"""The offset changelog: the form of its records, and a writer that holds nothing up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.app.internal_topics import changelog
from dynamic_kafka.app.internal_topics.changelog import ChangelogRecord, ChangelogWriter, _parsed
from dynamic_kafka.errors import ClusterUnreachableError, RecordTooLargeError
from dynamic_kafka.kafka.topic_producer import NewRecord
from dynamic_kafka.planning.document.codec import decode
from dynamic_kafka.planning.document.progress import OffsetDocument
from tests.support.waiting import wait_until
from tests.unit.internal_topics.fake_home import FakeAdmin, FakeHome


def document(number: int, query: str = "q1") -> OffsetDocument:
    topics = {"orders": {"id": "t1", "stream": "orders", "next": [number, 7]}}
    wire = {
        "version": 3,
        "query": query,
        "number": number,
        "previous": "p",
        "clusters": {"east": {"kafkaId": "K1", "topics": topics}},
    }
    return decode(wire)


class Producer:
    """A producer that keeps what it gets, and fails or hangs as a test asks."""

    def __init__(self) -> None:
        self.records: list[ChangelogRecord] = []
        self.may_deliver = threading.Event()
        self.may_deliver.set()
        self.fails = False
        self.too_large: set[str] = set()

    def deliver(self, records: list[NewRecord]) -> None:
        self.may_deliver.wait()
        if self.fails:
            raise ClusterUnreachableError("east", "no answer")
        for record in records:
            if record.key.decode() in self.too_large:
                raise RecordTooLargeError("east", "too large")
            self.records.append(ChangelogRecord.parse(record.value))
            assert self.records[-1].key().encode() == record.key

    def close_in_background(self) -> None:
        pass


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    made = Producer()
    monkeypatch.setattr(changelog, "TopicProducer", lambda *arguments, delivery_s: made)
    return made


@pytest.fixture
def writer(producer: Producer) -> Iterator[ChangelogWriter]:
    made = ChangelogWriter(FakeHome(FakeAdmin()), "log", "shop")
    yield made
    producer.may_deliver.set()
    wait_until(lambda: made.flush(0), "the thread to rest")  # it would write to the next test's producer
    made.close()
    # Before the next test has a producer: a thread that is late would write to that one.
    wait_until(lambda: "offset-changelog" not in running(), "the end of the writer's thread")


def running() -> list[str]:
    """Return the names of the threads of this process."""
    return [thread.name for thread in threading.enumerate()]


def test_a_record_has_the_documented_form() -> None:
    record = ChangelogRecord("shop", "lake", 0, 1764, document(3))
    wire = json.loads(record.value())
    assert wire.keys() == {"version", "application", "sink", "source", "writtenMs", "document"}
    assert wire["document"]["clusters"]["east"]["topics"]["orders"]["next"] == [3, 7]
    assert ChangelogRecord.parse(record.value().encode()) == record
    assert record.key() == "q1"


@pytest.mark.parametrize("value", [b"x", b"[]", b'{"version": 2}', b'{"version": 1}'])
def test_another_record_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"record|Expecting"):
        ChangelogRecord.parse(value)


def test_each_document_is_written_once(writer: ChangelogWriter, producer: Producer) -> None:
    writer.put("lake", document(1), document(4, "q2"))
    assert writer.flush(10)
    writer.put("lake", document(1), document(4, "q2"))
    writer.put("lake", document(2), document(4, "q2"))
    assert writer.flush(10)
    assert [(record.source, record.document.query, record.document.number) for record in producer.records] == [
        (0, "q1", 1),
        (1, "q2", 4),
        (0, "q1", 2),
    ]


def test_a_cluster_that_hangs_holds_nothing_up(writer: ChangelogWriter, producer: Producer) -> None:
    producer.may_deliver.clear()
    for number in range(1, 101):
        writer.put("lake", document(number))
    assert not writer.flush(0.01)
    producer.may_deliver.set()
    assert writer.flush(10)
    assert producer.records[-1].document.number == 100
    assert len(producer.records) <= 2, "documents that were replaced while it hung are not written"


def test_the_end_does_not_wait_for_records_that_fail(
    writer: ChangelogWriter, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.fails = True
    writer.put("lake", document(1))
    assert writer.flush(10)
    assert "changelog log is not written" in caplog.text
    producer.may_deliver.clear()
    writer.put("lake", document(1))
    before = time.monotonic()
    assert not writer.flush(changelog.CLOSE_S)
    assert time.monotonic() - before < changelog.CLOSE_S / 2


def test_a_failed_record_is_written_by_the_next_call(writer: ChangelogWriter, producer: Producer) -> None:
    producer.fails = True
    writer.put("lake", document(1))
    assert writer.flush(10)
    producer.fails = False
    writer.put("lake", document(1))
    wait_until(lambda: bool(producer.records), "the record")
    assert [record.document.number for record in producer.records] == [1]


def test_a_record_that_is_too_large_holds_up_no_other(
    writer: ChangelogWriter, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.too_large = {"q1"}
    for number in (1, 2):
        writer.put("lake", document(number), document(number, "q2"))
        assert writer.flush(10)
    assert [(record.document.query, record.document.number) for record in producer.records] == [("q2", 1), ("q2", 2)]
    assert caplog.text.count("the offsets of sink lake are not in the changelog") == 1
    producer.too_large = set()
    writer.put("lake", document(2))
    assert writer.flush(10)
    assert producer.records[-1].key() == "q1"


def test_an_unwritten_changelog_has_an_age_and_warns_again(
    writer: ChangelogWriter, producer: Producer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(changelog, "time", SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
    assert writer.unwritten_s() == 0.0
    producer.fails = True
    for number, now in ((1, 1000.0), (2, 1010.0), (3, 1000.0 + changelog.REMIND_S)):  # noqa: B007
        writer.put("lake", document(number))
        wait_until(lambda: not writer._thread._waiting and not writer._thread._busy, "the failure")
    assert writer.unwritten_s() == changelog.REMIND_S
    assert caplog.text.count("the offset changelog log is not written") == 2
    producer.fails = False
    writer.put("lake", document(3))
    wait_until(lambda: writer.unwritten_s() == 0.0, "the record")


def test_a_waiting_document_is_not_replaced_by_an_older_one(writer: ChangelogWriter, producer: Producer) -> None:
    producer.may_deliver.clear()
    writer.put("lake", document(1, "q2"))
    writer.put("lake", document(5))
    writer.put("lake", document(4))
    producer.may_deliver.set()
    assert writer.flush(10)
    assert [record.document.number for record in producer.records if record.key() == "q1"] == [5]


def test_notices_about_the_group_do_not_end_the_reading() -> None:
    class Notice:
        def __init__(self, code: int, partition: int | None) -> None:
            self.code, self.at = code, partition

        def error(self) -> KafkaError:
            return KafkaError(self.code)

        def partition(self) -> int | None:
            return self.at

        def offset(self) -> None:
            return None

    unread = {0}
    for code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TRANSPORT):
        assert list(_parsed(Notice(code, None), unread, {0: 5})) == [] and unread == {0}  # type: ignore[arg-type]
    with pytest.raises(KafkaException):
        list(_parsed(Notice(KafkaError.TOPIC_AUTHORIZATION_FAILED, 0), unread, {0: 5}))  # type: ignore[arg-type]
    assert list(_parsed(Notice(KafkaError._PARTITION_EOF, 0), unread, {0: 5})) == [] and not unread  # type: ignore[arg-type]
