"""The PySpark data source `dynamic-kafka`. Runs on the driver; `register(spark)` adds it to a session."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from dynamic_kafka.executor.evaluating.evaluation import Evaluation, pickled
from dynamic_kafka.executor.reading.columns import spark_schema
from dynamic_kafka.executor.reading.native_connection import extension_for
from dynamic_kafka.kafka.config_checks import check_client_properties
from dynamic_kafka.options import Mode, SourceOptions, check_stream, parse_options
from dynamic_kafka.spark.batch_reader import DynamicKafkaReader
from dynamic_kafka.spark.output_check import check_outputs
from dynamic_kafka.spark.shown_errors import WithoutFrames, show_causes
from dynamic_kafka.spark.stream_reader import DynamicKafkaStreamReader

NAME = "dynamic-kafka"


class DynamicKafkaDataSource(DataSource):
    """Many Kafka clusters as one Spark stream (FLIP-246 for Spark). `docs/reference/options.md` lists the options.

    Attributes:
        evaluators: the record evaluators that `register` was given, pickled by name.
    """

    evaluators: ClassVar[Mapping[str, bytes]] = MappingProxyType({})

    @classmethod
    def name(cls) -> str:
        """Return the name for `.format(...)`."""
        return NAME

    @WithoutFrames()
    def schema(self) -> StructType:
        """Return the columns of Spark's Kafka source, then `kafka_cluster` and `kafka_stream`; or those of `columns`.

        With `value.format`, the column `value` is a struct.

        Spark calls this in `load()`. Checking the options here reports an error before the query starts, and before
        the options can appear in a plan.

        Raises:
            OptionError: an option is wrong for streams and batches alike.
        """
        options = _checked(dict(self.options), "streaming")
        evaluation = Evaluation.of(options, self.evaluators)
        values = evaluation.values if evaluation is not None else None
        value_type = values.type if values is not None else None
        return spark_schema(options.columns, value_type, options.least_delay_ms, options.time_column)

    @WithoutFrames()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`. Raises OptionError if an option is wrong."""
        options = _checked(dict(self.options), "streaming")
        check_stream(options)
        return DynamicKafkaStreamReader(options, Evaluation.of(options, self.evaluators))

    @WithoutFrames()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`. Raises OptionError if an option is wrong."""
        options = _checked(dict(self.options), "batch")
        return DynamicKafkaReader(options, Evaluation.of(options, self.evaluators))


def _checked(options: dict[str, str], mode: Mode) -> SourceOptions:
    parsed = parse_options(options, mode=mode)
    check_client_properties(parsed.kafka_properties)
    if parsed.reader == "native":
        extension_for(parsed.reader)  # fails here, and not in the first batch
    return parsed


def register(spark: SparkSession, *, evaluators: Mapping[str, object] | None = None) -> None:
    """Register `.format("dynamic-kafka")` with a session. Executors must be able to import `dynamic_kafka`.

    An uncaught exception of Spark's is shown as its cause from then on, if the cause is an error of this package
    (`cause_of`). A query on the source fails at its start if its file sink would skip its batches, because the output
    folder is older than the checkpoint.

    Args:
        evaluators: record evaluators by the names that the option `recordEvaluator` then takes: functions of a record,
            objects or classes (`RecordEvaluator`). They travel to executors with their code. A further call replaces
            them.

    Raises:
        OptionError: one of them is no evaluator, or cannot be sent.
    """
    register_source(spark, pickled(evaluators or {}))
    show_causes()
    check_outputs(spark)


def register_source(spark: SparkSession, evaluators: Mapping[str, bytes]) -> None:
    """Register the source alone, with pickled evaluators, for the application, which reports errors itself."""
    source: type[DynamicKafkaDataSource] = DynamicKafkaDataSource
    if evaluators:
        # Spark pickles a class that no module has by value, with its attributes.
        source = type("WithEvaluators", (DynamicKafkaDataSource,), {"evaluators": dict(evaluators)})
    spark.dataSource.register(source)
