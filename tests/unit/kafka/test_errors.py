"""From what a client says to an error: who is not let in has another problem than who is not heard."""

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
RUBBISH = {"security.protocol": "SSL", "ssl.ca.pem": "rubbish"}


@pytest.mark.parametrize(("problem", "text"), [(LOGIN, "refuses the login"), (SIGNED, "did not sign the certificate")])
def test_a_time_out_after_a_refusal_is_a_refusal(problem: ConnectionProblem, text: str) -> None:
    error = translate("east", "list offsets", TIMED_OUT, problem)
    assert type(error) is ClusterRefusedError
    assert text in str(error) and problem.text in str(error) and "secret folder" in str(error)


def test_a_refusal_that_is_raised_itself_is_one() -> None:
    raised = KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "no"))
    assert type(translate("east", "list offsets", raised)) is ClusterRefusedError


@pytest.mark.parametrize(
    "complaint",
    [
        None,
        ConnectionProblem(KafkaError._TRANSPORT, "Connect to e:1 failed: Connection refused"),
        ConnectionProblem(KafkaError._SSL, "SSL handshake failed: Disconnected"),
        ConnectionProblem(KafkaError._AUTHENTICATION, "SASL authentication error: Local: Broker transport failure"),
        ConnectionProblem(KafkaError._SSL, "SSL handshake failed: certificate: Connection reset by peer"),
    ],
)
def test_a_connection_that_breaks_is_no_refusal(complaint: ConnectionProblem | None) -> None:
    assert type(translate("east", "list offsets", TIMED_OUT, complaint)) is ClusterUnreachableError


def test_an_answer_is_not_explained_by_a_connection() -> None:
    denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
    assert type(translate("east", "list offsets", denied, LOGIN)) is ClusterError


def test_no_client_is_made_with_a_certificate_that_is_none() -> None:
    with pytest.raises(ClusterRefusedError, match=r"cluster=east\] no client can be made: .* ssl\.ca\.pem"):
        check_client("east", {"bootstrap.servers": "127.0.0.1:1", **RUBBISH})
    with pytest.raises(ClusterRefusedError, match=r"no client can be made"):
        ClusterAdmin("east", {"bootstrap.servers": "127.0.0.1:1", **RUBBISH}, read_committed=False, deadline_s=1)
    check_client("east", {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"})


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION])
def test_a_partition_is_unknown_whoever_says_so(code: int) -> None:
    # The broker says the one, the client the other as soon as its metadata does not name the partition any more.
    assert type(translate("east", "list offsets", KafkaException(KafkaError(code, "no")))) is UnknownTopicError


def test_a_log_in_without_its_mechanism_is_told_what_is_missing() -> None:
    # librdkafka's own words end with "recompile librdkafka".
    with pytest.raises(ClusterRefusedError, match=r"GSSAPI.*: set sasl.mechanism"):
        check_client("east", {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL"})
