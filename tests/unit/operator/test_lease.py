"""The thread that renews the lease: whatever goes wrong, a lost lease ends its holder."""

from __future__ import annotations

import threading
from typing import Any

from kafkastream_operator.kube.lease import Lease


class Server:
    """An API server with one Lease, whose calls can be made to fail."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "spec": {}}
        self.error: Exception | None = None

    def within(self, deadline_s: float) -> Any:
        return self

    def get(self, *_: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.lease

    def replace(self, _: Any, body: Any) -> Any:
        self.lease = body
        return body


def test_an_unexpected_error_counts_as_a_failed_renewal() -> None:
    server, lost = Server(), threading.Event()
    api: Any = server
    lease = Lease(api, "ns", "operator", identity="me", duration_s=0.5, on_loss=lost.set)
    lease.acquire()
    server.error = KeyError("resourceVersion")
    assert lost.wait(30)
