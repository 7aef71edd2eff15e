"""Checks of names: cluster ids, stream ids, topics, servers and secret folders. Driver, tools and operator; pure.

The metadata document and the check of users' own services call them. Each returns the name, or raises ValueError with
a text that fits after the name of a field.
"""

from __future__ import annotations

import re

from dynamic_kafka.metadata.properties import is_plain_name

_CLUSTER_ID = re.compile(r"[^\s\[\]\x00-\x1f\x7f-\x9f]{1,253}\Z")
_STREAM_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,253}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\],@]+):([0-9]{1,5})\Z")
"""The form `host:port` of a server, an IPv6 address in brackets."""


def check_cluster_id(value: str) -> str:
    """Check a cluster id: 1 to 253 characters without whitespace, brackets and control characters."""
    if not _CLUSTER_ID.match(value):
        raise ValueError(
            "a cluster id has 1 to 253 characters, no space, bracket or control character; give a `clusterId`"
        )
    return value


def check_stream_id(value: str) -> str:
    """Check a stream id: 1 to 253 characters without control characters, and no space at either end."""
    if not _STREAM_ID.match(value) or value != value.strip():
        raise ValueError("a stream id has 1 to 253 characters, without control characters, and no space at either end")
    return value


def check_topic(value: str) -> str:
    """Check a topic name by Kafka's rules."""
    if not _TOPIC.match(value) or value in (".", ".."):
        raise ValueError(f"{value[:80]!r} is no topic name; those have 1 to 249 of letters, digits, `.`, `_` and `-`")
    return value


def check_servers(value: str) -> str:
    """Check a list of `host:port`, and return it without spaces around the commas."""
    servers = [server.strip() for server in value.split(",")]
    for server in servers:
        match = SERVER.match(server)
        if not match or not 0 < int(match.group(2)) < 65536:
            if "@" in value:  # `user:password@host` must not appear in a status or a log
                raise ValueError("must be `host:port` without an `@`: credentials go into the cluster's secret folder")
            raise ValueError(f"{server[:80]!r} is not `host:port`; separate several servers by commas")
    return ",".join(servers)


def address_of(host: str | None, port: int | None) -> str:
    """Return the address of a broker in the form of a server."""
    return f"[{host}]:{port}" if ":" in (host or "") else f"{host}:{port}"


def check_folder(value: str) -> str:
    """Check the name of a secret folder: no path, and not only dots."""
    if not is_plain_name(value):
        raise ValueError("must be the plain name of a folder: no `/`, and not only dots")
    return value
