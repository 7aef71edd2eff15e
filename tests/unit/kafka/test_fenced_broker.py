"""A broker that is coming back answers before its cluster counts it in: with metadata that has no brokers."""

from __future__ import annotations

import os
import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT

API_VERSIONS, METADATA = 18, 3


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Fenced(socketserver.BaseRequestHandler):
    """Speaks as much of Kafka's protocol as a client needs to ask who answers."""

    def handle(self) -> None:
        with self.request.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                request = stream.read(struct.unpack(">i", size)[0])
                api, version, correlation = struct.unpack(">hhi", request[:8])
                answer = struct.pack(">i", correlation) + (
                    self.versions(version) if api == API_VERSIONS else self.metadata(request)
                )
                self.request.sendall(struct.pack(">i", len(answer)) + answer)

    def versions(self, asked: int) -> bytes:
        # What asks in a newer form is told so, in the oldest one.
        apis = ((METADATA, 8, 8), (API_VERSIONS, 0, 0))
        error = 35 if asked > 0 else 0
        return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)

    def metadata(self, request: bytes) -> bytes:
        (length,) = struct.unpack(">h", request[8:10])
        rest = request[10 + length :]
        (count,) = struct.unpack(">i", rest[:4])
        (named,) = struct.unpack(">h", rest[4:6]) if count > 0 else (0,)
        topic = struct.pack(">h", 3) + text(rest[6 : 6 + named].decode()) + b"\0" + struct.pack(">ii", 0, 0)
        topics = struct.pack(">i", 1) + topic if count > 0 else struct.pack(">i", 0)
        # In the first answer it is still there, so that the client knows it as the controller.
        gone, self.server.answered = self.server.answered, True  # type: ignore[attr-defined]
        host, port = self.server.server_address
        own = text(str(host)) + struct.pack(">ih", int(port), -1)
        brokers = struct.pack(">i", 0) if gone else struct.pack(">ii", 1, 1) + own
        ids = text("the-cluster") + struct.pack(">i", 1)
        return struct.pack(">i", 0) + brokers + ids + topics + struct.pack(">i", 0)


@pytest.fixture
def fenced() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Fenced) as server:
        server.daemon_threads, server.answered = True, False  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


ASK = """
import sys
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.client_config import admin_config

config = admin_config("east", {"bootstrap.servers": sys.argv[1]})
admin = ClusterAdmin("east", config, read_committed=False, deadline_s=30)
print(admin.kafka_id("orders"), admin.kafka_id("orders"))
"""


def test_an_answer_without_brokers_does_not_end_the_process(fenced: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "spark_app")}
    command = [sys.executable, "-c", ASK, fenced]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (asked.returncode, asked.stdout) == (0, "the-cluster the-cluster\n"), asked.stderr
