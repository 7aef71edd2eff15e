"""Read one range of one split: Kafka in, Arrow batches out.

Runs on executors, once for each range of a Spark task: the classes of `spark` call `read_range`. The interface is small
(`ReadTask` in, `RecordBatch`es out), so that another engine can replace it. `_RangeReader.fetched` is the main loop:

- Records: the `Connection` collects those of the range and keeps them until a batch is full, `handle` acts on errors.
- Start: `assign` sets the position; with a leader epoch it needs a seek, which the client may refuse for a while.
- Trouble: `check_gap` and `stopped_ranges` find out why records are missing; `skip_loss` fails or moves on.

A range ends at the first message, or end-of-partition event, whose offset reaches its end offset. Counting records
would not work, since compaction and transactions leave gaps. The offsets of records alone would not work either, since
a range may end in control records, which never arrive as messages.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import DataLossError
from dynamic_kafka.executor.client_statistics import INTERVAL_MS, STATISTICS, ClientCounts
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.executor.evaluating.record_evaluation import StopSearch, begin
from dynamic_kafka.executor.native import PLUGIN
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.cluster_identity import LostConsumerError, check_identity
from dynamic_kafka.executor.reading.columns import arrow_schema, with_lateness, without_time
from dynamic_kafka.executor.reading.connection import Wanted
from dynamic_kafka.executor.reading.consumer_cache import CONSUMERS, CachedConsumer
from dynamic_kafka.executor.reading.native_connection import NativeConnection, extension_for
from dynamic_kafka.executor.reading.partition_bounds import end_offset, first_offset
from dynamic_kafka.executor.reading.rows import Rows, time_error
from dynamic_kafka.executor.reading.stopped_ranges import explain_stop, failure, gone
from dynamic_kafka.executor.reading.topic_identity import confirm_topic, of_planned_topic
from dynamic_kafka.kafka.config import config_digest
from dynamic_kafka.kafka.epochs import truncated_at
from dynamic_kafka.kafka.errors import HARMLESS_TO_READ
from dynamic_kafka.kafka.retries import IDLE_ADVICE, PAUSE_S, used_client_s
from dynamic_kafka.options.columns import LATE, TIMESTAMP
from dynamic_kafka.wording import tool_command

MAX_ROWS = 10_000
"""Rows of one Arrow batch; Spark's own default."""
MAX_BYTES = 8 << 20
"""Bytes of records that end an Arrow batch before it has `MAX_ROWS`: large records must not fill the memory."""
FIRST_FETCH = 64
"""Records to fetch while their mean size is unknown."""
POLL_S = 0.5
"""Longest wait in one call, so that a killed task ends soon."""
MISSING_CODES = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
"""The topic was deleted; or it was created a moment ago, and this broker does not have it yet."""
LOSS_CODES = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
"""The log does not hold the offset. The client reports it once, and reads nothing more of the partition."""
SEEK_PAUSE_S = 0.005
"""Pause before a refused seek is tried again."""

log = logging.getLogger(__name__)


def read_range(task: ReadTask, evaluation: Evaluation | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in order, in batches of the task's `reported_columns`. Raises as `_read_range`."""
    batches = _read_range(task, evaluation)
    if LATE in task.columns or task.late_before_ms is not None:
        return _with_lateness(task, batches)
    has_times = task.time_column != TIMESTAMP
    return (batch.select(task.reported_columns) for batch in batches) if has_times else batches


def _with_lateness(task: ReadTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the column `LATE`, and count the late rows."""
    for batch in batches:
        shown = with_lateness(batch, task.late_before_ms, task.time_column)
        if late := pc.sum(shown.column(LATE)).as_py():
            STATISTICS.add(task.part.split.cluster, ClientCounts(late=late))
        yield shown.select(task.reported_columns)


def _read_range(task: ReadTask, evaluation: Evaluation | None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in order, in batches of the task's `read_columns`, and with their times if asked.

    Args:
        evaluation: the user's code that may end the range before its end (`record_evaluation`).

    Raises:
        IdentityError: the brokers belong to another cluster; nothing was read.
        ReadTimeoutError: no progress for `read_timeout_s`.
        DataLossError: offsets of the range are gone, and `failOnDataLoss` is set.
        ClusterError: the cluster answered with another error.
        OptionError: the rows have headers or timestamps, and those of a record cannot be shown.
        RecordEvaluationError: the record evaluator fails, or another attempt has ended the range elsewhere.
    """
    task, evaluator = begin(task, evaluation)
    if task.part.size <= 0:
        return
    config = task.client.consumer_config()
    if task.statistics:
        config["statistics.interval.ms"] = str(INTERVAL_MS)
    extension = extension_for(task.reader)
    if extension is not None:
        config[PLUGIN] = extension.__file__
    digest = config_digest(config)
    deadline = time.monotonic() + task.read_timeout_s
    while True:
        try:
            with CONSUMERS.lend(task.part.split.cluster, digest, lambda: config, task.source, task.active) as cached:
                check_identity(task, cached, deadline)
                needs_headers = evaluator is not None and (evaluator.needs_records or task.dead_letters is not None)
                reader = _RangeReader(task, cached, headers=needs_headers)
                if task.statistics:
                    is_native = isinstance(cached.connection, NativeConnection)
                    counts = ClientCounts(native=1) if is_native else ClientCounts(python=1)
                    STATISTICS.add(task.part.split.cluster, counts)
                if evaluator is None:
                    yield from of_planned_topic(task, cached, reader.batches())
                else:
                    search = StopSearch(task, evaluator, partial(confirm_topic, task, cached))
                    batches = search.batches(reader.fetched())
                    yield from of_planned_topic(task, cached, batches, search.settle)
                return
        except LostConsumerError:
            time.sleep(PAUSE_S)


class _RangeReader:
    """The state of one range while it is read.

    Attributes:
        position: the next offset; the range is done at its end offset.
        client_position: the client's own position, which also passes control records.
        deadline: the time, of `time.monotonic`, by which the range needs to advance.
        used_until: the time at which a used consumer is left for a new one, unless the range has advanced.
        mean_bytes: mean size of the records so far; a guess for the first batch.
        log_end: where the log ended at the last end-of-partition event; None before the first one.
        headers: whether headers are needed.
    """

    def __init__(self, task: ReadTask, cached: CachedConsumer, *, headers: bool = False) -> None:
        self.task, self.cached = task, cached
        self.position = self.client_position = task.part.start
        self.schema = arrow_schema(task.read_columns)
        self.deadline, self.used_until = time.monotonic() + task.read_timeout_s, math.inf
        self.mean_bytes = MAX_BYTES / FIRST_FETCH
        self.log_end: int | None = None
        self.headers = headers or task.include_headers

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range in batches of rows."""
        for rows in self.fetched():
            batch = rows.batch(self.schema)
            if "timestamp" in self.task.columns and (untimed := without_time(batch)):
                raise time_error(rows, untimed[0], self.task.part.split)
            del rows  # or they would stay in memory while the next ones are fetched
            yield batch

    def fetched(self) -> Iterator[Rows]:
        """Yield the records of the range; a yield is full with `MAX_ROWS` or `MAX_BYTES`."""
        part, connection = self.task.part, self.cached.connection
        if self.cached.used:
            now = time.monotonic()
            self.used_until = now + used_client_s(self.deadline - now)
        self.assign(self.position, part.epoch)
        rows = size = 0
        while self.position < self.task.part.end:  # an accepted loss may have cut it
            before = self.position
            rows, size = self.fetch(MAX_ROWS - rows, MAX_BYTES - size)
            if self.position > before or self.client_advanced():
                self.deadline, self.used_until = time.monotonic() + self.task.read_timeout_s, math.inf
            elif self.is_late():  # messages with an error are no progress
                self.give_up()
            if rows >= MAX_ROWS or size >= MAX_BYTES:
                self.mean_bytes = max(1.0, size / rows)
                yield connection.take(part.split, self.task.stream)
                # Spark's time for this batch does not count against the cluster.
                self.deadline = time.monotonic() + self.task.read_timeout_s
                rows = size = 0
        if rows:
            yield connection.take(part.split, self.task.stream)

    def fetch(self, rows: int, size: int) -> tuple[int, int]:
        """Advance by the records that arrive, and act on the notice behind them.

        Args:
            rows, size: the room for records, and for bytes.

        Returns:
            The records that the connection holds now, and their bytes.
        """
        part = self.task.part
        wanted = Wanted(self.position, part.end, part.end_epoch, rows, size, self.mean_bytes, self.headers)
        fetched = self.cached.connection.fetch(wanted, min(POLL_S, self.task.read_timeout_s))
        if fetched.first is not None:
            if fetched.first > self.position == self.task.part.start:
                self.check_gap(fetched.first)
            self.position = fetched.position
        notice = fetched.notice
        if notice is not None and notice.error is not None:
            self.handle(notice.error, notice.offset)
        elif notice is not None:
            self.skip_loss(f"the log was truncated: offset {notice.offset} is of a later leader", nothing_left=True)
        return fetched.rows, fetched.size

    def handle(self, error: KafkaError, offset: int) -> None:
        """Act on an error: the end of the partition at this offset, a loss, or a failure.

        A cluster that does not answer, or whose leader is moving, gets until the deadline.
        """
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # The end as this isolation level sees it. All records before it have arrived; the rest are gaps.
            self.log_end = offset
            self.position = max(self.position, self.log_end)
        elif code in LOSS_CODES:
            at = truncated_at(error)
            self.skip_loss(error.str() if at is None else f"the log was truncated at {at}", nothing_left=at is not None)
        elif code in MISSING_CODES:
            # An accepted loss is none yet: the topic gets until the deadline to come back.
            loss = gone(self.task, self.cached, self.task.read_timeout_s) if self.task.fail_on_data_loss else None
            if loss is not None:
                self.skip_loss(*loss)
        elif code not in HARMLESS_TO_READ:
            raise failure(self.task, KafkaException(error))

    def client_advanced(self) -> bool:
        """Return whether the client's position advanced without a record for this range.

        It advances with the end of each transaction, but not with the records inside an aborted one.
        """
        current = self.cached.connection.position(self.task.part.split)
        advanced = current > self.client_position
        self.client_position = max(self.client_position, current)
        return advanced

    def assign(self, offset: int, epoch: int) -> None:
        """Start reading at an offset; with a leader epoch (not -1), check first that the log was not truncated."""
        self.cached.connection.assign(self.task.part.split, offset, epoch)
        # With an epoch, the client first asks the broker whether the log was truncated below the offset. If it has the
        # partition's leader already, it asks only for a seek, not for an assignment. Hence the seek.
        while epoch >= 0 and not self.seek(offset, epoch):
            pass

    def seek(self, offset: int, epoch: int) -> bool:
        """Seek once; return whether the position is settled.

        The client refuses a seek until its own threads have processed the assignment.
        """
        try:
            self.cached.connection.seek(self.task.part.split, offset, epoch)
        except KafkaException as raised:
            code = raised.args[0].code()
            if code not in (KafkaError._STATE, KafkaError._PREV_IN_PROGRESS):
                raise failure(self.task, raised) from None
            if not self.is_late():
                return self.is_settled_without_seek(offset)
            self.give_up()
        return True

    def is_settled_without_seek(self, offset: int) -> bool:
        """Pause, and return whether the assignment alone has found the offset missing.

        On a slow machine the assignment fetches records before the client accepts a seek. The records arrive again
        after the seek. But if the offset is missing, the client stops reading and never accepts a seek.
        """
        notice = self.cached.connection.skip(SEEK_PAUSE_S)
        error = notice.error if notice is not None else None
        if notice is None or error is None or error.code() == KafkaError._PARTITION_EOF:
            return False
        self.handle(error, notice.offset)
        return error.code() in LOSS_CODES or self.position != offset

    def check_gap(self, offset: int) -> None:
        """Check a first record behind the start: compaction and transactions leave gaps, but expiry is a loss."""
        first = first_offset(self.task, self.cached)
        if first > self.task.part.start:
            self.skip_loss(f"offsets {self.task.part.start}..{first} have expired")

    def is_late(self) -> bool:
        """Return whether the deadline is over. Raises LostConsumerError when a used consumer had its time."""
        now = time.monotonic()
        if self.used_until < now <= self.deadline:
            log.warning(
                "%s: nothing arrived over connections that were used before, new ones are tried. %s",
                self.task.part,
                IDLE_ADVICE,
            )
            raise LostConsumerError
        return now > self.deadline

    def give_up(self) -> None:
        """Find out why the range does not advance, then fail, or skip an accepted loss. Raises as `explain_stop`."""
        self.skip_loss(*explain_stop(self.task, self.cached, self.position, self.log_end))

    def skip_loss(self, why: str, nothing_left: bool = False) -> None:
        """Fail because offsets of the range are gone, or move on to the first one that the log still holds.

        Args:
            nothing_left: the log holds none of them: the topic is gone, or other records are there after a truncation.
                The next plan goes back to the offset at which the log was truncated.

        Raises:
            DataLossError: `failOnDataLoss` is set.
        """
        if self.task.fail_on_data_loss:
            part, start = self.task.part, self.position
            abandon = tool_command("abandon", "/".join(map(str, part.split)))
            accept = tool_command("accept", flag="--data-loss")
            raise DataLossError(
                f"data loss: cannot read {part} from offset {start}: {why}. Leave it out with {abandon}, then {accept}"
            )
        first, log_end = (0, 0) if nothing_left else (first_offset(self.task, self.cached), end_offset(self.task))
        end = self.task.part.end
        position = max(first, self.position)
        # Records that the log still holds are read. Behind its end, nothing of the range is left.
        self.position = min(position, end) if position < log_end else end
        if self.position < log_end < end:
            self.task = replace(self.task, part=replace(self.task.part, end=log_end))
            self.deadline = time.monotonic() + self.task.read_timeout_s
        log.warning("data loss accepted: %s: reading continues at %d: %s", self.task.part, self.position, why)
        if self.position < end:
            self.assign(self.position, -1)
