"""Check that an executor reaches the cluster of its plan. Runs on executors, before the first record of a range."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import IdentityError, ReadTimeoutError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.kafka.errors import UNREACHABLE, translate
from dynamic_kafka.kafka.retries import PAUSE_S, used_client_s

IDENTITY_VALID_S = 1.0
"""A consumer asks at most once in this time, for each topic: a batch may have thousands of small ranges."""


class LostConsumerError(Exception):
    """A consumer may not find the cluster again, but a new one may.

    It has lost all its brokers (librdkafka issue 5301), or its connections were dropped in silence.
    """


def check_identity(task: ReadTask, cached: CachedConsumer, deadline: float) -> None:
    """Ask the brokers for their `cluster.id`, and compare it with the plan's.

    The question names the topic. Without its answer the client would find the topic's leader only when it looks for
    missing topics, once a second. A used consumer gets a part of the time that is left, so that a new one can still
    try.

    Args:
        deadline: the time, of `time.monotonic`, by which an answer is needed.

    Raises:
        LostConsumerError: another consumer may succeed before the deadline.
        IdentityError: the brokers belong to another cluster.
        ReadTimeoutError: no answer before the deadline.
        ClusterError: the cluster refuses the login, or answers with another error.
    """
    split = task.part.split
    now = time.monotonic()
    if task.kafka_id is None or now - cached.identified_at.get(split.topic, -IDENTITY_VALID_S) < IDENTITY_VALID_S:
        return
    left = max(0.1, deadline - now)
    try:
        answered, has_brokers = cached.connection.identify(split.topic, used_client_s(left) if cached.used else left)
    except KafkaException as raised:
        error = raised.args[0]
        if isinstance(error, KafkaError) and error.code() in UNREACHABLE:
            problem = cached.connection.problem
            if problem is not None and problem.refusal:
                raise translate(split.cluster, "ask for its identity", raised, problem) from None
            if cached.used:
                raise LostConsumerError from None
            hint = f" ({problem})" if problem else ""
            raise ReadTimeoutError(
                split.cluster, f"no answer within readTimeout ({task.read_timeout_s:g} s){hint}{task.timeout_advice}"
            ) from None
        raise translate(split.cluster, "ask for its identity", raised, cached.connection.problem) from None
    if answered is not None and answered != task.kafka_id:
        cluster, planned = split.cluster, task.kafka_id
        raise IdentityError(
            f"cluster {cluster!r} is Kafka cluster {planned}, but this executor reaches {answered}: check its DNS"
        )
    if not has_brokers and time.monotonic() + PAUSE_S < deadline:
        raise LostConsumerError
    cached.identified_at[split.topic] = now
    cached.connection.forget_problem()  # a problem from before this answer does not explain a later failure
