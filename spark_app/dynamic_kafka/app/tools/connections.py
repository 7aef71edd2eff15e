"""Check the clusters of an application by asking them: servers, log-in, topics, rights. The tool `validate --connect`.

The requests are those of a plan, and one for the rights. Nothing is written, so the right to commit is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dynamic_kafka.app.tools.announced_waits import announced_waits
from dynamic_kafka.driver.cluster_clients import ClusterProbes, refuse_missing, request_of
from dynamic_kafka.driver.cluster_failures import with_choices
from dynamic_kafka.driver.home_servers import home_id_of
from dynamic_kafka.errors import ClusterError, DynamicKafkaError
from dynamic_kafka.kafka.admin import ClusterAdmin
from dynamic_kafka.kafka.probe import collect_observations
from dynamic_kafka.metadata.subscription import Subscription
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.observation import ClusterObservation
from dynamic_kafka.wording import first_few


def connect(options: SourceOptions, subscription: Subscription) -> Iterator[tuple[str, str | DynamicKafkaError]]:
    """Ask all clusters at once, wait for all, and yield for each {cluster: what works, or the error}."""
    probes = ClusterProbes(options)
    try:
        made, broken = probes.for_subscription(subscription)
        pending = {
            cluster: probe.observe(partial(request_of, options, subscription, cluster))
            for cluster, probe in made.items()
        }
        with announced_waits(pending):
            answers, failures = collect_observations(pending, timeout_s=None)
        for cluster in subscription.clusters:
            failed = {**broken, **failures}.get(cluster)
            if failed is not None:
                yield cluster, with_choices(failed, [cluster], options, subscription)
                continue
            rights = partial(_rights, options=options, subscription=subscription, cluster=cluster)
            checked = made[cluster].ask(partial(rights, answer=answers[cluster]))
            try:
                yield cluster, str(checked.result())
            except DynamicKafkaError as error:
                yield cluster, error
    finally:
        probes.close()


def _rights(
    admin: ClusterAdmin, *, options: SourceOptions, subscription: Subscription, cluster: str, answer: ClusterObservation
) -> str:
    """Return what works. Raises ClusterError or OptionError for a topic that is missing or must not be read."""
    if options.own_topics is not None:
        own = options.own_topics.at_home_in(subscription)
        own.refuse(cluster, answer.topics, answer.kafka_id, partial(home_id_of, options))
    refuse_missing(subscription, cluster, answer)
    if denied := admin.unreadable(answer.topics):
        raise ClusterError(cluster, f"its log-in may not read {first_few(denied)}: it needs the right READ")
    parts = [f"answers, and accepts the log-in; topics that can be read: {first_few(answer.topics) or 'none yet'}"]
    partitions = [(topic, p) for topic, seen in answer.topics.items() for p in seen.latest]
    if options.commit_offsets and options.group_id is not None:
        admin.committed(options.group_id, partitions[:1])
        parts.append(f"group {options.group_id} can be seen (the right to commit to it is not checked)")
    return "; ".join(parts)
