"""A server on 127.0.0.1 that speaks just enough of Kafka's protocol for a client to log in, and records all bytes."""

from __future__ import annotations

import socketserver
import struct

from tests.support.loopback_server import LoopbackServer

_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36
_VERSIONS = {3: (0, 4), _HANDSHAKE: (0, 1), _API_VERSIONS: (0, 0), _AUTHENTICATE: (0, 0)}
_UNSUPPORTED_VERSION = 35


class ForeignListener(LoopbackServer):
    """A plaintext listener that offers SASL's mechanism PLAIN.

    Attributes:
        connections: how many clients have connected.
        received: everything that they sent.
    """

    def __init__(self) -> None:
        self.connections, self.received = 0, b""
        super().__init__(_Client)


class _Client(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, ForeignListener)
        self.server.connections += 1
        while len(size := self.rfile.read(4)) == 4:
            request = self.rfile.read(int.from_bytes(size))
            self.server.received += request
            answer = _answer(*struct.unpack(">hh", request[:4]))
            if answer is None:
                return
            reply = request[4:8] + answer
            self.wfile.write(len(reply).to_bytes(4) + reply)


def _answer(api: int, version: int) -> bytes | None:
    """Return the body of an answer; None to close the connection, as after a refused log-in."""
    if api == _API_VERSIONS:
        error = _UNSUPPORTED_VERSION if version > 0 else 0
        ranges = b"".join(struct.pack(">hhh", key, *bounds) for key, bounds in _VERSIONS.items())
        return struct.pack(">hi", error, len(_VERSIONS)) + ranges
    return struct.pack(">hih", 0, 1, 5) + b"PLAIN" if api == _HANDSHAKE else None
