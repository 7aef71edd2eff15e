"""The columns of the source's rows by name, and the option `columns`, which chooses some of them. Pure."""

from __future__ import annotations

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.recognition import GivenOptions
from dynamic_kafka.wording import did_you_mean

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
LATE = "kafka_late"
"""A column of queries with `watermarkMode`: whether the row is older than the clock was when its batch was planned."""


def all_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Return the columns of rows with or without headers."""
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)


def parse_columns(given: GivenOptions, *, include_headers: bool, has_late: bool = False) -> tuple[str, ...]:
    """Return the columns of the rows, in the order of the option `columns`; all of them without it.

    Args:
        include_headers: the option `includeHeaders`.
        has_late: whether there is a column `LATE`.

    Raises:
        OptionError: a name is empty, unknown or there twice, or headers are chosen and refused at once.
    """
    if not given.has("columns"):
        return (*all_columns(include_headers=include_headers), *((LATE,) if has_late else ()))
    text, where = given.given_text("columns"), given.where("columns")
    if text.startswith("["):  # a list in `app.yaml`
        raise OptionError(f"{where} is a list; write the names as one text with ',' between them: value,timestamp")
    names = tuple(name.strip() for name in text.split(","))
    for at, name in enumerate(names):
        if not name:
            raise OptionError(f"{where} is '{text}', which has an empty name; put one ',' between two names")
        if name == LATE and not has_late:
            raise OptionError(f"{where} names {name!r}, which is there only with watermarkMode=periodic")
        if name not in (*COLUMNS, LATE):
            near = (
                did_you_mean(name, (*COLUMNS, LATE) if has_late else COLUMNS)
                or f"; the columns are {', '.join(COLUMNS)}"
            )
            raise OptionError(f"{where} names {name!r}, which is no column of the source{near}")
        if name in names[:at]:
            raise OptionError(f"{where} names {name!r} twice; name it once")
    if HEADERS in names and given.has("includeHeaders") and not include_headers:
        raise OptionError(
            f"{where} names 'headers', but {given.where('includeHeaders')} is false; take one of them out"
        )
    return names
