"""A TCP relay that can drop its connections in silence, as a balancer or NAT does with idle ones."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.ports import reserve_ports


class Connection:
    """One connection of a client, and ours to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.dropped = False

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        """Forward bytes until one side closes; nothing once the connection is dropped."""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.dropped:
                    target.sendall(data)
        self.close()

    def close(self) -> None:
        """Close both sides."""
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it."""
        return self.client.fileno() >= 0


class Relay:
    """Listens on a port of its own. `target` is the server's `host:port`; it may start later."""

    def __init__(self) -> None:
        [self._port] = reserve_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        self.target = ""
        self._connections: list[Connection] = []
        self._listener = socket.create_server(("127.0.0.1", self._port))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def open(self) -> list[Connection]:
        """Return the connections that neither side has closed."""
        return [connection for connection in self._connections if connection.is_open]

    def drop(self) -> int:
        """Forward nothing more over the connections there are, and close none. Return their number."""
        there = [connection for connection in self.open() if not connection.dropped]
        for connection in there:
            connection.dropped = True
        return len(there)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self.target.rpartition(":")
                try:
                    connection = Connection(client, socket.create_connection((host, int(port))))
                except OSError:
                    client.close()
                    continue
                self._connections.append(connection)
                for source, target in ((connection.client, connection.server), (connection.server, connection.client)):
                    threading.Thread(target=connection.pump, args=(source, target), daemon=True).start()
