from __future__ import annotations

import confluent_kafka
import pytest

from dynamic_kafka.metadata import (
    ALLOWED_KEYS,
    CREDENTIAL_KEYS,
    LOCATION_KEYS,
    SECRET_FILE_KEYS,
    check_properties,
    properties,
    secret_file_problem,
)


def problem(key: str, value: str, secret_folder: str | None = "east") -> str:
    problems = check_properties({key: value}, where="clusters.east.properties", secret_folder=secret_folder)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"clusters.east.properties.{key}: ")
    return problems[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "reader"),
        ("isolation.level", "read_committed"),
        ("fetch.min.bytes", "100000"),
        ("topic.metadata.refresh.interval.ms", "-1"),
        ("client.rack", "eu-1a"),
        ("check.crcs", "true"),
        ("ssl.ca.location", "ca.pem"),
        ("ssl.ca.pem", "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----"),
    ],
)
def test_the_properties_that_a_cluster_needs_are_allowed(key: str, value: str) -> None:
    assert check_properties({key: value}, where="x", secret_folder="east") == []


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("plugin.library.paths", "loads code"),
        ("ssl.engine.location", "loads code"),
        ("ssl.providers", "loads code"),
        ("interceptor.classes", "loads code"),
        ("sasl.kerberos.kinit.cmd", "runs a command"),
        ("sasl.kerberos.keytab", "runs a command"),
        ("sasl.kerberos.principal", "runs a command"),
        ("sasl.oauthbearer.token.endpoint.url", "fetches a URL"),
        ("sasl.oauthbearer.method", "fetches a URL"),
        ("sasl.oauthbearer.config", "a credential"),
        ("https.ca.location", "fetching of a URL"),
        ("sasl.jaas.config", "a credential"),
        ("stats_cb", "is a callback"),
        ("enable.auto.commit", "commits after each batch"),
        ("auto.offset.reset", "set `startingOffsets`"),
        ("enable.partition.eof", "plans and commits every offset itself"),
        ("allow.auto.create.topics", "never creates topics"),
        ("bootstrap.servers", "stands in `bootstrapServers`"),
        ("debug", "the application's option"),
    ],
)
def test_a_forbidden_property_is_refused_with_the_reason(key: str, why: str) -> None:
    assert why in problem(key, "x")


@pytest.mark.parametrize(
    ("key", "intended"),
    [
        ("isolation.levl", "isolation.level"),
        ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("securityProtocol", "security.protocol"),
        ("sasl.passwort", "sasl.password"),
    ],
)
def test_an_unknown_property_names_the_nearest_allowed_one(key: str, intended: str) -> None:
    assert f"did you mean {intended!r}?" in problem(key, "x")


def test_an_unknown_property_without_likeness_names_the_docs() -> None:
    assert "see the documentation" in problem("zzz", "x")


@pytest.mark.parametrize("key", sorted(CREDENTIAL_KEYS))
def test_a_credential_belongs_in_the_secret_folder(key: str) -> None:
    message = problem(key, "hunter2")
    assert "this name in the `secretFolder`" in message
    assert "hunter2" not in message


def test_a_private_key_does_not_hide_in_a_certificate() -> None:
    assert "holds a private key" in problem("ssl.certificate.pem", "-----BEGIN EC PRIVATE KEY-----\nMII=")


@pytest.mark.parametrize("key", sorted(LOCATION_KEYS))
@pytest.mark.parametrize("value", ["/etc/passwd", "../ca.pem", "a/b", "..", ".", "", "a\\b", "a\0b"])
def test_a_path_stays_within_the_secret_folder(key: str, value: str) -> None:
    assert "bare name of a file" in problem(key, value)


@pytest.mark.parametrize("key", sorted(LOCATION_KEYS))
def test_a_path_needs_a_secret_folder(key: str) -> None:
    assert "the cluster has no `secretFolder`" in problem(key, "ca.pem", secret_folder=None)


@pytest.mark.parametrize("reference", ["${file:/etc/x:y}", "a${env:HOME}", "${dir:/x:y}"])
def test_references_are_for_the_applications_own_options(reference: str) -> None:
    assert "the application's own options" in problem("sasl.username", reference)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "sasl"),
        ("sasl.mechanism", "GSSAPI"),
        ("check.crcs", "yes"),
        ("fetch.min.bytes", "0"),
        ("fetch.min.bytes", "1e3"),
        ("socket.timeout.ms", "60s"),
        ("socket.timeout.ms", "9" * 4000),
        ("client.id", ""),
    ],
)
def test_a_value_that_the_client_would_refuse_is_refused_here(key: str, value: str) -> None:
    assert len(problem(key, value)) < 300


def test_the_files_of_a_secret_folder_follow_the_same_list() -> None:
    assert SECRET_FILE_KEYS == ALLOWED_KEYS | CREDENTIAL_KEYS
    assert secret_file_problem("sasl.password", "hunter2") is None
    assert secret_file_problem("ssl.ca.location", "ca.pem") is None
    assert "loads code" in str(secret_file_problem("plugin.library.paths", "hunter2"))
    assert "hunter2" not in str(secret_file_problem("security.protocol", "hunter2"))
    assert "hunter2" not in str(secret_file_problem("ssl.ca.location", "/hunter2"))
    assert secret_file_problem("sasl.password", "") == "is empty"


@pytest.mark.parametrize("key", sorted(ALLOWED_KEYS | CREDENTIAL_KEYS))
def test_librdkafka_accepts_each_property_in_its_whole_range(key: str) -> None:
    rule = properties.rule_of(key)
    for value in rule.words or ((rule.low, rule.high) if rule.low <= rule.high else ("text",)):
        # librdkafka sets the properties in order and stops at the first wrong one, so it never creates a client.
        with pytest.raises(confluent_kafka.KafkaException, match=r"no\.such\.property"):
            confluent_kafka.Consumer({"group.id": "g", key: str(value), "no.such.property": "1"})
