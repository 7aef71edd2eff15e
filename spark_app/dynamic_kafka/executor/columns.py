"""The columns of the source's rows: their schema, and Kafka messages as Arrow record batches.

Executors convert messages; the driver uses the schema. The schema is that of Spark's own Kafka source, plus the cluster
and the stream of each row. Building column by column costs half the time of one tuple per record.
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
from dynamic_kafka.planning.splits import Split

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(include_headers: bool) -> StructType:
    """Return the schema for Spark: the columns of Spark's Kafka source in its order, then cluster and stream."""
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
    """Return the same schema for Arrow. Every batch must match it exactly; Spark checks only the first one."""
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


def to_batch(messages: Sequence[Message], schema: pa.Schema, split: Split, stream: str) -> pa.RecordBatch:
    """Return the messages of one split as one record batch, in their order.

    Raises:
        OptionError: the schema has headers, and a header's key is not UTF-8.
    """
    count = len(messages)
    stamps = [message.timestamp() for message in messages]
    columns: list[pa.Array] = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        _repeated(split.topic, count),
        pa.repeat(pa.scalar(split.partition, pa.int32()), count),
        pa.array([message.offset() for message in messages], pa.int64()),
        # Kafka's timestamps are milliseconds. For a record without one (type 0), Spark's source shows -1 ms.
        pa.array([ms * 1000 if kind else -1000 for kind, ms in stamps], pa.timestamp("us", tz="UTC")),
        # librdkafka's types are 0 none, 1 create time, 2 append time. Kafka and Spark use -1, 0, 1.
        pa.array([kind - 1 for kind, _ in stamps], pa.int32()),
    ]
    if len(schema) > len(columns) + 2:
        columns.append(
            pa.array([_headers(message, split.cluster) for message in messages], schema.field("headers").type)
        )
    return pa.RecordBatch.from_arrays(
        [*columns, _repeated(split.cluster, count), _repeated(stream, count)], schema=schema
    )


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _headers(message: Message, cluster: str) -> list[dict[str, object]] | None:
    try:
        # Spark's source shows null for a record without headers, not an empty list.
        headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # a wider stub
    except (SystemError, UnicodeDecodeError) as raised:
        # The client returns nothing but leaves a Python error set; Python raises that as a SystemError.
        raise OptionError(
            f"cannot show the headers of the record at offset {message.offset()} of"
            f" {cluster}/{message.topic()}[{message.partition()}]: the key of one of them is not UTF-8. Read without"
            " headers: set includeHeaders=false"
        ) from raised
    return [{"key": key, "value": value} for key, value in headers] or None
