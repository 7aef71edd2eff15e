"""From librdkafka's errors to ours. Used by every module that calls a Kafka client, on driver and executors."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError

UNREACHABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
"""Codes that mean "nobody answered", as against "the answer is no"."""

TRANSIENT = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError._NOENT,
    }
)
"""Codes of a leader or coordinator that is just moving: asked again, the cluster answers."""


class UnknownTopicError(ClusterError):
    """A topic or partition is not there: gone since it was described, or not yet known everywhere."""


def error_of(raised: BaseException) -> KafkaError | None:
    """The librdkafka error inside an exception, None if it is of another kind."""
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return None


def is_transient(raised: BaseException) -> bool:
    """Whether a leader or coordinator is just moving: asked again, the cluster answers."""
    error = error_of(raised)
    return error is not None and error.code() in TRANSIENT


def translate(cluster: str, doing: str, raised: BaseException, hint: str | None = None) -> ClusterError:
    """The error to raise for a failed call.

    Args:
        cluster: the user's id of the cluster.
        doing: what was asked, as in "list offsets".
        raised: what the client raised.
        hint: the last thing the client logged about its connections, such as a failed authentication: librdkafka goes
            on trying after those, and ends in a time-out that does not say why. Never holds a credential.
    """
    if isinstance(raised, ClusterError):
        return raised
    error = error_of(raised)
    reason = error.str() if error is not None else f"{type(raised).__name__}: {raised}"
    because = f" ({hint})" if hint else ""
    unreachable = isinstance(raised, TimeoutError) or (error is not None and error.code() in UNREACHABLE)
    unknown = error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    kind = ClusterUnreachableError if unreachable else UnknownTopicError if unknown else ClusterError
    return kind(cluster, f"could not {doing}: {reason}{because}")
