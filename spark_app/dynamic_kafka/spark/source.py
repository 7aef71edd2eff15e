"""The PySpark data source `dynamic-kafka`. Runs on the driver; `register(spark)` adds it to a session."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dynamic_kafka.executor.columns import spark_schema
from dynamic_kafka.kafka.config_checks import check_client_properties
from dynamic_kafka.options import Mode, SourceOptions, parse_options
from dynamic_kafka.spark.batch_reader import DynamicKafkaReader
from dynamic_kafka.spark.output_check import check_outputs
from dynamic_kafka.spark.shown_errors import WithoutFrames, show_causes
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader

NAME = "dynamic-kafka"


class DynamicKafkaDataSource(DataSource):
    """Many Kafka clusters as one Spark stream (FLIP-246 for Spark). `docs/options.md` lists the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `.format(...)`."""
        return NAME

    @WithoutFrames()
    def schema(self) -> StructType:
        """Return the columns of Spark's Kafka source, then `kafka_cluster` and `kafka_stream`.

        Spark calls this in `load()`. Checking the options here reports an error before the query starts, and before
        the options can appear in a plan.

        Raises:
            OptionError: an option is wrong for streams and batches alike.
        """
        return spark_schema(_checked(dict(self.options), "streaming").include_headers)

    @WithoutFrames()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`. Raises OptionError if an option is wrong."""
        return DynamicKafkaStreamReader(_checked(dict(self.options), "streaming"))

    @WithoutFrames()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`. Raises OptionError if an option is wrong."""
        return DynamicKafkaReader(_checked(dict(self.options), "batch"))


def _checked(options: dict[str, str], mode: Mode) -> SourceOptions:
    parsed = parse_options(options, mode=mode)
    check_client_properties(parsed.kafka_properties)
    return parsed


def register(spark: SparkSession) -> None:
    """Register `.format("dynamic-kafka")` with a session. Executors must be able to import `dynamic_kafka`.

    An uncaught exception of Spark's is shown as its cause from then on, if the cause is an error of this package
    (`cause_of`). A query on the source fails at its start if its file sink would skip its batches, because the output
    folder is older than the checkpoint.
    """
    register_source(spark)
    show_causes()
    check_outputs(spark)


def register_source(spark: SparkSession) -> None:
    """Register the source alone, for the bundled application, which reports errors itself."""
    spark.dataSource.register(DynamicKafkaDataSource)
