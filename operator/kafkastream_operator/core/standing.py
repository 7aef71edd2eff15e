"""A stream's own conditions, from what its subscriptions say. Pure.

`SafeToDecommission` speaks of every cluster that the stream once had: True as soon as nobody reads anything any more
that the stream no longer names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkastream_operator.core.catalog import Catalog
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.fields import MAX_CLUSTERS
from kafkastream_operator.models.stream import ClusterStatus, KafkaStreamStatus, SubscriberStatus
from kafkastream_operator.models.subscription import DrainingTopic, SubscriptionStatus


@dataclass(frozen=True)
class Subscriber:
    """A subscription that reads the stream, or still drains something of it."""

    name: str
    application: str
    life: str
    status: SubscriptionStatus


def stream_status(
    name: str,
    catalog: Catalog,
    subscribers: Iterable[Subscriber],
    before: KafkaStreamStatus,
    *,
    generation: int,
    now: str,
) -> KafkaStreamStatus:
    """The stream's status as it should be."""
    entry = catalog.streams[name]
    readers = sorted(subscribers, key=lambda each: each.name)
    desired = list((entry.content or {"clusters": {}})["clusters"])
    waiting = [(each, topic) for each in readers for topic in each.status.draining if topic.stream == name]
    clusters = [ClusterStatus(id=each, state="Active") for each in desired]
    for cluster in sorted({topic.cluster for _, topic in waiting} - set(desired))[: 3 * MAX_CLUSTERS]:
        who = sorted({each.application for each, topic in waiting if topic.cluster == cluster})
        clusters.append(ClusterStatus(id=cluster, state="Draining", message=f"waiting for {', '.join(who)}"[:1024]))
    conditions = [_ready(catalog, name), _safe(readers, waiting)]
    return KafkaStreamStatus(
        observed_generation=generation,
        clusters=tuple(clusters),
        subscribers=tuple(
            SubscriberStatus(name=each.name, application=each.application, state=each.life) for each in readers
        ),
        conditions=settled(conditions, before.conditions, generation=generation, now=now),
    )


def _ready(catalog: Catalog, name: str) -> Condition:
    entry = catalog.streams[name]
    if entry.content is None:
        return condition("Ready", False, "InvalidStream", f"not rolled out, what worked stays: {entry.problem}")
    if entry.conflict:
        return condition("Ready", False, "Conflict", f"{entry.conflict}: where both are read, neither is rolled out")
    shadows = [origin for origin, streams in catalog.shadowed.items() if name in streams]
    if shadows:
        return condition("Ready", True, "Shadows", f"it wins over the same stream in {', '.join(shadows)}")
    return condition("Ready", True, "Valid")


def _safe(readers: list[Subscriber], waiting: list[tuple[Subscriber, DrainingTopic]]) -> Condition:
    if not waiting:
        return condition("SafeToDecommission", True, "NothingDrains", "nobody reads what the stream does not name")
    blocked = {each.name: each for each, _ in waiting}
    done = len(readers) - len(blocked)
    who = []
    for each in blocked.values():
        topics = [topic for topic in each.status.draining]
        since = min(topic.since for topic in topics)[:19]
        why = topics[0].message or "waits"
        who.append(f"{each.application} ({each.life}, since {since}Z: {why})")
    text = f"{done} of {len(readers)} drained; waiting for {'; '.join(who)}"
    return condition("SafeToDecommission", False, "Draining", text)
