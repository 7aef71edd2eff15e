"""Which Kafka client properties a document from outside may set. Driver, executors and operator; pure.

An allowlist, derived from librdkafka 2.16's `CONFIGURATION.md` (names, ranges, enumerations): nothing in it
loads code, runs a command, fetches a URL, or names a path outside the cluster's own secret folder, and
nothing belongs to the source itself. Credentials never stand in a document: they are files of the secret
folder, named as the property (`SECRET_FILE_KEYS`). The application's own `kafka.*` options are not bound by
this list.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

_INT32 = 2_147_483_647


@dataclass(frozen=True)
class ValueRule:
    """What values a property takes: a whole number in a range, one of some words, or any text."""

    low: int = 0
    high: int = -1
    words: tuple[str, ...] = ()

    def problem(self, value: str) -> str | None:
        """What is wrong with `value`, which is shown: none of the properties with such a rule is secret."""
        if self.words:
            if value.lower() in self.words:
                return None
            return f"{value[:40]!r} is not one of {', '.join(self.words)}"
        if self.low <= self.high:
            if re.fullmatch(r"-?[0-9]{1,10}", value) and self.low <= int(value) <= self.high:
                return None
            return f"{value[:40]!r} is not a whole number from {self.low} to {self.high}"
        return None


def _words(*words: str) -> ValueRule:
    return ValueRule(words=words)


_TEXT = ValueRule()
_BOOL = _words("true", "false")

_ALLOWED: dict[str, ValueRule] = {
    # Who and where
    "client.id": _TEXT,
    "client.rack": _TEXT,
    "group.id": _TEXT,
    "client.dns.lookup": _words("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "broker.address.ttl": ValueRule(0, 86_400_000),
    "broker.address.family": _words("any", "v4", "v6"),
    "enable.metrics.push": _BOOL,
    # Security, without credentials. GSSAPI is left out: librdkafka would run `kinit` through a shell.
    "security.protocol": _words("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "sasl.mechanism": _words("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"),
    "sasl.mechanisms": _words("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"),
    "sasl.username": _TEXT,
    "ssl.ca.pem": _TEXT,
    "ssl.certificate.pem": _TEXT,
    "ssl.cipher.suites": _TEXT,
    "ssl.curves.list": _TEXT,
    "ssl.sigalgs.list": _TEXT,
    "ssl.endpoint.identification.algorithm": _words("none", "https"),
    "enable.ssl.certificate.verification": _BOOL,
    # Fetching
    "isolation.level": _words("read_uncommitted", "read_committed"),
    "check.crcs": _BOOL,
    "fetch.wait.max.ms": ValueRule(0, 300_000),
    "fetch.queue.backoff.ms": ValueRule(0, 300_000),
    "fetch.error.backoff.ms": ValueRule(0, 300_000),
    "fetch.min.bytes": ValueRule(1, 100_000_000),
    "fetch.max.bytes": ValueRule(0, 2_147_483_135),
    "fetch.message.max.bytes": ValueRule(1, 1_000_000_000),
    "max.partition.fetch.bytes": ValueRule(1, 1_000_000_000),
    "message.max.bytes": ValueRule(1000, 1_000_000_000),
    "receive.message.max.bytes": ValueRule(1000, _INT32),
    "queued.min.messages": ValueRule(1, 10_000_000),
    "queued.max.messages.kbytes": ValueRule(1, 2_097_151),
    # Sockets, time-outs, retries
    "socket.timeout.ms": ValueRule(10, 300_000),
    "socket.send.buffer.bytes": ValueRule(0, 100_000_000),
    "socket.receive.buffer.bytes": ValueRule(0, 100_000_000),
    "socket.keepalive.enable": _BOOL,
    "socket.nagle.disable": _BOOL,
    "socket.max.fails": ValueRule(0, 1_000_000),
    "socket.connection.setup.timeout.ms": ValueRule(1000, _INT32),
    "connections.max.idle.ms": ValueRule(0, _INT32),
    "reconnect.backoff.ms": ValueRule(0, 3_600_000),
    "reconnect.backoff.max.ms": ValueRule(0, 3_600_000),
    "retry.backoff.ms": ValueRule(1, 300_000),
    "retry.backoff.max.ms": ValueRule(1, 300_000),
    "api.version.request.timeout.ms": ValueRule(1, 300_000),
    "session.timeout.ms": ValueRule(1, 3_600_000),
    "heartbeat.interval.ms": ValueRule(1, 3_600_000),
    "max.poll.interval.ms": ValueRule(1, 86_400_000),
    "coordinator.query.interval.ms": ValueRule(1, 3_600_000),
    # The client's own view of the cluster
    "metadata.max.age.ms": ValueRule(1, 86_400_000),
    "metadata.recovery.strategy": _words("none", "rebootstrap"),
    "metadata.recovery.rebootstrap.trigger.ms": ValueRule(0, _INT32),
    "topic.metadata.refresh.interval.ms": ValueRule(-1, 3_600_000),
    "topic.metadata.refresh.fast.interval.ms": ValueRule(1, 60_000),
    "topic.metadata.refresh.sparse": _BOOL,
    "topic.metadata.propagation.max.ms": ValueRule(0, 3_600_000),
    "log.connection.close": _BOOL,
}

LOCATION_KEYS = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)
"""Paths: in a document the bare name of a file in the cluster's secret folder."""

CREDENTIAL_KEYS = frozenset(
    {"sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password"},
)
"""Secret values: files of the secret folder, never text in a document."""

ALLOWED_KEYS = frozenset(_ALLOWED) | LOCATION_KEYS
"""Everything a document may set under `properties`."""

SECRET_FILE_KEYS = ALLOWED_KEYS | CREDENTIAL_KEYS
"""File names of a secret folder that are properties. Other files may lie there for a `*.location` to name."""

_REASONS: dict[str, str] = {
    "bootstrap.servers": "stands in `bootstrapServers`",
    "metadata.broker.list": "stands in `bootstrapServers`",
    "plugin.library.paths": "loads code",
    "ssl.engine.location": "loads code",
    "ssl.engine.id": "loads code",
    "ssl.providers": "loads code",
    "interceptors": "loads code",
    "enable.auto.commit": "is the source's own: it commits after each batch (option `commitOffsets`)",
    "auto.commit.interval.ms": "is the source's own: it commits after each batch (option `commitOffsets`)",
    "enable.auto.offset.store": "is the source's own: it commits after each batch (option `commitOffsets`)",
    "auto.offset.reset": "is the source's own: write `startingOffsets`",
    "enable.partition.eof": "is the source's own: it reads ranges of its own planning",
    "allow.auto.create.topics": "is the source's own: it never creates topics",
    "key.deserializer": "is Java's: keys and values arrive as bytes",
    "value.deserializer": "is Java's: keys and values arrive as bytes",
    "interceptor.classes": "is Java's, and loads code",
    "sasl.jaas.config": "is Java's, and holds a credential: write `sasl.username` and `sasl.password` as "
    "files of the "
    "cluster's secret folder",
    "sasl.login.callback.handler.class": "is Java's, and loads code",
    "sasl.client.callback.handler.class": "is Java's, and loads code",
    "ssl.truststore.location": "is Java's: write `ssl.ca.location`, a PEM file of the secret folder",
    "ssl.truststore.password": "is Java's: a PEM file named by `ssl.ca.location` needs none",
    "max.poll.records": "is Java's: use the option `maxRecordsPerPartition`",
    "debug": "fills the log of every executor: set it as the application's option `kafka.debug`",
    "https.ca.location": "serves the fetching of a URL",
    "https.ca.pem": "serves the fetching of a URL",
}
"""Why some names are refused, where a nearest name would mislead. Prefixes follow in `_PREFIXES`."""

_PREFIXES: tuple[tuple[str, str], ...] = (
    (
        "sasl.kerberos.",
        "runs a command (`kinit`, through a shell): Kerberos is for the application's own options",
    ),
    (
        "sasl.oauthbearer.",
        "fetches a URL or holds a credential: OAuth is set up in the application's own options",
    ),
)


def check_properties(properties: Mapping[str, str], *, where: str, secret_folder: str | None = None) -> list[str]:
    """Every reason to refuse `properties` in a document from outside, each as `where.key: what; what to do`.

    `where` says whose properties they are; `secret_folder` is the cluster's, if it has one. Values that may
    be secret are never shown.
    """
    found = ((key, property_problem(key, value, secret_folder=secret_folder)) for key, value in properties.items())
    return [f"{where}.{key}: {problem}" for key, problem in found if problem]


def property_problem(key: str, value: str, *, secret_folder: str | None) -> str | None:
    """Why one property of a document is refused, and what to do; None if it is fine."""
    if key in CREDENTIAL_KEYS:
        return (
            "a credential cannot stand in metadata; put it into a file of this name in the cluster's "
            "secret folder, "
            "and name that by `secretFolder`"
        )
    if key not in ALLOWED_KEYS:
        return _refusal(key)
    if "${" in value:
        return "references such as ${file:…} are for the application's own options; use `secretFolder`"
    if key in LOCATION_KEYS and secret_folder is None:
        return "names a file of the secret folder, but the cluster has no `secretFolder`"
    return _value_problem(key, value)


def secret_file_problem(key: str, value: str) -> str | None:
    """Why the file `key` of a secret folder, holding `value`, is refused as a property; never shows the
    value."""
    if key not in SECRET_FILE_KEYS:
        return _refusal(key)
    if key in CREDENTIAL_KEYS:
        return None if value else "is empty"
    return "does not hold a value that this property takes" if _value_problem(key, value) else None


def rule_of(key: str) -> ValueRule:
    """What values the property `key` takes; any text for one that is not in the list."""
    return _ALLOWED.get(key, _TEXT)


def is_plain_name(name: str) -> bool:
    """Whether `name` is one step of a path that stays where it is: no slash, no `.`/`..`, no hidden control
    character."""
    return bool(re.fullmatch(r"[^/\\\x00-\x1f\x7f]{1,253}", name)) and name.strip(".") != ""


def nearest(name: str, known: frozenset[str] | set[str] | list[str], *, count: int = 1) -> list[str]:
    """The `known` names most like `name`, best first; letter case and the kind of separator weigh nothing."""

    def plain(text: str) -> str:
        return re.sub(r"[._\s-]", "", text).lower()

    by_plain = {plain(each): each for each in sorted(known)}
    return [by_plain[each] for each in difflib.get_close_matches(plain(name), by_plain, n=count, cutoff=0.6)]


def _value_problem(key: str, value: str) -> str | None:
    if key in LOCATION_KEYS:
        if is_plain_name(value):
            return None
        return "must be the bare name of a file in the cluster's secret folder, without any `/`"
    if "\x00" in value or not value:
        return "has no value; leave the property out"
    if key.endswith(".pem") and "PRIVATE KEY" in value:
        return "holds a private key; put that into the file `ssl.key.pem` of the cluster's secret folder"
    return rule_of(key).problem(value)


def _refusal(key: str) -> str:
    reason = _REASONS.get(key)
    if reason is None:
        reason = next((why for prefix, why in _PREFIXES if key.startswith(prefix)), None)
    if reason is None and key.endswith("_cb"):
        reason = "is a callback, not a setting"
    if reason is not None:
        return f"not allowed in metadata: it {reason}"
    close = nearest(key, ALLOWED_KEYS | CREDENTIAL_KEYS)
    hint = f"did you mean {close[0]!r}?" if close else "see the documentation of metadata properties"
    return f"not among the properties that metadata may set; {hint}"
