"""The driver's connections: a probe per cluster that metadata names, made anew when its properties change.

Driver only, owned by the enumerator. A probe is keyed by the digest of its resolved properties, so that a rotated
Secret, a changed server list or a changed option is taken up at the next plan. What metadata names no longer is closed
aside, whatever state its servers are in.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.config import ClusterClient, admin_config, consumer_config
from dynamic_kafka.kafka.config_checks import check_client
from dynamic_kafka.kafka.probe import ClusterProbe, Question
from dynamic_kafka.kafka.retries import LONGEST_CALL_S
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions

log = logging.getLogger(__name__)


def client_of(options: SourceOptions, subscription: Subscription, cluster: str) -> ClusterClient:
    """How to reach a subscribed cluster: its own properties over the source's common ones, secrets by reference."""
    named = subscription.clusters[cluster]
    return ClusterClient(
        cluster=cluster,
        common=options.kafka_properties,
        own=named.properties,
        secrets_root=options.secrets_root,
        secret_folder=named.secret_folder,
        group_id_prefix=options.group_id_prefix,
    )


def question_of(
    options: SourceOptions,
    subscription: Subscription,
    cluster: str,
    *,
    earliest: bool = False,
    describe: bool = True,
    high: frozenset[str] = frozenset(),
) -> Question:
    """What to ask a subscribed cluster: its topics, of them the assigned partitions; the rest as `Question` has it."""
    assigned = options.single.assign if options.single else None
    topics = tuple(sorted(subscription.clusters[cluster].topics))
    return Question(topics, assigned, earliest=earliest, describe=describe, high=high)


class ClusterProbes:
    """The probes of the clusters in force."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._probes: dict[str, tuple[str, ClusterProbe]] = {}
        self._checked: dict[str, str] = {}

    def for_subscription(
        self, subscription: Subscription
    ) -> tuple[Mapping[str, ClusterProbe], Mapping[str, DynamicKafkaError]]:
        """Probes of all clusters that are named, those no longer named closed aside.

        Returns:
            The probes, and the clusters that have none because their properties do not resolve (a secret is missing),
            or because no client can be made of them.
        """
        probes: dict[str, ClusterProbe] = {}
        failures: dict[str, DynamicKafkaError] = {}
        for cluster in subscription.clusters:
            client = client_of(self._options, subscription, cluster)
            try:
                resolved = client.resolved_properties()
                self._check(client, resolved)
                config = admin_config(cluster, resolved)
                # The isolation level is a consumer's property, but ends are asked for with it.
                digest = client.digest({**config, "isolation.level": client.read_committed})
                probes[cluster] = self._probe(client, digest, config)
            except DynamicKafkaError as error:
                failures[cluster] = error
        for cluster in set(self._probes) - set(subscription.clusters):
            log.info("cluster %s is no longer named by metadata: its client is closed", cluster)
            self._probes.pop(cluster)[1].close()
        self._checked = {cluster: digest for cluster, digest in self._checked.items() if cluster in probes}
        return probes, failures

    def close(self) -> None:
        """Close all of them, aside."""
        for _, probe in self._probes.values():
            probe.close()
        self._probes.clear()

    def _check(self, client: ClusterClient, resolved: Mapping[str, str]) -> None:
        """Let librdkafka judge what tasks will read with, before a batch is planned that they cannot read.

        Takes 2 to 50 ms, once for each set of properties.

        Raises:
            ClusterRefusedError: no consumer can be made of them.
        """
        config = consumer_config(client.cluster, resolved, group_id_prefix=client.group_id_prefix)
        digest = client.digest(config)
        if self._checked.get(client.cluster) != digest:
            check_client(client.cluster, config)
            self._checked[client.cluster] = digest

    def _probe(self, client: ClusterClient, digest: str, config: Mapping[str, object]) -> ClusterProbe:
        known = self._probes.get(client.cluster)
        if known is not None and known[0] == digest:
            return known[1]
        if known is not None:
            log.info("the properties of cluster %s changed: its client is made anew", client.cluster)
            known[1].close()
        # "The clients' own timeouts": what the user set, or as long as a range in flight may take.
        # What a reference stands for may be no number: librdkafka says so when the client is made.
        timeout = str(config.get("socket.timeout.ms", ""))
        deadline = (int(timeout) if timeout.isdecimal() else self._options.read_timeout_ms) / 1000
        deadline = min(deadline, LONGEST_CALL_S)
        probe = ClusterProbe(
            client.cluster,
            lambda: ClusterAdmin(client.cluster, config, read_committed=client.read_committed, deadline_s=deadline),
        )
        self._probes[client.cluster] = (digest, probe)
        return probe
