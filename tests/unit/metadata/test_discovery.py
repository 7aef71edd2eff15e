from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.errors import (
    MetadataConflictError,
    MetadataInvalidError,
    MetadataTooOldError,
    MetadataUnavailableError,
    OptionError,
)
from dynamic_kafka.metadata import (
    AwaitedRevision,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
    MetadataDiscovery,
    Revision,
    StreamIdsSubscriber,
    StreamPatternSubscriber,
)
from dynamic_kafka.metadata.model import Rendering
from dynamic_kafka.options import parse_options
from dynamic_kafka.services import make_discovery
from tests.unit.metadata.fakes import PATIENCE_S, FakeClock, FakeService, cluster, stream

INTERVAL_S = 10.0


class Started:
    """Discoveries of one test, stopped at its end. Their threads look at the fake clock every 5 ms."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._made: list[MetadataDiscovery] = []

    def make(self, service: KafkaMetadataService, *ids: str, **settings: Any) -> MetadataDiscovery:
        subscriber = settings.pop("subscriber", None) or StreamIdsSubscriber(ids or ("orders",))
        settings = {
            "interval_s": INTERVAL_S,
            "failure_threshold": 1,
            "probe_interval_s": 0.005,
            "clock": self.clock,
            **settings,
        }
        discovery = MetadataDiscovery(service, subscriber, **settings)
        self._made.append(discovery)
        return discovery

    def start(self, service: KafkaMetadataService, *ids: str, **settings: Any) -> MetadataDiscovery:
        discovery = self.make(service, *ids, **settings)
        discovery.start()
        return discovery

    def stop(self) -> None:
        for each in self._made:
            each.stop()


@pytest.fixture
def discoveries() -> Iterator[Started]:
    started = Started()
    yield started
    started.stop()


def aside(call: Any) -> tuple[threading.Thread, list[Any]]:
    """Run `call` in another thread; its result, or the exception it raised, is put into the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


# --- At start ---------------------------------------------------------------------------------------------


def test_the_first_look_up_is_in_force_when_start_returns(discoveries: Started) -> None:
    discovery = discoveries.start(FakeService(stream()))

    found = discovery.current()

    assert found.sequence == 1
    assert list(found.subscription.clusters) == ["east"]
    assert discovery.status().last_success_monotonic == discoveries.clock.now


def test_a_service_without_revisions_gets_one_from_the_content(discoveries: Started) -> None:
    found = discoveries.start(FakeService(stream())).current()
    assert found.revision == Revision(found.subscription.fingerprint)


def test_without_an_answer_at_start_there_is_no_tolerance(discoveries: Started) -> None:
    service = FakeService()
    service.error = ConnectionError("refused")
    discovery = discoveries.make(service, failure_threshold=5)

    with pytest.raises(MetadataUnavailableError, match="ConnectionError: refused"):
        discovery.start()

    with pytest.raises(MetadataUnavailableError, match=r"no metadata yet; last: .*refused; check the metadata service"):
        discovery.current()
    assert service.closed.wait(PATIENCE_S)


def test_an_invalid_document_at_start_stops_the_application(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService()
    service.error = MetadataInvalidError("streams.yaml:3: topcs: unknown field")
    with pytest.raises(MetadataInvalidError, match="topcs"):
        discoveries.start(service)
    assert [record.message for record in caplog.records] == [
        "invalid metadata, there is no good one yet: streams.yaml:3: topcs: unknown field"
    ]


def test_streams_that_contradict_each_other_at_start_stop_the_application(discoveries: Started) -> None:
    service = FakeService(stream("a"), stream("b", east=cluster("t", servers="other:1")))
    with pytest.raises(MetadataConflictError, match="'a' and 'b' disagree"):
        discoveries.start(service, "a", "b")


def test_an_unknown_stream_at_start_names_the_known_ones(discoveries: Started) -> None:
    with pytest.raises(MetadataInvalidError, match="'ordes' does not exist; known are orders"):
        discoveries.start(FakeService(stream()), "ordes")


def test_a_pattern_may_match_nothing_yet(discoveries: Started) -> None:
    service = FakeService()
    discovery = discoveries.start(service, subscriber=StreamPatternSubscriber("orders-.*"))
    assert discovery.current().subscription.stream_ids == ()


def test_a_first_look_up_that_hangs_ends_at_its_deadline(discoveries: Started) -> None:
    service = FakeService(stream())
    service.hang()
    with pytest.raises(MetadataUnavailableError, match=r"no answer within 0\.05 s"):
        discoveries.start(service, lookup_deadline_s=0.05)
    service.release()


# --- While running ----------------------------------------------------------------------------------------


@pytest.mark.scenario(11)
def test_with_interval_0_there_is_no_later_look_up(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, interval_s=0)

    service.dirty = True
    service.set(stream("orders", west=cluster("t")))
    discoveries.clock.now += 24 * 3600

    assert not discovery.wait_changed(1, timeout_s=0.2)
    assert service.lookups == 1
    assert list(discovery.current().subscription.clusters) == ["east"]


def test_with_interval_0_a_refresh_still_looks_up(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, interval_s=0)

    service.set(stream("orders", west=cluster("t")))
    discovery.refresh()

    assert list(discovery.current().subscription.clusters) == ["west"]


@pytest.mark.scenario(12)
def test_continuous_discovery_looks_up_once_per_interval(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    discoveries.clock.now += INTERVAL_S - 0.1
    assert not discovery.wait_changed(1, timeout_s=0.1)
    assert service.lookups == 1, "not before the interval is over"

    for round_ in range(2, 5):
        discoveries.clock.now += INTERVAL_S
        assert service.await_lookups(round_)
    discovery.refresh()  # a barrier: whatever else was due has been done before
    assert service.lookups == 5


def test_a_change_takes_effect_and_wakes_who_waits_for_it(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    waiting, outcome = aside(lambda: discovery.wait_changed(1, PATIENCE_S))

    service.set(stream("orders", east=cluster("orders"), west=cluster("orders", servers="w:1")))
    discoveries.clock.now += INTERVAL_S

    waiting.join(PATIENCE_S)
    assert outcome == [True]
    assert discovery.current().sequence == 2
    assert set(discovery.current().subscription.clusters) == {"east", "west"}


def test_a_look_up_that_finds_the_same_changes_nothing(discoveries: Started) -> None:
    discovery = discoveries.start(FakeService(stream()))
    before = discovery.current()

    discovery.refresh()

    assert discovery.current() is before


def test_a_new_revision_of_the_same_content_is_reported_as_such(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = Revision("sha256:a", counter=1)
    discovery = discoveries.start(service)

    service.edition = Revision("sha256:b", counter=2)
    discovery.refresh()

    assert (discovery.current().revision.counter, discovery.current().sequence) == (2, 2)


def test_a_mounted_file_that_changed_is_read_before_the_interval_is_over(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    service.set(stream("orders", west=cluster("t")))
    service.dirty = True

    assert discovery.wait_changed(1, PATIENCE_S)
    assert list(discovery.current().subscription.clusters) == ["west"]


def test_a_new_stream_that_matches_the_pattern_is_picked_up(discoveries: Started) -> None:
    service = FakeService(stream("orders-eu"))
    discovery = discoveries.start(service, subscriber=StreamPatternSubscriber("orders-.*"))

    service.set(stream("orders-eu"), stream("orders-us"), stream("old-orders-us"))
    discovery.refresh()

    assert discovery.current().subscription.stream_ids == ("orders-eu", "orders-us")


def test_a_stream_that_vanishes_while_running_is_no_longer_read_and_told_once_until_it_is_back(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [record.message for record in caplog.records if record.levelno == logging.WARNING]

    service = FakeService(stream())
    discovery = discoveries.start(service)

    # When it is mistyped
    service.set(stream("order"))
    for _ in range(3):
        discovery.refresh()

    # Then nothing of it is read, and that is said
    assert discovery.current().subscription.clusters == {}
    assert (discovery.status().rejected, discovery.status().missing) == (None, ("orders",))
    assert told() == [
        "the subscribed stream 'orders' is no longer in the metadata: nothing of it is read; known are order"
    ]

    # And when it is back, and gone again, it is said anew
    service.set(stream())
    discovery.refresh()
    assert discovery.status().missing == ()
    service.set()
    discovery.refresh()
    assert len(told()) == 2 and "the metadata names no streams at all" in told()[1]


def test_one_of_two_streams_that_vanishes_is_told_as_well(
    discoveries: Started, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream("orders"), stream("payments", west=cluster("payments")))
    discovery = discoveries.start(service, "orders", "payments")

    service.set(stream("orders"))
    discovery.refresh()

    assert discovery.status().missing == ("payments",)
    assert "'payments' is no longer in the metadata" in caplog.text


# --- Failures ---------------------------------------------------------------------------------------------


def test_failures_up_to_the_threshold_are_tolerated_and_one_more_is_not(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=2)
    good = discovery.current()
    service.error = ConnectionError("refused")

    for failures in (1, 2):
        discovery.refresh()
        assert discovery.current() is good
        assert discovery.status().consecutive_failures == failures
        assert discovery.status().last_error == "ConnectionError: refused"
    discovery.refresh()

    with pytest.raises(MetadataUnavailableError, match=r"no answer 3 times in a row, 2 are tolerated .*refused"):
        discovery.current()


def test_a_success_resets_the_count(discoveries: Started) -> None:
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


def test_with_threshold_0_the_first_failure_counts(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=0)
    service.error = SystemExit("a user's class may raise anything")

    discovery.refresh()

    with pytest.raises(MetadataUnavailableError, match="SystemExit"):
        discovery.current()


def test_a_missing_file_is_a_failure_and_an_invalid_one_is_not(discoveries: Started) -> None:
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


def test_an_invalid_document_stays_out_of_force_and_is_told_once(
    discoveries: Started, caplog: pytest.LogCaptureFixture
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

    # Another test may have opened the driver's log, which lets lines through that are no errors.
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert [message.count("topcs") for message in errors] == [1, 0]
    service.error = None
    discovery.refresh()
    assert discovery.status().rejected is None


def test_streams_that_come_to_contradict_each_other_leave_the_last_good_ones(discoveries: Started) -> None:
    service = FakeService(stream("a"), stream("b"))
    discovery = discoveries.start(service, "a", "b")

    service.set(stream("a"), stream("b", east=cluster("t", servers="other:1")))
    discovery.refresh()

    assert discovery.current().sequence == 1
    assert "'a' and 'b' disagree" in str(discovery.status().rejected)


def test_a_subscriber_that_returns_something_else_is_told_so(discoveries: Started) -> None:
    class Wrong(KafkaStreamSubscriber):
        def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
            return ["orders"]  # type: ignore[list-item]

    with pytest.raises(MetadataInvalidError, match=r"Wrong.get_subscribed_streams returned something other"):
        discoveries.start(FakeService(), subscriber=Wrong())


# --- Hanging ----------------------------------------------------------------------------------------------


def test_a_hanging_look_up_keeps_the_last_good_one_until_it_counts_as_failed(discoveries: Started) -> None:
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
    with pytest.raises(MetadataUnavailableError, match=r"2 times in a row, 1 are tolerated .*hanging"):
        discovery.current()

    service.release()
    discovery.refresh()
    assert discovery.current() is good, "an answer, however late, is an answer"


def test_the_deadline_of_a_look_up_is_never_shorter_than_the_interval(discoveries: Started) -> None:
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


def test_a_look_up_that_hung_and_then_failed_counts_as_long_as_it_hung(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=9, interval_s=1000, lookup_deadline_s=30)
    service.hang()
    discoveries.clock.now += 1000
    assert service.await_lookups(2)
    discoveries.clock.now += 95
    assert discovery.status().consecutive_failures == 3

    service.error = ConnectionError("reset")
    service.release()
    # What is asked for now is served by a look-up of its own, after the one that hung: one failure more.
    discovery.refresh()

    assert discovery.status().consecutive_failures == 4


@pytest.mark.scenario(38)
def test_calls_to_the_service_are_serialised(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    service.hang()
    discoveries.clock.now += INTERVAL_S
    assert service.await_lookups(2)

    callers = [aside(discovery.refresh) for _ in range(5)]
    discoveries.clock.now += INTERVAL_S
    service.release()
    for thread, outcome in callers:
        thread.join(PATIENCE_S)
        assert outcome == [None]

    assert service.lookups >= 3, "a refresh is served by a look-up that began after it"
    assert service.most_at_once == 1


@pytest.mark.scenario(38)
def test_stop_returns_at_once_and_closes_a_service_that_hangs(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    service.hang()
    refreshing, _ = aside(discovery.refresh)
    assert service.await_lookups(2)

    stopping, outcome = aside(discovery.stop)

    stopping.join(PATIENCE_S)
    assert outcome == [None]
    refreshing.join(PATIENCE_S)
    assert not refreshing.is_alive(), "who waited for the look-up is let go"
    assert service.closed.wait(PATIENCE_S), "closed while it hangs, since that is what may unblock it"
    service.release()


@pytest.mark.scenario(38)
def test_stop_unblocks_a_start_that_hangs(discoveries: Started) -> None:
    service = FakeService(stream())
    service.hang()
    discovery = discoveries.make(service)
    starting, outcome = aside(discovery.start)
    assert service.await_lookups(1)

    discovery.stop()

    starting.join(PATIENCE_S)
    assert isinstance(outcome[0], MetadataUnavailableError)
    assert "was stopped before its first look-up" in str(outcome[0])
    service.release()


@pytest.mark.scenario(37)
def test_an_error_of_a_look_up_after_stop_is_ignored(discoveries: Started, caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, failure_threshold=0)
    good = discovery.current()
    service.hang()
    aside(discovery.refresh)
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


def test_the_thread_ends_with_discovery_and_stop_may_be_called_twice(discoveries: Started) -> None:
    discovery = discoveries.start(FakeService(stream()))
    thread = discovery._thread
    assert thread is not None

    discovery.stop()
    discovery.stop()

    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    discovery.refresh()  # returns at once


# --- Freshness --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("awaited", "reached"),
    [
        ("17", [17, 18]),
        ("6f1c/17", [17, 18]),
        ("other/17", []),
        ("sha256:" + "a" * 64, [17]),
    ],
)
def test_start_waits_for_the_awaited_revision(discoveries: Started, awaited: str, reached: list[int]) -> None:
    for counter in (16, 17, 18):
        service = FakeService(stream())
        digest = "sha256:" + ("a" if counter == 17 else "b") * 64
        service.edition = Revision(digest, counter=counter, lineage="6f1c")
        discovery = discoveries.make(service, awaited_revision=awaited, awaited_timeout_s=0)
        if counter in reached:
            discovery.start()
            assert discovery.current().revision.counter == counter
        else:
            with pytest.raises(MetadataTooOldError, match=rf"at revision 6f1c/{counter} .*and {awaited} did not"):
                discovery.start()


def test_the_awaited_revision_may_arrive_late(discoveries: Started, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = FakeService(stream())
    service.edition = Revision("sha256:old", counter=16)
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = aside(discovery.start)
    assert service.await_lookups(3)
    assert starting.is_alive()
    with pytest.raises(MetadataUnavailableError, match="no metadata yet"):
        discovery.current()

    # it is said at the start, and every half minute
    discoveries.clock.now += 29
    assert service.await_lookups(service.lookups + 2)
    assert said(caplog) == ["waiting for revision 17, at most 60 s; there is 16 (sha256:old…)"]
    discoveries.clock.now += 2
    assert service.await_lookups(service.lookups + 3)
    assert said(caplog)[1:] == ["waiting for revision 17, at most 29 s; there is 16 (sha256:old…)"]

    service.edition = Revision("sha256:new", counter=17)

    starting.join(PATIENCE_S)
    assert outcome == [None]
    assert discovery.current().revision.counter == 17


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of waiting."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if message.startswith("waiting for")]


def test_while_waiting_a_missing_or_invalid_document_may_still_be_put_right(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = Revision("sha256:new", counter=17)
    service.error = MetadataUnavailableError("streams.yaml: cannot be read")
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = aside(discovery.start)
    assert service.await_lookups(2)
    service.error = MetadataInvalidError("streams.yaml:1: the document is empty")
    assert service.await_lookups(service.lookups + 2)

    service.error = None

    starting.join(PATIENCE_S)
    assert outcome == [None]


def test_a_document_without_revisions_never_reaches_one(discoveries: Started) -> None:
    with pytest.raises(MetadataTooOldError, match="17 did not arrive within 0 s"):
        discoveries.start(FakeService(stream()), awaited_revision="17", awaited_timeout_s=0)


OPERATORS = Revision("sha256:x", 16, "6f1c", Rendering("uid"))
OF_A_USER = Revision("sha256:y", 1)


def test_what_the_environment_names_is_awaited_as_the_option_is(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    with pytest.raises(MetadataTooOldError, match=r"and 6f1c/17 \(KAFKASTREAMS_REVISION\) did not arrive"):
        discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0)

    service.edition = replace(OPERATORS, counter=17)
    assert discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision.counter == 17


def test_what_the_environment_names_says_nothing_of_documents_that_the_operator_does_not_write(
    discoveries: Started,
) -> None:
    """One driver may read the operator's document and one of its user's."""
    service = FakeService(stream())
    service.edition = OF_A_USER
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    assert discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision == OF_A_USER


@pytest.mark.parametrize("environment", [{}, {"KAFKASTREAMS_REVISION": ""}])
def test_an_environment_that_names_nothing_awaits_nothing(environment: dict[str, str]) -> None:
    assert AwaitedRevision.of_environment(environment) is None


def test_a_wrong_revision_in_the_environment_is_told_with_its_name() -> None:
    with pytest.raises(OptionError, match="KAFKASTREAMS_REVISION in the environment: 'newest' is no revision"):
        AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "newest"})


@pytest.mark.parametrize(
    ("options", "environment", "awaited"),
    [
        ({"metadataPath": "/streams.yaml"}, "6f1c/17", "6f1c/17 (KAFKASTREAMS_REVISION)"),
        ({"metadataPath": "/streams.yaml", "metadataRevision": "6f1c/18"}, "6f1c/17", "6f1c/18"),
        ({"metadataService": "static", "metadataDocument": "[]"}, "6f1c/17", "None"),
        ({"metadataPath": "/streams.yaml"}, None, "None"),
    ],
    ids=["environment", "the option wins", "no document of the operator's", "nothing"],
)
def test_the_environment_is_asked_where_the_option_is_silent(
    options: dict[str, str], environment: str | None, awaited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is not None:
        monkeypatch.setenv("KAFKASTREAMS_REVISION", environment)
    discovery = make_discovery(parse_options({"streamIds": "s", **options}, mode="streaming"))
    assert str(discovery._awaited) == awaited


@pytest.mark.parametrize("awaited", ["", "v17", "-1", "sha256:12", "/"])
def test_what_is_no_revision_cannot_be_awaited(discoveries: Started, awaited: str) -> None:
    with pytest.raises(OptionError, match="is no revision"):
        discoveries.make(FakeService(), awaited_revision=awaited)


# --- Rejected by what brokers say -------------------------------------------------------------------------


def test_rejected_metadata_is_replaced_by_the_last_good_one(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    bad = discovery.current()

    discovery.reject(bad, "cluster 'east' is answered by another cluster", keep=good)

    assert discovery.current().subscription == good.subscription
    assert discovery.current().sequence == 3
    discovery.refresh()
    assert discovery.current().subscription == good.subscription, "the same content stays out"
    assert discovery.status().rejected == "cluster 'east' is answered by another cluster"


def test_a_rejection_ends_when_the_metadata_says_something_else(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    discovery.reject(discovery.current(), "another cluster", keep=good)

    service.set(stream("orders", east=cluster("orders", servers="moved:1")))
    discovery.refresh()

    assert discovery.current().subscription.clusters["east"].bootstrap_servers == "moved:1"
    assert discovery.status().rejected is None


def test_a_rejection_says_which_revision_it_means(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    discovery = discoveries.start(service)
    good = discovery.current()
    assert discovery.status().rejected_token == ""
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    service.edition = replace(OPERATORS, counter=17)
    discovery.refresh()

    discovery.reject(discovery.current(), "another cluster", keep=good)
    assert discovery.status().rejected_token == "6f1c/17"

    service.edition = replace(OPERATORS, counter=18)
    discovery.refresh()
    assert discovery.status().rejected_token == "6f1c/18", "the same content again is no better"

    service.set(stream())
    discovery.refresh()
    assert (discovery.status().rejected, discovery.status().rejected_token) == (None, "")


def test_a_document_that_cannot_be_used_is_told_with_its_revision_as_far_as_it_is_known(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    discovery = discoveries.start(service)
    service.error = MetadataInvalidError("streams.json:1: wrong")
    discovery.refresh()
    assert (discovery.status().rejected, discovery.status().rejected_token) == ("streams.json:1: wrong", "")

    service.error.token = "6f1c/17"
    discovery.refresh()
    assert discovery.status().rejected_token == "6f1c/17"

    service.error = None
    service.edition = replace(OPERATORS, counter=18)
    discovery.refresh()
    assert (discovery.status().revision, discovery.status().rejected_token) == (service.edition, "")


def test_streams_that_do_not_fit_together_are_told_with_their_revision(discoveries: Started) -> None:
    service = FakeService(stream(), stream("payments"))
    service.edition = OPERATORS
    discovery = discoveries.start(service, "orders", "payments")
    service.set(stream(), stream("payments", east=cluster("payments", servers="other:1")))
    service.edition = replace(OPERATORS, counter=17)
    discovery.refresh()
    assert "disagree about the cluster 'east'" in (discovery.status().rejected or "")
    assert discovery.status().rejected_token == "6f1c/17"


def test_a_rejection_that_comes_too_late_does_not_hit_what_came_after(discoveries: Started) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)
    good = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="impostor:1")))
    discovery.refresh()
    bad = discovery.current()
    service.set(stream("orders", east=cluster("orders", servers="moved:1")))
    discovery.refresh()

    discovery.reject(bad, "another cluster", keep=good)

    assert discovery.current().subscription.clusters["east"].bootstrap_servers == "moved:1"
