"""The thread that keeps the lease: whatever a renewal meets, a lease that is lost ends its holder."""

from __future__ import annotations

import threading
from typing import Any

from kafkastream_operator.kube.lease import Lease


class Server:
    """Holds one Lease; every call fails once it is told to."""

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


def test_a_renewal_that_fails_in_a_way_that_nobody_thought_of_counts_as_one_that_failed() -> None:
    server, lost = Server(), threading.Event()
    api: Any = server
    lease = Lease(api, "ns", "operator", identity="me", duration_s=0.5, on_loss=lost.set)
    lease.acquire()
    server.error = KeyError("resourceVersion")
    assert lost.wait(30)
