"""From librdkafka's errors to ours. Used by every module that calls a Kafka client, on driver and executors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError

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

UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes of a topic or partition that is not there, or is another one: the broker's, and the client's own for what its
metadata does not name, as a partition that a re-created topic has no more."""

LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
"""Codes of a login that came to nothing."""

_BROKEN_OFF = re.compile(r"transport failure|disconnected|timed out|reset by peer", re.IGNORECASE)
"""A connection that ended in the middle of a login or a handshake says nothing about either."""
_CERTIFICATE = re.compile(r"certificate|alert|unknown ca|wrong version number", re.IGNORECASE)
_VALUE = re.compile(r'value "[^"]*"')
_MECHANISM = "set sasl.mechanism: without it a client means Kerberos (GSSAPI), which this one does not have"
_CHECK = "check the cluster's properties and its secret folder, or the secrets that the options refer to"


@dataclass(frozen=True)
class ConnectionProblem:
    """What a client says about a connection while it goes on trying. Never holds a credential."""

    code: int
    text: str

    @classmethod
    def of(cls, error: KafkaError) -> ConnectionProblem:
        """The complaint in a client's error."""
        return cls(error.code(), error.str())

    @property
    def refusal(self) -> str | None:
        """What is refused, where trying again does not help; None for trouble of the network."""
        if _BROKEN_OFF.search(self.text):
            return None
        if self.code in LOGIN:
            return "the cluster refuses the login"
        if self.code == KafkaError._SSL and _CERTIFICATE.search(self.text):
            return "TLS fails, as for a certificate that is not signed by the authority that is given"
        return None

    def __str__(self) -> str:
        return self.text


class UnknownTopicError(ClusterError):
    """A topic or partition is not there: gone since it was described, or not yet known everywhere."""


def kafka_error_of(raised: BaseException) -> KafkaError | None:
    """The librdkafka error inside an exception, None if it is of another kind."""
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return None


def is_transient(raised: BaseException) -> bool:
    """Whether a leader or coordinator is just moving: asked again, the cluster answers."""
    error = kafka_error_of(raised)
    return error is not None and error.code() in TRANSIENT


def client_creation_error(cluster: str, raised: KafkaException) -> ClusterRefusedError:
    """The error to raise when no client can be made: a certificate that is none, settings that contradict."""
    error = kafka_error_of(raised)
    # Only its words about one property hold a value.
    reason = _VALUE.sub("a value", error.str() if error is not None else str(raised)).strip()
    todo = _MECHANISM if "GSSAPI" in reason else _CHECK
    return ClusterRefusedError(cluster, f"no client can be made: {reason}: {todo}")


def translate(cluster: str, doing: str, raised: BaseException, hint: ConnectionProblem | None = None) -> ClusterError:
    """The error to raise for a failed call.

    Args:
        cluster: the user's id of the cluster.
        doing: what was asked, as in "list offsets".
        raised: what the client raised.
        hint: the last thing the client logged about its connections, such as a failed authentication: librdkafka goes
            on trying after those, and ends in a time-out that does not say why.
    """
    if isinstance(raised, ClusterError):
        return raised
    error = kafka_error_of(raised)
    reason = error.str() if error is not None else f"{type(raised).__name__}: {raised}"
    because = f" ({hint})" if hint else ""
    unreachable = isinstance(raised, TimeoutError) or (error is not None and error.code() in UNREACHABLE)
    complaint = hint if unreachable else ConnectionProblem.of(error) if error is not None else None
    if complaint is not None and complaint.refusal:
        return ClusterRefusedError(cluster, f"could not {doing}: {complaint.refusal} ({complaint}): {_CHECK}")
    unknown = error is not None and error.code() in UNKNOWN
    kind = ClusterUnreachableError if unreachable else UnknownTopicError if unknown else ClusterError
    return kind(cluster, f"could not {doing}: {reason}{because}")
