"""The translation of librdkafka's errors to ours.

Runs on driver and executors; every module that calls a Kafka client uses it.
"""

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
        KafkaError._MSG_TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
"""Codes for "no answer". All other codes are answers."""

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
        KafkaError._DESTROY_BROKER,
    }
)
"""Codes of a leader or coordinator that is moving, or of a connection that the client itself replaces when it finds the
brokers behind the bootstrap servers: a retry gets an answer."""

HARMLESS_TO_READ = UNREACHABLE | TRANSIENT | {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""Codes after which a range may still advance. A consumer looks for the coordinator of its group although it reads
without one: a cluster that refuses the group then refuses nothing that a reader needs."""

UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes of a topic or partition that is absent or was re-created. The broker sends some. The client has others for
names that its metadata lacks, such as a partition that a re-created topic no longer has."""

LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
"""Codes of a failed login."""

_BROKEN_OFF = re.compile(r"transport failure|disconnected|timed out|reset by peer", re.IGNORECASE)
"""Texts of a connection that broke during a login or a handshake; neither of them was refused."""
_CERTIFICATE = re.compile(r"certificate|alert|unknown ca|wrong version number", re.IGNORECASE)
_VALUE = re.compile(r'value "[^"]*"')
_MECHANISM = "set sasl.mechanism: the default is Kerberos (GSSAPI), which this client does not support"
_UNPACKED = "the batch is damaged, or unpacks to over receive.message.max.bytes (default 100000000): raise it"
_MISSING_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "the user may not describe or read the topic, whose offsets stay saved: give the user READ on it"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: "give the user READ on the group, or DESCRIBE if the query does not commit",
}
_CHECK = "check the cluster's properties and its secret folder, or the secrets that the options refer to"


@dataclass(frozen=True)
class ConnectionProblem:
    """A connection error that a client reports while it retries. It never holds a credential."""

    code: int
    text: str

    @classmethod
    def of(cls, error: KafkaError) -> ConnectionProblem:
        return cls(error.code(), error.str())

    @property
    def refusal(self) -> str | None:
        """The login or certificate that the cluster refuses, so that retries are useless; None for network errors."""
        if _BROKEN_OFF.search(self.text):
            return None
        if self.code in LOGIN:
            return "the cluster refuses the login"
        if self.code == KafkaError._SSL and _CERTIFICATE.search(self.text):
            # The client's text is the same for both.
            return "TLS fails: the certificate is not of the given authority, or not for the name of the server"
        return None

    def __str__(self) -> str:
        return self.text


class UnknownTopicError(ClusterError):
    """A topic or partition is absent: deleted since it was described, or not yet known to every broker."""


def kafka_error_of(raised: BaseException) -> KafkaError | None:
    """Return the librdkafka error inside an exception, or None if there is none."""
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return None


def is_transient(raised: BaseException) -> bool:
    """Return whether a leader or coordinator is moving, so that a retry gets an answer."""
    error = kafka_error_of(raised)
    return error is not None and error.code() in TRANSIENT


def has_no_leader(raised: BaseException) -> bool:
    """Return whether the client has found no leader of any asked partition."""
    error = kafka_error_of(raised)
    return error is not None and error.code() == KafkaError._NOENT


def client_creation_error(cluster: str, raised: KafkaException) -> ClusterRefusedError:
    """Return the error to raise when no client can be made, as with a malformed certificate or wrong settings."""
    error = kafka_error_of(raised)
    # Only texts about one property hold a value.
    reason = _VALUE.sub("a value", error.str() if error is not None else str(raised)).strip()
    remedy = _MECHANISM if "GSSAPI" in reason else _CHECK
    return ClusterRefusedError(cluster, f"no client can be made: {reason}: {remedy}")


def translate(
    cluster: str, action: str, raised: BaseException, problem: ConnectionProblem | None = None
) -> ClusterError:
    """Return the error to raise for a failed call.

    Args:
        action: the request, as in "list offsets".
        problem: the last connection problem that the client reported, such as a failed authentication. librdkafka
            retries after those, and the call ends in a time-out without the reason.
    """
    if isinstance(raised, ClusterError):
        return raised
    error = kafka_error_of(raised)
    reason = error.str() if error is not None else f"{type(raised).__name__}: {raised}"
    because = f" ({problem})" if problem else ""
    unreachable = isinstance(raised, TimeoutError) or (error is not None and error.code() in UNREACHABLE)
    cause = problem if unreachable else ConnectionProblem.of(error) if error is not None else None
    if cause is not None and cause.refusal:
        return ClusterRefusedError(cluster, f"could not {action}: {cause.refusal} ({cause}): {_CHECK}")
    remedy = _MISSING_RIGHTS.get(error.code()) if error is not None else None
    if remedy is not None:
        return ClusterError(cluster, f"could not {action}: {reason}: {remedy} (docs/how-to/rights.md)")
    if error is not None and error.code() == KafkaError._BAD_COMPRESSION:
        because = f": {_UNPACKED}"
    unknown = error is not None and error.code() in UNKNOWN
    kind = ClusterUnreachableError if unreachable else UnknownTopicError if unknown else ClusterError
    return kind(cluster, f"could not {action}: {reason}{because}")
