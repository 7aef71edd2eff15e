"""Serve the application's metrics over HTTP, for Prometheus. Driver; `app.run` starts it."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector


def serve_metrics(collector: Collector, port: int, host: str) -> Callable[[], None]:
    """Serve the metrics over HTTP in a registry of their own, and return the function that stops the server.

    Raises:
        OSError: the address is taken or not allowed.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(port, addr=host, registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(1)

    return stop
