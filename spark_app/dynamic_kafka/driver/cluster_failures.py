"""Errors of clusters that fail, as one error with advice for the user.

Driver; the observer raises them for clusters that must answer, and the tool `plan` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dynamic_kafka.errors import ClusterError, ClusterUnreachableError, DynamicKafkaError
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions


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
                "or set clusterFailurePolicy=stall (with stateLocation): the source then reads the other clusters, and"
                " a pending batch leaves out the ranges of this one"
            )
    return type(error)(error.cluster, ", ".join(choices))


def servers_of(clusters: Iterable[str], options: SourceOptions, subscription: Subscription) -> str:
    """Return the bootstrap servers of each cluster, as text for a message."""
    asked = {
        cluster: {**options.kafka_properties, **subscription.clusters[cluster].properties}.get("bootstrap.servers")
        for cluster in clusters
        if cluster in subscription.clusters
    }
    return "; ".join(f"{cluster} has the bootstrap servers {found}" for cluster, found in asked.items())


def as_one_error(failures: Mapping[str, DynamicKafkaError]) -> DynamicKafkaError:
    """Return the first failure, whose kind decides what the application does, with all other clusters named in it."""
    (_, first), *others = failures.items()
    if not others:
        return first
    # Without their codes: an error has one code, at its head.
    texts = [f"{cluster}: {error.message if isinstance(error, ClusterError) else error}" for cluster, error in others]
    more = f". Further clusters failed: {'; '.join(texts)}"
    if isinstance(first, ClusterError):
        return type(first)(first.cluster, first.message + more)
    return type(first)(f"{first}{more}")
