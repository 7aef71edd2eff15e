"""The thread that renews the lease: whatever goes wrong, a lost lease ends its holder."""

from __future__ import annotations

import threading
from typing import Any

from kafkastream_operator.kube.lease import Lease
from tests.unit.operator.server import Server


def no_version(*_: Any) -> Any:
    raise KeyError("resourceVersion")


def test_an_unexpected_error_counts_as_a_failed_renewal() -> None:
    server, lost = Server(), threading.Event()
    api: Any = server
    lease = Lease(api, "ns", "operator", identity="me", duration_s=0.5, on_loss=lost.set)
    lease.acquire()
    server.get = no_version  # type: ignore[method-assign]
    assert lost.wait(30)
    del server.get
    lease.release()


def test_a_renewal_that_hangs_does_not_hold_up_the_end() -> None:
    server, lost, answers = Server(), threading.Event(), threading.Event()
    api: Any = server
    lease = Lease(api, "ns", "operator", identity="me", duration_s=0.5, on_loss=lost.set)
    lease.acquire()
    server.get = lambda *_: answers.wait()  # type: ignore[method-assign, assignment, return-value]
    try:
        assert lost.wait(30)
        assert not lease.is_held()
    finally:
        del server.get
        answers.set()
        lease.release()


def test_a_lease_is_held_until_another_operator_may_take_it() -> None:
    now = [100.0]
    api: Any = Server()
    lease = Lease(api, "ns", "operator", identity="me", duration_s=9, on_loss=lambda: None, clock=lambda: now[0])
    assert not lease.is_held()
    assert lease.try_once()
    held = []
    for moment in (100.0, 105.9, 106.1, 109.0):
        now[0] = moment
        held.append(lease.is_held())
    assert held == [True, True, False, False]
