"""Find out why a range does not advance: a loss, a refusal, or a cluster that is too slow.

Runs on executors, for `range_reader`, when the client reports a missing topic, or when `readTimeout` is over.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import ClusterError, ReadTimeoutError
from dynamic_kafka.executor.read_task import ReadTask
from dynamic_kafka.executor.reading.consumer_cache import CachedConsumer
from dynamic_kafka.executor.reading.partition_bounds import absence, end_offset_if_known, is_unreadable
from dynamic_kafka.kafka.errors import ConnectionProblem, translate

EXISTENCE_CHECK_S = 1.0
"""After a `readTimeout`: longest wait for the list of topics. A cluster that hangs does not answer that either."""
ADMIN_CHECK_S = 5.0
"""After a `readTimeout`: longest wait for the log's end, or for the rights. Both need new connections, with a login."""
_OR_ABORTED = ". A very large aborted transaction, which takes longer than that to skip, looks the same"


class Loss(NamedTuple):
    """A loss of records of the range. `nothing_left`: the log holds none of those that are still to be read."""

    why: str
    nothing_left: bool


def gone(task: ReadTask, cached: CachedConsumer, timeout_s: float) -> Loss | None:
    """Return a loss if the topic or the partition was deleted, as several brokers confirm.

    A broker that has old metadata is no loss, nor is one that does not answer.

    Raises:
        ClusterError: the cluster refuses to describe the topic.
    """
    listed = _lists(task, cached, timeout_s)
    why = absence(task, timeout_s) if listed is False else None
    return Loss(why, nothing_left=True) if why is not None else None


def explain_stop(task: ReadTask, cached: CachedConsumer, position: int, log_end: int | None) -> Loss:
    """Return the loss because of which a range does not advance; raise any other reason.

    Args:
        position: the next offset.
        log_end: where the log ended at the last end-of-partition event; None before the first one.

    Raises:
        ClusterRefusedError: the cluster refuses the login or a certificate.
        ClusterError: the user may not read the topic.
        ReadTimeoutError: any other reason.
    """
    timeout_s = min(EXISTENCE_CHECK_S, task.read_timeout_s)
    listed = _lists(task, cached, timeout_s)
    why = absence(task, timeout_s) if listed is False else None
    if why is not None and task.fail_on_data_loss:
        return Loss(why, nothing_left=True)
    if why is not None:
        # Only a plan may give the range up: it keeps the offsets, in case the topic comes back.
        part, limit = task.part, task.read_timeout_s
        raise ReadTimeoutError(
            part.split.cluster,
            f"{part} cannot be read: {why}, and was not back within readTimeout ({limit:g} s); with a stateLocation, a"
            " restart leaves it out until the same topic is back",
        )
    if log_end is not None and log_end < task.part.end:
        end = end_offset_if_known(task, ADMIN_CHECK_S)
        if end is not None and end < task.part.end:
            return Loss(f"the log ends at {end}", nothing_left=False)
        # The records exist, but are not visible yet: behind an open transaction, or the leader is catching up.
    problem = cached.connection.problem
    if problem is not None and problem.refusal:
        raise failure(task, TimeoutError("no record in time"), problem)
    # The client reports a refused fetch once. A seek that follows drops the report.
    if listed is not None and log_end is None and is_unreadable(task, ADMIN_CHECK_S):
        raise failure(task, KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    hint = f" ({problem})" if problem else ""
    advice = task.timeout_advice + (_OR_ABORTED if task.client.read_committed else "")
    part, limit = task.part, task.read_timeout_s
    raise ReadTimeoutError(
        part.split.cluster,
        f"no record of {part} from offset {position} arrived within readTimeout ({limit:g} s){hint}{advice}",
    )


def failure(task: ReadTask, raised: BaseException, problem: ConnectionProblem | None = None) -> ClusterError:
    """Return the error to raise for a range that cannot be read."""
    return translate(task.part.split.cluster, f"read {task.part}", raised, problem)


def _lists(task: ReadTask, cached: CachedConsumer, timeout_s: float) -> bool | None:
    """Return whether the cluster's own list has the partition, None if it does not answer."""
    try:
        return cached.connection.lists(task.part.split, timeout_s)
    except KafkaException:
        return None
