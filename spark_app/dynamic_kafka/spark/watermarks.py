"""Spark's watermark for a stream whose source aligns its splits: the delay has to cover the drift.

The source writes the least delay into the schema, as metadata of the column of its rows' times. So the check needs
nothing but the DataFrame, in a Spark Connect client, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor.reading.columns import LEAST_DELAY
from dynamic_kafka.options.checks import check_watermark_delay
from dynamic_kafka.options.columns import EVENT_TIME, TIMESTAMP
from dynamic_kafka.options.durations import parse_duration_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def watermark(frame: DataFrame, delay: str, column: str | None = None) -> DataFrame:
    """Return the stream with a watermark under which no row is late because another cluster is ahead.

    Args:
        frame: a stream of `dynamic-kafka` with the option `watermarkAlignmentMaxDrift`, or one made from it that still
            has its column `timestamp`, or with `timestampAssigner` its column `kafka_event_time`.
        delay: a duration such as `5m`, not less than that option and `allowedLateness` together.
        column: the name of that column in `frame`, if it has another one there.

    Raises:
        OptionError: there is no such column, its source does not align its splits, or the delay is too short.
    """
    timed = [field.name for field in frame.schema.fields if LEAST_DELAY in field.metadata]
    column = column or next(iter(timed), EVENT_TIME if EVENT_TIME in frame.columns else TIMESTAMP)
    if timed and column not in timed:
        raise OptionError(
            f"watermark: the times of this source's rows are in the column '{timed[0]}', not in '{column}'"
        )
    if column not in frame.columns:
        raise OptionError(f"watermark: there is no column '{column}'; the stream has {', '.join(frame.columns)}")
    delay_ms = parse_duration_ms(delay, where="watermark: the delay")
    check_watermark_delay(delay_ms, frame.schema[column].metadata.get(LEAST_DELAY), f"watermark: the column '{column}'")
    return frame.withWatermark(column, f"{delay_ms} milliseconds")
