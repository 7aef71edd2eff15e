"""Start the query of one sink of `app.yaml`: source, transformation, sink and checkpoint. Driver.

Each start, also a restart within the process, builds the query anew. The supervisor calls this.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.schema import Sink, Trigger
from dynamic_kafka.errors import DynamicKafkaError, OptionError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation, pickled_from_folder
from dynamic_kafka.spark.watermarks import watermark
from dynamic_kafka.state.checkpoints import Checkpoint, refuse_old_checkpoint
from dynamic_kafka.user_code import import_object

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

VIEW = "stream"
"""The view that `transformation.sql` reads."""
_PROVIDERS = {
    "file": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "dir": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    "env": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def query_name(config: AppConfig, sink: Sink) -> str:
    """Return the name of a sink's query, for Spark's progress events and UI."""
    return f"{config.name}.{sink.name}"


def start_query(
    spark: SparkSession,
    config: AppConfig,
    sink: Sink,
    *,
    read_reports: str | None = None,
    home_id: str | None = None,
) -> StreamingQuery:
    """Start a sink's query at the end of its checkpoint.

    Args:
        read_reports: the address for executors' read reports; without one they send none.
        home_id: the `cluster.id` of the home of the internal topics, for executors that write dead letters.

    Raises:
        StaleCheckpointError: the checkpoint is older than its file sink's log.
        OptionError: a function cannot be imported, or a connector is missing.
    """
    checkpoint = config.checkpoint_of(sink)
    _refuse_old_checkpoint(config, sink)
    options = config.reader_options(sink, home_id=home_id)
    options |= _own_queries(checkpoint) if "applicationCommits" in options else {}
    if read_reports is not None:
        options["readReports"] = read_reports
    frame = spark.readStream.format("dynamic-kafka").options(**options).load()
    writer = _transformed(spark, config, sink, frame).writeStream.queryName(query_name(config, sink))
    writer = writer.outputMode(sink.output_mode).option("checkpointLocation", checkpoint)
    writer = writer.trigger(**_trigger(sink.trigger or config.file.trigger))
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.foreach_batch is not None:
        return writer.options(**sink.options).foreachBatch(load_function(sink.foreach_batch, config.source)).start()
    return _start_writer(writer, sink)


def load_function(path: str, config_file: str) -> Callable[..., Any]:
    """Return the function that `package.module:function` names. The folder of `app.yaml` is searched too.

    Raises:
        OptionError: the module cannot be imported, or has no such function.
    """
    search_beside(config_file)
    function = import_object(path)
    if not callable(function):
        raise OptionError(f"{path}: is no function")
    return function


def evaluators_of(config: AppConfig) -> dict[str, bytes]:
    """Return the record evaluator and deserialiser in modules beside `app.yaml`, as they travel to executors.

    Raises:
        OptionError: one cannot be imported, made or pickled, or is none.
    """
    options = config.shared_options
    evaluators = pickled_from_folder(options, search_beside(config.source))
    Evaluation.of(options, evaluators)
    return evaluators


def search_beside(config_file: str) -> str:
    """Let imports find modules beside `app.yaml`, and return its folder."""
    folder = str(Path(config_file).absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return folder


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a Kafka sink, with the providers that let Kafka's own client resolve references."""
    used = [name for name in _PROVIDERS if any(f"${{{name}:" in value for value in options.values())]
    if not used or "kafka.config.providers" in options:
        return dict(options)
    providers = {f"kafka.config.providers.{name}.class": _PROVIDERS[name] for name in used}
    return {"kafka.config.providers": ",".join(used), **providers, **options}


def _refuse_old_checkpoint(config: AppConfig, sink: Sink) -> None:
    path = sink.folder
    if path is None:
        return
    allowed = config.parsed_options(sink).allow_old_checkpoint
    try:
        refuse_old_checkpoint(Checkpoint(config.checkpoint_of(sink)), path, allowed=allowed)
    except OptionError as error:
        # Spark reaches more file systems than pyarrow, so the query starts without this check.
        log.warning("sink %s: cannot check whether its checkpoint is older than its files: %s", sink.name, error)


def _own_queries(checkpoint: str) -> dict[str, str]:
    # Each source of a query has an id of its own, and the commits carry the mark of the first.
    with contextlib.suppress(DynamicKafkaError, OSError):  # the start of the query reports a checkpoint in trouble
        if ids := ",".join(filter(None, Checkpoint(checkpoint).query_ids())):
            return {"applicationQueries": ids}
    return {}


def _transformed(spark: SparkSession, config: AppConfig, sink: Sink, frame: DataFrame) -> DataFrame:
    if config.file.watermark is not None:
        frame = watermark(frame, f"{config.file.watermark.delay}ms", config.file.watermark.column)
    wanted = config.transformation_of(sink)
    if wanted is not None and wanted.sql is not None:
        frame.createOrReplaceTempView(VIEW)
        frame = _queried(spark, wanted.sql, f"{config.source}: transformation of sink {sink.name!r}")
    if wanted is not None and wanted.function is not None:
        frame = load_function(wanted.function, config.source)(frame)
    if not getattr(frame, "isStreaming", False):
        where = f"{config.source}: transformation of sink {sink.name!r}"
        raise OptionError(f"{where}: its result is not a stream; read from the view `{VIEW}`")
    return frame


def _queried(spark: SparkSession, sql: str, where: str) -> DataFrame:
    try:
        return spark.sql(sql)
    except Exception as error:
        if "TABLE_OR_VIEW_NOT_FOUND" not in str(error):
            raise
        message = str(error).splitlines()[0]
        raise OptionError(f"{where}: {message} (the stream is the view `{VIEW}`)") from None


def _trigger(trigger: Trigger) -> dict[str, Any]:
    if trigger.available_now:
        return {"availableNow": True}
    return {"once": True} if trigger.once else {"processingTime": f"{trigger.interval or 0} milliseconds"}


def _start_writer(writer: DataStreamWriter, sink: Sink) -> StreamingQuery:
    options = kafka_options(sink.options) if sink.type == "kafka" else sink.options
    try:
        return writer.format(sink.format_name or "").options(**options).start()
    except Exception as error:
        if sink.type == "kafka" and "find data source" in str(error):
            name = sink.name
            raise OptionError(
                f"sink {name!r}: Spark's Kafka connector is missing: add"
                " org.apache.spark:spark-sql-kafka-0-10_2.13:<Spark's version> to spark.jars.packages"
            ) from None
        raise
