"""The translation of client properties from Java's client, which Spark users have, to librdkafka.

Most names are the same; `metadata.client_properties` lists the others. Some have another name. Some have no effect here
and are dropped with a warning. Some load Java classes or name Java's key stores; they are refused with the equivalent.
Everything that Spark's Kafka source forbids (KafkaSourceProvider.validateGeneralOptions) is forbidden here too.
Pure; runs when options are parsed and when a client is made. Messages never hold a value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.client_properties import BY_NAME, MAIN_NAMES
from dynamic_kafka.options.jaas import SECRET_ENTRIES, log_in_properties, parse_jaas
from dynamic_kafka.options.secrets import check_no_literal_secret, is_reference_only, literal_secret

_log = logging.getLogger(__name__)

JAAS = "sasl.jaas.config"

_SESSION_TIMEOUT_MS = "45000"
"""librdkafka's default of `session.timeout.ms`."""

_OAUTH_HANDLER = "OAuthBearerLoginCallbackHandler"


def check_no_literal_secrets(properties: Mapping[str, str]) -> None:
    """Refuse literal secrets among client properties that options set, in a JAAS text too.

    Raises:
        OptionError: names the option and the reference forms, never the value.
    """
    for key, value in properties.items():
        if key != JAAS:
            check_no_literal_secret(key, value, shown_as=f"kafka.{key}")
        elif not is_reference_only(value):
            entries = parse_jaas(value, where=f"option 'kafka.{JAAS}'").entries
            for entry in entries.keys() & SECRET_ENTRIES:
                if not is_reference_only(entries[entry]):
                    raise literal_secret(f"kafka.{JAAS}")


def translate_java(
    properties: Mapping[str, str], where: str, *, warn: Callable[[str], None] = _log.warning, fit: bool = False
) -> dict[str, str]:
    """Return client properties under librdkafka's names. Names that both clients share are kept.

    A JAAS text that is a reference as a whole is kept: the maker of a client translates it after resolving it.

    Args:
        where: begins each message, such as "options" or "cluster 'east'".
        warn: gets one sentence for each property that is dropped or changed.
        fit: whether a number that Java's client accepts and librdkafka refuses becomes the nearest accepted one.

    Raises:
        OptionError: a forbidden property, a Java class, a JKS store, or two names of a property with different values.
    """
    translated: dict[str, str] = {}
    written_as: dict[str, str] = {}
    for key, value in _with_native_stores(properties, where, warn).items():
        known = BY_NAME.get(key)
        if known is not None and known.set_by == "nobody":
            raise OptionError(f"{where}: Kafka property '{key}' is not supported: {known.reason}")
        if known is not None and known.loads_java:
            _refuse_java_class(key, value, where)
        elif known is not None and known.without_effect:
            warn(f"{where}: Kafka property '{key}' has no effect here: {known.reason}")
        else:
            name = MAIN_NAMES.get(key, key)
            native = _native_value(name, value)
            if fit and (fitted := _fitted(name, native)) != native:
                warn(f"{where}: Kafka property '{key}' is outside the range of the client here; {fitted} is used")
                native = fitted
            if translated.get(name, native) != native:
                raise OptionError(
                    f"{where}: Kafka properties '{written_as[name]}' and '{key}' mean the same and have different"
                    " values; keep one of them"
                )
            translated[name], written_as[name] = native, key
    if fit:
        _fit_session(translated, where, warn)
    return with_log_in(translated, where)


def with_log_in(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the properties with a JAAS text translated into librdkafka's log-in, unless the text is a reference.

    Raises:
        OptionError: the text does not parse, has no equivalent, or contradicts another property.
    """
    text = properties.get(JAAS)
    if text is None or is_reference_only(text):
        return dict(properties)
    at = f"{where}: property '{JAAS}'"
    log_in = log_in_properties(parse_jaas(text, where=at), properties.get("sasl.mechanism"), where=at)
    rest = {key: value for key, value in properties.items() if key != JAAS}
    double = next((key for key, value in log_in.items() if rest.get(key, value) != value), None)
    if double is not None:
        raise OptionError(f"{where}: '{JAAS}' and '{double}' have different values; keep one of them")
    return rest | log_in


def _refuse_java_class(key: str, value: str, where: str) -> None:
    # Java's own handler for client secrets needs no class here: librdkafka does the same by itself.
    if key == "sasl.login.callback.handler.class" and value.rsplit(".", 1)[-1] == _OAUTH_HANDLER:
        return
    raise OptionError(f"{where}: Kafka property '{key}' loads Java code, and there is no Java client here; take it out")


def _native_value(name: str, value: str) -> str:
    # In Java -1 means "the system's default", and an empty text means "no check of the host name".
    if name.startswith("socket.") and name.endswith(".buffer.bytes") and value.strip() == "-1":
        return "0"
    if name == "ssl.endpoint.identification.algorithm" and not value.strip():
        return "none"
    return value


def _fitted(name: str, value: str) -> str:
    known = BY_NAME.get(name)
    if known is None or known.java_lowest is None or not re.fullmatch(r"-?[0-9]{1,19}", value.strip()):
        return value
    if not known.java_lowest <= int(value) < 2**63:
        return value
    # librdkafka refuses a fetch smaller than a message, and 1000 is the smallest `message.max.bytes`.
    low = 1000 if name == "fetch.max.bytes" else known.values.low
    fitted = min(max(int(value), low), known.values.high)
    return value if fitted == int(value) else str(fitted)


def _fit_session(properties: dict[str, str], where: str, warn: Callable[[str], None]) -> None:
    # librdkafka refuses a session longer than `max.poll.interval.ms`. Neither has an effect here: the source assigns
    # partitions itself.
    poll = properties.get("max.poll.interval.ms", "")
    session = properties.get("session.timeout.ms", _SESSION_TIMEOUT_MS)
    if not (poll.isdecimal() and session.isdecimal() and int(poll) < int(session)):
        return
    if "session.timeout.ms" in properties:
        warn(f"{where}: Kafka property 'session.timeout.ms' is longer than 'max.poll.interval.ms'; {poll} is used")
    properties["session.timeout.ms"] = poll


def _with_native_stores(properties: Mapping[str, str], where: str, warn: Callable[[str], None]) -> dict[str, str]:
    """Translate Java's key and trust stores into librdkafka's files, where the type allows it."""
    native = dict(properties)
    trust_type = native.pop("ssl.truststore.type", "").strip().upper()
    trust = native.pop("ssl.truststore.location", None)
    if native.pop("ssl.truststore.password", None) is not None and trust_type == "PEM":
        warn(f"{where}: Kafka property 'ssl.truststore.password' has no effect here: PEM certificates are not locked")
    if trust is not None and trust_type != "PEM":
        raise OptionError(
            f"{where}: Kafka property 'ssl.truststore.location' is a Java trust store, which librdkafka can't"
            " read; write its certificates as PEM (keytool -exportcert -rfc) and set kafka.ssl.ca.location"
        )
    key_type = native.pop("ssl.keystore.type", "").strip().upper()
    store = native.get("ssl.keystore.location")
    if store is not None and key_type == "PEM":
        del native["ssl.keystore.location"]
        native.pop("ssl.keystore.password", None)
        # In Java one PEM file holds both. OpenSSL reads the certificate and the key from the same file.
        native = {"ssl.certificate.location": store, "ssl.key.location": store} | native
    elif store is not None and key_type != "PKCS12" and not store.lower().endswith((".p12", ".pfx")):
        raise OptionError(
            f"{where}: Kafka property 'ssl.keystore.location' is a Java key store, which librdkafka can't"
            " read; convert it (keytool -importkeystore -deststoretype PKCS12) and set kafka.ssl.keystore.type=PKCS12"
        )
    return native if trust is None else {"ssl.ca.location": trust} | native
