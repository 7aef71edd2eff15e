"""The prober outlives what goes wrong in it, and tells no old numbers meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.app import lag
from dynamic_kafka.app.lag import LagProber
from dynamic_kafka.errors import ClusterUnreachableError, SecretError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split

OPTIONS = parse_options({"streamIds": "s", "metadataPath": "/streams.yaml"}, mode="streaming")
NOTHING = SimpleNamespace(subscription=Subscription({}, ("s",)))


class Discovery:
    """Raises at each look-up that it is told to; `looked` is set once all of them were made."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.looked = threading.Event()

    def current(self) -> Any:
        if not self.outcomes:
            self.looked.set()
            return NOTHING
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return NOTHING


Probing = Callable[[Discovery], LagProber]


@pytest.fixture
def probing() -> Iterator[Probing]:
    probers = []

    def start(discovery: Discovery) -> LagProber:
        prober = LagProber(OPTIONS, cast(Any, discovery), interval_s=0.001)
        probers.append(prober)
        prober._ends = cast(Any, {"an": "old number"})
        prober.start()
        return prober

    yield start
    for prober in probers:
        prober.stop()


def test_whatever_is_raised_is_logged_once_and_asking_goes_on(
    probing: Probing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    discovery = Discovery(*[RuntimeError("bug")] * 3, None, RuntimeError("bug again"))
    probing(discovery)
    assert discovery.looked.wait(10)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the lag is not known for now: bug", "the lag is not known for now: bug again"]


def test_what_was_known_is_forgotten(probing: Probing) -> None:
    discovery = Discovery(*[RuntimeError("bug")] * 2)
    waiting = threading.Event()
    seen: list[Any] = []

    def current() -> Any:
        if waiting.is_set():
            seen.append(dict(prober.ends()))
        waiting.set()
        return Discovery.current(discovery)

    discovery.current = current  # type: ignore[method-assign]
    prober = probing(discovery)
    assert discovery.looked.wait(10)
    assert seen[0] == {}


class Probe:
    """A cluster whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: Future[ClusterObservation] = Future()

    def observe(self, question: Any) -> Future[ClusterObservation]:
        return self.asked

    def taken(self) -> None:
        self.asked = Future()


def test_who_does_not_answer_is_known_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "PATIENCE_S", 0.0)
    probes = {"east": Probe(), "west": Probe()}
    discovery = SimpleNamespace(
        current=lambda: SimpleNamespace(
            subscription=SimpleNamespace(clusters=dict.fromkeys(("east", "north", "west")), fingerprint="f")
        )
    )
    prober = LagProber(OPTIONS, cast(Any, discovery))
    north = SecretError("the folder is not there")
    prober._probes = cast(Any, SimpleNamespace(for_subscription=lambda _: (probes, {"north": north})))
    answer = ClusterObservation({"orders": TopicObservation({0: 7})})

    probes["east"].asked.set_exception(ClusterUnreachableError("east", "connection refused"))
    probes["west"].asked.set_result(answer)
    assert prober._ask() == {Split("west", "orders", 0): 7}
    assert prober.named() == {"east", "north", "west"}
    refused = "[CLUSTER_UNREACHABLE cluster=east] connection refused"
    assert prober.unreachable() == {"east": refused, "north": "the folder is not there"}

    # still thinking, which is no answer
    probes["west"].asked.set_result(answer)
    prober._ask()
    assert prober.unreachable()["east"] == refused

    probes["east"].asked.set_result(answer)
    prober._ask()
    assert prober.unreachable().keys() == {"north"}
