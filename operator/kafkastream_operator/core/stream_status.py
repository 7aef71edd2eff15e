"""The status of a KafkaStream, from its subscriptions. Pure; `handlers.reconcile` calls it.

`clusters` has a verdict on each cluster (`core.verdicts`). Two conditions are for a wait after a change. `InForce`: all
drivers use the stream's newest form. `Drained`: no driver reads anything for it that it no longer names. Each has the
generation of the stream that it is about.

`Reconciling` and `Stalled` are kstatus's, for GitOps tools: a change is on its way to the subscriptions, or a person
has to correct the stream. If a subscription needs a person, its own `Stalled` is True.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynamic_kafka.metadata.document import document_hash
from dynamic_kafka.wording import counted, first_few
from kafkastream_operator.core.catalog import Catalog, StreamEntry
from kafkastream_operator.core.document import active
from kafkastream_operator.core.everybody import Everybody
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.core.verdicts import drained, remainders, verdicts
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.stream import (
    MAX_SUBSCRIBERS,
    NAMES_CHARACTERS,
    ClusterStatus,
    InForce,
    KafkaStreamStatus,
    SubscriberStatus,
)


def stream_status(
    name: str,
    catalog: Catalog,
    subscribers: Iterable[Subscriber],
    before: KafkaStreamStatus,
    *,
    everybody: Everybody,
    generation: int,
    now: str,
) -> KafkaStreamStatus:
    """Return the status that the stream should have.

    Args:
        subscribers: those that read the stream, ask for it, or still drain topics of it.
        everybody: as in `core.verdicts.verdicts`.
    """
    entry = catalog.streams[name]
    readers = sorted(subscribers, key=lambda subscriber: subscriber.name)
    # Under `Immediate`, a topic of a cluster that stays leaves the document without ever being seen to drain.
    at_once = entry.drain.policy == "Immediate" and generation != before.observed_generation
    waiting = remainders(name, entry, readers, before, at_once=at_once)
    clusters = verdicts(name, catalog, waiting, everybody, before, now=now)
    named = [reader for reader in readers if not reader.orphan]
    ready = _ready(catalog, name, named)
    in_force, count = _in_force(named, name, entry, ready, generation)
    conditions = [ready, _stalled(ready), _reconciling(named, name, entry), drained(readers, waiting), in_force]
    return KafkaStreamStatus(
        observed_generation=generation,
        clusters=clusters,
        cluster_names=_names(clusters),
        subscribers=tuple(
            SubscriberStatus(
                name=reader.name, application=reader.application, state=reader.life, reason=reader.ready_reason
            )
            for reader in named[:MAX_SUBSCRIBERS]
        ),
        in_force=count,
        conditions=settled(conditions, before.conditions, generation=generation, now=now),
    )


def _names(clusters: Sequence[ClusterStatus]) -> str:
    """Return the clusters in one line, as many as fit. `kubectl get` shows only the first item of a list."""
    drains = [cluster for cluster in clusters if cluster.state == "Draining"]
    names = [cluster.id for cluster in clusters if cluster.in_stream]
    names += [f"{cluster.id} (draining)" for cluster in drains]
    for count in range(len(names), 0, -1):
        if len(line := first_few(names, count)) <= NAMES_CHARACTERS:
            return line
    return ""


def _ready(catalog: Catalog, name: str, readers: Sequence[Subscriber]) -> Condition:
    entry = catalog.streams[name]
    if entry.content is None:
        text = f"not rolled out; the stream stays as it was: {entry.problem}"
        return condition("Ready", "InvalidStream", text)
    if entry.conflict:
        text = f"{entry.conflict}: an application that reads both gets neither change"
        return condition("Ready", "Conflict", text)
    if rejections := [f"{reader.application}: {reader.rejection}" for reader in readers if reader.rejection]:
        return condition("Ready", "Rejected", first_few(rejections, 5, separator="; "))
    shadows = [origin for origin, streams in catalog.shadowed.items() if name in streams]
    if shadows:
        return condition("Ready", "Shadows", f"this stream wins over the one in {', '.join(shadows)}")
    return condition("Ready", "Valid")


def _stalled(ready: Condition) -> Condition:
    if ready.status == "True":
        return condition("Stalled", "Settled")
    return condition("Stalled", ready.reason, ready.message)


def _reconciling(readers: list[Subscriber], name: str, entry: StreamEntry) -> Condition:
    """Say whether the newest form of the stream is on its way. The text has no numbers that change all the time."""
    behind = [
        reader.name
        for reader in readers
        if reader.asks
        and not reader.has_condition("Stalled")
        and (reader.is_rolling_out or _is_new_to(reader, name, entry))
    ]
    if not behind or entry.content is None or entry.conflict:
        return condition("Reconciling", "Settled")
    text = f"on its way to {first_few(behind, 5)}. kubectl get kss shows what each of them waits for"
    return condition("Reconciling", "RollingOut", text)


def _is_new_to(reader: Subscriber, name: str, entry: StreamEntry) -> bool:
    """Return whether the reader's document does not have the stream's newest form yet, as in a pause.

    Topics that drain in the document do not count, because the stream no longer names them.
    """
    if entry.content is None:
        return False
    if name not in reader.rendered:
        return True  # it was made, or asked for, since the last document
    there = active(reader.rendered[name])["clusters"]
    # A rename stays in the document until a driver has it, even if the stream drops `renamedFrom` before.
    kept = {
        cluster: {"renamedFrom": content["renamedFrom"]}
        for cluster, content in there.items()
        if "renamedFrom" in content
    }
    desired = {cluster: {**kept.get(cluster, {}), **content} for cluster, content in entry.content["clusters"].items()}
    if there == desired:
        return False
    return document_hash({name: {"clusters": there}}) != document_hash({name: {"clusters": desired}})


def _in_force(
    readers: list[Subscriber], name: str, entry: StreamEntry, ready: Condition, generation: int
) -> tuple[Condition, InForce]:
    """Say which applications use the newest form of the stream. One that does not run takes it at its start."""
    asking = [
        reader for reader in readers if reader.asks or active(reader.rendered.get(name, {"clusters": {}}))["clusters"]
    ]
    older = {reader.name for reader in asking if reader.unknown or _is_new_to(reader, name, entry)}
    reasons = (
        (reader, "its document is older" if reader.name in older else reader.why_not_in_force) for reader in asking
    )
    behind = [f"{reader.application} ({why})" for reader, why in reasons if why]
    done = len(asking) - len(behind) if entry.content is not None else 0
    count = InForce(generation=generation, applications=done, of=len(asking))
    if entry.content is None:
        return condition("InForce", ready.reason, ready.message), count
    if not asking:
        return condition("InForce", "NotSubscribed", "no subscription asks for the stream"), count
    text = f"in {done} of {counted(len(asking), 'application')}"
    if behind:
        text += f"; not in {first_few(behind, 5)}. For the remedy: kubectl describe kss"
        return condition("InForce", "NotInForce", text), count
    return condition("InForce", "InForce", text), count
