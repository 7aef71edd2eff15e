"""Read one range of one split: Kafka in, Arrow batches out.

Runs on executors, inside a Spark task. The interface is small (`ReadTask` in, `RecordBatch`es out) so that another
engine can take this one's place. A range ends at the first message, or at the end-of-partition, at or past its end: by
position, never by count, since compaction and transactions leave gaps (the position alone never passes trailing control
records).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from dynamic_kafka.errors import ClusterError, DataLossError, ReadTimeoutError
from dynamic_kafka.executor.cluster_identity import NoBrokersError, check_identity
from dynamic_kafka.executor.columns import arrow_schema, to_batch
from dynamic_kafka.executor.consumers import CONSUMERS, CachedConsumer
from dynamic_kafka.executor.read_task import AFTER_TIMEOUT, ReadTask
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import TRANSIENT, UNREACHABLE, translate
from dynamic_kafka.kafka.retries import LONGEST_CALL_S, PAUSE_S
from dynamic_kafka.planning.starting import OffsetQuery

MAX_ROWS = 10_000
"""Rows of one Arrow batch, Spark's own default."""
MAX_BYTES = 8 << 20
"""Bytes of keys and values after which a batch goes out, whatever its rows: keeps a worker small on large records."""
FIRST_ASK = 64
"""Messages asked for before their size is known."""
POLL_S = 0.5
"""Longest wait in one call, so that a task that is killed notices soon."""
GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
"""Said of a topic that was deleted, and for a moment of one that is just being made."""
LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION)
"""Said once of offsets that are not there; nothing more is read of the partition then."""
LAST_WORD_S = 1.0
"""How long a cluster that has brought nothing for `readTimeout` is asked why: who hangs does not answer that either."""
END_WORD_S = 5.0
"""The same for where its log ends: that takes connections of its own, with their log-in."""
SEEK_PAUSE_S = 0.005
"""Pause before a seek is tried again."""
_OR_ABORTED = ". A very large aborted transaction, which takes longer than that to pass over, looks the same"

log = logging.getLogger(__name__)


def read_range(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in order, in batches.

    Raises:
        IdentityError: another cluster answers; nothing was read.
        ReadTimeoutError: no progress for `read_timeout_s`.
        DataLossError: offsets of the range are gone, and `failOnDataLoss` is set.
        ClusterError: the cluster refused.
        OptionError: headers are asked for, and those of a record cannot be shown.
    """
    config = task.client.consumer_config()
    digest = task.client.digest(config)
    deadline = time.monotonic() + task.read_timeout_s
    while True:
        try:
            with CONSUMERS.lend(task.part.split.cluster, digest, lambda: config, task.active) as cached:
                check_identity(task, cached, deadline)
                yield from _RangeReader(task, cached).batches()
                return
        except NoBrokersError:
            time.sleep(PAUSE_S)


class _RangeReader:
    def __init__(self, task: ReadTask, cached: CachedConsumer) -> None:
        self.task, self.cached = task, cached
        self.consumer: Consumer = cached.consumer
        self.position = self.passed = task.part.start
        self.schema = arrow_schema(task.include_headers)
        self.deadline = time.monotonic() + task.read_timeout_s
        self.mean_bytes = MAX_BYTES / FIRST_ASK
        self.log_end: int | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.assign(self.position, self.task.part.epoch)
        taken: list[Message] = []
        size = 0
        while self.position < self.task.part.end:
            before = self.position
            arrived = self.accept(self.fetch(MAX_ROWS - len(taken), MAX_BYTES - size))
            if self.position > before or self.passes_over():
                self.deadline = time.monotonic() + self.task.read_timeout_s
            elif time.monotonic() > self.deadline:
                self.give_up()  # what the client reports of a cluster that does not answer is no progress
            taken.extend(arrived)
            size += sum(map(len, arrived))
            if len(taken) >= MAX_ROWS or size >= MAX_BYTES:
                self.mean_bytes = max(1.0, size / len(taken))
                yield self.batch(taken)
                # The time that Spark takes over a batch is not the cluster's.
                self.deadline = time.monotonic() + self.task.read_timeout_s
                taken, size = [], 0
        if taken:
            yield self.batch(taken)

    def fetch(self, rows: int, room: int) -> list[Message]:
        """Wait for one message, then take what is there too.

        `consume(n)` alone blocks until it has n messages or its time is over, even if the range is complete: it is
        only ever asked for what has arrived already.
        """
        first = self.consumer.poll(min(POLL_S, self.task.read_timeout_s))
        if first is None:
            return []
        if first.error() is not None:
            return [first]
        # Of the first batch nothing is known but this message: large ones are asked for a few at a time at once.
        mean_bytes = max(self.mean_bytes, len(first))
        more = min(rows, self.task.part.end - self.position, int(room / mean_bytes) + 1) - 1
        return [first, *self.consumer.consume(more, 0)] if more > 0 else [first]

    def accept(self, messages: list[Message]) -> list[Message]:
        """Take messages into account, in order; returns the records of this range among them."""
        accepted = []
        end = self.task.part.end
        for message in messages:
            error = message.error()
            if error is not None:
                self.handle(error, message)
                continue
            offset: int = message.offset()  # type: ignore[assignment]  # None only in messages that are produced
            if offset < self.position or self.position >= end:
                continue  # from before a seek, or behind the range
            if offset > self.position == self.task.part.start:
                self.check_gap(offset)
            self.position = offset + 1
            if offset < end:
                accepted.append(message)
        return accepted

    def handle(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # The end as this isolation sees it: everything before it was delivered, gaps and all.
            self.log_end = message.offset() or 0
            self.position = max(self.position, self.log_end)
        elif code in LOST:
            self.lost(error.str())
        elif code in GONE:
            self.check_existence(self.task.read_timeout_s)
        elif code not in UNREACHABLE and code not in TRANSIENT:
            raise translate(self.task.part.split.cluster, f"read {self.task.part}", KafkaException(error))

    def passes_over(self) -> bool:
        """Whether the client gets on without a record for us. It tells of each end of a transaction that it passes, not
        of the records inside an aborted one."""
        split = self.task.part.split
        [at] = self.consumer.position([TopicPartition(split.topic, split.partition)])
        gets_on = at.offset > self.passed
        self.passed = max(self.passed, at.offset)
        return gets_on

    def check_gap(self, offset: int) -> None:
        """A first record behind the start is a gap of compaction or transactions, unless its offsets have expired."""
        first = self.first_offset()
        if first > self.task.part.start:
            self.lost(f"offsets {self.task.part.start}..{first} have expired")

    def lost(self, why: str, *, gone: bool = False) -> None:
        """Offsets of the range are gone: fail, or go on at the first one that is still there."""
        if self.task.fail_on_data_loss:
            raise DataLossError(
                f"data loss: cannot read {self.task.part} from offset {self.position}: {why}."
                " Records of this range have expired, or the log was truncated. Restore them, accept the loss for good"
                " with failOnDataLoss=false, or once: leave the range out with `python -m dynamic_kafka.app abandon"
                f" app.yaml {'/'.join(map(str, self.task.part.split))}`, then `python -m dynamic_kafka.app accept"
                " app.yaml --data-loss`"
            )
        first, end = (0, 0) if gone else (self.first_offset(), self.real_end())
        resume = max(first, self.position)
        # What the log still holds is read; only behind its end is there nothing left of the range.
        self.position = min(resume, self.task.part.end) if resume < end else self.task.part.end
        log.warning("data loss accepted: %s goes on at %d: %s", self.task.part, self.position, why)
        if self.position < self.task.part.end:
            self.assign(self.position, -1)

    def check_existence(self, patience_s: float) -> bool:
        """A topic or partition that was deleted under the range is a loss; a broker that does not answer is none.

        Returns False if that was accepted: nothing is left of the range.
        """
        split = self.task.part.split
        try:
            listed = self.consumer.list_topics(timeout=patience_s).topics.get(split.topic)
        except KafkaException:
            return True
        exists = listed is not None and (listed.error is not None or split.partition in listed.partitions)
        if not exists:
            self.lost(f"the {'topic' if listed is None else 'partition'} exists no more", gone=True)
        return exists

    def first_offset(self) -> int:
        split = self.task.part.split
        try:
            low, _ = self.consumer.get_watermark_offsets(
                TopicPartition(split.topic, split.partition), timeout=self.task.read_timeout_s
            )
        except KafkaException as raised:
            raise translate(split.cluster, f"ask for the first offset of {split}", raised, self.cached.hint) from None
        return int(low)

    def real_end_in_time(self) -> int | None:
        """`real_end` within the time that is left to a range that is given up; None if that is not told."""
        try:
            return self.real_end(END_WORD_S)
        except ClusterError as error:
            log.warning("where the log of %s ends was not told: %s", self.task.part.split, error)
            return None

    def real_end(self, patience_s: float = LONGEST_CALL_S) -> int:
        """Where the log ends for everyone: a consumer under read_committed is told where the first open transaction
        begins, and what lies behind that is not lost."""
        split, client = self.task.part.split, self.task.client
        deadline = min(self.task.read_timeout_s, patience_s)
        admin = ClusterAdmin(split.cluster, client.admin_config(), read_committed=False, deadline_s=deadline)
        try:
            end, _ = admin.offsets({(split.topic, split.partition): OffsetQuery("latest")})[
                split.topic, split.partition
            ]
        finally:
            admin.close_in_background()
        return end

    def assign(self, offset: int, epoch: int) -> None:
        split = self.task.part.split
        start = TopicPartition(split.topic, split.partition, offset)
        if epoch < 0:
            self.consumer.assign([start])
            return
        # With an epoch the broker is asked first whether the log was truncated below the offset. A consumer that knows
        # the partition's leader already does so for a seek only, not for an assignment.
        start = TopicPartition(split.topic, split.partition, offset, "", epoch)
        self.consumer.assign([start])
        while not self.seek(start):
            pass

    def seek(self, start: TopicPartition) -> bool:
        """Whether it is settled where to read from: not before the client is through with the assignment, in its own
        threads."""
        try:
            self.consumer.seek(start)
        except KafkaException as raised:
            code = raised.args[0].code()
            if code not in (KafkaError._STATE, KafkaError._PREV_IN_PROGRESS):
                raise translate(self.task.part.split.cluster, f"read {self.task.part}", raised) from None
            if time.monotonic() <= self.deadline:
                return self.is_settled_without(start)
            self.give_up()
        return True

    def is_settled_without(self, start: TopicPartition) -> bool:
        """Wait a little, and see what the assignment alone has brought: on a slow machine it reads before it can be
        sought. Its records come again after the seek. But if it is told that the offset is not there, it reads no more,
        and no seek is ever taken."""
        message = self.consumer.poll(SEEK_PAUSE_S)
        error = message.error() if message is not None else None
        if message is None or error is None or error.code() == KafkaError._PARTITION_EOF:
            return False
        self.handle(error, message)
        return error.code() in LOST or self.position != start.offset

    def batch(self, taken: list[Message]) -> pa.RecordBatch:
        split = self.task.part.split
        return to_batch(
            taken,
            self.schema,
            topic=split.topic,
            partition=split.partition,
            cluster=split.cluster,
            stream=self.task.stream,
        )

    def give_up(self) -> None:
        if not self.check_existence(min(LAST_WORD_S, self.task.read_timeout_s)):
            return
        if self.log_end is not None and self.log_end < self.task.part.end:
            end = self.real_end_in_time()
            if end is not None and end < self.task.part.end:
                # The broker answers; there just are no such offsets any more.
                return self.lost(f"the log ends at {end}")
            # They are there, only not to be seen yet: an open transaction, or a leader that is catching up.
        complaint = self.cached.hint
        if complaint is not None and complaint.refusal:
            raise translate(
                self.task.part.split.cluster, f"read {self.task.part}", TimeoutError("no record in time"), complaint
            )
        hint = f" ({complaint})" if complaint else ""
        aborted = _OR_ABORTED if self.task.client.read_committed else ""
        raise ReadTimeoutError(
            self.task.part.split.cluster,
            f"no record of {self.task.part} from offset {self.position} arrived within readTimeout"
            f" ({self.task.read_timeout_s:g} s){hint}{AFTER_TIMEOUT[self.task.stall]}{aborted}",
        )
