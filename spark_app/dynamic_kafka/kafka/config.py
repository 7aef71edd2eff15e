"""Configurations of Kafka clients: the user's properties, the source's own, and resolved secrets, for one cluster.

Runs wherever a client is made, on driver and executors. A resolved configuration holds secrets: it stays in memory and
goes to the client only. A client whose configuration has another digest is replaced.

The caller passes a `logger` to the client that it makes: without one librdkafka writes to standard error.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes

from dynamic_kafka.errors import OptionError, SecretError, SecretWithheldError
from dynamic_kafka.kafka.secrets import file_identity, file_in_folder, read_secret_folder, resolve, secret_folder_path
from dynamic_kafka.metadata.client_properties import BY_NAME, MAIN_NAMES
from dynamic_kafka.metadata.properties import LOCATION_KEYS
from dynamic_kafka.metadata.server_list import foreign_servers
from dynamic_kafka.options.common_secrets import has_own_log_in, is_log_in, secret_names, shown, weakened
from dynamic_kafka.options.java_client_properties import translate_java, with_log_in
from dynamic_kafka.wording import first_few

_log = logging.getLogger(__name__)

_FIXED: Mapping[str, str] = {
    # An offset outside the log is an error: any other setting would skip or repeat records silently.
    "auto.offset.reset": "error",
    # Only this event ends a range whose last records are control records.
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
}
_DEFAULTS: Mapping[str, str] = {
    "isolation.level": "read_uncommitted",  # Java's default; librdkafka's is read_committed
    "check.crcs": "true",  # likewise
    "fetch.queue.backoff.ms": "2",  # with librdkafka's 1000 a run took 42 s instead of 9 s
    "fetch.wait.max.ms": "10",  # each new assignment of a cached consumer costs about this long
    "queued.max.messages.kbytes": "16384",  # bounds the memory of a worker, however large the backlog
    "queued.min.messages": "100000",
}
_SOCKETS: Mapping[str, str] = {
    "socket.keepalive.enable": "true",
    # Balancers and NAT drop idle connections in silence, those of clouds after 240 s or more. A request over such a
    # connection gets no answer.
    "connections.max.idle.ms": "180000",
}
_ALTERNATIVES = (
    frozenset(("ssl.ca.location", "ssl.ca.pem")),
    frozenset(("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")),
    frozenset(("ssl.key.location", "ssl.key.pem", "ssl.keystore.location")),
)
"""Groups of properties for one purpose. A cluster's own one replaces all common ones: librdkafka would use both."""

_CONSUMER_ONLY = frozenset(name for name, known in BY_NAME.items() if known.consumer_only)

# librdkafka's defaults. It refuses a `fetch.max.bytes` below the first and a `session.timeout.ms` above the second.
_MESSAGE_MAX_BYTES = 1_000_000
_MAX_POLL_INTERVAL_MS = 300_000

_DIGEST_KEY = token_bytes(32)
"""A key of this process, so that a digest in a log does not help to guess a password."""


@dataclass(frozen=True)
class ClusterClient:
    """The access to one cluster. Picklable; holds references to secrets, never secrets.

    Attributes:
        common: `SourceOptions.kafka_properties`, which may hold references.
        own: the cluster's own properties, with `bootstrap.servers`. They win over `common`. They hold no references,
            and their paths are bare names of files in the secret folder.
        secret_folder: the name of the cluster's folder under `secrets_root`. Its files win over `own`.
        group_id_prefix: the prefix of the generated group id.
        client_id_prefix: the prefix of the generated client id.
        allowed_servers: the servers that may get the secrets of `common`, beside those that `common` names itself.
    """

    cluster: str
    common: Mapping[str, str] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    secret_folder: str | None = None
    secrets_root: str = "/etc/kafkastreams-secrets"
    group_id_prefix: str | None = None
    client_id_prefix: str | None = None
    allowed_servers: str = ""

    @property
    def read_committed(self) -> bool:
        """Whether consumers read committed transactions only. End offsets need the same isolation."""
        level = merge(self.common, self.own).get("isolation.level", _DEFAULTS["isolation.level"])
        return level.lower() == "read_committed"

    def consumer_config(self) -> dict[str, str]:
        """Return the configuration of a consumer, with secrets resolved. Raises as `resolved_properties` does."""
        return consumer_config(self.cluster, self.resolved_properties(), group_id_prefix=self.group_id_prefix)

    def admin_config(self) -> dict[str, str]:
        """Return the configuration of an admin client, with secrets resolved. Raises as `resolved_properties` does."""
        return admin_config(self.cluster, self.resolved_properties())

    def resolved_properties(self) -> dict[str, str]:
        """Merge the common properties, the cluster's own and the secret folder's; the later win. Resolve secrets.

        Raises:
            SecretWithheldError: a secret would go to a server that is not allowed, or over a weaker connection.
            SecretError: a reference, the folder or a file in it can't be used. The message names it and the cluster.
            OptionError: a property is forbidden, contradicts another, or is Java's without an equivalent.
        """
        where = f"cluster '{self.cluster}'"
        # For a single cluster `own` repeats the servers of the options, which may hold references.
        own = {key: value for key, value in self.own.items() if self.common.get(key) != value}
        referring = next((key for key, value in own.items() if "${" in value), None)
        if referring is not None:
            raise SecretError(
                f"{where}: property '{referring}' of metadata holds a reference; name its `secretFolder` instead"
            )
        own = translate_java(own, where, warn=_warn_once)
        common = merge({}, self.common)
        named = self._resolved(common, "bootstrap.servers")
        servers = own.get("bootstrap.servers", named)
        if not servers:
            raise OptionError(
                f"{where} has no bootstrap.servers; put them into its metadata, or set kafka.bootstrap.servers"
            )
        brought = merge(self._own_paths(own), self._folder(own, servers))
        foreign = foreign_servers(servers, f"{named},{self.allowed_servers}")
        merged = merge(self._given(common, brought, foreign), brought)
        if self.client_id_prefix is not None:
            merged.setdefault("client.id", _client_id(self.cluster, self.client_id_prefix))
        return merged

    def _given(self, common: Mapping[str, str], brought: Mapping[str, str], foreign: list[str]) -> dict[str, str]:
        """Return the common properties that this cluster gets, with secrets resolved.

        A cluster with a complete log-in of its own gets no log-in of the options; if its servers are foreign, it gets
        no secret of the options at all. No other cluster may be foreign. Decision 019 has the reasons.

        Args:
            brought: the cluster's own properties and those of its secret folder.
            foreign: those of its servers that may not get the secrets.
        """
        where = f"cluster '{self.cluster}'"
        protocol = brought.get("security.protocol") or self._resolved(common, "security.protocol")
        own_log_in = has_own_log_in(protocol, brought)
        given = {key: value for key, value in common.items() if not (own_log_in and is_log_in(key))}
        secrets = set(secret_names(given)) & merge(given, brought).keys() - brought.keys()
        if secrets and foreign and not own_log_in:
            servers, names = first_few(foreign), shown(secrets)
            raise SecretWithheldError(
                f"{where}: metadata names the server {servers}, which may not get {names}: add it to allowedServers"
                " if it is yours, else check who set it"
            )
        if foreign:
            given = {key: value for key, value in given.items() if key not in secrets}
        resolved = with_log_in(resolve(given, cluster=self.cluster), where)
        weaker = sorted(weakened(resolved, brought)) if secrets and not foreign else []
        if weaker:
            weak, names = ", ".join(map(repr, weaker)), shown(secrets)
            raise SecretWithheldError(
                f"{where}: {weak} in metadata or secret folder may protect {names} less than the options do: take it"
                f" out there; set {shown(weaker)} only if that is meant"
            )
        return resolved

    def _resolved(self, common: Mapping[str, str], key: str) -> str:
        return resolve({key: common.get(key, "")}, cluster=self.cluster)[key]

    def _own_paths(self, own: Mapping[str, str]) -> dict[str, str]:
        return {key: self._own_path(key, value) if key in LOCATION_KEYS else value for key, value in own.items()}

    def _own_path(self, key: str, value: str) -> str:
        if self.secret_folder is None:
            raise SecretError(
                f"cluster '{self.cluster}': property '{key}' names a file; name its `secretFolder` in the metadata"
            )
        path = secret_folder_path(self.secrets_root, self.secret_folder, cluster=self.cluster)
        return file_in_folder(path, value, cluster=self.cluster)

    def _folder(self, own: Mapping[str, str], servers: str) -> dict[str, str]:
        if self.secret_folder is None:
            return {}
        located = {value.rsplit("/", 1)[-1] for key, value in own.items() if key in LOCATION_KEYS}
        return read_secret_folder(
            self.secrets_root, self.secret_folder, cluster=self.cluster, servers=servers, located=located
        )


def merge(common: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return common and own properties as one. This is the only rule of precedence: a cluster's own properties win.

    They win under any name of a property, and over alternatives to it (`ssl.ca.pem` over a common `ssl.ca.location`):
    librdkafka would use both.
    """
    winning = {MAIN_NAMES.get(key, key): value for key, value in own.items()}
    replaced = frozenset[str]().union(*(group for group in _ALTERNATIVES if group & winning.keys()))
    kept = {MAIN_NAMES.get(key, key): value for key, value in common.items()}
    return {key: value for key, value in kept.items() if key not in replaced} | winning


def consumer_config(
    cluster: str, properties: Mapping[str, str], *, group_id_prefix: str | None = None
) -> dict[str, str]:
    """Return a consumer's configuration: our defaults, then the resolved properties, then the settings we rely on.

    librdkafka requires a group id. If the user sets none, the consumer gets a generated one. Nothing is ever committed
    to it, because the source assigns partitions itself.
    """
    mark = hashlib.blake2b(cluster.encode(), digest_size=6).hexdigest()
    generated = {"group.id": f"{group_id_prefix or 'dynamic-kafka'}-{mark}", "client.id": _client_id(cluster)}
    return _with_fitting_partners({**_SOCKETS, **_DEFAULTS, **generated, **properties, **_FIXED})


def admin_config(cluster: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return an admin client's configuration, without consumers' properties, about which librdkafka would warn."""
    kept = {key: value for key, value in properties.items() if key not in _CONSUMER_ONLY}
    return {**_SOCKETS, "client.id": _client_id(cluster), **kept, "allow.auto.create.topics": "false"}


def producer_config(cluster: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of a producer for the application's own topics, which it must not create by itself.

    The brokers decide how large a record may be. Records are compressed unless the properties say otherwise: a record
    of a compressed topic would exceed the brokers' limit, and an offset document of many splits is half as large.
    """
    ours = {"message.max.bytes": "1000000000", "compression.type": "zstd"}
    return {**ours, **admin_config(cluster, properties), "enable.idempotence": "true"}


def config_digest(config: Mapping[str, object]) -> str:
    """Return a digest of a configuration and of the identity of the files that it names.

    The digest is keyed with a random key of this process, so digests of different processes cannot be compared.
    """
    hashed = hashlib.blake2b(key=_DIGEST_KEY, digest_size=16)
    for key in sorted(config):
        value = str(config[key])
        identity = file_identity(value) if key in LOCATION_KEYS else ""
        for part in (key, value, identity):
            hashed.update(len(part.encode()).to_bytes(8, "big"))
            hashed.update(part.encode())
    return hashed.hexdigest()


def _with_fitting_partners(config: dict[str, str]) -> dict[str, str]:
    """Adapt the partner of a setting where librdkafka refuses a pair that Java's client accepts."""
    fetch, session = config.get("fetch.max.bytes", ""), config.get("session.timeout.ms", "")
    fitted = dict(config)
    if fetch.isdecimal() and int(fetch) < _MESSAGE_MAX_BYTES:
        fitted.setdefault("message.max.bytes", fetch)
    if session.isdecimal() and int(session) > _MAX_POLL_INTERVAL_MS:
        fitted.setdefault("max.poll.interval.ms", session)
    return fitted


def _client_id(cluster: str, prefix: str = "dynamic-kafka") -> str:
    return f"{prefix}-" + re.sub(r"[^A-Za-z0-9._-]", "_", cluster)


@functools.lru_cache(maxsize=256)
def _warn_once(message: str) -> None:
    """Log a warning once, although every plan makes the configurations again."""
    _log.warning(message)
