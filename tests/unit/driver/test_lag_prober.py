"""The lag prober survives all errors, and never shows old numbers after one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.driver.heap_trim import HeapTrimmer
from dynamic_kafka.driver.report import lag_prober
from dynamic_kafka.driver.report.drain_tracker import ClusterListing, DrainTracker
from dynamic_kafka.driver.report.lag_prober import LagProber
from dynamic_kafka.errors import ClusterUnreachableError, SecretError
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.observation import ClusterObservation, TopicObservation
from dynamic_kafka.planning.splits import Split

OPTIONS = parse_options({"streamIds": "s", "metadataPath": "/streams.yaml"}, mode="streaming")
NOTHING = SimpleNamespace(subscription=Subscription({}, ("s",)), revision=None)


class Discovery:
    """A discovery that raises at the given lookups; `looked` is set after all of them."""

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
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["the lag is not known for now: bug", "the lag is not known for now: bug again"]


def test_each_round_counts_for_giving_memory_back(probing: Probing, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []
    monkeypatch.setattr(HeapTrimmer, "count_round", lambda _: rounds.append("round"))
    discovery = Discovery(None, RuntimeError("bug"))
    probing(discovery)
    assert discovery.looked.wait(10)
    assert len(rounds) >= 2


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


AT_REST = SimpleNamespace(draining=frozenset())


class Probe:
    """A cluster whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: Future[ClusterObservation] = Future()

    def observe(self, question: Any) -> Future[ClusterObservation]:
        return self.asked

    def mark_used(self) -> None:
        self.asked = Future()


def test_a_silent_cluster_stays_unreachable_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_prober, "ANSWER_TIMEOUT_S", 0.0)
    probes = {"east": Probe(), "west": Probe()}
    discovery = SimpleNamespace(
        current=lambda: SimpleNamespace(
            subscription=SimpleNamespace(clusters=dict.fromkeys(("east", "north", "west"), AT_REST), fingerprint="f"),
            revision=None,
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

    # the cluster has not answered yet
    probes["west"].asked.set_result(answer)
    prober._ask()
    assert prober.unreachable()["east"] == refused

    probes["east"].asked.set_result(answer)
    prober._ask()
    assert prober.unreachable().keys() == {"north"}


class Recorded(DrainTracker):
    """The rounds that the prober records; `recorded` is set with the first."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[tuple[dict[str, frozenset[str]], list[str]]] = []
        self.recorded = threading.Event()

    def record(
        self, draining: Mapping[str, frozenset[str]], listings: Mapping[str, ClusterListing], failed: Collection[str]
    ) -> None:
        self.rounds.append((dict(draining), sorted(failed)))
        self.recorded.set()


EAST = SubscribedCluster(
    {"t": "s"}, {"bootstrap.servers": "127.0.0.1:1"}, secret_folder="gone", draining=frozenset("t")
)
DRAINING = SimpleNamespace(subscription=Subscription({"east": EAST}, ("s",)), revision=None)


def test_a_cluster_that_cannot_be_asked_counts_as_failed() -> None:
    """Its Secret is missing: no client can be made."""
    drains = Recorded()
    prober = LagProber(OPTIONS, cast(Any, SimpleNamespace(current=lambda: DRAINING)), 0.001, drains=drains)
    prober.start()
    assert drains.recorded.wait(10)
    prober.stop()
    assert drains.rounds[0] == ({"east": frozenset("t")}, ["east"])


def test_when_a_round_goes_wrong_all_that_drains_has_failed() -> None:
    drains, outcomes = Recorded(), [DRAINING, RuntimeError("bug"), RuntimeError("bug")]
    over = threading.Event()

    def current() -> Any:
        if not outcomes:
            over.set()
            return NOTHING
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    prober = LagProber(OPTIONS, cast(Any, SimpleNamespace(current=current)), 0.001, drains=drains)
    prober.start()
    assert over.wait(10)
    prober.stop()
    assert drains.rounds[:3] == [({"east": frozenset("t")}, ["east"])] * 3


def test_metadata_that_changes_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynamic_kafka.driver.report.lag_prober.METADATA_POLL_S", 0.001)
    asked = threading.Semaphore(0)
    revision = Revision("sha256:1")

    def current() -> Any:
        asked.release()
        return SimpleNamespace(subscription=Subscription({}, ("s",)), revision=revision)

    discovery = SimpleNamespace(current=current, status=lambda: SimpleNamespace(revision=revision))
    prober = LagProber(OPTIONS, cast(Any, discovery), interval_s=3600)
    prober.start()
    prober.start()  # one thread asks, however often it is started
    assert asked.acquire(timeout=10)
    assert not asked.acquire(timeout=0.1)
    revision = Revision("sha256:2")
    assert asked.acquire(timeout=10)
    prober.stop()
