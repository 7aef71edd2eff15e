"""Configurations of Kafka clients, one cluster at a time: what the user set, what the source needs, secrets
resolved.

Runs wherever a client is made, on driver and executors. A resolved configuration holds secrets: it stays in
memory, goes to the client and nowhere else. Its digest tells whether a client still has the configuration
that is wanted.

Whoever makes the client passes a `logger` to it: without one librdkafka writes to standard error.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes

from confluent_kafka import Consumer, KafkaException

from dynamic_kafka.errors import OptionError, SecretError
from dynamic_kafka.kafka.client_properties import CONSUMER_PROPERTIES, ONLY_CONSUMER_PROPERTIES
from dynamic_kafka.kafka.errors import client_creation_error
from dynamic_kafka.kafka.secrets import (
    file_identity,
    file_in_folder,
    read_secret_folder,
    resolve,
    secret_folder_path,
)
from dynamic_kafka.metadata.properties import LOCATION_KEYS
from dynamic_kafka.options.java_client import JAAS, RENAMED, translate_java, with_log_in
from dynamic_kafka.options.secrets import has_reference, is_secret_key

_log = logging.getLogger(__name__)

_FIXED: Mapping[str, str] = {
    # Past the end of what a broker has, an error: everything else would skip or repeat records silently.
    "auto.offset.reset": "error",
    # A range that ends in control records ends by this message alone.
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
}
_DEFAULTS: Mapping[str, str] = {
    "isolation.level": "read_uncommitted",  # Java's default; librdkafka's is read_committed
    "check.crcs": "true",  # likewise
    "fetch.queue.backoff.ms": "2",  # librdkafka's 1000 made a run of 9 s one of 42 s
    "fetch.wait.max.ms": "10",  # assigning a cached consumer anew costs about as long as this
    "queued.max.messages.kbytes": "16384",  # bounds a worker's memory whatever the backlog
    "queued.min.messages": "100000",
    "socket.keepalive.enable": "true",
}
_SAME_THING = (
    frozenset(("ssl.ca.location", "ssl.ca.pem")),
    frozenset(("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")),
    frozenset(("ssl.key.location", "ssl.key.pem", "ssl.keystore.location")),
)
"""Properties of which a cluster's own one replaces all the common ones: librdkafka would use both."""

# librdkafka's defaults of the two properties that another must not fall short of, or exceed.
_MESSAGE_MAX_BYTES = 1_000_000
_MAX_POLL_INTERVAL_MS = 300_000

_PROBE = "dynamic.kafka.probe"
_KEY = token_bytes(32)
"""Makes digests worthless outside this process, should one ever reach a log."""


@dataclass(frozen=True)
class ClusterClient:
    """How to reach one cluster. Picklable; holds references to secrets, never secrets.

    Attributes:
        cluster: the user's id of the cluster.
        common: `SourceOptions.kafka_properties`: may hold references.
        own: the cluster's own properties, with `bootstrap.servers`; win over `common`. No references, and
            paths are bare names of files in the secret folder.
        secret_folder: the name of the cluster's folder under `secrets_root`; its files win over `own`.
        group_id_prefix: begins the generated group id.
    """

    cluster: str
    common: Mapping[str, str] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    secret_folder: str | None = None
    secrets_root: str = "/etc/kafkastreams-secrets"
    group_id_prefix: str | None = None

    @property
    def read_committed(self) -> bool:
        """Whether only committed transactions are read; ends must be asked for with the same isolation."""
        level = merge(self.common, self.own).get("isolation.level", _DEFAULTS["isolation.level"])
        return level.lower() == "read_committed"

    def consumer_config(self) -> dict[str, str]:
        """The configuration of a consumer, secrets resolved.

        Raises:
            SecretError, OptionError: as `resolved_properties`.
        """
        return consumer_config(self.cluster, self.resolved_properties(), group_id_prefix=self.group_id_prefix)

    def admin_config(self) -> dict[str, str]:
        """The configuration of an admin client, secrets resolved.

        Raises:
            SecretError, OptionError: as `resolved_properties`.
        """
        return admin_config(self.cluster, self.resolved_properties())

    def resolved_properties(self) -> dict[str, str]:
        """Common and own properties and the secret folder's, each winning over those before, secrets
        resolved.

        Raises:
            SecretError: a reference, the folder or a file in it can't be used; names it and the cluster.
            OptionError: a property that is forbidden, contradictory, or Java's without an equivalent.
        """
        where = f"cluster '{self.cluster}'"
        # A single cluster's service hands the options' own servers back: they stay the application's.
        own = {key: value for key, value in self.own.items() if self.common.get(key) != value}
        referring = next((key for key, value in own.items() if "${" in value), None)
        if referring is not None:
            raise SecretError(
                f"{where}: property '{referring}' of metadata holds a reference; those are for the"
                " application's own"
                " options, metadata names the cluster's secret folder"
            )
        common = with_log_in(resolve(self.common, cluster=self.cluster), where)
        own = self._own_paths(translate_java(own, where, warn=_warn_once))
        resolved = merge(merge(common, own), self._folder(own))
        if not resolved.get("bootstrap.servers"):
            raise OptionError(
                f"{where} has no bootstrap.servers; put them into its metadata, or set kafka.bootstrap.servers"
            )
        return resolved

    @staticmethod
    def digest(config: Mapping[str, object]) -> str:
        """See `digest`."""
        return digest(config)

    def _own_paths(self, own: Mapping[str, str]) -> dict[str, str]:
        return {key: self._own_path(key, value) if key in LOCATION_KEYS else value for key, value in own.items()}

    def _own_path(self, key: str, value: str) -> str:
        if self.secret_folder is None:
            raise SecretError(
                f"cluster '{self.cluster}': property '{key}' names a file, but the cluster has no secret folder;"
                " name its `secretFolder` in the metadata, or take the property out"
            )
        path = secret_folder_path(self.secrets_root, self.secret_folder, cluster=self.cluster)
        return file_in_folder(path, value, cluster=self.cluster)

    def _folder(self, own: Mapping[str, str]) -> dict[str, str]:
        if self.secret_folder is None:
            return {}
        located = {value.rsplit("/", 1)[-1] for key, value in own.items() if key in LOCATION_KEYS}
        return read_secret_folder(self.secrets_root, self.secret_folder, cluster=self.cluster, located=located)


def merge(common: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The one rule about precedence: a cluster's own properties win over the source's common ones.

    They win under any of a property's names, and over other forms of the same thing (`ssl.ca.pem` over a
    common `ssl.ca.location`): librdkafka would use both.
    """
    winning = {RENAMED.get(key, key): value for key, value in own.items()}
    replaced = frozenset[str]().union(*(group for group in _SAME_THING if group & winning.keys()))
    kept = {RENAMED.get(key, key): value for key, value in common.items()}
    return {key: value for key, value in kept.items() if key not in replaced} | winning


def consumer_config(
    cluster: str, properties: Mapping[str, str], *, group_id_prefix: str | None = None
) -> dict[str, str]:
    """What a consumer is made with: the user's properties over our defaults, under what the source relies on.

    librdkafka makes no consumer without a group id. Without one of the user's it gets a generated one, which
    nothing
    is ever committed to: the source assigns partitions itself.

    Args:
        properties: merged and resolved.
    """
    mark = hashlib.blake2b(cluster.encode(), digest_size=6).hexdigest()
    generated = {
        "group.id": f"{group_id_prefix or 'dynamic-kafka'}-{mark}",
        "client.id": _client_id(cluster),
    }
    return _fitting({**_DEFAULTS, **generated, **properties, **_FIXED})


def admin_config(cluster: str, properties: Mapping[str, str]) -> dict[str, str]:
    """What an admin client is made with: without what only a consumer has, and librdkafka warns about."""
    kept = {key: value for key, value in properties.items() if key not in ONLY_CONSUMER_PROPERTIES}
    defaults = {"socket.keepalive.enable": "true", "client.id": _client_id(cluster)}
    return {**defaults, **kept, "allow.auto.create.topics": "false"}


def digest(config: Mapping[str, object]) -> str:
    """Tells configurations apart, the files they name included: another digest, another client.

    Keyed with a random key of this process: of no use to anybody who finds it, and not comparable between
    processes.
    """
    hashed = hashlib.blake2b(key=_KEY, digest_size=16)
    for key in sorted(config):
        value = str(config[key])
        identity = file_identity(value) if key in LOCATION_KEYS else ""
        for part in (key, value, identity):
            hashed.update(len(part.encode()).to_bytes(8, "big"))
            hashed.update(part.encode())
    return hashed.hexdigest()


def check_client_properties(properties: Mapping[str, str], *, where: str = "options") -> None:
    """Let librdkafka itself judge names and values, without a cluster and without making a client.

    A last property that it can't know makes it stop before a client is made, so each check costs some 15 µs.

    Args:
        properties: librdkafka's names. References are not resolved: of properties that hold one, only the
            name counts.

    Raises:
        OptionError: a property it does not know, naming the nearest one, or a value it does not take.
    """
    for key, value in properties.items():
        if key != JAAS:
            _check_client_property(key, value, where)


def check_client(cluster: str, config: Mapping[str, str]) -> None:
    """Make a client, without servers, as the application will: certificates and keys are read, nobody is asked.

    Raises:
        ClusterRefusedError: that cannot be done.
    """
    alone = {key: value for key, value in config.items() if key != "bootstrap.servers"}
    try:
        Consumer({"group.id": "unused", **alone}, logger=_log)
    except KafkaException as raised:
        raise client_creation_error(cluster, raised) from None


def _check_client_property(key: str, value: str, where: str) -> None:
    try:
        Consumer({"group.id": "unused", key: value, _PROBE: ""})
        return
    except (KafkaException, TypeError, ValueError, AttributeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else ""
    if _PROBE in reason:
        return
    if reason.startswith("No such configuration property") or not reason or "dedicated" in reason:
        near = difflib.get_close_matches(key, sorted(CONSUMER_PROPERTIES), n=1, cutoff=0.6)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise OptionError(f"{where}: the Kafka client has no property '{key}'{hint}")
    if not has_reference(value):
        # librdkafka's own words may hold the value.
        told = "the value is not accepted" if is_secret_key(key) else re.sub(r"\s+", " ", reason).strip()
        raise OptionError(f"{where}: Kafka property '{key}' is refused by the client: {told}")


def _fitting(config: dict[str, str]) -> dict[str, str]:
    """Let the partner of a setting follow it, where librdkafka refuses a pair that Java's client takes."""
    fetch, session = config.get("fetch.max.bytes", ""), config.get("session.timeout.ms", "")
    fitted = dict(config)
    if fetch.isdecimal() and int(fetch) < _MESSAGE_MAX_BYTES:
        fitted.setdefault("message.max.bytes", fetch)
    if session.isdecimal() and int(session) > _MAX_POLL_INTERVAL_MS:
        fitted.setdefault("max.poll.interval.ms", session)
    return fitted


def _client_id(cluster: str) -> str:
    return "dynamic-kafka-" + re.sub(r"[^A-Za-z0-9._-]", "_", cluster)


@functools.lru_cache(maxsize=256)
def _warn_once(message: str) -> None:
    """Configurations are made again at every plan; one word about a property is enough."""
    _log.warning(message)
