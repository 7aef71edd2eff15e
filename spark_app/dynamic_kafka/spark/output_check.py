"""Stop a query of the user's own code whose file sink would skip its batches, at the query's start.

Runs in the user's driver, as a listener that `register` adds. Spark's file sinks skip each batch whose number is in
their log. A new checkpoint with an old output folder thus loses its first batches, without a message. The bundled
application makes the same check before it starts a query.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dynamic_kafka.errors import StaleCheckpointError
from dynamic_kafka.state.sink_log import SINK_LOG, newest_of, old_checkpoint_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_checked: WeakSet[SparkSession] = WeakSet()
"""The sessions that have the listener."""


def check_outputs(spark: SparkSession) -> None:
    """Add the listener to a session. A second call changes nothing, and a session of Spark Connect gets none."""
    if spark in _checked or not hasattr(spark, "_jsparkSession"):
        return
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class OutputListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            # The query's first batch waits until this returns. An error here must not disturb the query.
            try:
                _check(spark, str(event.id))
            except Exception as error:
                log.warning("the output folder of query %s is not checked: %s", event.id, error)

        def onQueryProgress(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    spark.streams.addListener(OutputListener())
    _checked.add(spark)


def _check(spark: SparkSession, query_id: str) -> None:
    query: Any = spark.streams.get(query_id)
    execution = query._jsq.streamingQuery()
    sink = execution.sink().toString()
    if not sink.startswith("FileSink[") or "dynamic-kafka" not in execution.analyzedPlan().toString():
        return
    path, checkpoint = sink.removeprefix("FileSink[").removesuffix("]"), execution.resolvedCheckpointRoot()
    delivered, planned = _newest(spark, f"{path}/{SINK_LOG}"), _newest(spark, f"{checkpoint}/offsets")
    error = old_checkpoint_error(checkpoint, planned, path, delivered)
    if error is not None:
        log.error("query %s is stopped: its output folder is older than its checkpoint", query_id)
        try:
            _fail(spark, execution, error)
        except Exception:  # Spark's classes for this are its own; then the line above is all there is
            log.error("%s", error)
        # A stop waits for the thread that waits for this listener.
        threading.Thread(target=query.stop, name=f"stop-{query_id}").start()


def _newest(spark: SparkSession, folder: str) -> int | None:
    """Return the highest batch number in a folder of any file system that Spark reaches."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(folder)
    files = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return newest_of(file.getPath().getName() for file in files.listStatus(place)) if files.exists(place) else None


def _fail(spark: SparkSession, execution: Any, error: StaleCheckpointError) -> None:
    """Make `awaitTermination` raise. A mere stop would end a script as if all were well."""
    jvm: Any = spark._jvm
    text = f"{type(error).__module__}.{type(error).__name__}: {error}"
    parameters = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    nothing = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    raised = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
        "", text, None, None, None, None, parameters, nothing
    )
    getattr(execution, "streamDeathCause_$eq")(raised)
