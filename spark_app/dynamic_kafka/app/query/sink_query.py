"""The query of one sink, over all its restarts: its commits to consumer groups, its end and its next restart. Driver.

The supervisor calls it in the main thread and in the thread of Spark's listener. Queries are stopped in other threads.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.schema import Sink
from dynamic_kafka.app.failures import reason_in, text_of
from dynamic_kafka.app.internal_topics.changelog import ChangelogWriter
from dynamic_kafka.app.query.sinks import query_name
from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.driver.report.amended_progress import AmendedProgress
from dynamic_kafka.driver.report.sink_status import StatusBoard
from dynamic_kafka.errors import DynamicKafkaError, ErrorCode, MetadataError, OptionError
from dynamic_kafka.kafka.commits import GroupCommitter
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.spark.stopping import is_finished
from dynamic_kafka.state.checkpoints import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)


class SinkQuery:
    """The query of one sink, over all its restarts.

    Attributes:
        query: Spark's query; None before the first start.
        restart_at: when to restart it, in seconds of the monotonic clock; None if no restart is due.
        finished: whether it has ended by itself, with everything read.
        stopping: whether a finished run is being stopped.
        failure: an error of its commits that ends the application.
        committer: commits to the consumer groups; None if the query commits nothing.
    """

    def __init__(
        self, config: AppConfig, sink: Sink, discovery: MetadataDiscovery, changelog: ChangelogWriter | None = None
    ) -> None:
        self._changelog = changelog
        self.sink, self.name = sink, query_name(config, sink)
        self.config = config
        self.options = config.parsed_options(sink)
        self.query: StreamingQuery | None = None
        self.restart_at: float | None = None
        self.finished = False
        self.stopping = False
        self.failure: DynamicKafkaError | None = None
        self.restarts = RestartPolicy(
            stall=self.options.cluster_failure_policy == "stall",
            is_named=lambda cluster: is_named(discovery, cluster),
            pause_s=config.file.restart_backoff / 1000,
        )
        self._progress: dict[int, AmendedProgress] = {}
        self._committed_before: list[int] | None = []
        self.committer: GroupCommitter | None = None
        group = self.options.group_id
        if self.options.commit_offsets and group is not None:
            self.committer = GroupCommitter(
                group,
                lambda cluster: client_of(self.options, discovery.current().subscription, cluster),
                allow_old_checkpoint=self.options.allow_old_checkpoint,
            )

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.config.checkpoint_of(self.sink))

    def stop_if_finished(self, reached: OffsetDocument) -> None:
        """Stop a run that has read everything: a bounded one, or one whose splits have all ended. Does not wait.

        The document of the last batch does not show this. Ranges may have been left out of the batch, and a run that
        had finished before has no batch at all. So the query's last progress is asked, for which Spark sends no event
        while the query is idle.
        """
        query = self.query
        if query is None or self.stopping or not (reached.is_initial or reached.finished):
            return
        if is_finished(query.lastProgress):
            self.stopping = True
            threading.Thread(target=stop_quietly, args=(query,), name=f"finish-{self.name}", daemon=True).start()

    def show_reached(self, board: StatusBoard) -> None:
        """Show the progress of the checkpoint on the board, before the query's first batch."""
        # The start of the query reports a checkpoint that cannot be read.
        with contextlib.suppress(DynamicKafkaError, OSError):
            documents = self.checkpoint.documents(self.checkpoint.committed)
            if documents:
                board.restored(self.sink.name, documents, time.monotonic())
                self.show_read(board)

    def show_read(self, board: StatusBoard) -> None:
        """Show how far the last batch was read, if executors may have ended ranges of it early."""
        documents = board.sinks()[self.sink.name].documents
        if any(document.by_value is not None for document in documents):
            with contextlib.suppress(DynamicKafkaError, OSError):  # `commit` and the next plan report it
                progress = [self._progress_after(place, document) for place, document in enumerate(documents)]
                board.read_up_to(self.sink.name, progress, time.monotonic())

    def starting(self) -> None:
        """Note the last batch that is committed, before Spark starts the query."""
        try:
            documents = self.checkpoint.documents(self.checkpoint.committed)
            self._committed_before = [document.number for document in documents]
        except (DynamicKafkaError, OSError):  # the start of the query reports a checkpoint that cannot be read
            self._committed_before = None

    def started(self, query: StreamingQuery) -> None:
        """Record a first start or a restart."""
        self.query, self.restart_at, self.stopping = query, None, False

    def ended(self, board: StatusBoard) -> None:
        """Record that the query has ended by itself. The event of its last batch may arrive only later, or never."""
        self.finished = True
        self.commit_reached()
        last = self.query.lastProgress if self.query is not None else None
        if last is not None:
            board.progress(self.sink.name, json.loads(last.json), time.monotonic())
            self.show_read(board)
        board.update(self.sink.name, state="finished")

    def commit(self, *committed: OffsetDocument) -> None:
        """Commit the progress of a batch that Spark has committed to the groups and the changelog. Does not wait.

        Ranges that the batch left out are not committed. While the state location cannot be read, nothing is committed,
        and a later call commits instead.

        Args:
            committed: the document of each source of the query.

        Raises:
            GroupInUseError, StaleCheckpointError: see `GroupCommitter.commit`.
        """
        if self.committer is None and self._changelog is None:
            return
        try:
            reached = [self._progress_after(place, document) for place, document in enumerate(committed)]
        except (DynamicKafkaError, OSError) as error:
            log.warning("sink %s: its last batch is not committed to the group yet: %s", self.sink.name, error)
            return
        if self._changelog is not None:
            self._changelog.put(self.sink.name, *reached)
        if self.committer is not None:
            self.committer.commit(*reached)

    def commit_reached(self) -> None:
        """Commit the checkpoint's progress, as `commit`. This includes a last batch whose event was never handled."""
        if self.committer is None and self._changelog is None:
            return
        try:
            documents = self.checkpoint.documents(self.checkpoint.committed)
            if documents:
                self.commit(*documents)
        except (OptionError, OSError) as error:  # for example a file system that does not answer for a moment
            log.warning("sink %s: its last batch is not committed to the group: %s", self.sink.name, error)
        except DynamicKafkaError as error:
            self.failure = self.failure or error

    def _progress_after(self, place: int, committed: OffsetDocument) -> OffsetDocument:
        # Ranges are left out only of the batch that a start repeats: the one behind the last committed batch. A lookup
        # for each later batch would only cost time. Executors may end ranges in any batch.
        before = self._committed_before
        if before is not None and self.options.record_evaluator is None and committed.by_value is None:
            repeated = (before[place] if place < len(before) else 0) + 1
            if committed.number > repeated:
                return committed
        return self._progress.setdefault(place, AmendedProgress(self.options.state_location)).after(committed)


def is_named(discovery: MetadataDiscovery, cluster: str) -> bool:
    """Return whether metadata, looked up now, still names an active cluster. Without any metadata the answer is yes."""
    if cluster in discovery.refresh([cluster]):
        return False
    try:
        return cluster in discovery.current().subscription.clusters
    except MetadataError:
        return True


def stop_quietly(query: StreamingQuery) -> None:
    """Stop a query; log a failure to do so."""
    try:
        query.stop()
    except Exception as error:
        log.warning("a query could not be stopped cleanly: %s", reason_in(text_of(error)))


# -- restart policy ------------------------------------------------------------------------------------------


RESTARTABLE = ("READ_TIMEOUT", "CLUSTER_UNREACHABLE", "CLUSTER_REFUSED")
MAX_PAUSE_S = 30.0
MAX_IN_VAIN = 10
"""So many restarts without a batch with rows are made; the next failure ends the application."""


@dataclass
class RestartPolicy:
    """The restarts of one query.

    Args:
        stall: whether `clusterFailurePolicy` is `stall`.
        is_named: returns whether fresh metadata still names a cluster; may look it up.
        pause_s: the pause before the first restart in seconds; it doubles with each restart in vain.
        in_vain: the restarts since the last batch with rows.
    """

    stall: bool
    is_named: Callable[[str], bool]
    pause_s: float
    in_vain: int = 0

    def pause_before(self, failure: str) -> float | None:
        """Return the seconds to wait before a restart after this failure; None if the failure is final."""
        error_code = ErrorCode.find(failure)
        if error_code is None or error_code.code not in RESTARTABLE or self.in_vain >= MAX_IN_VAIN:
            return None
        if not self.stall and self.is_named(error_code.cluster):
            return None
        pause = min(MAX_PAUSE_S, self.pause_s * 2**self.in_vain)
        self.in_vain += 1
        return float(pause)

    def progressed(self) -> None:
        """Set the count of restarts back: a batch with rows was committed."""
        self.in_vain = 0
