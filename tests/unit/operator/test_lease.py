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
