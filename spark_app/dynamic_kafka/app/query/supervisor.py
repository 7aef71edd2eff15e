"""Run the queries of all sinks: start them, commit their progress, restart them where that helps, and stop them.

Driver, the main thread of `run`. Spark's listener reports each batch after Spark has written it to the commit log (a
test shows this order). The listener's thread then hands the progress to the committer, which does not wait.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.failures import code_of, code_of_text, describe_error, jvm_trace, reason_in, text_of
from dynamic_kafka.app.internal_topics.at_work import InternalTopicsAtWork
from dynamic_kafka.app.query.sink_query import SinkQuery, stop_quietly
from dynamic_kafka.app.query.sinks import query_name, start_query
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.report.sink_status import SinkStatus, StatusBoard
from dynamic_kafka.errors import DynamicKafkaError, ErrorCode
from dynamic_kafka.metadata.discovery import MetadataDiscovery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.25
RECOMMIT_S = 5.0
"""How often failed commits are retried and the planner's report is read while there is no batch."""
BATCH_SHARE = 0.5
"""The part of the grace period in which a running batch may finish before it is cut off."""

log = logging.getLogger(__name__)


class Supervisor:
    """The loop that runs the queries until they end, one fails for good, or the application is asked to stop.

    Args:
        discovery: the metadata, started.
        board: gets the status of each query.
        read_reports: for each sink, the address for executors' read reports.
        internal: the internal topics, if the application declares any.

    Attributes:
        reason: why the application ended, once `run` has returned: a failure, or the request to stop. None when
            everything was read.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: AppConfig,
        discovery: MetadataDiscovery,
        board: StatusBoard,
        stop: StopRequest,
        *,
        read_reports: Mapping[str, str] = MappingProxyType({}),
        internal: InternalTopicsAtWork | None = None,
    ) -> None:
        self._read_reports, self._internal = read_reports, internal
        self._spark, self._config, self._board, self._stop = spark, config, board, stop
        changelog, self._home_id = (internal.changelog, internal.home_id) if internal is not None else (None, None)
        self._queries = {
            query_name(config, sink): SinkQuery(config, sink, discovery, changelog) for sink in config.sinks
        }
        self.reason: str | None = None
        self._recommit_at = time.monotonic() + RECOMMIT_S

    def run(self) -> ExitCode:
        """Run all queries to their end, and return the application's exit code."""
        code = ExitCode.DONE
        self._spark.streams.addListener(make_listener(self._queries.keys(), self._on_progress))
        try:
            for query in self._queries.values():
                if self._stop.asked:  # for example during Spark's start, which takes long
                    break
                query.commit_reached()
                query.show_reached(self._board)
                self._start(query)
            while not self._stop.wait(POLL_S) and not all(query.finished for query in self._queries.values()):
                self._check_queries()
        except _EndedError as ended:
            code, self.reason = ended.code, ended.reason
        except DynamicKafkaError as error:
            code, self.reason = code_of(error), describe_error(error)
            log.error("the application failed", extra={"event": "failed", "reason": self.reason})
        except Exception as error:  # the JVM has ended
            text = text_of(error)
            code, self.reason = code_of_text(text), reason_in(text)
            log.error("the application failed", extra={"event": "failed", "reason": self.reason})
        return self._end(code)

    # -- while running -------------------------------------------------------------------------------------------

    def _start(self, sink_query: SinkQuery) -> None:
        reports = self._read_reports.get(sink_query.sink.name)
        sink_query.starting()
        try:
            query = start_query(self._spark, self._config, sink_query.sink, read_reports=reports, home_id=self._home_id)
        except DynamicKafkaError:
            raise
        except Exception as error:  # Spark refuses the query, or a function of the user's fails
            raise self._failed(sink_query, text_of(error)) from error
        sink_query.started(query)
        reached = self._board.sinks()[sink_query.sink.name].document
        fields = {
            "event": "started", "sink": sink_query.sink.name, "query": str(query.id),
            "documentQuery": reached.query or None,
        }  # fmt: skip
        log.info("sink %s: query %s has started", sink_query.sink.name, query.id, extra=fields)

    def _check_queries(self) -> None:
        if self._internal is not None and self._internal.failure is not None:
            raise self._internal.failure
        now = time.monotonic()
        recommit = now >= self._recommit_at
        self._recommit_at = now + RECOMMIT_S if recommit else self._recommit_at
        for query in self._queries.values():
            if query.finished:
                continue
            if recommit:
                self._commit(query, self._board.sinks()[query.sink.name])
            if query.failure is not None:
                raise query.failure
            if query.restart_at is not None:
                if now >= query.restart_at:
                    self._start(query)
            elif query.query is not None and not query.query.isActive:
                self._handle_end(query, query.query)
            else:
                if recommit:
                    self._read_idle_progress(query)
                query.stop_if_finished(self._board.sinks()[query.sink.name].document)

    def _read_idle_progress(self, sink_query: SinkQuery) -> None:
        """Show the planner's report while there is no batch: stalled clusters and rejected metadata."""
        progress = sink_query.query.lastProgress if sink_query.query is not None else None
        if progress is not None:
            self._board.idle(sink_query.sink.name, json.loads(progress.json))

    def _handle_end(self, sink_query: SinkQuery, query: StreamingQuery) -> None:
        """Mark a query that has ended as finished, schedule its restart, or end the application.

        Raises:
            _EndedError: it failed, and a restart would not help.
        """
        raised = query.exception()
        if raised is None:
            sink_query.ended(self._board)
            log.info(
                "sink %s: finished", sink_query.sink.name, extra={"event": "finished", "sink": sink_query.sink.name}
            )
            return
        text = text_of(raised)
        pause = sink_query.restarts.pause_before(text)
        if pause is None:
            raise self._failed(sink_query, text)
        reason = reason_in(text)
        fields = {"event": "restart", "sink": sink_query.sink.name, "reason": reason}
        count = self._board.sinks()[sink_query.sink.name].restarts + 1
        self._board.update(sink_query.sink.name, state="restarting", last_error=reason, restarts=count)
        log.warning("sink %s: restarted in %.1f s", sink_query.sink.name, pause, extra=fields)
        sink_query.restart_at = time.monotonic() + pause

    def _failed(self, sink_query: SinkQuery, text: str) -> _EndedError:
        """Log that a query has failed for good, and return the error that ends the application."""
        reason = reason_in(text, self._config.checkpoint_of(sink_query.sink))
        self._board.update(sink_query.sink.name, state="failed", last_error=reason)
        fields: dict[str, Any] = {"event": "failed", "sink": sink_query.sink.name, "reason": reason}
        if trace := jvm_trace(text):
            fields["trace"] = trace
        log.error("sink %s: the query failed", sink_query.sink.name, extra=fields)
        return _EndedError(code_of_text(text), reason)

    def _commit(self, sink_query: SinkQuery, status: SinkStatus) -> None:
        """Hand the progress of a committed batch to committer and changelog, and show the commits so far."""
        if status.document.is_initial:
            return
        sink_query.show_read(self._board)
        try:
            sink_query.commit(*status.documents)
        except DynamicKafkaError as error:
            sink_query.failure = error
        if sink_query.committer is not None:
            self._board.update(
                sink_query.sink.name, commits=sink_query.committer.counts(), committed=sink_query.committer.committed()
            )

    def _on_progress(self, name: str, event: Mapping[str, Any]) -> None:
        """Handle a progress event in the listener's thread: a committed batch, or progress without one."""
        sink_query = self._queries[name]
        status = self._board.progress(sink_query.sink.name, event, time.monotonic())
        if status is None:
            return
        if status.rows:
            sink_query.restarts.progressed()
        self._commit(sink_query, status)
        fields = {
            "event": "batch", "sink": sink_query.sink.name, "batch": status.batch, "rows": status.rows,
            "documentQuery": status.document.query, "milliseconds": status.batch_ms, "summary": status.summaries[0],
        }  # fmt: skip
        if len(status.summaries) > 1:
            fields["summaries"] = status.summaries
        log.info("sink %s: batch %d, %d rows", sink_query.sink.name, status.batch, status.rows, extra=fields)

    # -- ending --------------------------------------------------------------------------------------------------

    def _end(self, code: ExitCode) -> ExitCode:
        grace_s = self._config.file.grace_period / 1000
        deadline = time.monotonic() + grace_s
        if self._stop.asked:
            self.reason = self.reason or self._stop.reason
            log.info("stopping", extra={"event": "stopping", "reason": self._stop.reason})
        if code == ExitCode.DONE:
            self._let_batches_finish(time.monotonic() + grace_s * BATCH_SHARE)
        stopped = self._stop_queries(deadline)
        failed = ErrorCode.find(self.reason or "")
        unreachable = [failed.cluster] if failed is not None else []
        for query in self._queries.values():
            query.commit_reached()
            left = max(0.5, deadline - time.monotonic())
            if query.committer is not None and not query.committer.flush(left, unreachable=unreachable):
                log.warning(
                    "sink %s: not all offsets were committed to the group within gracePeriod; reading is not affected",
                    query.sink.name,
                )
        changelog = self._internal.changelog if self._internal is not None else None
        if changelog is not None and not changelog.flush(max(0.5, deadline - time.monotonic())):
            log.warning("the last offset documents were not written to the changelog; the next start writes them")
        for query in self._queries.values():
            if query.committer is not None:
                query.committer.close()
            if query.failure is not None and code == ExitCode.DONE:
                code, self.reason = code_of(query.failure), describe_error(query.failure)
                fields = {"event": "failed", "sink": query.sink.name, "reason": self.reason}
                log.error("sink %s: its commits to the consumer group are refused", query.sink.name, extra=fields)
        if not stopped and code == ExitCode.DONE:
            code = ExitCode.GRACE_EXCEEDED
            self.reason = "not all queries stopped within gracePeriod; the next start repeats their batches"
            log.error("%s", self.reason)
        return code

    def _let_batches_finish(self, until: float) -> None:
        """Wait until each running batch has finished. A batch that follows at once is cut off at its beginning."""
        busy = {}
        for running in self._queries.values():
            if running.query is not None and not running.finished and running.query.isActive:
                busy[running.sink.name] = (running.query, self._board.sinks()[running.sink.name].batch)
        while busy and time.monotonic() < until:
            for name, (query, batch) in list(busy.items()):
                idle = not query.isActive or not query.status["isTriggerActive"]
                if idle or self._board.sinks()[name].batch != batch:
                    del busy[name]
            time.sleep(0.05)

    def _stop_queries(self, deadline: float) -> bool:
        threads = [
            threading.Thread(target=stop_quietly, args=(query.query,), daemon=True)
            for query in self._queries.values()
            if query.query is not None and not query.finished
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        for query in self._queries.values():
            if self._board.sinks()[query.sink.name].state in ("running", "starting"):
                self._board.update(query.sink.name, state="stopped")
        return not any(thread.is_alive() for thread in threads)


class _EndedError(Exception):
    """Failure of a query that ends the application."""

    def __init__(self, code: ExitCode, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def make_listener(names: Any, on_progress: Callable[[str, Mapping[str, Any]], None]) -> Any:
    """Return a Spark listener that passes the progress of the named queries on. It logs errors of its own."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            try:
                if event.progress.name in names:
                    on_progress(event.progress.name, json.loads(event.progress.json))
            except Exception:
                log.exception("a progress event could not be handled")

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()
