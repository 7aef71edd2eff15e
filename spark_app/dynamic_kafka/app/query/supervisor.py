"""Keep the queries of all sinks running, commit their progress, restart them where that helps, end them in order.

Driver, the main thread of `run`. Spark's listener tells of each batch that Spark has committed (its event comes after
the commit log's entry, which a test shows); commits to the clusters' groups go out from there, aside.
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
from dynamic_kafka.app.exit_codes import ExitCode, code_of, code_of_text, jvm_trace, reason_in, told
from dynamic_kafka.app.query.sink_query import SinkQuery, stop_quietly
from dynamic_kafka.app.query.sink_status import StatusBoard
from dynamic_kafka.app.query.sinks import query_name, start_query
from dynamic_kafka.app.query.stop_request import StopRequest
from dynamic_kafka.errors import DynamicKafkaError, ErrorCode
from dynamic_kafka.metadata.discovery import MetadataDiscovery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.25
RECOMMIT_S = 5.0
"""How often commits that failed are tried again, and the planner's report is looked at, while no batch comes."""
BATCH_SHARE = 0.5
"""The part of the grace period that the batch at hand may take to finish before it is abandoned."""

log = logging.getLogger(__name__)


class Supervisor:
    """Runs the queries until they have ended, failed, or the application was asked to stop."""

    def __init__(
        self,
        spark: SparkSession,
        config: AppConfig,
        discovery: MetadataDiscovery,
        board: StatusBoard,
        stop: StopRequest,
        *,
        read_reports: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`read_reports`: for each sink, where executors report what they have read."""
        self._read_reports = read_reports
        self._spark, self._config, self._board, self._stop = spark, config, board, stop
        self._queries = {query_name(config, sink): SinkQuery(config, sink, discovery) for sink in config.sinks}
        self.reason: str | None = None
        """Why the application ended, once `run` has returned: a failure, or who asked; None when it finished."""
        self._recommit_at = time.monotonic() + RECOMMIT_S

    def run(self) -> ExitCode:
        """Start everything, and stay until it is over. Returns the application's exit code."""
        code = ExitCode.DONE
        self._spark.streams.addListener(make_listener(self._queries.keys(), self._on_progress))
        try:
            for each in self._queries.values():
                if self._stop.asked:  # while Spark started, which takes longest
                    break
                each.commit_reached()
                each.show_reached(self._board)
                self._start(each)
            while not self._stop.wait(POLL_S) and not all(each.finished for each in self._queries.values()):
                self._look_after()
        except _EndedError as ended:
            code, self.reason = ended.code, ended.reason
        except DynamicKafkaError as error:
            code, self.reason = code_of(error), told(error)
            log.error("the application failed", extra={"event": "failed", "reason": self.reason})
        except Exception as error:  # Spark refused a query, or the JVM has gone
            code, self.reason = code_of_text(str(error)), reason_in(str(error))
            log.error("the application failed", extra={"event": "failed", "reason": self.reason})
        return self._end(code)

    # -- while running -------------------------------------------------------------------------------------------

    def _start(self, each: SinkQuery) -> None:
        reports = self._read_reports.get(each.sink.name)
        query = start_query(self._spark, self._config, each.sink, read_reports=reports)
        each.started(query)
        reached = self._board.sinks()[each.sink.name].document
        fields = {
            "event": "started", "sink": each.sink.name, "query": str(query.id),
            "documentQuery": reached.query or None,
        }  # fmt: skip
        log.info("sink %s: query %s has started", each.sink.name, query.id, extra=fields)

    def _look_after(self) -> None:
        now = time.monotonic()
        recommit = now >= self._recommit_at
        self._recommit_at = now + RECOMMIT_S if recommit else self._recommit_at
        for each in self._queries.values():
            if each.finished:
                continue
            if recommit:
                self._commit_again(each)
            if each.failure is not None:
                raise each.failure
            if each.restart_at is not None:
                if now >= each.restart_at:
                    self._start(each)
            elif each.query is not None and not each.query.isActive:
                self._ended(each, each.query)
            else:
                if recommit:
                    self._hear(each)
                each.stop_when_over(self._board.sinks()[each.sink.name].document)

    def _hear(self, each: SinkQuery) -> None:
        """What the planner reports while there is no batch: which clusters are stalled, what is rejected."""
        progress = each.query.lastProgress if each.query is not None else None
        if progress is not None:
            self._board.idle(each.sink.name, json.loads(progress.json))

    def _ended(self, each: SinkQuery, query: StreamingQuery) -> None:
        raised = query.exception()
        if raised is None:
            each.finished = True
            each.commit_reached()
            self._board.update(each.sink.name, state="finished")
            log.info("sink %s: finished", each.sink.name, extra={"event": "finished", "sink": each.sink.name})
            return
        text = str(raised)
        reason = reason_in(text, each.checkpoint.uri)
        pause = each.restarts.pause_before(text)
        fields = {"event": "failed" if pause is None else "restart", "sink": each.sink.name, "reason": reason}
        if pause is None:
            self._board.update(each.sink.name, state="failed", last_error=reason)
            # Of the exception PySpark has kept no more than the top; the whole trace is its cause's, which has no other
            # name either.
            stack = getattr(getattr(raised, "_cause", None), "_stackTrace", "")
            trace = jvm_trace(f"{text}\n{stack}")
            more = {"trace": trace} if trace else {}
            log.error("sink %s: the query failed", each.sink.name, extra={**fields, **more})
            raise _EndedError(code_of_text(text), reason)
        count = self._board.sinks()[each.sink.name].restarts + 1
        self._board.update(each.sink.name, state="restarting", last_error=reason, restarts=count)
        log.warning("sink %s: restarted in %.1f s", each.sink.name, pause, extra=fields)
        each.restart_at = time.monotonic() + pause

    def _commit_again(self, each: SinkQuery) -> None:
        document = self._board.sinks()[each.sink.name].document
        if each.committer is None or document.is_initial:
            return
        try:
            each.commit(document)
        except DynamicKafkaError as error:
            each.failure = error
        self._board.update(each.sink.name, commits=each.committer.counts(), committed=each.committer.committed())

    def _on_progress(self, name: str, event: Mapping[str, Any]) -> None:
        """In the listener's thread: Spark has committed a batch, or says how it is while there is none."""
        each = self._queries[name]
        status = self._board.progress(each.sink.name, event, time.monotonic())
        if status is None:
            return
        if status.rows:
            each.restarts.progressed()
        if each.committer is not None:
            try:
                each.commit(status.document)
            except DynamicKafkaError as error:
                each.failure = error
            self._board.update(each.sink.name, commits=each.committer.counts(), committed=each.committer.committed())
        fields = {
            "event": "batch", "sink": each.sink.name, "batch": status.batch, "rows": status.rows,
            "documentQuery": status.document.query, "milliseconds": status.batch_ms, "summary": status.summary,
        }  # fmt: skip
        log.info("sink %s: batch %d, %d rows", each.sink.name, status.batch, status.rows, extra=fields)

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
        for each in self._queries.values():
            each.commit_reached()
            left = max(0.5, deadline - time.monotonic())
            if each.committer is not None and not each.committer.flush(left, unreachable=unreachable):
                log.warning("sink %s: not all offsets were committed in time; reading is not affected", each.sink.name)
        for each in self._queries.values():
            if each.committer is not None:
                each.committer.close()
            if each.failure is not None and code == ExitCode.DONE:
                code, self.reason = code_of(each.failure), told(each.failure)
                fields = {"event": "failed", "sink": each.sink.name, "reason": self.reason}
                log.error("sink %s: its commits are refused", each.sink.name, extra=fields)
        if not stopped and code == ExitCode.DONE:
            code = ExitCode.GRACE_EXCEEDED
            self.reason = "not all queries ended within gracePeriod; their batches are repeated at the next start"
            log.error("%s", self.reason)
        return code

    def _let_batches_finish(self, until: float) -> None:
        """Wait for the end of the batches at hand. A trigger that follows at once is stopped at its beginning."""
        busy = {}
        for each in self._queries.values():
            if each.query is not None and not each.finished and each.query.isActive:
                busy[each.sink.name] = (each.query, self._board.sinks()[each.sink.name].batch)
        while busy and time.monotonic() < until:
            for name, (query, batch) in list(busy.items()):
                idle = not query.isActive or not query.status["isTriggerActive"]
                if idle or self._board.sinks()[name].batch != batch:
                    del busy[name]
            time.sleep(0.05)

    def _stop_queries(self, deadline: float) -> bool:
        threads = [
            threading.Thread(target=stop_quietly, args=(each.query,), daemon=True)
            for each in self._queries.values()
            if each.query is not None and not each.finished
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        for each in self._queries.values():
            if self._board.sinks()[each.sink.name].state in ("running", "starting"):
                self._board.update(each.sink.name, state="stopped")
        return not any(thread.is_alive() for thread in threads)


class _EndedError(Exception):
    """A query has ended the application."""

    def __init__(self, code: ExitCode, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def make_listener(names: Any, tell: Callable[[str, Mapping[str, Any]], None]) -> Any:
    """A Spark listener that passes on the progress of the named queries. What goes wrong in there is logged."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            try:
                if event.progress.name in names:
                    tell(event.progress.name, json.loads(event.progress.json))
            except Exception:
                log.exception("a progress event could not be used")

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()
