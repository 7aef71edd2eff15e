"""The PySpark data source `dynamic-kafka`. Driver; register it once per session with `register(spark)`."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dynamic_kafka.executor.columns import spark_schema
from dynamic_kafka.kafka.config import check_client_properties
from dynamic_kafka.options import Mode, SourceOptions, parse_options
from dynamic_kafka.spark.batch_reader import DynamicKafkaReader
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader

NAME = "dynamic-kafka"


class DynamicKafkaDataSource(DataSource):
    """Many Kafka clusters as one Spark stream (FLIP-246 for Spark). Options: `docs/options.md`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The name for `.format(...)`."""
        return NAME

    def schema(self) -> StructType:
        """Spark's Kafka columns, then `kafka_cluster` and `kafka_stream`.

        Spark asks in `load()`: what is wrong in a stream and a batch alike is refused there, before there is a plan
        that the options could get into, and not when the query has started. Raises OptionError.
        """
        return spark_schema(_checked(dict(self.options), "streaming").include_headers)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`. Raises OptionError for options that are wrong."""
        return DynamicKafkaStreamReader(_checked(dict(self.options), "streaming"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`. Raises OptionError for options that are wrong."""
        return DynamicKafkaReader(_checked(dict(self.options), "batch"))


def _checked(given: dict[str, str], mode: Mode) -> SourceOptions:
    options = parse_options(given, mode=mode)
    check_client_properties(options.kafka_properties)
    return options


def register(spark: SparkSession) -> None:
    """Make `.format("dynamic-kafka")` known to a session. Executors have to be able to import `dynamic_kafka`."""
    spark.dataSource.register(DynamicKafkaDataSource)
