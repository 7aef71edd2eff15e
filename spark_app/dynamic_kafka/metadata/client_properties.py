"""The table of Kafka's client properties: names, values, and who may set each one.

Pure. Metadata, the parser of options and the makers of clients all read this one table, on driver and executors and in
the operator. Names and ranges are those of librdkafka 2.16 (`rd_kafka_conf_properties_show`, callbacks left out),
plus the names that only Java's client has and that this source treats in a special way.

A document comes from outside. It may not set properties that load code, run a command, fetch a URL, name a path outside
the cluster's secret folder or hold a credential, nor those that the source sets itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dynamic_kafka.metadata.property_model import ClientProperty, ValueRule

_document = ClientProperty
_options = partial(ClientProperty, set_by="options")
_nobody = partial(ClientProperty, set_by="nobody")
_java = partial(ClientProperty, set_by="options", java_only=True)

_number = ValueRule
_BOOL = ValueRule(words=("true", "false"))
_INT32_MAX = 2_147_483_647


def _words(*words: str) -> ValueRule:
    return ValueRule(words=words)


_MECHANISMS = _words("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
_CODE = "it loads code"
_URL = "it serves the fetching of a URL"
_BYTES = "keys and values arrive as bytes; convert them with DataFrame operations"
_COMMITS = "the source commits after each batch; see the option `commitOffsets`"
_PLANS = "the source plans and commits every offset itself"
_ASSIGNS = "the source assigns partitions itself"
_METRICS = "Java's metrics are not there"
_TLS = "OpenSSL negotiates it"
_TOKENS = "librdkafka renews tokens by itself"

_KERBEROS = ("keytab", "kinit.cmd", "min.time.before.relogin", "principal", "service.name")
_OAUTH = (
    "assertion.algorithm",
    "assertion.claim.aud",
    "assertion.claim.exp.seconds",
    "assertion.claim.iss",
    "assertion.claim.jti.include",
    "assertion.claim.nbf.seconds",
    "assertion.claim.sub",
    "assertion.file",
    "assertion.jwt.template.file",
    "assertion.private.key.file",
    "assertion.private.key.passphrase",
    "assertion.private.key.pem",
    "config",
    "extensions",
    "grant.type",
    "metadata.authentication.type",
    "method",
    "scope",
    "sub.claim.name",
    "token.endpoint.url",
)

PROPERTIES: tuple[ClientProperty, ...] = (
    # The client and its brokers
    _document("client.id"),
    _document("client.rack"),
    _document("group.id", consumer_only=True),
    _document("client.dns.lookup", values=_words("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    _document("broker.address.ttl", values=_number(0, 86_400_000)),
    _document("broker.address.family", values=_words("any", "v4", "v6")),
    _document("enable.metrics.push", values=_BOOL),
    _options("bootstrap.servers", second_names=("metadata.broker.list",), reason="it stands in `bootstrapServers`"),
    # Security, without credentials. GSSAPI is left out: librdkafka would run `kinit` through a shell.
    _document("security.protocol", values=_words("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    _document("sasl.mechanism", values=_MECHANISMS, second_names=("sasl.mechanisms",)),
    _document("sasl.username"),
    _document("ssl.ca.pem", java_name="ssl.truststore.certificates"),
    _document("ssl.certificate.pem", java_name="ssl.keystore.certificate.chain"),
    _document("ssl.cipher.suites"),
    _document("ssl.curves.list"),
    _document("ssl.sigalgs.list"),
    _document("ssl.endpoint.identification.algorithm", values=_words("none", "https")),
    _document("enable.ssl.certificate.verification", values=_BOOL),
    # Files and credentials
    _document("ssl.ca.location", is_path=True),
    _document("ssl.certificate.location", is_path=True),
    _document("ssl.crl.location", is_path=True),
    _document("ssl.key.location", is_path=True),
    _document("ssl.keystore.location", is_path=True),
    ClientProperty("sasl.password", set_by="secret folder"),
    ClientProperty("ssl.key.password", set_by="secret folder"),
    ClientProperty("ssl.key.pem", set_by="secret folder", java_name="ssl.keystore.key"),
    ClientProperty("ssl.keystore.password", set_by="secret folder"),
    # Fetching
    _document("isolation.level", values=_words("read_uncommitted", "read_committed"), consumer_only=True),
    _document("check.crcs", values=_BOOL, consumer_only=True),
    _document(
        "fetch.wait.max.ms",
        values=_number(0, 300_000),
        consumer_only=True,
        java_name="fetch.max.wait.ms",
        java_lowest=0,
    ),
    _document("fetch.queue.backoff.ms", values=_number(0, 300_000), consumer_only=True),
    _document("fetch.error.backoff.ms", values=_number(0, 300_000), consumer_only=True),
    _document("fetch.min.bytes", values=_number(1, 100_000_000), consumer_only=True, java_lowest=0),
    _document("fetch.max.bytes", values=_number(0, 2_147_483_135), consumer_only=True, java_lowest=0),
    _document(
        "max.partition.fetch.bytes",
        values=_number(1, 1_000_000_000),
        consumer_only=True,
        second_names=("fetch.message.max.bytes",),
        java_lowest=0,
    ),
    _document("message.max.bytes", values=_number(1000, 1_000_000_000)),
    _document("receive.message.max.bytes", values=_number(1000, _INT32_MAX)),
    _document("queued.min.messages", values=_number(1, 10_000_000), consumer_only=True),
    _document("queued.max.messages.kbytes", values=_number(1, 2_097_151), consumer_only=True),
    # Sockets, time-outs, retries
    _document("socket.timeout.ms", values=_number(10, 300_000), java_name="request.timeout.ms", java_lowest=0),
    _document("socket.send.buffer.bytes", values=_number(0, 100_000_000), java_name="send.buffer.bytes", java_lowest=0),
    _document(
        "socket.receive.buffer.bytes", values=_number(0, 100_000_000), java_name="receive.buffer.bytes", java_lowest=0
    ),
    _document("socket.keepalive.enable", values=_BOOL),
    _document("socket.nagle.disable", values=_BOOL),
    _document("socket.max.fails", values=_number(0, 1_000_000)),
    _document("socket.connection.setup.timeout.ms", values=_number(1000, _INT32_MAX), java_lowest=0),
    # A negative number means "never" in Java, as 0 does in librdkafka.
    _document("connections.max.idle.ms", values=_number(0, _INT32_MAX), java_lowest=-(2**63)),
    _document("reconnect.backoff.ms", values=_number(0, 3_600_000), java_lowest=0),
    _document("reconnect.backoff.max.ms", values=_number(0, 3_600_000), java_lowest=0),
    _document("retry.backoff.ms", values=_number(1, 300_000), java_lowest=0),
    _document("retry.backoff.max.ms", values=_number(1, 300_000), java_lowest=0),
    _document("api.version.request.timeout.ms", values=_number(1, 300_000)),
    _document("session.timeout.ms", values=_number(1, 3_600_000), consumer_only=True, java_lowest=0),
    _document("heartbeat.interval.ms", values=_number(1, 3_600_000), consumer_only=True),
    _document("max.poll.interval.ms", values=_number(1, 86_400_000), consumer_only=True, java_lowest=1),
    _document("coordinator.query.interval.ms", values=_number(1, 3_600_000), consumer_only=True),
    # The client's own view of the cluster
    _document("metadata.max.age.ms", values=_number(1, 86_400_000), java_lowest=0),
    _document("metadata.recovery.strategy", values=_words("none", "rebootstrap")),
    _document("metadata.recovery.rebootstrap.trigger.ms", values=_number(0, _INT32_MAX)),
    _document("topic.metadata.refresh.interval.ms", values=_number(-1, 3_600_000)),
    _document("topic.metadata.refresh.fast.interval.ms", values=_number(1, 60_000)),
    _document("topic.metadata.refresh.sparse", values=_BOOL),
    _document("topic.metadata.propagation.max.ms", values=_number(0, 3_600_000)),
    _document("log.connection.close", values=_BOOL),
    # Refused everywhere
    _nobody(
        "auto.offset.reset",
        consumer_only=True,
        reason="the source plans every offset itself, and a restart resumes where it stopped; set `startingOffsets`",
    ),
    _nobody("key.deserializer", java_only=True, reason=_BYTES),
    _nobody("value.deserializer", java_only=True, reason=_BYTES),
    _nobody("key.serializer", java_only=True, reason=_BYTES),
    _nobody("value.serializer", java_only=True, reason=_BYTES),
    _nobody("enable.auto.commit", consumer_only=True, reason=_COMMITS),
    _nobody("auto.commit.enable", consumer_only=True, reason=_COMMITS),
    _nobody("enable.auto.offset.store", consumer_only=True, reason=_PLANS),
    _nobody("enable.partition.eof", consumer_only=True, reason=_PLANS),
    _nobody("interceptor.classes", java_only=True, reason=_CODE),
    _nobody("interceptors", unlisted=True, reason=_CODE),
    _nobody("plugin.library.paths", unlisted=True, reason=_CODE),
    _nobody(
        "config.providers",
        java_only=True,
        reason="the source resolves ${file:…}, ${dir:…} and ${env:…} itself, without providers",
    ),
    # Accepted in options without effect
    _options(
        "max.poll.records",
        consumer_only=True,
        without_effect=True,
        reason="the source reads by size: `maxRecordsPerPartition`, `queued.max.messages.kbytes`, `fetch.max.bytes`",
    ),
    _options("allow.auto.create.topics", without_effect=True, reason="the source never creates topics"),
    _options("partition.assignment.strategy", consumer_only=True, without_effect=True, reason=_ASSIGNS),
    _options("group.instance.id", consumer_only=True, without_effect=True, reason=_ASSIGNS),
    _options("group.protocol", consumer_only=True, without_effect=True, reason=_ASSIGNS),
    _options("group.remote.assignor", consumer_only=True, without_effect=True, reason=_ASSIGNS),
    _java("default.api.timeout.ms", without_effect=True, reason="see `socket.timeout.ms`"),
    _java(
        "socket.connection.setup.timeout.max.ms", without_effect=True, reason="see `socket.connection.setup.timeout.ms`"
    ),
    _java("exclude.internal.topics", without_effect=True, reason="the source chooses the topics"),
    _java("metric.reporters", without_effect=True, reason=_METRICS),
    _java("metrics.num.samples", without_effect=True, reason=_METRICS),
    _java("metrics.recording.level", without_effect=True, reason=_METRICS),
    _java("metrics.sample.window.ms", without_effect=True, reason=_METRICS),
    _java("auto.include.jmx.reporter", without_effect=True, reason=_METRICS),
    _java("ssl.protocol", without_effect=True, reason=_TLS),
    _java("ssl.enabled.protocols", without_effect=True, reason=_TLS),
    _java("ssl.secure.random.implementation", without_effect=True, reason=_TLS),
    _java("ssl.keymanager.algorithm", without_effect=True, reason=_TLS),
    _java("ssl.trustmanager.algorithm", without_effect=True, reason=_TLS),
    _java("sasl.login.refresh.buffer.seconds", without_effect=True, reason=_TOKENS),
    _java("sasl.login.refresh.min.period.seconds", without_effect=True, reason=_TOKENS),
    _java("sasl.login.refresh.window.factor", without_effect=True, reason=_TOKENS),
    _java("sasl.login.refresh.window.jitter", without_effect=True, reason=_TOKENS),
    # Java's, which options translate or refuse
    _java("sasl.client.callback.handler.class", loads_java=True, reason=_CODE),
    _java("sasl.login.callback.handler.class", loads_java=True, reason=_CODE),
    _java("sasl.login.class", loads_java=True, reason=_CODE),
    _java("security.providers", loads_java=True, reason=_CODE),
    _java("ssl.engine.factory.class", loads_java=True, reason=_CODE),
    _java("ssl.provider", loads_java=True, reason=_CODE),
    _java(
        "sasl.jaas.config",
        reason="it is Java's and a credential; put `sasl.username`, `sasl.password` into the cluster's secret folder",
    ),
    _java("ssl.truststore.location", reason="it is Java's; write `ssl.ca.location`, a PEM file of the secret folder"),
    _java("ssl.truststore.password", reason="it is Java's; a PEM file named by `ssl.ca.location` needs none"),
    # librdkafka's, for options only
    _options("auto.commit.interval.ms", consumer_only=True, reason=_COMMITS),
    _options("ssl.engine.id", reason=_CODE),
    _options("ssl.engine.location", reason=_CODE),
    _options("ssl.providers", reason=_CODE),
    _options("https.ca.location", reason=_URL),
    _options("https.ca.pem", reason=_URL),
    _options("debug", reason="it fills the log of every executor; set the application's option `kafka.debug`"),
    _options("consume.callback.max.messages", consumer_only=True),
    _options("group.protocol.type", consumer_only=True),
    _options("offset.store.method", consumer_only=True),
    _options("offset.store.path", consumer_only=True),
    _options("offset.store.sync.interval.ms", consumer_only=True),
    _options("share.acknowledgement.mode", consumer_only=True),
    _options("max.in.flight.requests.per.connection", second_names=("max.in.flight",)),
    *map(
        _options,
        (
            "api.version.fallback.ms",
            "api.version.request",
            "broker.version.fallback",
            "enable.random.seed",
            "enable.sasl.oauthbearer.unsecure.jwt",
            "internal.termination.signal",
            "log.queue",
            "log.thread.name",
            "log_level",
            "message.copy.max.bytes",
            "reconnect.backoff.jitter.ms",
            "socket.blocking.max.ms",
            "ssl.ca.certificate.stores",
            "statistics.interval.ms",
            "topic.blacklist",
            "topic.metadata.refresh.fast.cnt",
        ),
    ),
    # GSSAPI and OAuth, which PREFIX_REASONS refuses in documents
    *map(_options, (f"sasl.kerberos.{name}" for name in _KERBEROS)),
    *map(_options, (f"sasl.oauthbearer.{name}" for name in _OAUTH)),
    _options("sasl.oauthbearer.client.id", second_names=("sasl.oauthbearer.client.credentials.client.id",)),
    _options("sasl.oauthbearer.client.secret", second_names=("sasl.oauthbearer.client.credentials.client.secret",)),
)

PREFIX_REASONS: Mapping[str, str] = {
    "sasl.kerberos.": "it runs a command (`kinit`, through a shell); Kerberos is for the application's own options",
    "sasl.oauthbearer.": "it fetches a URL or holds a credential; OAuth is for the application's own options",
}
"""The reasons for every name that begins so, known or not."""

BY_NAME: Mapping[str, ClientProperty] = {
    name: known for known in PROPERTIES for name in (known.name, *known.second_names)
}
"""Every property of the table by librdkafka's names, second names included, or by Java's if it is Java's alone."""

MAIN_NAMES: Mapping[str, str] = {
    other: known.name for known in PROPERTIES for other in (known.java_name, *known.second_names) if other is not None
}
"""Java's names and librdkafka's second names, each with the one name that this source uses."""
