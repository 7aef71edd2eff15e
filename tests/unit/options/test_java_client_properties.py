"""The translation of Java's client properties to librdkafka's."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import parse_options, translate_java

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def translate(properties: dict[str, str]) -> dict[str, str]:
    return translate_java(properties, "options", warn=lambda _: None)


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        translate(properties)
    return str(refused.value)


@pytest.mark.parametrize(
    "key",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "enable.auto.commit",
        "interceptor.classes",
        "enable.partition.eof",
        "plugin.library.paths",
    ],
)
def test_a_property_that_spark_forbids_is_refused(key: str) -> None:
    given = {"streamIds": "a", "metadataPath": "/m", f"kafka.{key}": "x"}
    with pytest.raises(OptionError, match=f"'{key}' is not supported"):
        parse_options(given, mode="streaming")


def test_auto_offset_reset_points_to_starting_offsets() -> None:
    assert "set `startingOffsets`" in refusal({"auto.offset.reset": "latest"})


@pytest.mark.parametrize(
    ("java", "native"),
    [
        ({"fetch.max.wait.ms": "50"}, {"fetch.wait.max.ms": "50"}),
        ({"request.timeout.ms": "30000"}, {"socket.timeout.ms": "30000"}),
        ({"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": "0"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"isolation.level": "read_committed"}, {"isolation.level": "read_committed"}),
        ({"sasl.mechanisms": "PLAIN"}, {"sasl.mechanism": "PLAIN"}),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "${file:/s:ca}"},
            {"ssl.ca.pem": "${file:/s:ca}"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "${env:P}"},
            {
                "ssl.certificate.location": "/me.pem",
                "ssl.key.location": "/me.pem",
                "ssl.key.password": "${env:P}",
            },
        ),
        (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "/me",
                "ssl.keystore.password": "${env:P}",
            },
            {"ssl.keystore.location": "/me", "ssl.keystore.password": "${env:P}"},
        ),
        ({"ssl.keystore.location": "/me.p12"}, {"ssl.keystore.location": "/me.p12"}),
        ({"sasl.jaas.config": "${file:/s:jaas}"}, {"sasl.jaas.config": "${file:/s:jaas}"}),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="u" password="${{env:P}}";'},
            {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "${env:P}"},
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{SCRAM} required\n username=u password='a\\'b;c' ;",
            },
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "a'b;c"},
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": "org.apache.kafka.x.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="${{env:S}}" scope="r";',
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "${env:S}",
                "sasl.oauthbearer.scope": "r",
            },
        ),
        (
            {
                "sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="${{env:S}}"'
                ' extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";',
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "${env:S}",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
            },
        ),
    ],
)
def test_java_properties_become_librdkafkas(java: dict[str, str], native: dict[str, str]) -> None:
    assert translate(java) == native


@pytest.mark.parametrize(
    ("java", "equivalent"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "kafka.ssl.ca.location"),
        ({"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"}, "kafka.ssl.ca.location"),
        ({"ssl.keystore.location": "/k.jks"}, "-deststoretype PKCS12"),
        ({"ssl.engine.factory.class": "x.Y"}, "loads Java code"),
        ({"sasl.login.callback.handler.class": "x.Y"}, "loads Java code"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "Krb5LoginModule"),
        ({"sasl.jaas.config": f'{SCRAM} required username="u" password="p";'}, "needs kafka.sasl.mechanism"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{SCRAM} required username="u" password="p";'},
            "does not fit sasl.mechanism=PLAIN",
        ),
        ({"sasl.jaas.config": f'{PLAIN} required username="u";'}, "has no password"),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="u" password="p" user="v";'},
            "the entry user of PlainLoginModule has no equivalent here",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f'{SCRAM} required username="u" tokenauth="true";'},
            "the entry tokenauth of ScramLoginModule has no equivalent here",
        ),
        (
            {"sasl.jaas.config": f'{OAUTH} required clientId="c" clientsecret="${{env:S}}";'},
            "did you mean 'clientSecret'",
        ),
        (
            {"sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="${{env:S}}" extension_a="b,c";'},
            "extension_a: an extension has a name of letters, and no comma",
        ),
    ],
)
def test_a_property_without_equivalent_is_refused_with_a_remedy(java: dict[str, str], equivalent: str) -> None:
    assert equivalent in refusal(java)


def test_different_values_under_two_names_are_refused() -> None:
    message = refusal({"fetch.max.wait.ms": "1", "fetch.wait.max.ms": "2"})
    assert "'fetch.max.wait.ms' and 'fetch.wait.max.ms' mean" in message


def test_a_property_without_effect_is_dropped_with_a_warning() -> None:
    warnings: list[str] = []
    assert translate_java({"max.poll.records": "500"}, "options", warn=warnings.append) == {}
    assert "'max.poll.records' has no effect here" in warnings[0]
