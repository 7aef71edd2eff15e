"""One sink's query over all its restarts: its commits, when it is over, when it is tried again. Driver.

The supervisor's main thread and Spark's listener both come here; threads of its own stop a query.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.schema import Sink
from dynamic_kafka.app.exit_codes import reason_in
from dynamic_kafka.app.query.amended_progress import AmendedProgress
from dynamic_kafka.app.query.checkpoints import Checkpoint
from dynamic_kafka.app.query.restart_policy import RestartPolicy
from dynamic_kafka.app.query.sink_status import StatusBoard
from dynamic_kafka.app.query.sinks import query_name
from dynamic_kafka.driver.cluster_clients import client_of
from dynamic_kafka.errors import DynamicKafkaError, MetadataError, OptionError
from dynamic_kafka.kafka.commits import GroupCommitter
from dynamic_kafka.metadata.discovery import MetadataDiscovery
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.spark.stopping import is_finished

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)


class SinkQuery:
    """One sink's query over all its restarts."""

    def __init__(self, config: AppConfig, sink: Sink, discovery: MetadataDiscovery) -> None:
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
        self._progress = AmendedProgress(self.options.state_location)
        self._first_number: int | None = None
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
        """The query's checkpoint."""
        return Checkpoint(self.config.checkpoint_of(self.sink))

    def stop_when_over(self, reached: OffsetDocument) -> None:
        """Stop a bounded run that has read everything, aside.

        Its last batch alone does not tell: ranges may have been left out of it, and a run that had finished before has
        no batch any more. What Spark notes while it is idle comes in no event.
        """
        query = self.query
        if query is None or self.stopping or not (reached.is_initial or reached.finished):
            return
        if is_finished(query.lastProgress):
            self.stopping = True
            threading.Thread(target=stop_quietly, args=(query,), name=f"finish-{self.name}", daemon=True).start()

    def show_reached(self, board: StatusBoard) -> None:
        """Let the board begin with what the checkpoint says is done."""
        # What is wrong with the checkpoint is told when the query starts.
        with contextlib.suppress(DynamicKafkaError, OSError):
            documents = self.checkpoint.all_committed()
            if documents:
                board.restored(self.sink.name, documents, time.monotonic())

    def started(self, query: StreamingQuery) -> None:
        """It runs, for the first time or again."""
        self.query, self.restart_at, self.stopping = query, None, False
        self._first_number = None

    def commit(self, committed: OffsetDocument) -> None:
        """Commit a document that Spark has committed to the clusters' groups, aside. What its batch had to leave out
        is not read; where that cannot be looked at just now, a later call commits.

        Raises:
            GroupInUseError, StaleCheckpointError: see `GroupCommitter.commit`.
        """
        if self.committer is None:
            return
        try:
            reached = self._progress_after(committed)
        except (DynamicKafkaError, OSError) as error:
            log.warning("sink %s: its last batch is not committed to the group: %s", self.sink.name, error)
            return
        self.committer.commit(reached)

    def commit_reached(self) -> None:
        """Commit what the checkpoint says is done: also the last batch, whatever became of its event."""
        if self.committer is None:
            return
        try:
            document = self.checkpoint.last_committed()
            if document is not None:
                self.commit(document)
        except (OptionError, OSError) as error:  # also a file system that does not answer just now
            log.warning("sink %s: its last batch is not committed to the group: %s", self.sink.name, error)
        except DynamicKafkaError as error:
            self.failure = self.failure or error

    def _progress_after(self, committed: OffsetDocument) -> OffsetDocument:
        if self._first_number is None:
            self._first_number = committed.number
        # Only the batch that a start repeats has ranges left out. The first document after a start may still be the one
        # before that batch, so two documents are looked up. Later ones are not: it would cost a listing per batch.
        return self._progress.after(committed) if committed.number <= self._first_number + 1 else committed


def is_named(discovery: MetadataDiscovery, cluster: str) -> bool:
    """Whether metadata, looked up now, still names a cluster. If nobody knows: yes."""
    discovery.refresh()
    try:
        return cluster in discovery.current().subscription.clusters
    except MetadataError:
        return True


def stop_quietly(query: StreamingQuery) -> None:
    """Stop a query; that it could not be done is logged."""
    try:
        query.stop()
    except Exception as error:
        log.warning("a query did not stop in order: %s", reason_in(str(error)))
