"""Errors of clusters that fail, as one error with advice for the user.

Driver; the observer raises them for clusters that must answer, and the tool `plan` shows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions

_ADDRESS_AND_TIME = re.compile(r"\S+/(bootstrap|\d+): |\(after \d+ms [^)]*\)")
"""The parts of a client's report that differ between brokers that refuse the same."""


def with_choices(
    error: DynamicKafkaError, failed: Iterable[str], options: SourceOptions, subscription: Subscription
) -> DynamicKafkaError:
    """Return an error about clusters that do not answer with their servers and with advice; others unchanged.

    Args:
        failed: the clusters that it is about.
    """
    if not isinstance(error, ClusterUnreachableError):
        return error
    servers = servers_of(failed, options, subscription)
    choices = [f"{error.message}. {servers}. Correct a wrong address, or bring the cluster back"]
    if options.single is None:
        choices.append("or remove it from the metadata: its offsets are kept for removedClusterRetention")
        if options.cluster_failure_policy == "fail":
            choices.append(
                "or set clusterFailurePolicy=stall (with stateLocation), to read the others without this one"
            )
    return type(error)(error.cluster, ", ".join(choices))


def servers_of(clusters: Iterable[str], options: SourceOptions, subscription: Subscription) -> str:
    """Return the bootstrap servers of each cluster, as text for a message."""
    asked = {
        cluster: {**options.kafka_properties, **subscription.clusters[cluster].properties}.get("bootstrap.servers")
        for cluster in clusters
        if cluster in subscription.clusters
    }
    return "; ".join(f"{cluster} has the bootstrap servers {servers}" for cluster, servers in asked.items())


def as_one_error(failures: Mapping[str, DynamicKafkaError]) -> DynamicKafkaError:
    """Return the first failure, whose kind decides what the application does, with all other clusters named in it.

    A cause that clusters share, such as a wrong password, appears once.
    """
    texts: dict[str, str] = {}
    clusters: dict[str, list[str]] = {}
    for cluster, error in failures.items():
        # Without their codes: an error has one code, at its head.
        text = error.message if isinstance(error, ClusterError) else str(error).removeprefix(f"cluster '{cluster}': ")
        cause = _ADDRESS_AND_TIME.sub("", text)
        texts.setdefault(cause, text)
        clusters.setdefault(cause, []).append(cluster)
    first = next(iter(failures.values()))
    (_, *same), *others = clusters.values()
    _, *further = texts.values()
    more = f". The same holds for {', '.join(same)}" if same else ""
    if further:
        named = (f"{', '.join(names)}: {text}" for names, text in zip(others, further, strict=True))
        more += f". Further clusters failed: {'; '.join(named)}"
    if not more:
        return first
    if isinstance(first, ClusterError):
        return type(first)(first.cluster, first.message + more)
    return type(first)(f"{first}{more}")
