"""Answer HTTP requests for probes and metrics. Operator; a thread of its own for each port."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

READY_PATH = "/readyz"
"""The path of readiness probes, at which nothing else is served."""


class Answer(NamedTuple):
    """The answer to a request: its HTTP status, its body, and the body's type."""

    status: int
    text: str
    content_type: str = "text/plain"


def parse_address(url: str, example: str) -> tuple[str, int, str]:
    """Return host, port and path of a URL such as the example. Raises ValueError for any other."""
    address = urlsplit(url)
    if address.scheme != "http" or not address.hostname or not address.port or address.path in ("", "/", READY_PATH):
        raise ValueError(f"{url!r} is not a URL to serve at; write it as {example}")
    return address.hostname, address.port, address.path


def serve(host: str, port: int, answers: Mapping[str, Callable[[], Answer]]) -> ThreadingHTTPServer:
    """Start the thread that answers requests.

    Args:
        answers: {path: makes the answer}. Any other path is answered with 404.

    Raises:
        OSError: the process cannot listen at this address.
    """
    unknown = Answer(404, f"ask for {' or '.join(answers)}\n")

    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            make = answers.get(urlsplit(self.path).path)
            answer = make() if make is not None else unknown
            body = answer.text.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: requests come every few seconds."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name=f"http-{port}", daemon=True).start()
    return server
