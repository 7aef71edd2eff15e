"""An HTTPS server on 127.0.0.1 in this process, one thread a connection, whose handler is a method."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class HttpsServer(ThreadingHTTPServer):
    """Listens from the beginning, and serves once started.

    Args:
        certificate: key and chain (PEM).
        serve: answers one request.
    """

    daemon_threads = True

    def __init__(self, certificate: Path, serve: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake in the connection's own thread: one that never ends it holds up nobody.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Serve from now on."""
        threading.Thread(target=self.serve_forever, args=(0.05,), name="https-server", daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has closed its connection."""
