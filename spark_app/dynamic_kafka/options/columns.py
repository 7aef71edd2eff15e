"""The columns of the source's rows by name. Pure."""

from __future__ import annotations

HEADERS = "headers"
COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    HEADERS,
    "kafka_cluster",
    "kafka_stream",
)
"""The columns of Spark's Kafka source in its order, then cluster and stream."""


def all_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Return the columns of rows with or without headers."""
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)
