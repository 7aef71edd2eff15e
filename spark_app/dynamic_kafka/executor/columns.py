"""Kafka messages to Arrow record batches, a column at a time.

Runs on executors. Column by column costs half of what a tuple per record does, and Arrow takes each list as it is.
The schema is Spark's own Kafka schema under the same names and types, plus the cluster and the stream of each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dynamic_kafka.errors import OptionError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(include_headers: bool) -> StructType:
    """The rows' schema: Spark's `kafka` columns in Spark's order, then `kafka_cluster` and `kafka_stream`."""
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        fields.append(StructField("headers", HEADERS))
    return StructType([*fields, StructField("kafka_cluster", StringType()), StructField("kafka_stream", StringType())])


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The same as Arrow has it; every batch must match it exactly, and Spark checks only the first."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(header)))
    return pa.schema([*fields, pa.field("kafka_cluster", pa.string()), pa.field("kafka_stream", pa.string())])


def to_batch(
    messages: Sequence[Message], schema: pa.Schema, *, topic: str, partition: int, cluster: str, stream: str
) -> pa.RecordBatch:
    """One record batch from the messages of one split, in their order.

    Raises:
        OptionError: headers are asked for, and a header's key is no text.
    """
    count = len(messages)
    stamps = [message.timestamp() for message in messages]
    columns: list[pa.Array] = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        _same(topic, count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array([message.offset() for message in messages], pa.int64()),
        # Kafka counts milliseconds; without a timestamp (type 0) Spark's source shows -1.
        pa.array([ms * 1000 if kind else -1000 for kind, ms in stamps], pa.timestamp("us", tz="UTC")),
        # librdkafka: 0 none, 1 create time, 2 append time; Kafka's own ids, as Spark shows them: -1, 0, 1.
        pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
    ]
    if len(schema) > len(columns) + 2:
        columns.append(pa.array([_headers(message, cluster) for message in messages], schema.field("headers").type))
    return pa.RecordBatch.from_arrays([*columns, _same(cluster, count), _same(stream, count)], schema=schema)


def _same(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _headers(message: Message, cluster: str) -> list[dict[str, object]] | None:
    try:
        # Without headers Spark's source shows null, not an empty list.
        headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # a wider stub
    except (SystemError, UnicodeDecodeError) as raised:
        # The client returns nothing and leaves its own error set, which Python calls a SystemError.
        raise OptionError(
            f"cannot show the headers of the record at offset {message.offset()} of"
            f" {cluster}/{message.topic()}[{message.partition()}]: the key of one of them is not UTF-8. Read without"
            " headers: set includeHeaders=false"
        ) from raised
    return [{"key": key, "value": value} for key, value in headers] or None
