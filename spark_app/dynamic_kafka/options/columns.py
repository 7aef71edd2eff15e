"""The columns of the source's rows by name, and the option `columns`, which chooses some of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dynamic_kafka.errors import OptionError
from dynamic_kafka.wording import did_you_mean

if TYPE_CHECKING:
    from dynamic_kafka.options.recognition import GivenOptions

HEADERS, TIMESTAMP = "headers", "timestamp"
COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    TIMESTAMP,
    "timestampType",
    HEADERS,
    "kafka_cluster",
    "kafka_stream",
)
"""The columns of Spark's Kafka source in its order, then cluster and stream."""
EVENT_TIME = "kafka_event_time"
"""A column of queries with `timestampAssigner`: the row's time; null if it has none."""
LATE = "kafka_late"
"""A column of queries with `watermarkMode`: whether the row is older than the clock was when its batch was planned."""


def all_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Return the columns of rows with or without headers."""
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)


def parse_columns(given: GivenOptions, *, include_headers: bool, more: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the columns of the rows, in the order of the option `columns`; all of them without it.

    Args:
        include_headers: the option `includeHeaders`.
        more: the columns that options add, each with None, or with the option that would add it.

    Raises:
        OptionError: a name is empty, unknown or there twice, or headers are chosen and refused at once.
    """
    added = tuple(name for name, lacks in more.items() if lacks is None)
    if not given.has("columns"):
        return (*all_columns(include_headers=include_headers), *added)
    text, where = given.given_text("columns"), given.where("columns")
    if text.startswith("["):  # a list in `app.yaml`
        raise OptionError(f"{where} is a list; write the names as one text with ',' between them: value,timestamp")
    names = tuple(name.strip() for name in text.split(","))
    for at, name in enumerate(names):
        if not name:
            raise OptionError(f"{where} is '{text}', which has an empty name; put one ',' between two names")
        if (lacks := more.get(name)) is not None:
            raise OptionError(f"{where} names {name!r}, which is there only with {lacks}")
        if name not in (*COLUMNS, *added):
            near = did_you_mean(name, (*COLUMNS, *added)) or f"; the columns are {', '.join(COLUMNS)}"
            raise OptionError(f"{where} names {name!r}, which is no column of the source{near}")
        if name in names[:at]:
            raise OptionError(f"{where} names {name!r} twice; name it once")
    if HEADERS in names and given.has("includeHeaders") and not include_headers:
        raise OptionError(
            f"{where} names 'headers', but {given.where('includeHeaders')} is false; take one of them out"
        )
    return names
