"""The translation of a client's errors: a refusal differs from a missing answer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from dynamic_kafka.errors import ClusterError, ClusterRefusedError, ClusterUnreachableError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config_checks import check_client
from dynamic_kafka.kafka.errors import ConnectionProblem, UnknownTopicError, translate

LOGIN = ConnectionProblem(
    KafkaError._AUTHENTICATION, "sasl_ssl://e:1/bootstrap: SASL authentication error: invalid credentials"
)
SIGNED = ConnectionProblem(KafkaError._SSL, "ssl://e:1/bootstrap: SSL handshake failed: certificate verify failed")
TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))
MALFORMED = {"security.protocol": "SSL", "ssl.ca.pem": "malformed"}


@pytest.mark.parametrize(("problem", "text"), [(LOGIN, "refuses the login"), (SIGNED, "not of the given authority")])
def test_a_time_out_after_a_refusal_is_a_refusal(problem: ConnectionProblem, text: str) -> None:
    error = translate("east", "list offsets", TIMED_OUT, problem)
    assert type(error) is ClusterRefusedError
    assert text in str(error) and problem.text in str(error) and "secret folder" in str(error)


def test_a_raised_refusal_is_a_refusal() -> None:
    raised = KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "no"))
    assert type(translate("east", "list offsets", raised)) is ClusterRefusedError


@pytest.mark.parametrize(
    "problem",
    [
        None,
        ConnectionProblem(KafkaError._TRANSPORT, "Connect to e:1 failed: Connection refused"),
        ConnectionProblem(KafkaError._SSL, "SSL handshake failed: Disconnected"),
        ConnectionProblem(KafkaError._AUTHENTICATION, "SASL authentication error: Local: Broker transport failure"),
        ConnectionProblem(KafkaError._SSL, "SSL handshake failed: certificate: Connection reset by peer"),
    ],
)
def test_a_broken_connection_is_no_refusal(problem: ConnectionProblem | None) -> None:
    assert type(translate("east", "list offsets", TIMED_OUT, problem)) is ClusterUnreachableError


def test_an_answer_is_not_blamed_on_a_connection() -> None:
    denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
    assert type(translate("east", "list offsets", denied, LOGIN)) is ClusterError


def test_no_client_is_made_with_a_malformed_certificate() -> None:
    with pytest.raises(ClusterRefusedError, match=r"cluster=east\] no client .*ssl\.ca\.pem"):
        check_client("east", {"bootstrap.servers": "127.0.0.1:1", **MALFORMED})
    with pytest.raises(ClusterRefusedError, match=r"no client can be made"):
        ClusterAdmin("east", {"bootstrap.servers": "127.0.0.1:1", **MALFORMED}, read_committed=False, deadline_s=1)
    check_client("east", {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"})


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION])
def test_broker_and_client_report_unknown_partitions(code: int) -> None:
    # The broker sends the first code. The client has the second once its metadata lacks the partition.
    assert type(translate("east", "list offsets", KafkaException(KafkaError(code, "no")))) is UnknownTopicError


def test_a_missing_mechanism_is_named_in_the_error() -> None:
    # librdkafka's own text ends with "recompile librdkafka".
    with pytest.raises(ClusterRefusedError, match=r"GSSAPI.*: set sasl.mechanism"):
        check_client("east", {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL"})
