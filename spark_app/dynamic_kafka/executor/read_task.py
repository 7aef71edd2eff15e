"""One executor task: a range of a split, how to read it, and where to report. The driver makes it, Spark pickles it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamic_kafka.errors import DriverReplacedError, DynamicKafkaError, OptionError
from dynamic_kafka.executor.reading.columns import SIZE
from dynamic_kafka.kafka.config import ClusterClient
from dynamic_kafka.options.columns import EVENT_TIME, LATE, TIMESTAMP, all_columns
from dynamic_kafka.planning.sameness.integrity import TopicChange
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.folder import STOP_RECORD, StateFolder
from dynamic_kafka.state.verdicts import save_change

log = logging.getLogger(__name__)
_shared: set[tuple[str, str]] = set()
"""The locations and queries of which this process has found the driver's files, and in which it can write."""


@dataclass(frozen=True)
class BatchReports:
    """The place where executors make durable what only they see in a batch (`StateFolder.save_seen`).

    Attributes:
        location: the `stateLocation`.
        batch: fingerprint of the batch's end document.
        number: number of that document. A report of a later one than the last of a checkpoint shows that the checkpoint
            is an old one.
        driver: the driver whose task it is. Its attempts obey only stop records of this driver: it has cut the ranges
            at those of the drivers before it.
        kind: the kind of the reports about where ranges end: `STOP_RECORD` or `RANGE_END`.
    """

    location: str
    query: str
    batch: str
    number: int
    driver: str = ""
    kind: str = STOP_RECORD

    def save(self, kind: str, split: Split, content: Mapping[str, Any]) -> None:
        """Make a report durable, as `StateFolder.save_seen` does. Raises as `stop_record`."""
        self._folder().save_seen(self.query, self.batch, kind, split, {"number": self.number, **content})

    def save_stop_record(self, split: Split, offset: int, topic_id: str | None, **more: Any) -> None:
        """Make durable where a range has ended; an attempt that has reported another offset wins.

        In an object store, two attempts that report at the same moment may both find nothing: then the last one wins.
        Raises as `stop_record`.

        Args:
            more: `ends` and `time` of a `RANGE_END`.
        """
        content = {"number": self.number, "offset": offset, "topicId": topic_id, **more}
        self._folder().save_seen(self.query, self.batch, self.kind, split, content, replace=False, driver=self.driver)

    def stop_record(self, split: Split) -> int | None:
        """Return where an attempt of this driver has ended the split's range in this batch, None if none has.

        A newer driver may have started before the report was there. It does not obey the report then, so no attempt may
        end its range there any more.

        Raises:
            DriverReplacedError: there is a report, and a newer driver.
            OptionError: the location is another folder here than on the driver; or as `StateFolder`.
            DynamicKafkaError: as `StateFolder`.
        """
        folder = self._folder()
        report = folder.seen_of(self.query, self.batch, self.kind, split, self.driver)
        if report is None:
            return None
        if any(driver > self.driver for driver in folder.drivers(self.query)[-1:]):
            raise DriverReplacedError(
                f"a newer driver has started on this checkpoint (query {self.query}): this task of {split} ends;"
                " committed batches are intact"
            )
        return int(report["offset"])

    def save_verdict(self, change: TopicChange) -> None:
        """Make durable that a change ends the query for good. A failure is logged: the next start finds it again."""
        try:
            save_change(self._folder(), self.query, "verdict", change)
        except DynamicKafkaError as failure:
            log.warning("the verdict about topic integrity is not recorded: %s", failure)

    def _folder(self) -> StateFolder:
        folder = StateFolder(self.location)
        if (self.location, self.query) not in _shared:
            uri, query = folder.uri, self.query
            if not folder.list_folders(query):
                raise OptionError(
                    f"stateLocation: {uri}/{query} lacks the driver's files on this host: name a folder that all share"
                )
            try:
                folder.check_writable(query)
            except OptionError as error:
                raise OptionError(
                    f"stateLocation: executors must write {uri}/{query}/seen: {error}. Give them the driver's rights"
                ) from error
            _shared.add((self.location, self.query))
        return folder


@dataclass(frozen=True)
class DeadLetterTarget:
    """The dead-letter topic, the access to its cluster, and the `cluster.id` of that.

    Attributes:
        refused: whether it gets the records that are malformed, or that the deserialiser refuses.
        late: whether it gets those that are older than the clock.
    """

    client: ClusterClient
    topic: str
    kafka_id: str | None
    refused: bool = True
    late: bool = False


@dataclass(frozen=True)
class ReadTask:
    """Everything that an executor needs for one range. It holds references to secrets, never their values.

    Attributes:
        stream: stream id for the rows.
        kafka_id: Kafka's `cluster.id` that the offsets belong to; None if the cluster reports none.
        topic_id: Kafka's id of the topic that the offsets belong to; None if the cluster reports none.
        pin: the id, in the client's form, that metadata pin the topic to; None if they do not.
        topic_integrity: `topicIntegrityCheck`.
        include_headers: whether the record evaluator gets headers in its batches.
        columns: the columns of Spark's rows.
        late_before_ms: older rows are late, milliseconds since the epoch; None if none is.
        time_column: the column of a row's time.
        is_reported: whether the range ends where an attempt of this batch has reported it.
        pauses_at_ms: the range ends before its first record that is as new; None if no times are looked for.
        reader: the option `reader`.
        active: all clusters of the plan; an executor closes this source's consumers of other clusters.
        read_timeout_s: seconds without any progress after which the range fails.
        stall: `clusterFailurePolicy=stall`; it only changes the advice after a timeout.
        source: identifies the source among those of the application, by its options.
        statistics: whether the consumer emits its statistics, for metrics.
        reports: the place for reports about the batch; None if no check needs it, or without a `stateLocation`.
        dead_letters: the topic for records that are no rows; None without any.
        has_stop_record: whether the split's stop record is known already: the range ends there, and nothing of it is
            evaluated.
    """

    part: SplitRange
    stream: str
    kafka_id: str | None
    client: ClusterClient
    active: frozenset[str]
    read_timeout_s: float
    include_headers: bool
    fail_on_data_loss: bool
    stall: bool = False
    source: str = ""
    topic_id: str | None = None
    statistics: bool = False
    reports: BatchReports | None = None
    dead_letters: DeadLetterTarget | None = None
    has_stop_record: bool = False
    pin: str | None = None
    topic_integrity: bool = False
    reader: str = "auto"
    columns: tuple[str, ...] = all_columns(include_headers=False)
    late_before_ms: int | None = None
    time_column: str = TIMESTAMP
    is_reported: bool = False
    pauses_at_ms: int | None = None

    @property
    def reported_columns(self) -> tuple[str, ...]:
        """The columns of the rows, then those that only read reports need."""
        more = ("timestamp", SIZE) if self.statistics else ()
        return tuple(dict.fromkeys((*self.columns, *more)))

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns of the records from which the reported ones are made."""
        reported = self.reported_columns
        needs_time = self.time_column == TIMESTAMP and (LATE in reported or self.late_before_ms is not None)
        own = (name for name in reported if name not in (LATE, EVENT_TIME))
        return tuple(dict.fromkeys((*own, *((TIMESTAMP,) if needs_time else ()))))

    @property
    def timeout_advice(self) -> str:
        """Return the advice at the end of a timeout's message."""
        if not self.stall:
            return "; check the cluster; raise readTimeout, or set clusterFailurePolicy=stall"
        return "; check the cluster, or raise readTimeout; a restart leaves its ranges out until the cluster answers"
