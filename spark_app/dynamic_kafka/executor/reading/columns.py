"""The types of the columns: those of Spark's own Kafka source, plus the cluster and the stream of each row.

Readers on executors make rows of the schema for Arrow; the driver uses the one for Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dynamic_kafka.options.columns import EVENT_TIME, LATE, TIMESTAMP

LEAST_DELAY = "dynamicKafkaLeastDelayMs"
"""Metadata of the column of a row's time in Spark's schema: the least delay of a watermark on it, in milliseconds."""
SIZE = "size"
"""A column for read reports, which Spark never gets: the bytes of a record's key and value."""
_MOST_MS = (2**63 - 1) // 1000
_TYPES: Mapping[str, tuple[DataType, pa.DataType]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    TIMESTAMP: (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (
        ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    ),
    "kafka_cluster": (StringType(), pa.string()),
    "kafka_stream": (StringType(), pa.string()),
    EVENT_TIME: (TimestampType(), pa.timestamp("us", tz="UTC")),
    LATE: (BooleanType(), pa.bool_()),
    SIZE: (IntegerType(), pa.int32()),
}


def spark_schema(
    columns: Iterable[str],
    value: DataType | None = None,
    least_delay_ms: int | None = None,
    time_column: str = TIMESTAMP,
) -> StructType:
    """Return the schema of these columns for Spark, in their order.

    Args:
        value: the type of decoded values; None if they stay bytes.
        least_delay_ms: the metadata `LEAST_DELAY` of the column `time_column`; None for none.
    """
    decoded = {"value": value} if value is not None else {}
    metadata = {time_column: {LEAST_DELAY: least_delay_ms}} if least_delay_ms is not None else {}
    types = {name: decoded.get(name, _TYPES[name][0]) for name in columns}
    return StructType([StructField(name, type_, metadata=metadata.get(name)) for name, type_ in types.items()])


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """Return the same schema for Arrow. Every batch must match it exactly; Spark checks only the first one."""
    return pa.schema([pa.field(name, _TYPES[name][1]) for name in columns])


def sizes(keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.Array:
    """Return the column `SIZE` of records with these keys and values."""
    key, value = (pc.fill_null(pc.binary_length(column), 0) for column in (keys, values))
    return pc.add(key, value)


def shown_times(times: pa.TimestampArray) -> pa.TimestampArray:
    """Return Kafka's timestamps, which are milliseconds, as Spark's microseconds; null where these exceed 64 bits."""
    try:
        return times.cast(_TYPES["timestamp"][1])
    except pa.ArrowInvalid:
        number = times.cast(pa.int64())
        fits = pc.and_(pc.greater_equal(number, -_MOST_MS), pc.less_equal(number, _MOST_MS))
        return pc.if_else(fits, times, pa.scalar(None, times.type)).cast(_TYPES["timestamp"][1])


def with_lateness(batch: pa.RecordBatch, before_ms: int | None, time_column: str = TIMESTAMP) -> pa.RecordBatch:
    """Return the rows with the column `LATE`, as `is_late` says."""
    return batch.append_column(LATE, is_late(batch.column(time_column), before_ms))


def is_late(times: pa.TimestampArray, before_ms: int | None) -> pa.BooleanArray:
    """Return for each timestamp whether it is before this time, milliseconds since the epoch; None: none is."""
    if before_ms is None:
        return pa.repeat(pa.scalar(False), len(times))
    return pc.fill_null(pc.less(times, _moment(before_ms)), False)


def is_as_new(times: pa.TimestampArray, since_ms: int) -> pa.BooleanArray:
    """Return for each timestamp whether it is at this time or later, milliseconds since the epoch; null: no."""
    return pc.fill_null(pc.greater_equal(times, _moment(since_ms)), False)


def _moment(time_ms: int) -> pa.TimestampScalar:
    return pa.scalar(max(-_MOST_MS, min(_MOST_MS, time_ms)) * 1000, pa.int64()).cast(_TYPES[TIMESTAMP][1])


def without_time(batch: pa.RecordBatch) -> list[int]:
    """Return the indices of rows whose timestamp exceeds 64 bits of microseconds."""
    times = batch.column("timestamp")
    return pc.indices_nonzero(times.is_null()).to_pylist() if times.null_count else []
