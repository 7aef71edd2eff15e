"""The status of a KafkaStream, from its subscriptions. Pure; `handlers.reconcile` calls it.

`SafeToDecommission` covers every cluster that the stream once had. It is True when no application reads anything that
the stream no longer names. The rendered documents decide: a subscription may be paused, or come later in the queue, so
that its removal has not even begun. A document without the cluster is not enough either: until it is in force, the
driver uses the one before.

`Drained` is the first half of that: no document has such a topic any more. `InForce` is about what the stream has: all
drivers that read it use its newest form. Each has the generation of the stream that it is about, for a wait.

`Reconciling` and `Stalled` are kstatus's, for GitOps tools: a change is on its way to the subscriptions, or a person
has to correct the stream. If a subscription needs a person, its own `Stalled` is True.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from dynamic_kafka.metadata.document import document_hash
from dynamic_kafka.wording import counted, first_few
from kafkastream_operator.core.application import ALIVE, FAILED
from kafkastream_operator.core.catalog import Catalog, StreamEntry
from kafkastream_operator.core.document import Key, Streams, active, entries
from kafkastream_operator.core.render import renamed_to, renames
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.fields import MAX_CLUSTERS
from kafkastream_operator.models.stream import (
    MAX_SUBSCRIBERS,
    NAMES_CHARACTERS,
    ClusterStatus,
    InForce,
    KafkaStreamStatus,
    SubscriberStatus,
)
from kafkastream_operator.models.subscription import SubscriptionStatus


@dataclass(frozen=True)
class Subscriber:
    """A subscription that reads the stream, or still drains topics of it.

    Attributes:
        rendered: the streams of its document.
        orphan: the document's ConfigMap, if the subscription is gone; "" if it is not.
        unknown: it had a document, and neither the document nor a copy can be read.
        revision: the token of its document; "" if it has none.
        asks: whether its spec asks for the stream; if not, it only drains topics of it.
    """

    name: str
    application: str
    life: str
    status: SubscriptionStatus
    rendered: Streams = field(default_factory=dict)
    orphan: str = ""
    unknown: bool = False
    revision: str = ""
    asks: bool = True

    @property
    def is_behind(self) -> bool:
        """Whether its driver may still use an older document; a driver takes the newest at its start."""
        rollout = self.status.rollout
        if self.life not in ALIVE:
            return False
        if rollout is None:
            return bool(self.revision)  # its status is lost, or not written yet
        return rollout.token != self.revision or rollout.phase != "Confirmed"

    @property
    def why_not_in_force(self) -> str:
        """Why its driver may not use its document; "" if it does, or is to take it at its start."""
        if self.life in FAILED:
            return "it has failed"
        if self.life not in ALIVE:
            return ""
        if self.is_behind or not self.has_condition("RolledOut"):
            return f"revision {self.revision.rpartition('/')[2]} is not in force yet"
        if self.has_condition("Mounted", "False"):
            return "its driver lacks a mount"
        return "its driver has yet to report" if self.has_condition("Ready", "Unknown") else ""

    def has_condition(self, kind: str, status: str = "True") -> bool:
        """Return whether a condition of the subscription has this status."""
        return any(known.type == kind and known.status == status for known in self.status.conditions)

    @property
    def is_rolling_out(self) -> bool:
        """Whether its newest document is on its way into force.

        A change that waits for a driver does not count, as in the subscription's own conditions: it may wait for ever.
        """
        return self.has_condition("Reconciling") or (self.is_behind and not self.has_condition("RolledOut", "Unknown"))


@dataclass(frozen=True)
class _Remainder:
    """The clusters that a subscriber still reads and the stream no longer names, with the reason for a message."""

    reader: Subscriber
    clusters: frozenset[str]
    why: str


def stream_status(
    name: str,
    catalog: Catalog,
    subscribers: Iterable[Subscriber],
    before: KafkaStreamStatus,
    *,
    generation: int,
    now: str,
) -> KafkaStreamStatus:
    """Return the status that the stream should have."""
    entry = catalog.streams[name]
    readers = sorted(subscribers, key=lambda subscriber: subscriber.name)
    desired = list((entry.content or {"clusters": {}})["clusters"])
    waiting = [rest for reader in readers if (rest := _remainder(reader, name, entry)) is not None]
    drained = _drained(waiting)
    # Under `Immediate`, a topic of a cluster that stays leaves the document without ever being seen to drain.
    at_once = entry.drain.policy == "Immediate" and generation != before.observed_generation
    waiting += _behind(readers, waiting, before, desired, at_once=at_once)
    clusters = [ClusterStatus(id=cluster, state="Active") for cluster in desired]
    for cluster in sorted({cluster for rest in waiting for cluster in rest.clusters} - set(desired))[
        : 3 * MAX_CLUSTERS
    ]:
        applications = sorted({rest.reader.application for rest in waiting if cluster in rest.clusters})
        message = f"waiting for {', '.join(applications)}"[:1024]
        clusters.append(ClusterStatus(id=cluster, state="Draining", message=message))
    named = [reader for reader in readers if not reader.orphan]
    ready = _ready(catalog, name)
    in_force, count = _in_force(named, name, entry, ready, generation)
    conditions = [ready, _stalled(ready), _reconciling(named, name, entry), drained, _safe(readers, waiting), in_force]
    return KafkaStreamStatus(
        observed_generation=generation,
        clusters=tuple(clusters),
        cluster_names=_names(clusters),
        subscribers=tuple(
            SubscriberStatus(name=reader.name, application=reader.application, state=reader.life)
            for reader in named[:MAX_SUBSCRIBERS]
        ),
        in_force=count,
        conditions=settled(conditions, before.conditions, generation=generation, now=now),
    )


def _names(clusters: Sequence[ClusterStatus]) -> str:
    """Return the clusters in one line, as many as fit. `kubectl get` shows only the first item of a list."""
    names = [cluster.id if cluster.state == "Active" else f"{cluster.id} (draining)" for cluster in clusters]
    for count in range(len(names), 0, -1):
        if len(line := first_few(names, count)) <= NAMES_CHARACTERS:
            return line
    return ""


def _ready(catalog: Catalog, name: str) -> Condition:
    entry = catalog.streams[name]
    if entry.content is None:
        text = f"not rolled out; the stream stays as it was: {entry.problem}"
        return condition("Ready", "InvalidStream", text)
    if entry.conflict:
        text = f"{entry.conflict}: an application that reads both gets neither change"
        return condition("Ready", "Conflict", text)
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


def _drained(waiting: list[_Remainder]) -> Condition:
    if not waiting:
        return condition("Drained", "NothingDrains")
    names = first_few(sorted({rest.reader.application for rest in waiting}), 5)
    return condition("Drained", "Draining", f"waiting for {names}: SafeToDecommission says for what")


def _remainder(reader: Subscriber, name: str, entry: StreamEntry) -> _Remainder | None:
    if reader.unknown:
        return _Remainder(reader, frozenset(), f"neither its status nor its document can be read{_left_behind(reader)}")
    named = {name: entry.content} if entry.content is not None else {}
    desired = {key for _, key, _ in entries(named)}
    renamed = renames(named)
    there = {name: reader.rendered[name]} if name in reader.rendered else {}
    rendered = {renamed_to(key, renamed) for _, key, _ in entries(there)}
    left = rendered - desired | {
        Key(topic.cluster, topic.topic) for topic in reader.status.draining if topic.stream == name
    }
    # A topic of several streams drains in all of them, and the status lists it once.
    draining = [topic for topic in reader.status.draining if Key(topic.cluster, topic.topic) in left]
    if not left:
        return None
    first = min(left)
    why = f"its document still has {first}{_and_more(left)}{_left_behind(reader)}"
    if draining:
        since = min(topic.since for topic in draining)[:19]
        waits = draining[0]
        why = f"since {since}Z: {waits.cluster}/{waits.topic}: {waits.message or 'waits'}{_and_more(draining)}"
    return _Remainder(reader, frozenset(key.cluster for key in left), why)


def _and_more(items: Collection[object]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""


def _left_behind(reader: Subscriber) -> str:
    if not reader.orphan:
        return ""
    return f", and its subscription is gone: delete ConfigMap {reader.orphan} when no job reads it"


def _behind(
    readers: list[Subscriber],
    waiting: list[_Remainder],
    before: KafkaStreamStatus,
    desired: list[str],
    *,
    at_once: bool,
) -> list[_Remainder]:
    """Return the readers whose document has dropped a cluster or topic, while that document is not in force yet."""
    left = {cluster.id for cluster in before.clusters} - set(desired)
    was_safe = any(known.type == "SafeToDecommission" and known.status == "True" for known in before.conditions)
    if not left and was_safe and not at_once:
        return []
    known = {rest.reader.name for rest in waiting}
    return [
        _Remainder(reader, frozenset(left), f"revision {reader.revision.rpartition('/')[2]} is not in force yet")
        for reader in readers
        if reader.is_behind and reader.name not in known
    ]


def _safe(readers: list[Subscriber], waiting: list[_Remainder]) -> Condition:
    if not waiting:
        return condition(
            "SafeToDecommission", "NothingDrains", "no application reads anything that the stream no longer names"
        )
    reasons = "; ".join(f"{rest.reader.application} ({rest.reader.life}, {rest.why})" for rest in waiting)
    text = f"{len(readers) - len(waiting)} of {len(readers)} drained; waiting for {reasons}"
    names = sorted({rest.reader.name for rest in waiting if not rest.reader.orphan})
    if names:
        text = f"{text}. For the remedy: kubectl describe kss {first_few(names, 5, separator=' ')}"
    return condition("SafeToDecommission", "Draining", text)
