"""Ports of 127.0.0.1 that stay ours for as long as this process lives, also while nobody listens on them.

Binding to port 0 and letting go would not do: a server that restarts needs the same port again, and meanwhile
the kernel may lend it to any outgoing connection. So ports come from below the range for those, and a lock in
the abstract socket namespace, which vanishes with its process, keeps other test sessions off.
"""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 20_000, 32_000  # below Linux's ephemeral ports, which start at 32768
_locks: list[socket.socket] = []


def reserve_ports(count: int) -> list[int]:
    """`count` free ports that no other process using this function gets before ours ends."""
    ports: list[int] = []
    for port in random.sample(range(_FIRST, _LAST), _LAST - _FIRST):
        if len(ports) == count:
            return ports
        if _is_free(port) and _lock(port):
            ports.append(port)
    raise OSError(f"No {count} free ports between {_FIRST} and {_LAST} on 127.0.0.1.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lock(port: int) -> bool:
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0dynamic-kafka-port-{port}")
    except OSError:
        lock.close()
        return False
    _locks.append(lock)
    return True
