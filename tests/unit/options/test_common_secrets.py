"""Secrets among the common Kafka properties: which they are, when a start is refused, which settings weaken them."""

from __future__ import annotations

import pytest

from dynamic_kafka.options.common_secrets import secret_names, weakened
from tests.unit.options.parsing import FROM_FILE, SINGLE, parse, refusal

PASSWORD = {"kafka.sasl.password": "${file:/run/s.properties:pw}"}
STATIC = {
    "streamIds": "orders",
    "metadataService": "static",
    "metadataDocument": "streams: {orders: {clusters: {east: {bootstrapServers: 'e:9092', topics: [orders]}}}}",
}
OWN_CLASS = {"streamIds": "orders", "metadataService": "acme:Registry"}


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.username": "u"},
        {"sasl.password": "${env:P}"},
        {"sasl.jaas.config": "${env:J}"},
        {"sasl.oauthbearer.client.secret": "${env:P}"},
        {"sasl.oauthbearer.token.endpoint.url": "https://t"},
        {"sasl.kerberos.keytab": "/k"},
        {"ssl.key.location": "/k.pem"},
        {"ssl.key.pem": "${env:K}"},
        {"ssl.key.password": "${env:P}"},
        {"ssl.keystore.location": "/k.p12"},
        {"ssl.certificate.location": "/c.pem"},
        {"client.id": "app-${env:POD}"},
        {"no.known.property": "${env:P}"},
    ],
)
def test_a_log_in_a_key_and_a_reference_are_secret(properties: dict[str, str]) -> None:
    assert secret_names(properties) == list(properties)


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
        {"ssl.ca.pem": "${dir:/etc/ca:ca.pem}", "ssl.ca.location": "/ca.pem"},
        {"security.protocol": "${env:P}", "isolation.level": "${env:I}", "socket.timeout.ms": "${env:T}"},
        {"bootstrap.servers": "${env:SERVERS}"},
        {"client.id": "app", "group.id": "g"},
    ],
)
def test_authorities_words_and_numbers_are_no_secrets(properties: dict[str, str]) -> None:
    assert secret_names(properties) == []


@pytest.mark.parametrize("outside", [FROM_FILE, OWN_CLASS], ids=["file", "a class of the user's"])
def test_a_start_with_secrets_and_foreign_metadata_is_refused(outside: dict[str, str]) -> None:
    message = refusal(outside, PASSWORD)
    assert "hold secrets (kafka.sasl.password)" in message
    assert "set 'allowedServers' to the servers" in message
    assert "(host:port,host:port)" in message
    assert "s.properties" not in message


@pytest.mark.parametrize("allowed", ["e1:9092,e2:9092", "*"])
def test_a_list_or_a_star_allows_the_start(allowed: str) -> None:
    options = parse(FROM_FILE, PASSWORD, {"allowedServers": allowed})
    assert options.allowed_servers == allowed
    assert options.warnings == ()


@pytest.mark.parametrize("inside", [SINGLE, STATIC], ids=["single cluster", "static"])
def test_servers_within_the_options_need_no_list(inside: dict[str, str]) -> None:
    assert parse(inside, PASSWORD).allowed_servers is None


def test_metadata_from_outside_needs_no_list_without_secrets() -> None:
    assert parse(FROM_FILE, {"kafka.security.protocol": "SASL_SSL", "kafka.ssl.ca.pem": "${env:CA}"})


def test_a_list_that_protects_nothing_is_warned_about() -> None:
    (warning,) = parse(FROM_FILE, {"allowedServers": "e:9092"}).warnings
    assert "option 'allowedServers' has no effect" in warning
    assert "kafka.* options hold no secret" in warning


def test_a_wrong_list_is_refused_with_the_entry() -> None:
    message = refusal(FROM_FILE, {"allowedServers": "e1"})
    assert "option 'allowedServers' is 'e1'" in message
    assert "'e1' is not `host:port`" in message
    assert "`*` must stand alone" in refusal(FROM_FILE, {"allowedServers": "*:9092"})


@pytest.mark.parametrize(
    ("before", "now", "is_weaker"),
    [
        ("SASL_SSL", "sasl_ssl", False),
        ("SASL_SSL", "SASL_PLAINTEXT", True),
        ("SASL_SSL", "PLAINTEXT", True),
        ("SASL_SSL", "SSL", True),
        ("SSL", "SASL_SSL", False),
        ("SSL", "PLAINTEXT", True),
        ("SSL", "SASL_PLAINTEXT", True),
        ("SASL_PLAINTEXT", "SASL_SSL", False),
        ("SASL_PLAINTEXT", "PLAINTEXT", True),
        ("SASL_PLAINTEXT", "SSL", True),
        ("PLAINTEXT", "SASL_PLAINTEXT", True),
        (None, "SASL_PLAINTEXT", True),
        (None, "PLAINTEXT", False),
        (None, "SASL_SSL", False),
        (None, "nonsense", True),
    ],
)
def test_a_protocol_may_become_stronger_only(before: str | None, now: str, is_weaker: bool) -> None:
    common = {} if before is None else {"security.protocol": before}
    assert list(weakened(common, {"security.protocol": now})) == ["security.protocol"] * is_weaker


@pytest.mark.parametrize(
    ("before", "now", "is_weaker"),
    [
        ("SCRAM-SHA-512", "scram-sha-512", False),
        ("SCRAM-SHA-256", "SCRAM-SHA-512", False),
        ("SCRAM-SHA-512", "SCRAM-SHA-256", True),
        ("SCRAM-SHA-512", "PLAIN", True),
        ("SCRAM-SHA-512", "OAUTHBEARER", True),
        ("PLAIN", "SCRAM-SHA-256", False),
        ("PLAIN", "OAUTHBEARER", True),
        ("OAUTHBEARER", "PLAIN", True),
        ("OAUTHBEARER", "SCRAM-SHA-512", True),
        ("GSSAPI", "PLAIN", True),
        (None, "SCRAM-SHA-256", False),
        (None, "PLAIN", True),
        (None, "OAUTHBEARER", True),
    ],
)
def test_a_mechanism_may_become_stronger_only(before: str | None, now: str, is_weaker: bool) -> None:
    common = {} if before is None else {"sasl.mechanism": before}
    assert list(weakened(common, {"sasl.mechanism": now})) == ["sasl.mechanism"] * is_weaker


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enable.ssl.certificate.verification", "false"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("ssl.ca.pem", "another authority"),
        ("ssl.ca.location", "/etc/kafkastreams-secrets/east/ca.pem"),
        ("ssl.crl.location", "/etc/kafkastreams-secrets/east/crl.pem"),
        ("ssl.cipher.suites", "eNULL"),
        ("ssl.curves.list", "P-192"),
        ("ssl.sigalgs.list", "RSA+SHA1"),
        ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only"),
        ("sasl.oauthbearer.token.endpoint.url", "https://evil"),
        ("https.ca.pem", "another authority"),
    ],
)
def test_settings_that_protect_a_connection_stay(key: str, value: str) -> None:
    assert list(weakened({}, {key: value})) == [key]
    assert list(weakened({key: "before"}, {key: value})) == [key]
    assert list(weakened({key: value}, {key: value})) == []


def test_settings_that_protect_nothing_may_change() -> None:
    brought = {
        "bootstrap.servers": "e:9092",
        "sasl.username": "another",
        "ssl.key.pem": "its own",
        "client.id": "x",
        "socket.timeout.ms": "1000",
        "enable.ssl.certificate.verification": "true",
        "ssl.endpoint.identification.algorithm": "HTTPS",
        "client.dns.lookup": "use_all_dns_ips",
    }
    common = {"enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": "none"}
    assert list(weakened(common, brought)) == []
