"""Client properties as Spark users have them, for Java's client, turned into librdkafka's. Pure.

Most names are the same. Some are called otherwise, some mean nothing here and are dropped with a warning,
some load Java classes or read Java's key stores and are refused, naming the equivalent. What Spark's Kafka
source forbids (KafkaSourceProvider.validateGeneralOptions) is forbidden here too. Messages never hold a
value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.properties import rule_of
from dynamic_kafka.options.jaas import SECRET_ENTRIES, log_in_properties, parse_jaas
from dynamic_kafka.options.secrets import (
    check_no_literal_secret,
    is_reference_only,
    literal_secret,
)

_log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"

_CONVERT = "the source hands keys and values on as bytes; convert them with DataFrame operations"
_PAYLOAD = "it could change what is read"
_PLANNED = "the source decides what is read and committed, not the client"
FORBIDDEN: Mapping[str, str] = {
    "auto.offset.reset": "set the option 'startingOffsets' to earliest or latest instead: the source plans"
    " every offset itself, and a restarted query goes on where it stopped",
    "key.deserializer": _CONVERT,
    "value.deserializer": _CONVERT,
    "key.serializer": _CONVERT,
    "value.serializer": _CONVERT,
    "enable.auto.commit": "the option 'commitOffsets' commits after each batch",
    "auto.commit.enable": "the option 'commitOffsets' commits after each batch",
    "enable.auto.offset.store": _PLANNED,
    "enable.partition.eof": _PLANNED,
    "interceptor.classes": _PAYLOAD,
    "interceptors": _PAYLOAD,
    "plugin.library.paths": _PAYLOAD,
    "config.providers": "references ${file:…}, ${dir:…} and ${env:…} are looked up without providers",
}
"""Client properties that nobody may set, each with the reason or the equivalent."""

RENAMED: Mapping[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
    # librdkafka has two names for some things itself; with one of them a cluster's own value always wins.
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Java's names, and librdkafka's second names, each with the one name used here."""

_OWN_ASSIGNMENT = "the source assigns partitions itself"
_TLS = "OpenSSL negotiates it"
_DROPPED: Mapping[str, str] = {
    "max.poll.records": "the source reads by size; see queued.max.messages.kbytes and fetch.max.bytes",
    "default.api.timeout.ms": "see socket.timeout.ms",
    "socket.connection.setup.timeout.max.ms": "see socket.connection.setup.timeout.ms",
    "allow.auto.create.topics": "the source never creates topics",
    "partition.assignment.strategy": _OWN_ASSIGNMENT,
    "group.instance.id": _OWN_ASSIGNMENT,
    "group.protocol": _OWN_ASSIGNMENT,
    "group.remote.assignor": _OWN_ASSIGNMENT,
    "exclude.internal.topics": "topics are chosen by the source",
    "metric.reporters": "Java's metrics are not there",
    "metrics.num.samples": "Java's metrics are not there",
    "metrics.recording.level": "Java's metrics are not there",
    "metrics.sample.window.ms": "Java's metrics are not there",
    "auto.include.jmx.reporter": "Java's metrics are not there",
    "ssl.protocol": _TLS,
    "ssl.enabled.protocols": _TLS,
    "ssl.secure.random.implementation": _TLS,
    "ssl.keymanager.algorithm": _TLS,
    "ssl.trustmanager.algorithm": _TLS,
    "sasl.login.refresh.buffer.seconds": "librdkafka renews tokens by itself",
    "sasl.login.refresh.min.period.seconds": "librdkafka renews tokens by itself",
    "sasl.login.refresh.window.factor": "librdkafka renews tokens by itself",
    "sasl.login.refresh.window.jitter": "librdkafka renews tokens by itself",
}

_JAVA_LOWEST: Mapping[str, int] = {
    "fetch.max.bytes": 0,
    "fetch.min.bytes": 0,
    "fetch.wait.max.ms": 0,
    "max.partition.fetch.bytes": 0,
    "socket.timeout.ms": 0,
    "socket.connection.setup.timeout.ms": 0,
    "socket.receive.buffer.bytes": 0,
    "socket.send.buffer.bytes": 0,
    # Negative is "never" in Java, and 0 is here.
    "connections.max.idle.ms": -(2**63),
    "max.poll.interval.ms": 1,
    "session.timeout.ms": 0,
    "metadata.max.age.ms": 0,
    "reconnect.backoff.ms": 0,
    "reconnect.backoff.max.ms": 0,
    "retry.backoff.ms": 0,
    "retry.backoff.max.ms": 0,
}
"""Numbers of Java's client for which librdkafka has a narrower range, each with the lowest that Java takes."""

_SESSION_TIMEOUT_MS = "45000"
"""librdkafka's default."""

_LOADS_JAVA = frozenset(
    (
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "security.providers",
        "ssl.engine.factory.class",
        "ssl.provider",
    )
)
_OAUTH_HANDLER = "OAuthBearerLoginCallbackHandler"


def check_no_literal_secrets(properties: Mapping[str, str], *, prefix: str = "kafka.") -> None:
    """Refuse literal secrets among the client properties of an option mapping, in a JAAS text too.

    Raises:
        OptionError: names the option and the reference forms, never the value.
    """
    for key, value in properties.items():
        if key != JAAS:
            check_no_literal_secret(key, value, shown_as=prefix + key)
        elif not is_reference_only(value):
            entries = parse_jaas(value, where=f"option '{prefix}{JAAS}'").entries
            for entry in entries.keys() & SECRET_ENTRIES:
                if not is_reference_only(entries[entry]):
                    raise literal_secret(prefix + JAAS)


def translate_java(
    properties: Mapping[str, str], where: str, *, warn: Callable[[str], None] = _log.warning, fit: bool = False
) -> dict[str, str]:
    """Client properties under librdkafka's names; those it shares with Java go through as they are.

    A JAAS text that is a reference as a whole is kept: it is translated again once the reference is resolved.

    Args:
        where: begins each message, such as "options" or "cluster 'east'".
        warn: is told of each property that is dropped or fitted, in one sentence.
        fit: numbers that Java's client takes and librdkafka does not become the nearest that it does.

    Raises:
        OptionError: a forbidden property, a Java class, a JKS store, or two names of one thing with different
            values.
    """
    translated: dict[str, str] = {}
    named: dict[str, str] = {}
    for key, value in _stores(properties, where, warn).items():
        if key in FORBIDDEN:
            raise OptionError(f"{where}: Kafka property '{key}' is not supported; {FORBIDDEN[key]}")
        if key in _LOADS_JAVA:
            _refuse_java_class(key, value, where)
        elif key in _DROPPED:
            warn(f"{where}: Kafka property '{key}' has no effect here: {_DROPPED[key]}")
        else:
            name = RENAMED.get(key, key)
            meant = _value(name, value)
            if fit and (fitted := _fitted(name, meant)) != meant:
                warn(f"{where}: Kafka property '{key}' is outside what the client here takes; {fitted} is used")
                meant = fitted
            if translated.get(name, meant) != meant:
                raise OptionError(
                    f"{where}: Kafka properties '{named[name]}' and '{key}' mean the same and have"
                    " different values;"
                    " keep one of them"
                )
            translated[name], named[name] = meant, key
    if fit:
        _fit_session(translated, where, warn)
    return with_log_in(translated, where)


def with_log_in(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties with a JAAS text turned into librdkafka's log-in, unless it is still a reference.

    Raises:
        OptionError: the text is not understood, has no equivalent, or contradicts another property.
    """
    text = properties.get(JAAS)
    if text is None or is_reference_only(text):
        return dict(properties)
    at = f"{where}: property '{JAAS}'"
    found = log_in_properties(parse_jaas(text, where=at), properties.get("sasl.mechanism"), where=at)
    rest = {key: value for key, value in properties.items() if key != JAAS}
    double = next((key for key, value in found.items() if rest.get(key, value) != value), None)
    if double is not None:
        raise OptionError(f"{where}: '{JAAS}' and '{double}' have different values; keep one of them")
    return rest | found


def _refuse_java_class(key: str, value: str, where: str) -> None:
    # Java's own handler for client secrets is what librdkafka does without a class.
    if key == "sasl.login.callback.handler.class" and value.rsplit(".", 1)[-1] == _OAUTH_HANDLER:
        return
    raise OptionError(f"{where}: Kafka property '{key}' loads Java code, and there is no Java client here; take it out")


def _value(name: str, value: str) -> str:
    # Java says "the system's default" with -1, and "no check of the host name" with an empty text.
    if name.startswith("socket.") and name.endswith(".buffer.bytes") and value.strip() == "-1":
        return "0"
    if name == "ssl.endpoint.identification.algorithm" and not value.strip():
        return "none"
    return value


def _fitted(name: str, value: str) -> str:
    lowest = _JAVA_LOWEST.get(name)
    if lowest is None or not re.fullmatch(r"-?[0-9]{1,19}", value.strip()) or not lowest <= int(value) < 2**63:
        return value
    rule = rule_of(name)
    # A fetch smaller than a message is refused, and 1000 is the smallest `message.max.bytes`.
    low = 1000 if name == "fetch.max.bytes" else rule.low
    fitted = min(max(int(value), low), rule.high)
    return value if fitted == int(value) else str(fitted)


def _fit_session(properties: dict[str, str], where: str, warn: Callable[[str], None]) -> None:
    """librdkafka wants a session no longer than `max.poll.interval.ms`; the source assigns partitions itself, so that
    neither of them does anything."""
    poll, session = (
        properties.get("max.poll.interval.ms", ""),
        properties.get("session.timeout.ms", _SESSION_TIMEOUT_MS),
    )
    if not (poll.isdecimal() and session.isdecimal() and int(poll) < int(session)):
        return
    if "session.timeout.ms" in properties:
        warn(f"{where}: Kafka property 'session.timeout.ms' is longer than 'max.poll.interval.ms'; {poll} is used")
    properties["session.timeout.ms"] = poll


def _stores(properties: Mapping[str, str], where: str, warn: Callable[[str], None]) -> dict[str, str]:
    """Java's key and trust stores as librdkafka's files, where the type allows it."""
    found = dict(properties)
    trust_type = found.pop("ssl.truststore.type", "").strip().upper()
    trust = found.pop("ssl.truststore.location", None)
    if found.pop("ssl.truststore.password", None) is not None and trust_type == "PEM":
        warn(f"{where}: Kafka property 'ssl.truststore.password' has no effect here: PEM certificates are not locked")
    if trust is not None and trust_type != "PEM":
        raise OptionError(
            f"{where}: Kafka property 'ssl.truststore.location' is a Java trust store, which librdkafka"
            " can't read;"
            " write its certificates as PEM (keytool -exportcert -rfc) and set kafka.ssl.ca.location"
        )
    key_type = found.pop("ssl.keystore.type", "").strip().upper()
    store = found.get("ssl.keystore.location")
    if store is not None and key_type == "PEM":
        del found["ssl.keystore.location"]
        found.pop("ssl.keystore.password", None)
        # One PEM file holds both in Java; OpenSSL takes from it what it is asked for.
        found = {"ssl.certificate.location": store, "ssl.key.location": store} | found
    elif store is not None and key_type != "PKCS12" and not store.lower().endswith((".p12", ".pfx")):
        raise OptionError(
            f"{where}: Kafka property 'ssl.keystore.location' is a Java key store, which librdkafka can't"
            " read;"
            " convert it (keytool -importkeystore -deststoretype PKCS12) and set"
            " kafka.ssl.keystore.type=PKCS12, or"
            " set kafka.ssl.certificate.location and kafka.ssl.key.location to PEM files"
        )
    return found if trust is None else {"ssl.ca.location": trust} | found
