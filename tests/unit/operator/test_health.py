"""The answers to probes: a standby operator is live, and one with a blocked event loop is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import urllib3

from kafkastream_operator.handlers.health import LIVENESS_EXAMPLE, MAX_LOOP_PAUSE_S, Health, answer_probes
from kafkastream_operator.handlers.http_server import parse_address
from kafkastream_operator.handlers.watch_health import MAX_SILENCE_S, Watch
from kafkastream_operator.kube.api import PODS
from tests.support.ports import reserve_ports


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(clock)


def test_a_standby_operator_stays_live_and_ready(health: Health, clock: Clock) -> None:
    clock.now = 10 * MAX_LOOP_PAUSE_S
    assert (health.live(), health.ready()) == ((True, "standby"), (True, "standby"))


def test_before_everything_is_listed_it_is_live_but_not_ready(health: Health) -> None:
    health.enter("starting")
    assert (health.live()[0], health.ready()[0]) == (True, False)
    health.enter("serving")
    assert (health.live()[0], health.ready()[0]) == (True, True)


def test_a_blocked_event_loop_is_neither_live_nor_ready(health: Health, clock: Clock) -> None:
    health.enter("serving")
    clock.now += MAX_LOOP_PAUSE_S + 1
    assert (health.live()[0], health.ready()[0]) == (False, False)
    assert "has not run for 31 s" in health.live()[1]

    async def run_loop() -> None:
        heartbeat = asyncio.create_task(health.run_heartbeat())
        await asyncio.sleep(0)
        heartbeat.cancel()

    asyncio.run(run_loop())
    assert health.live() == (True, "serving")


PODS_HERE: Watch = (PODS, "here")


def passes(health: Health, clock: Clock, seconds: float, *, answers: bool = True) -> None:
    """Let time pass while the event loop runs, and end with a resync that succeeds or fails."""
    clock.now += seconds
    health.enter("serving")
    health.watches.record_listing(answers)


def test_a_watch_that_misses_a_change_is_not_live(health: Health, clock: Clock) -> None:
    health.enter("serving")
    health.watches.record_event(PODS_HERE)
    health.watches.expect_event(PODS_HERE)
    passes(health, clock, MAX_SILENCE_S / 2)
    health.watches.expect_event(PODS_HERE)
    assert health.live()[0]
    passes(health, clock, MAX_SILENCE_S / 2 + 1)
    assert health.live() == (False, "serving: the watch of pods in here has been silent about a change for 301 s")
    health.watches.record_event(PODS_HERE)
    assert health.live() == (True, "serving")


@pytest.mark.parametrize("delivered", [True, False])
def test_a_watch_that_owes_no_event_stays_live(health: Health, clock: Clock, delivered: bool) -> None:
    if delivered:
        health.watches.record_event(PODS_HERE)
    else:
        health.watches.expect_event(PODS_HERE)  # without any event so far: its kind may not be installed
    passes(health, clock, 100 * MAX_SILENCE_S)
    assert health.live()[0]


def test_a_watch_stays_live_while_the_api_server_is_away(health: Health, clock: Clock) -> None:
    health.enter("serving")
    health.watches.record_event(PODS_HERE)
    health.watches.expect_event(PODS_HERE)
    for _ in range(10):
        passes(health, clock, MAX_SILENCE_S, answers=False)
        assert health.live()[0]
    passes(health, clock, MAX_SILENCE_S)
    assert health.live()[0]
    passes(health, clock, MAX_SILENCE_S)
    assert not health.live()[0]


@pytest.fixture
def url(health: Health) -> Iterator[str]:
    """The address at which probes are answered."""
    (port,) = reserve_ports(1)
    server = answer_probes(health, f"http://127.0.0.1:{port}/healthz")
    yield f"http://127.0.0.1:{port}"
    server.shutdown()
    server.server_close()


def test_probes_are_answered(health: Health, url: str) -> None:
    assert urllib3.request("GET", f"{url}/healthz").status == 200
    health.enter("starting")
    assert urllib3.request("GET", f"{url}/readyz").status == 503
    assert urllib3.request("GET", f"{url}/healthz").data == b"starting\n"
    assert urllib3.request("GET", f"{url}/elsewhere").status == 404


@pytest.mark.parametrize(
    "text", ["8080", "https://0.0.0.0:8080/healthz", "http://0.0.0.0/healthz", "http://h:1/readyz"]
)
def test_an_invalid_probe_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it as http"):
        parse_address(text, LIVENESS_EXAMPLE)
