"""Users' services and subscribers that raise: each error is a failed lookup, and none freezes the metadata silently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

import pytest

from dynamic_kafka.errors import MetadataError, MetadataInvalidError, MetadataTooOldError, MetadataUnavailableError
from dynamic_kafka.metadata import KafkaMetadataService, KafkaStream, KafkaStreamSubscriber
from dynamic_kafka.metadata.discovery_state import DiscoveryState
from tests.support.waiting import eventually
from tests.unit.metadata.fakes import INTERVAL_S, PATIENCE_S, Discoveries, FakeService, cluster, in_background, stream


class Raising(KafkaStreamSubscriber):
    """A subscriber to all streams, of which one method raises once `error` is set."""

    def __init__(self, method: str) -> None:
        self.method, self.error = method, None

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        self._raise_in("get_subscribed_streams")
        return service.get_all_streams()

    def check_at_start(self, service: KafkaMetadataService, found: Sequence[KafkaStream]) -> None:
        self._raise_in("check_at_start")

    def missing(self, stream_ids: Collection[str]) -> list[str]:
        self._raise_in("missing")
        return []

    error: BaseException | None

    def _raise_in(self, method: str) -> None:
        if method == self.method and self.error is not None:
            raise self.error


class OwnInvalidError(MetadataInvalidError):
    """A user's own error, which does not call the constructor of its base."""

    def __init__(self) -> None:
        self.args = ("the registry answers nonsense",)


ERRORS = [RuntimeError("boom"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MetadataTooOldError("odd")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", ["get_subscribed_streams", "missing"])
def test_any_error_of_a_subscriber_is_a_counted_failure(
    discoveries: Discoveries, method: str, error: BaseException
) -> None:
    subscriber = Raising(method)
    service = FakeService(stream())
    discovery = discoveries.start(service, subscriber=subscriber, failure_threshold=1)
    good = discovery.current()

    # One failure is tolerated, and the metadata in force stays; the next one fails the plan.
    subscriber.error = error
    discovery.refresh()
    assert (discovery.current(), discovery.status().consecutive_failures) == (good, 1)
    discovery.refresh()
    with pytest.raises(MetadataUnavailableError, match=r"no answer 2 times.*\(metadataFailureThreshold=1\)"):
        discovery.current()

    # Lookups go on: when the subscriber works again, its answer comes into force.
    subscriber.error = None
    service.set(stream("orders", west=cluster("orders")))
    discoveries.clock.now += INTERVAL_S
    assert eventually(lambda: discovery.status().last_error is None, PATIENCE_S)
    assert list(discovery.current().subscription.clusters) == ["west"]


@pytest.mark.parametrize("error", ERRORS[:2], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", ["get_subscribed_streams", "check_at_start", "missing"])
def test_any_error_of_a_subscriber_ends_the_start(discoveries: Discoveries, method: str, error: BaseException) -> None:
    subscriber = Raising(method)
    subscriber.error = error

    with pytest.raises(MetadataUnavailableError, match=type(error).__name__):
        discoveries.start(FakeService(stream()), subscriber=subscriber)


def test_a_subscriber_that_hangs_holds_no_plan_up(discoveries: Discoveries) -> None:
    class Hanging(Raising):
        entered, gate = threading.Event(), threading.Event()

        def missing(self, stream_ids: Collection[str]) -> list[str]:
            if self.error is not None:
                self.entered.set()
                assert self.gate.wait(PATIENCE_S)
            return []

    subscriber = Hanging("missing")
    discovery = discoveries.start(FakeService(stream()), subscriber=subscriber)
    good = discovery.current()
    subscriber.error = TimeoutError()
    refreshing, _ = in_background(discovery.refresh)
    assert subscriber.entered.wait(PATIENCE_S)

    planning, outcome = in_background(discovery.current)

    planning.join(PATIENCE_S / 2)
    assert outcome == [good]
    subscriber.gate.set()
    refreshing.join(PATIENCE_S)


def test_an_own_subclass_of_the_error_rejects_the_answer(discoveries: Discoveries) -> None:
    subscriber = Raising("get_subscribed_streams")
    discovery = discoveries.start(FakeService(stream()), subscriber=subscriber)

    subscriber.error = OwnInvalidError()
    discovery.refresh()

    assert discovery.status().rejected == "the registry answers nonsense"
    assert discovery.current().sequence == 1


@pytest.mark.parametrize("wrong", ["17", 17, object()], ids=["text", "number", "object"])
def test_a_revision_that_is_none_rejects_the_answer(discoveries: Discoveries, wrong: object) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    service.next_revision = wrong  # type: ignore[assignment]
    discovery.refresh()

    assert str(discovery.status().rejected).startswith("FakeService.revision is no Revision")


def test_a_revision_that_raises_is_a_failure(discoveries: Discoveries) -> None:
    class Registry(FakeService):
        @property
        def revision(self) -> None:
            if self.error is not None:
                raise SystemExit("no registry")

        def _enter(self) -> None:
            pass

    service = Registry(stream())
    discovery = discoveries.start(service)

    service.error = ConnectionError()
    discovery.refresh()

    assert str(discovery.status().last_error).startswith("SystemExit: no registry (test_raising_user_code.py, line ")


def test_a_probe_that_raises_does_not_end_the_lookups(discoveries: Discoveries) -> None:
    class Registry(FakeService):
        probes = 0

        def changed(self) -> bool:
            self.probes += 1
            raise SystemExit

    service = Registry(stream())
    discovery = discoveries.start(service)

    service.set(stream("orders", west=cluster("orders")))
    discoveries.clock.now += INTERVAL_S

    assert eventually(lambda: discovery.current().sequence == 2, PATIENCE_S)


def test_secrets_in_the_error_of_user_code_are_not_shown(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    subscriber = Raising("missing")
    discovery = discoveries.start(FakeService(stream()), subscriber=subscriber, failure_threshold=0)
    subscriber.error = ValueError(
        "401 of https://bob:hunter2@registry/v1?token=hunter2&x=1\nAuthorization: Bearer hunter2"
    )

    discovery.refresh()

    with pytest.raises(MetadataUnavailableError) as raised:
        discovery.current()
    assert "ValueError: 401 of https://***@registry/v1?token=***&x=1 Authorization: ***" in str(raised.value)
    assert "hunter2" not in caplog.text + str(raised.value) + str(discovery.status())
    assert "hunter2" not in str(discovery.status().last_error)


@pytest.mark.parametrize("during", ["start", "run"])
def test_a_plan_fails_when_the_discovery_thread_is_dead(
    discoveries: Discoveries, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, during: str
) -> None:
    def unexpected(*_: object) -> None:
        raise AttributeError("a defect of our own")

    discovery = discoveries.make(FakeService(stream()))
    starts: Callable[[], None] = discovery.start
    if during == "start":
        monkeypatch.setattr(DiscoveryState, "answer", unexpected)
        with pytest.raises(MetadataError, match=r"no longer looked up.*: AttributeError"):
            starts()
        return
    starts()
    monkeypatch.setattr(DiscoveryState, "answer", unexpected)
    discovery.refresh()

    # Then every later plan fails with the cause, and nothing waits for the dead thread.
    for _ in range(2):
        with pytest.raises(MetadataUnavailableError, match=r"AttributeError: a defect .*; restart"):
            discovery.current()
    assert "a defect of our own" in str(discovery.status().last_error)
    assert "metadata is no longer looked up" in caplog.text
    discovery.refresh()
