"""The secrets among the Kafka properties of the options, and the clusters that may get them. Pure.

The parser refuses a start at which they could go anywhere. Where a client is made, on driver and executors,
`kafka.config` asks here for each cluster. Decision 019 has the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dynamic_kafka.metadata.client_properties import BY_NAME
from dynamic_kafka.metadata.property_model import ValueRule
from dynamic_kafka.options.secrets import has_reference, is_secret_key
from dynamic_kafka.wording import first_few

_USER_AND_PASSWORD = frozenset(("sasl.username", "sasl.password"))
_PRIVATE_KEYS = frozenset(("ssl.key.location", "ssl.key.pem", "ssl.keystore.location"))
_CERTIFICATES = frozenset(("ssl.certificate.location", "ssl.certificate.pem"))
_OF_A_LOG_IN = _USER_AND_PASSWORD | _PRIVATE_KEYS | _CERTIFICATES | {"ssl.key.password", "ssl.keystore.password"}
"""Properties that a cluster may set to its own values: they choose a log-in and weaken no connection."""

_STRONGEST = {
    "enable.ssl.certificate.verification": "true",
    "ssl.endpoint.identification.algorithm": "https",
    "client.dns.lookup": "use_all_dns_ips",  # the other one checks certificates against names that DNS returns
}
_MECHANISMS = {"PLAIN": 0, "SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_PROTECTING = ("ssl.", "sasl.", "https.", "enable.ssl.", "enable.sasl.")


def secret_names(properties: Mapping[str, str]) -> list[str]:
    """Return the names of the properties that are secret, or part of a log-in.

    These are `sasl.*` without the mechanism, client certificates and keys, and each other free text with a reference.
    Authorities are public.
    """
    return [key for key, value in properties.items() if _is_secret(key, value)]


def is_log_in(name: str) -> bool:
    """Return whether a property is part of a SASL log-in. The mechanism is not: others may share it."""
    return name.startswith("sasl.") and name != "sasl.mechanism"


def shown(names: Iterable[str]) -> str:
    """Return names of properties as the options have them, for a message."""
    return first_few([f"kafka.{name}" for name in sorted(names)], 4)


def has_own_log_in(protocol: str, brought: Mapping[str, str]) -> bool:
    """Return whether a cluster brings a complete log-in: user and password with SASL, else a private key."""
    if "sasl" in protocol.lower():
        return brought.keys() >= _USER_AND_PASSWORD
    return not brought.keys().isdisjoint(_PRIVATE_KEYS)


def weakened(common: Mapping[str, str], brought: Mapping[str, str]) -> Iterator[str]:
    """Yield the properties that protect secrets less than the options do, or that cannot be compared.

    Args:
        common: the resolved properties of the options, under librdkafka's names.
        brought: the cluster's own properties and those of its secret folder.
    """
    for key, value in brought.items():
        before = common.get(key)
        if value == before or key in _OF_A_LOG_IN:
            continue
        if key == "security.protocol":
            weaker = _is_weaker_protocol((before or "plaintext").lower(), value.lower())
        elif key == "sasl.mechanism":
            own = brought.keys() >= _USER_AND_PASSWORD
            weaker = not own and _is_weaker_mechanism(before, value.upper())
        elif key in _STRONGEST:
            weaker = value.lower() != _STRONGEST[key]
        else:
            weaker = key.startswith(_PROTECTING)
        if weaker:
            yield key


def _is_secret(key: str, value: str) -> bool:
    if is_secret_key(key) or is_log_in(key) or key in _OF_A_LOG_IN:
        return True
    known = BY_NAME.get(key)
    enumerated = known is not None and known.values != ValueRule()
    of_connection = key == "bootstrap.servers" or key.startswith(_PROTECTING)
    return has_reference(value) and not enumerated and not of_connection


def _is_weaker_protocol(before: str, now: str) -> bool:
    # Nothing is sent over `plaintext`, so metadata that adds SASL to it has to add TLS, too.
    lost_tls = not now.endswith("ssl") and before != "sasl_plaintext"
    lost_sasl = before.startswith("sasl") and not now.startswith("sasl")
    return now != before and (lost_tls or lost_sasl)


def _is_weaker_mechanism(before: str | None, now: str) -> bool:
    if before is None:
        # PLAIN sends the password itself, so metadata may not choose it where the options choose nothing.
        return not now.startswith("SCRAM-")
    known = before.upper() in _MECHANISMS and now in _MECHANISMS
    return now != before.upper() and not (known and _MECHANISMS[now] > _MECHANISMS[before.upper()])
