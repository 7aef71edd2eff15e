"""Lists of the servers to which a secret may go. Driver, executors and operator; pure.

The option `allowedServers`, the file `allowedServers` of a mounted Secret and the operator's bindings are such lists.
All three compare servers here, so that the word has one meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from dynamic_kafka.metadata.names import SERVER, check_servers

ANY = "*"
"""The list of those who trust whoever writes the metadata."""


def check_server_list(text: str) -> None:
    """Check a list of `host:port` separated by commas, or `*` alone. Raises ValueError with what is wrong."""
    if text.strip() == ANY:
        return
    if ANY in text:
        raise ValueError("`*` must stand alone: it allows every server, and is no part of a name")
    check_servers(text)


def foreign_servers(servers: str, allowed: str) -> list[str]:
    """Return those of `servers` that `allowed` does not name. Both are lists separated by commas.

    Host names are compared without regard to the case of ASCII letters, IP addresses by value, ports as numbers. No
    port is assumed. A text that is not `host:port` equals only itself.
    """
    known = {_normal(server) for server in _listed(allowed)}
    if _normal(ANY) in known:
        return []
    return [server for server in _listed(servers) if _normal(server) not in known]


def _listed(servers: str) -> Iterator[str]:
    return (server.strip() for server in servers.split(",") if server.strip())


def _normal(server: str) -> tuple[str, int]:
    match = SERVER.match(server)
    if match is None:
        return server, 0
    host, port = match.group(1).strip("[]"), int(match.group(2))
    try:
        return ip_address(host).compressed, port
    except ValueError:
        # Lower case of other letters may be ASCII: the Kelvin sign would become `k`.
        return host.lower() if host.isascii() else host, port
