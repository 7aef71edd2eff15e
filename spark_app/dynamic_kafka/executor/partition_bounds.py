"""The first and the end offset of a split, as its cluster reports them now. Runs on executors, for `range_reader`."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException, TopicPartition

from dynamic_kafka.errors import ClusterError
from dynamic_kafka.executor.consumer_cache import CachedConsumer
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.errors import translate
from dynamic_kafka.kafka.retries import LONGEST_CALL_S
from dynamic_kafka.planning.starting import OffsetQuery

log = logging.getLogger(__name__)


def first_offset(task: ReadTask, cached: CachedConsumer) -> int:
    """Return the first offset that the log still holds.

    Raises:
        ClusterError: no answer within `readTimeout`, or an error.
    """
    split = task.part.split
    try:
        low, _ = cached.consumer.get_watermark_offsets(
            TopicPartition(split.topic, split.partition), timeout=task.read_timeout_s
        )
    except KafkaException as raised:
        raise translate(split.cluster, f"ask for the first offset of {split}", raised, cached.hint) from None
    return int(low)


def end_offset(task: ReadTask, timeout_s: float = LONGEST_CALL_S) -> int:
    """Return the log's end offset, open transactions included.

    A read_committed consumer only gets the offset of the first open transaction; records behind that are not lost.

    Raises:
        ClusterError: no answer within `timeout_s` or `readTimeout`, or an error.
    """
    split = task.part.split
    deadline_s = min(task.read_timeout_s, timeout_s)
    admin = ClusterAdmin(split.cluster, task.client.admin_config(), read_committed=False, deadline_s=deadline_s)
    try:
        end, _ = admin.offsets({(split.topic, split.partition): OffsetQuery("latest")})[split.topic, split.partition]
    finally:
        admin.close_in_background()
    return end


def end_offset_if_known(task: ReadTask, timeout_s: float) -> int | None:
    """Return the log's end offset, or None if the cluster does not report it in time."""
    try:
        return end_offset(task, timeout_s)
    except ClusterError as error:
        log.warning("the end of the log of %s is unknown: %s", task.part.split, error)
        return None
