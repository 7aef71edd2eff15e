"""Check that the records of a range are of the topic that it was planned on. Runs on executors, for `range_reader`.

The name of a deleted topic may belong to another topic, whose records the offsets of a range would pick at random. Ids
never come back: if a topic has the planned id after the last record was read, it had that id all the time. So the last
batch of a range is yielded only after such an answer. An answer from before the range is no proof. It saves waiting for
offsets that another topic may not have, and a second is new enough for it.

If the topic is another one, nothing of the range counts. If no batch was yielded yet, the range is left out; else the
task fails, and Spark discards the output of a failed task. Decision 022 has the reasons. A topic that is checked
(`planning.sameness.integrity`) ends the query for good instead; then a topic that is missing counts, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DataLossError, ReadTimeoutError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.disputed_ids import disputed_ids
from dynamic_kafka.kafka.retries import PAUSE_S, used_client_s
from dynamic_kafka.planning.losses.dataloss import recreated_while_pending
from dynamic_kafka.planning.sameness.identity import recreation
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from dynamic_kafka.state.folder import TOPIC_ID

ID_VALID_S = 1.0
"""Before a range, an answer of this age is enough: a batch may have thousands of small ranges."""

log = logging.getLogger(__name__)


MISSING = ""
"""The answer about a topic that several brokers do not have."""


def of_planned_topic(
    task: ReadTask,
    cached: CachedConsumer,
    batches: Iterator[pa.RecordBatch],
    confirmed: Callable[[], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a range, the last one once all their records are known to be of the planned topic.

    Args:
        confirmed: called when that is known, before the last batch is yielded.

    Raises:
        TopicIntegrityError: the topic was re-created or is missing, and is checked.
        DataLossError: the topic was re-created, and `failOnDataLoss` is set.
        ClusterError: it was re-created when batches had been yielded already, or the cluster does not describe it.
        OptionError, DynamicKafkaError: the left-out range cannot be recorded in the `stateLocation`.
    """
    if task.topic_id is None and confirmed is None:
        yield from batches
        return
    if _is_left_out(task, cached, oldest_s=ID_VALID_S):
        return
    last: pa.RecordBatch | None = None
    has_yielded = False
    try:
        for batch in batches:
            if last is not None:
                yield last
                has_yielded = True
            last = batch
    except DataLossError:
        _is_left_out(task, cached)  # another topic, or none, explains why offsets are missing
        raise
    # Where no loss is skipped, all records of the range have arrived, and a topic that is missing now had them.
    if _is_left_out(task, cached, may_be_gone=task.fail_on_data_loss):
        if has_yielded:
            raise _mixed(task)
        return
    if confirmed is not None:
        confirmed()
    if last is not None:
        yield last


def confirm_topic(task: ReadTask, cached: CachedConsumer) -> None:
    """Confirm that the records read so far are of the planned topic, before they are used in another way than as rows.

    Raises as `of_planned_topic`; ClusterError if the range is to be left out.
    """
    if _is_left_out(task, cached, may_be_gone=task.fail_on_data_loss):
        raise _mixed(task)


def _mixed(task: ReadTask) -> ClusterError:
    part = task.part
    return ClusterError(
        part.split.cluster,
        f"the topic was re-created while {part} was read: this attempt fails, the next one leaves the range out",
    )


def _is_left_out(task: ReadTask, cached: CachedConsumer, *, oldest_s: float = 0.0, may_be_gone: bool = False) -> bool:
    """Return whether the topic is another one now; then log and record that, or fail.

    Args:
        oldest_s: an answer that is at most that old is enough.
        may_be_gone: whether a missing topic is left to the next plan, even if it is checked.
    """
    if task.topic_id is None:
        return False
    topic = task.part.split.topic
    now_id, asked_at = cached.topic_ids.get(topic, (None, 0.0))
    if now_id != (task.pin or task.topic_id) or time.monotonic() - asked_at >= oldest_s:
        asked_at = time.monotonic()
        now_id = _topic_id(task, cached)
        cached.topic_ids[topic] = now_id, asked_at
    accepted = task.pin is not None and task.pin == now_id
    if now_id is not None and not (accepted or (now_id == MISSING and may_be_gone)):
        _check(task, now_id)
    if now_id in (None, MISSING) or now_id == task.topic_id:
        return False
    if task.fail_on_data_loss and not accepted:
        raise DataLossError(recreated_while_pending(task.part, task.topic_id, str(now_id)))
    if task.reports is not None:
        content = {"topicId": now_id, "planned": task.topic_id} | ({"accepted": True} if accepted else {})
        task.reports.save(TOPIC_ID, task.part.split, content)
    log.warning("data loss accepted: nothing of %s is read: the topic %s", task.part, recreation(task.topic_id, now_id))
    return True


def _check(task: ReadTask, current_id: str) -> None:
    """Fail for good if the topic is checked, and does not have the id that metadata pins, or that was planned.

    Raises:
        TopicIntegrityError: it has another id, or is missing. The verdict is recorded.
    """
    expected = task.pin if task.pin is not None else task.topic_id if task.topic_integrity else None
    if expected in (None, current_id):
        return
    split = task.part.split
    change = TopicChange(split.cluster, split.topic, str(expected), current_id, pinned=task.pin is not None)
    if task.reports is not None:
        task.reports.save_verdict(change)
    raise integrity_error([change])


def _topic_id(task: ReadTask, cached: CachedConsumer) -> str | None:
    """Return the topic's id, None if the brokers report none, `MISSING` if several of them do not have the topic.

    Raises:
        ReadTimeoutError: no answer within `readTimeout`.
        ClusterError: the cluster refuses to describe the topic.
    """
    split = task.part.split
    deadline = time.monotonic() + task.read_timeout_s
    problem = "the topic is being created or moved"
    while (left_s := deadline - time.monotonic()) > 0:
        used = cached.admin is not None
        if cached.admin is None:
            config = task.client.admin_config()
            cached.admin = ClusterAdmin(split.cluster, config, read_committed=False, deadline_s=left_s)
        # A used client may have lost all its brokers for good (librdkafka issue 5301): leave time for a new one.
        cached.admin.deadline_s = used_client_s(left_s) if used else left_s
        try:
            described, absent = cached.admin.describe_topics([split.topic])
            if split.topic in described:
                now_id = described[split.topic][0]
                # One broker may have old metadata: only another id is worth the question.
                if now_id in (None, task.pin or task.topic_id) or not disputed_ids(cached.admin, {split.topic: now_id}):
                    return now_id
                problem = "its brokers do not agree on the topic's id"
            if absent and cached.admin.absent_topics(absent):
                return MISSING
        except ClusterUnreachableError as error:
            problem = error.message
            cached.close_admin()
        time.sleep(PAUSE_S)
    part, limit, advice = task.part, task.read_timeout_s, task.timeout_advice
    raise ReadTimeoutError(
        split.cluster,
        f"cannot confirm the topic id of {part} within readTimeout ({limit:g} s): {problem}{advice}",
    )
