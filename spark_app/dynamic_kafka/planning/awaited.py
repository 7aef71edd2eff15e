"""The clusters that a plan cannot do without, and those that it awaits.

Pure; the driver's observer applies it to the clusters that do not answer. A cluster that the query has never read is
awaited: the others are read without it, whatever `clusterFailurePolicy` says. Nothing is skipped by that, since a
cluster that is found after the first plan starts at its first record, or where its metadata says.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.sameness.cluster_renames import rename
from dynamic_kafka.planning.starting import is_bounded, must_find_all


def never_read(progress: OffsetDocument, wanted: Mapping[str, SubscribedCluster]) -> frozenset[str]:
    """Return the clusters without any offsets, active or parked, after the renames that metadata asks for."""
    renamed, _ = rename(progress, wanted)
    return frozenset(wanted.keys() - renamed.clusters.keys() - renamed.parked.keys())


def must_answer(
    options: SourceOptions, subscription: Subscription, progress: OffsetDocument, *, everyone: bool = False
) -> frozenset[str]:
    """Return the clusters whose failure ends the query.

    Under `fail` these are all clusters in a query's first plan, and later those that it has read. Under `stall` there
    are none, except in a first plan that must find all. A first plan does without an announced cluster, unless the run
    ends by itself: a cluster that is found later starts at its first record, as one that joins should.

    Args:
        everyone: all of them must answer, whatever the policy.
    """
    clusters = frozenset(subscription.clusters)
    if everyone or (progress.is_initial and is_bounded(options, subscription)):
        return clusters
    if progress.is_initial:
        announced = {name for name, cluster in subscription.clusters.items() if cluster.state == "Announced"}
        must_find = options.cluster_failure_policy == "fail" or must_find_all(options, subscription)
        return clusters - announced if must_find else frozenset()
    stalls = options.cluster_failure_policy == "stall"
    return frozenset() if stalls else clusters - never_read(progress, subscription.clusters)
