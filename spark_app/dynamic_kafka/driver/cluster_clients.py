"""The driver's connections: one probe per cluster that metadata names.

Driver; owned by the observer, by the lag prober and by the tools. A probe is keyed by the digest of its resolved
properties: after a rotated Secret, a changed server list or a changed option, the next plan uses a new one. Probes of
removed clusters are closed in the background, so that servers that hang delay nothing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping

from dynamic_kafka.driver.home_servers import own_servers_client
from dynamic_kafka.errors import ClusterUnreachableError, DynamicKafkaError, MissingSourceTopicError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient, admin_config, config_digest, consumer_config
from dynamic_kafka.kafka.config_checks import check_client
from dynamic_kafka.kafka.probe import ClusterProbe, ObservationRequest, collect_observations
from dynamic_kafka.kafka.retries import LONGEST_CALL_S
from dynamic_kafka.metadata.services.service import StaticMetadataService
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.observation import ClusterObservation

log = logging.getLogger(__name__)


def client_of(options: SourceOptions, subscription: Subscription, cluster: str) -> ClusterClient:
    """Return the client of a subscribed cluster: its own properties over the common ones, secrets by reference."""
    named = subscription.clusters[cluster]
    return ClusterClient(
        cluster=cluster,
        common=options.kafka_properties,
        own=named.properties,
        secrets_root=options.secrets_root,
        secret_folder=named.secret_folder,
        group_id_prefix=options.group_id_prefix,
        client_id_prefix=options.client_id_prefix,
        allowed_servers=_allowed_servers(options),
    )


def _allowed_servers(options: SourceOptions) -> str:
    # The servers of a document within the options are named by the options, those of a user's subscriber are not.
    own = _servers_of(options.metadata_document or "") if options.service == "static" else ""
    return ",".join(filter(None, (options.allowed_servers, own)))


@functools.lru_cache(maxsize=8)
def _servers_of(document: str) -> str:
    streams = StaticMetadataService(document).get_all_streams()
    return ",".join(sorted({cluster.bootstrap_servers for stream in streams for cluster in stream.clusters.values()}))


def request_of(
    options: SourceOptions,
    subscription: Subscription,
    cluster: str,
    *,
    earliest: bool = False,
    describe: bool = True,
    high: frozenset[str] = frozenset(),
    idle: bool = False,
) -> ObservationRequest:
    """Return the request to a subscribed cluster: its topics, or their assigned partitions."""
    assigned = options.single.assign if options.single else None
    named = subscription.clusters[cluster]
    # Every plan checks these topics. Nothing that executors have found in one topic may hold for another one.
    finds = options.record_evaluator is not None or options.timestamp_assigner is not None
    checked = options.topic_integrity_check or named.topic_ids or finds
    topics = tuple(sorted(named.topics))
    return ObservationRequest(
        topics, assigned, earliest=earliest, describe=describe, high=high, idle=idle and not checked
    )


def observe_all(
    options: SourceOptions, subscription: Subscription, *, earliest: bool = False, timeout_s: float | None = None
) -> dict[str, ClusterObservation]:
    """Ask all clusters of a subscription once, with clients of their own; return the answers.

    Args:
        timeout_s: seconds to wait for all; None waits until each has answered or failed.

    Raises:
        MissingSourceTopicError: a topic that metadata names does not exist.
        ClusterError: a cluster does not answer in time, or refuses.
    """
    probes = ClusterProbes(options)
    try:
        made, broken = probes.for_subscription(subscription)
        pending = {
            cluster: probe.observe(functools.partial(request_of, options, subscription, cluster, earliest=earliest))
            for cluster, probe in made.items()
        }
        answers, failures = collect_observations(pending, timeout_s=timeout_s)
    finally:
        probes.close()
    for cluster, named in subscription.clusters.items():
        if cluster in answers:
            refuse_missing(subscription, cluster, answers[cluster])
        else:
            servers = named.bootstrap_servers
            late = ClusterUnreachableError(
                cluster,
                f"no answer within {timeout_s or 0:g} s from {servers}: correct the metadata, or bring the cluster"
                " back",
            )
            raise {**failures, **broken}.get(cluster, late)
    return answers


def refuse_missing(subscription: Subscription, cluster: str, answer: ClusterObservation) -> None:
    """Raise MissingSourceTopicError if a topic does not exist. As in a plan, one that drains, or is announced, may."""
    named = subscription.clusters[cluster]
    if (missing := answer.missing - named.draining) and named.state != "Announced":
        raise MissingSourceTopicError.of(cluster, missing)


def home_client(
    options: SourceOptions,
    subscription: Callable[[], Subscription],
    *,
    cluster: str | None,
    properties: Mapping[str, str],
    where: str,
) -> ClusterClient:
    """Return the access to the home of topics that the application itself writes to. References are not resolved.

    Args:
        subscription: returns the clusters of the metadata; called only if `cluster` names one of them.
        cluster: its cluster id; None if the home has servers of its own.
        properties: client properties of these servers. They get none of the options' properties.
        where: the place of the setting, for messages.

    Raises:
        OptionError: metadata names no such cluster, or a property is wrong.
        MetadataError: there is no metadata.
    """
    if cluster is None:
        return own_servers_client(properties, where)
    present = subscription()
    return client_of(options, present, present.present_home(cluster, where))


class ClusterProbes:
    """The probes of the clusters that metadata names."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._probes: dict[str, tuple[str, ClusterProbe]] = {}
        self._checked: dict[str, str] = {}

    def for_subscription(
        self, subscription: Subscription
    ) -> tuple[Mapping[str, ClusterProbe], Mapping[str, DynamicKafkaError]]:
        """Return the probes of all clusters of the subscription, and close those of removed clusters.

        Returns:
            The probes, and the errors of clusters without one: their properties do not resolve (a secret is missing),
            or make no client.
        """
        probes: dict[str, ClusterProbe] = {}
        failures: dict[str, DynamicKafkaError] = {}
        for cluster in subscription.clusters:
            client = client_of(self._options, subscription, cluster)
            try:
                resolved = client.resolved_properties()
                self._check(client, resolved)
                config = admin_config(cluster, resolved)
                # The isolation level is a consumer's property, but the ends depend on it.
                digest = config_digest({**config, "isolation.level": client.read_committed})
                probes[cluster] = self._probe(client, digest, config)
            except DynamicKafkaError as error:
                failures[cluster] = error
        for cluster in set(self._probes) - set(subscription.clusters):
            log.info("cluster %s is no longer named by metadata: its client is closed", cluster)
            self._probes.pop(cluster)[1].close()
        self._checked = {cluster: digest for cluster, digest in self._checked.items() if cluster in probes}
        return probes, failures

    def close(self) -> None:
        """Close all probes in the background."""
        for _, probe in self._probes.values():
            probe.close()
        self._probes.clear()

    def _check(self, client: ClusterClient, resolved: Mapping[str, str]) -> None:
        """Let librdkafka check the consumer properties before a plan makes a batch that tasks cannot read.

        This takes 2 to 50 ms, once for each set of properties.

        Raises:
            ClusterRefusedError: librdkafka makes no consumer of them.
        """
        config = consumer_config(client.cluster, resolved, group_id_prefix=client.group_id_prefix)
        digest = config_digest(config)
        if self._checked.get(client.cluster) != digest:
            check_client(client.cluster, config)
            self._checked[client.cluster] = digest

    def _probe(self, client: ClusterClient, digest: str, config: Mapping[str, object]) -> ClusterProbe:
        known = self._probes.get(client.cluster)
        if known is not None and known[0] == digest:
            return known[1]
        if known is not None:
            log.info("the properties of cluster %s changed: it gets a new client", client.cluster)
            known[1].close()
        # The deadline is the user's socket timeout, or as long as a range in flight may take. The value of a secret
        # reference may be no number: librdkafka refuses it when it makes the client.
        timeout = str(config.get("socket.timeout.ms", ""))
        deadline_ms = int(timeout) if timeout.isdecimal() else self._options.read_timeout_ms
        deadline_s = min(deadline_ms / 1000, LONGEST_CALL_S)
        probe = ClusterProbe(
            client.cluster,
            lambda: ClusterAdmin(client.cluster, config, read_committed=client.read_committed, deadline_s=deadline_s),
        )
        self._probes[client.cluster] = (digest, probe)
        return probe
