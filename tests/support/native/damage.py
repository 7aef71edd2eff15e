"""A proxy on 127.0.0.1 that flips bits in the batches of records that a broker sends.

The rest of an answer stays whole: with a wrong number of aborted transactions there, librdkafka asks
for more memory than there is, and ends its process (`rd_calloc: Assertion`), whoever reads.
"""

from __future__ import annotations

import random
import socket
import socketserver
import threading
from collections.abc import Iterator
from io import BufferedIOBase

from tests.support.loopback_server import LoopbackServer

_FETCH = (1).to_bytes(2)
_HEADER, _CHECKED, _MAGIC, _NO_PRODUCER = 61, 21, 2, b"\xff" * 14
"""A batch of records: bytes of its header, the first one that its checksum covers, the version of its format, and the
producer's id, epoch and sequence where it writes without."""

_SHARE = 0.1
"""The share of answers to fetches. A range takes several, and shall also be read whole now and then."""


class DamagingProxy(LoopbackServer):
    """A proxy of one broker, whose address is the proxy's own in all answers.

    Attributes:
        damaged: how many answers had a bit flipped.

    Args:
        broker: `host:port`.
        only_checked: flip only what the checksums of the batches cover.
    """

    def __init__(self, broker: str, seed: int, *, only_checked: bool) -> None:
        self.broker, self.only_checked, self.damaged = broker, only_checked, 0
        self._chance = random.Random(seed)
        super().__init__(_Client)

    def answered(self, answer: bytes, *, is_fetch: bool) -> bytes:
        """Return what the client gets instead of an answer."""
        host, port = self.broker.split(":")
        damaged = bytearray(answer.replace(_place(host, int(port)), _place(host, self.server_address[1])))
        places = [*_batches(answer, skipped=_CHECKED if self.only_checked else 0)]
        if is_fetch and places and self._chance.random() < _SHARE:
            self.damaged += 1
            for at in self._chance.choices(places, k=self._chance.choice((1, 1, 2, 30))):
                damaged[at] ^= 1 << self._chance.randrange(8)
        return bytes(damaged)


class _Client(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, DamagingProxy)
        host, port = self.server.broker.split(":")
        fetches: dict[bytes, bool] = {}
        with socket.create_connection((host, int(port))) as upstream:
            threading.Thread(target=self.answer, args=(self.server, upstream, fetches), daemon=True).start()
            for request in _frames(self.rfile):
                fetches[request[4:8]] = request[:2] == _FETCH
                upstream.sendall(len(request).to_bytes(4) + request)
            upstream.shutdown(socket.SHUT_RDWR)

    def answer(self, proxy: DamagingProxy, upstream: socket.socket, fetches: dict[bytes, bool]) -> None:
        try:
            for answer in _frames(upstream.makefile("rb")):
                given = proxy.answered(answer, is_fetch=fetches.pop(answer[:4]))
                self.connection.sendall(len(given).to_bytes(4) + given)
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the client has gone


def _frames(stream: BufferedIOBase) -> Iterator[bytes]:
    try:
        while len(size := stream.read(4)) == 4:
            yield stream.read(int.from_bytes(size))
    except OSError:
        return


def _place(host: str, port: int) -> bytes:
    return host.encode() + port.to_bytes(4)


def _batches(answer: bytes, skipped: int) -> Iterator[int]:
    """Yield the indexes of the bytes of all batches, without the first ones of each."""
    at = 0
    while at + _HEADER <= len(answer):
        end = at + 12 + int.from_bytes(answer[at + 8 : at + 12])
        is_batch = answer[at + 16] == _MAGIC and answer[at + 43 : at + 57] == _NO_PRODUCER
        if is_batch and at + _HEADER <= end <= len(answer):
            yield from range(at + skipped, end)
            at = end
        else:
            at += 1
