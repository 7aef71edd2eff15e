"""The bounds of a split, or its absence, as its cluster reports them now. Runs on executors, for `range_reader`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
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
        return cached.connection.first_offset(split, task.read_timeout_s)
    except KafkaException as raised:
        problem = cached.connection.problem
        raise translate(split.cluster, f"ask for the first offset of {split}", raised, problem) from None


def end_offset(task: ReadTask, timeout_s: float = LONGEST_CALL_S) -> int:
    """Return the log's end offset, open transactions included.

    A read_committed consumer only gets the offset of the first open transaction; records behind that are not lost.

    Raises:
        ClusterError: no answer within `timeout_s` or `readTimeout`, or an error.
    """
    split = task.part.split
    with _admin(task, timeout_s) as admin:
        end, _ = admin.offsets({(split.topic, split.partition): OffsetQuery("latest")})[split.topic, split.partition]
    return end


def end_offset_if_known(task: ReadTask, timeout_s: float) -> int | None:
    """Return the log's end offset, or None if the cluster does not report it in time."""
    try:
        return end_offset(task, timeout_s)
    except ClusterError as error:
        log.warning("the end of the log of %s is unknown: %s", task.part.split, error)
        return None


def absence(task: ReadTask, timeout_s: float) -> str | None:
    """Return the loss if the brokers confirm that the topic or the partition is gone, else None.

    Raises:
        ClusterError: the cluster refuses to describe the topic.
    """
    topic, partition = task.part.split[1:]
    try:
        with _admin(task, timeout_s) as admin:
            described, _ = admin.describe_topics([topic])
            if topic in described:
                return None if partition in described[topic][1] else "the partition no longer exists"
            return "the topic no longer exists" if admin.absent_topics([topic]) else None
    except ClusterUnreachableError as error:
        log.warning("it is unknown whether %s still exists: %s", task.part.split, error)
        return None


def is_unreadable(task: ReadTask, timeout_s: float) -> bool:
    """Return whether the brokers report that this user may not read the topic; False if they do not answer in time."""
    try:
        with _admin(task, timeout_s) as admin:
            return bool(admin.unreadable([task.part.split.topic]))
    except ClusterError as error:
        log.warning("the rights on %s are unknown: %s", task.part.split, error)
        return False


@contextmanager
def _admin(task: ReadTask, timeout_s: float) -> Iterator[ClusterAdmin]:
    deadline_s, config = min(task.read_timeout_s, timeout_s), task.client.admin_config()
    admin = ClusterAdmin(task.part.split.cluster, config, read_committed=False, deadline_s=deadline_s)
    try:
        yield admin
    finally:
        admin.close_in_background()
