"""Lookups without an answer, with an invalid answer, and hanging ones."""

from __future__ import annotations

import logging

import pytest

from dynamic_kafka.errors import (
    MetadataInvalidError,
    MetadataUnavailableError,
)
from dynamic_kafka.metadata import (
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
)
from tests.unit.metadata.fakes import INTERVAL_S, PATIENCE_S, Discoveries, FakeService, cluster, in_background, stream

# --- Failures -------------------------------------------------------------------------------------------


def test_failures_up_to_the_threshold_are_tolerated(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=2)
    good = discovery.current()
    service.error = ConnectionError("refused")

    for failures in (1, 2):
        discovery.refresh()
        assert discovery.current() is good
        assert discovery.status().consecutive_failures == failures
        assert discovery.status().last_error.startswith("ConnectionError: refused (fakes.py, line ")
    discovery.refresh()

    with pytest.raises(MetadataUnavailableError, match=r"3 times .*\(metadataFailureThreshold=2\).*refused"):
        discovery.current()


def test_a_success_resets_the_count(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    for _ in range(3):
        service.error = ConnectionError("refused")
        discovery.refresh()
        assert discovery.status().consecutive_failures == 1
        service.error = None
        discovery.refresh()
        assert discovery.status().consecutive_failures == 0
        assert discovery.status().last_error is None

    assert discovery.current().sequence == 1


def test_with_threshold_0_the_first_failure_counts(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=0)
    service.error = SystemExit("a user's class may raise anything")

    discovery.refresh()

    with pytest.raises(MetadataUnavailableError, match="SystemExit"):
        discovery.current()


def test_a_missing_file_is_a_failure_and_an_invalid_one_is_not(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    service.error = MetadataUnavailableError("streams.yaml: cannot be read")
    discovery.refresh()
    assert discovery.status().consecutive_failures == 1

    service.error = MetadataInvalidError("streams.yaml:1: the document is empty")
    for _ in range(5):
        discovery.refresh()

    assert discovery.status().consecutive_failures == 0
    assert discovery.current().sequence == 1


def test_an_invalid_document_is_not_used_and_is_logged_once(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()

    with caplog.at_level(logging.ERROR):
        for text in ("f:3: topcs: unknown field", "f:3: topcs: unknown field", "f:4: tpics: unknown field"):
            service.error = MetadataInvalidError(text)
            discovery.refresh()
            assert discovery.current() is good
            assert discovery.status().rejected == text

    # Other tests may have lowered the log level of the driver, so the log may hold more than errors.
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [message.count("topcs") for message in errors] == [1, 0]
    service.error = None
    discovery.refresh()
    assert discovery.status().rejected is None


def test_streams_that_disagree_leave_the_last_good_ones(discoveries: Discoveries) -> None:
    service = FakeService(stream("a"), stream("b"))
    discovery = discoveries.start(service, "a", "b")

    service.set(stream("a"), stream("b", east=cluster("t", servers="other:1")))
    discovery.refresh()

    assert discovery.current().sequence == 1
    assert "'a' and 'b' disagree" in str(discovery.status().rejected)


def test_a_subscriber_must_return_streams(discoveries: Discoveries) -> None:
    class Wrong(KafkaStreamSubscriber):
        def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
            return ["orders"]  # type: ignore[list-item]

    with pytest.raises(MetadataInvalidError, match=r"Wrong.get_subscribed_streams returned something other"):
        discoveries.start(FakeService(), subscriber=Wrong())


# --- Hanging --------------------------------------------------------------------------------------------


def test_a_hanging_look_up_becomes_a_failure_at_its_deadline(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.hang()
    discoveries.clock.now += INTERVAL_S
    assert service.await_lookups(2)

    discoveries.clock.now += 29
    assert discovery.status().consecutive_failures == 0
    discoveries.clock.now += 2  # 31 s: the deadline is the larger of 30 s and the interval
    assert discovery.current() is good
    assert discovery.status().consecutive_failures == 1
    assert "hanging" in str(discovery.status().last_error)

    discoveries.clock.now += 30
    with pytest.raises(MetadataUnavailableError, match=r"2 times .*\(metadataFailureThreshold=1\).*hanging"):
        discovery.current()

    service.release()
    discovery.refresh()
    assert discovery.current() is good, "an answer, however late, is an answer"


def test_a_look_ups_deadline_is_at_least_the_interval(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, interval_s=300, failure_threshold=0)
    service.hang()
    discoveries.clock.now += 300
    assert service.await_lookups(2)

    discoveries.clock.now += 299
    discovery.current()
    discoveries.clock.now += 2
    with pytest.raises(MetadataUnavailableError):
        discovery.current()
    service.release()


def test_a_failed_look_up_counts_each_period_that_it_hung(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=9, interval_s=1000, lookup_deadline_s=30)
    service.hang()
    discoveries.clock.now += 1000
    assert service.await_lookups(2)
    discoveries.clock.now += 95
    assert discovery.status().consecutive_failures == 3

    service.error = ConnectionError("reset")
    service.release()
    # The refresh gets a lookup of its own, after the one that hung: one more failure.
    discovery.refresh()

    assert discovery.status().consecutive_failures == 4


@pytest.mark.scenario(38)
def test_calls_to_the_service_are_serialised(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    service.hang()
    discoveries.clock.now += INTERVAL_S
    assert service.await_lookups(2)

    callers = [in_background(discovery.refresh) for _ in range(5)]
    discoveries.clock.now += INTERVAL_S
    service.release()
    for thread, outcome in callers:
        thread.join(PATIENCE_S)
        assert outcome == [frozenset()]

    assert service.lookups >= 3, "a refresh is served by a lookup that began after it"
    assert service.most_at_once == 1
    assert len(service.threads) == 1, "discovery's own thread makes every call"


@pytest.mark.scenario(38)
def test_stop_returns_at_once_and_closes_a_service_that_hangs(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    service.hang()
    refreshing, _ = in_background(discovery.refresh)
    assert service.await_lookups(2)

    stopping, outcome = in_background(discovery.stop)

    stopping.join(PATIENCE_S)
    assert outcome == [None]
    refreshing.join(PATIENCE_S)
    assert not refreshing.is_alive(), "the thread that waited for the lookup goes on"
    assert service.closed.wait(PATIENCE_S), "closed while it hangs, since closing may unblock it"
    service.release()


@pytest.mark.scenario(38)
def test_stop_unblocks_a_start_that_hangs(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    service.hang()
    discovery = discoveries.make(service)
    starting, outcome = in_background(discovery.start)
    assert service.await_lookups(1)

    discovery.stop()

    starting.join(PATIENCE_S)
    assert isinstance(outcome[0], MetadataUnavailableError)
    assert "was stopped before its first lookup" in str(outcome[0])
    service.release()


@pytest.mark.scenario(37)
def test_an_error_of_a_look_up_after_stop_is_ignored(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=0)
    good = discovery.current()
    service.hang()
    in_background(discovery.refresh)
    assert service.await_lookups(2)
    thread = discovery._thread
    assert thread is not None

    discovery.stop()
    service.error = ConnectionError("closed under its feet")
    service.release()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert discovery.current() is good
    assert discovery.status().consecutive_failures == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_thread_ends_and_stop_may_be_called_twice(discoveries: Discoveries) -> None:
    discovery = discoveries.start(FakeService(stream()))
    thread = discovery._thread
    assert thread is not None

    discovery.stop()
    discovery.stop()

    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    discovery.refresh()  # returns at once
