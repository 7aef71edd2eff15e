"""An S3 of our own on loopback, for tests of what is kept in an object store: gofakes3, built from the pins here."""

from __future__ import annotations

import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.go import GoProgram, executable
from tests.support.ports import reserve_ports
from tests.support.supervise import Process
from tests.support.waiting import eventually

BUCKET = "states"
GOFAKES3 = GoProgram(
    name="gofakes3",
    source=Path(__file__).parent,
    module="github.com/johannesboyne/gofakes3",
    package="github.com/johannesboyne/gofakes3/cmd/gofakes3",
)


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run a store with one empty bucket, `BUCKET`, in memory, until the block is left.

    Yields:
        The environment by which AWS's own clients, and pyarrow, find it and log in.
    """
    [port] = reserve_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        process = Process("The object store", Path(folder) / "log")
        at = f"127.0.0.1:{port}"
        try:
            process.launch(
                [str(executable(GOFAKES3)), "-backend=memory", f"-host={at}", f"-initialbucket={BUCKET}", "-quiet"]
            )
            assert eventually(lambda: process.running and _answers(at)), process.log.read_text()
            yield {
                "AWS_ENDPOINT_URL": f"http://{at}",
                "AWS_ACCESS_KEY_ID": "tester",
                "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                # The store does not know uploads whose checksum comes in a trailer.
                "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            }
        finally:
            process.kill()


@contextmanager
def read_only(store: str) -> Iterator[str]:
    """Yield the URL of a way to a store by which everything can be read, and nothing written."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = urllib.request.Request(f"{store}{self.path}", method=self.command)
            try:
                with urllib.request.urlopen(sent, timeout=5) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read())

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>")

        do_HEAD = do_GET
        do_POST = do_DELETE = do_PUT

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _answers(at: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{at}/{BUCKET}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
