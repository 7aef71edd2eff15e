"""The columns of the source's rows: those of Spark's own Kafka source, plus the cluster and the stream of each row.

Readers on executors make rows of the schema for Arrow; the driver uses the one for Spark.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def spark_schema(include_headers: bool, value: DataType | None = None) -> StructType:
    """Return the schema for Spark: the columns of Spark's Kafka source in its order, then cluster and stream.

    Args:
        value: the type of decoded values; None if they stay bytes.
    """
    fields = [
        StructField("key", BinaryType()),
        StructField("value", value or BinaryType()),
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
