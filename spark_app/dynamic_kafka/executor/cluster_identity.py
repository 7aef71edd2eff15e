"""Who are the servers that an executor reaches? Asked before the first record of a range is read."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import IdentityError, ReadTimeoutError
from dynamic_kafka.executor.consumers import CachedConsumer
from dynamic_kafka.executor.read_task import AFTER_TIMEOUT, ReadTask
from dynamic_kafka.kafka.errors import UNREACHABLE, translate
from dynamic_kafka.kafka.retries import PAUSE_S

IDENTIFIED_S = 1.0
"""A batch of thousands of small ranges asks a cluster who it is once a second, not once a range."""


class NoBrokersError(Exception):
    """A consumer knows of no broker (any more), and finds none for good (librdkafka issue 5301): another one may."""


def check_identity(task: ReadTask, cached: CachedConsumer, deadline: float) -> None:
    """Ask the servers who they are, before the first record. A used consumer leaves half of the time to another one.

    Raises:
        NoBrokersError: to be tried again with another consumer, before the deadline.
    """
    split = task.part.split
    now = time.monotonic()
    if task.kafka_id is None or (cached.identified_at is not None and now - cached.identified_at < IDENTIFIED_S):
        return
    used, left = cached.identified_at is not None, max(0.1, deadline - now)
    try:
        answer = cached.consumer.list_topics(split.topic, timeout=left / 2 if used else left)
    except KafkaException as raised:
        error = raised.args[0]
        if isinstance(error, KafkaError) and error.code() in UNREACHABLE:
            complaint = cached.hint
            if complaint is not None and complaint.refusal:
                raise translate(split.cluster, "ask for its identity", raised, complaint) from None
            if used:
                raise NoBrokersError from None
            hint = f" ({complaint})" if complaint else ""
            raise ReadTimeoutError(
                split.cluster,
                f"no answer within readTimeout ({task.read_timeout_s:g} s){hint}{AFTER_TIMEOUT[task.stall]}",
            ) from None
        raise translate(split.cluster, "ask for its identity", raised, cached.hint) from None
    if answer.cluster_id is not None and answer.cluster_id != task.kafka_id:
        raise IdentityError(
            f"cluster {split.cluster!r} was planned as Kafka cluster {task.kafka_id}, but the servers that this"
            f" executor reaches answer with {answer.cluster_id}: nothing was read. Check its bootstrap servers and DNS"
        )
    if not answer.brokers and time.monotonic() + PAUSE_S < deadline:
        raise NoBrokersError
    cached.identified_at = now
    cached.hints.clear()  # what went wrong before it answered explains nothing that goes wrong later
