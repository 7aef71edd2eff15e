"""A TCP server on 127.0.0.1 with a thread for each connection, open within a `with` block."""

from __future__ import annotations

import socketserver
import threading
from typing import Self


class LoopbackServer(socketserver.ThreadingTCPServer):
    """The base of tests' servers; `handler` serves one connection."""

    daemon_threads = True

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def address(self) -> str:
        """`host:port` of the server."""
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), name=type(self).__name__, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
