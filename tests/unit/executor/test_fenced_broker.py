"""A fenced broker: it restarts, and answers with metadata without brokers until its cluster accepts it."""

from __future__ import annotations

import itertools
import os
import socketserver
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.loopback_server import LoopbackServer
from tests.support.places import ROOT

API_VERSIONS, METADATA = 18, 3


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Fenced(socketserver.BaseRequestHandler):
    """A broker with as much of Kafka's protocol as a client needs to ask for the cluster's id."""

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
        # A request in a newer version gets error 35 (UNSUPPORTED_VERSION), in version 0.
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
        # The first answers contain the broker, so that the client takes it as the controller.
        gone = next(self.server.answers) in self.server.without_brokers  # type: ignore[attr-defined]
        host, port = self.server.server_address
        own = text(str(host)) + struct.pack(">ih", int(port), -1)
        brokers = struct.pack(">i", 0) if gone else struct.pack(">ii", 1, 1) + own
        ids = text("the-cluster") + struct.pack(">i", 1)
        return struct.pack(">i", 0) + brokers + ids + topics + struct.pack(">i", 0)


@contextmanager
def fenced(without_brokers: range) -> Iterator[str]:
    """Yield the address of a broker that is fenced in these answers, counted from 0."""
    with LoopbackServer(Fenced) as server:
        server.answers, server.without_brokers = itertools.count(), without_brokers  # type: ignore[attr-defined]
        yield server.address


ASK = """
import sys
import time
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import admin_config

config = admin_config("east", {"bootstrap.servers": sys.argv[1]})
admin = ClusterAdmin("east", config, read_committed=False, deadline_s=float(sys.argv[2]))
for _ in range(3):
    print(admin.kafka_id("orders"))
    time.sleep(0.3)  # librdkafka processes the answer in a thread of its own
"""


READ = """
import sys
import time
from dynamic_kafka.executor.reading import cluster_identity as identity
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.range_reader import read_range
from dynamic_kafka.planning.splits import Split, SplitRange

identity.IDENTITY_VALID_S = 0
client = ClusterClient("east", {"bootstrap.servers": sys.argv[1]}, {})
nothing = SplitRange(Split("east", "orders", 0), 5, 5)
for _ in range(3):
    task = ReadTask(nothing, "orders", "the-cluster", client, frozenset({"east"}), float(sys.argv[2]), False, True)
    print(list(read_range(task)))
    time.sleep(0.3)
"""


def run(script: str, servers: str, deadline_s: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "spark_app")}
    command = [sys.executable, "-c", script, servers, str(deadline_s)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize(("script", "printed"), [(ASK, "the-cluster"), (READ, "[]")], ids=["driver", "executor"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_broker_is_found_again_after_being_fenced(first: int, script: str, printed: str) -> None:
    # After an answer without brokers, to our question or to its own, librdkafka drops its last broker for good.
    with fenced(range(first, first + 4)) as servers:
        done = run(script, servers, 10)
    assert (done.returncode, done.stdout.split()) == (0, [printed] * 3), done.stderr


def test_a_broker_that_stays_fenced_does_not_end_the_process() -> None:
    with fenced(range(1, 1_000_000)) as servers:
        done = run(ASK, servers, 1)
    assert done.returncode == 1 and "[CLUSTER_UNREACHABLE cluster=east]" in done.stderr, done.stderr
