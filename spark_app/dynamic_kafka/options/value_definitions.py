"""The options about typed values, declared as those in `definitions`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynamic_kafka.options.checks import check_time_zone
from dynamic_kafka.options.option import option
from dynamic_kafka.options.value_schema import check_value_schema


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """The format and the schema of values, and how they are read."""

    value_format: Literal["json"] | None = option(
        "value.format",
        "word",
        "The format of the records' values. Executors decode them, and the column `value` is a struct of the fields of"
        " `value.schema` ([typed values](../how-to/typed-values.md)). If absent: the column holds the bytes.",
        words=("json",),
    )
    value_schema: str | None = option(
        "value.schema",
        "text",
        "The schema of the values, for `value.format`.",
        "Spark's DDL such as `id BIGINT, tags ARRAY<STRING>`, or the JSON of `df.schema.json()`",
        check=check_value_schema,
    )
    corrupt_column: str = option(
        "columnNameOfCorruptRecord",
        "text",
        "The field for the text of a malformed value with `mode=permissive`, if `value.schema` has it, as STRING.",
        default="_corrupt_record",
    )
    time_zone: str = option(
        "timeZone",
        "text",
        "The zone of timestamps in values that have none.",
        "`Europe/Berlin`, `+01:00`",
        default="UTC",
        check=check_time_zone,
    )
