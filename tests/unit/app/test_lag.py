"""The prober outlives what goes wrong in it, and tells no old numbers meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.app.lag import LagProber
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import parse_options

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
