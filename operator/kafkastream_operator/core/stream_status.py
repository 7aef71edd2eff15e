"""A stream's own conditions, from what its subscriptions say. Pure.

`SafeToDecommission` speaks of every cluster that the stream once had: True as soon as nobody reads anything any more
that the stream no longer names. What counts is what the documents have, whether it drains already or its removal
was not even looked at: a subscription may be paused, or come later in the queue. And a document that no longer has it
is not enough: until that is in force, the driver goes by the one before.

`Reconciling` and `Stalled` are kstatus's, for GitOps tools: what is applied is on its way to its subscriptions, or a
person has to mend the stream itself. A subscription that needs a person says so by its own `Stalled`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from dynamic_kafka.metadata.document import document_hash
from kafkastream_operator.core.catalog import Catalog, StreamEntry
from kafkastream_operator.core.document import Key, Streams, entries
from kafkastream_operator.core.render import renamed_to, renames
from kafkastream_operator.core.resolve import active
from kafkastream_operator.models.conditions import Condition, condition, settled
from kafkastream_operator.models.fields import MAX_CLUSTERS
from kafkastream_operator.models.stream import (
    MAX_SUBSCRIBERS,
    NAMES_CHARACTERS,
    ClusterStatus,
    KafkaStreamStatus,
    SubscriberStatus,
)
from kafkastream_operator.models.subscription import SubscriptionStatus


@dataclass(frozen=True)
class Subscriber:
    """A subscription that reads the stream, or still drains something of it.

    Attributes:
        rendered: the streams of its document.
        revision: of that document, as a roll-out has it; "" if it has none.
        asks: whether its spec asks for the stream; else it only drains what it had.
        orphan: the ConfigMap of that, if the subscription is gone.
        unknown: it had a document, and nothing that can be read tells what is in it.
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
        """Whether its driver may still go by an older document. One that does not run takes the newest at its start."""
        rollout = self.status.rollout
        if self.life not in ("Running", "Starting"):
            return False
        if rollout is None:
            return bool(self.revision)  # its status is lost, or only comes
        return rollout.token != self.revision or rollout.phase != "Confirmed"

    def says(self, kind: str, status: str = "True") -> bool:
        """Whether a condition of the subscription's has this status."""
        return any(each.type == kind and each.status == status for each in self.status.conditions)

    @property
    def is_rolling_out(self) -> bool:
        """Whether its newest document is on its way into force. What waits for a driver that never reports may wait for
        ever, and does not count, as in the subscription's own conditions."""
        return self.says("Reconciling") or (self.is_behind and not self.says("RolledOut", "Unknown"))


@dataclass(frozen=True)
class _Rest:
    """What a subscriber still reads that the stream does not name."""

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
    """The stream's status as it should be."""
    entry = catalog.streams[name]
    readers = sorted(subscribers, key=lambda each: each.name)
    desired = list((entry.content or {"clusters": {}})["clusters"])
    waiting = [rest for each in readers if (rest := _rest(each, name, entry)) is not None]
    # At once, a topic of a cluster that stays is gone without ever having been seen to drain.
    at_once = entry.drain.policy == "Immediate" and generation != before.observed_generation
    waiting += _behind(readers, waiting, before, desired, at_once=at_once)
    clusters = [ClusterStatus(id=each, state="Active") for each in desired]
    for cluster in sorted({each for rest in waiting for each in rest.clusters} - set(desired))[: 3 * MAX_CLUSTERS]:
        who = sorted({rest.reader.application for rest in waiting if cluster in rest.clusters})
        clusters.append(ClusterStatus(id=cluster, state="Draining", message=f"waiting for {', '.join(who)}"[:1024]))
    named = [each for each in readers if not each.orphan]
    ready = _ready(catalog, name)
    conditions = [ready, _stalled(ready), _reconciling(named, name, entry), _safe(readers, waiting)]
    return KafkaStreamStatus(
        observed_generation=generation,
        clusters=tuple(clusters),
        cluster_names=_names(clusters),
        subscribers=tuple(
            SubscriberStatus(name=each.name, application=each.application, state=each.life)
            for each in named[:MAX_SUBSCRIBERS]
        ),
        conditions=settled(conditions, before.conditions, generation=generation, now=now),
    )


def _names(clusters: Sequence[ClusterStatus]) -> str:
    """The clusters in one line, as many as fit: of a list `kubectl get` would show the first alone."""
    names = [each.id if each.state == "Active" else f"{each.id} (draining)" for each in clusters]
    for count in range(len(names), 0, -1):
        more = f" and {len(names) - count} more" if count < len(names) else ""
        if len(line := ", ".join(names[:count]) + more) <= NAMES_CHARACTERS:
            return line
    return ""


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


def _stalled(ready: Condition) -> Condition:
    if ready.status == "True":
        return condition("Stalled", False, "Settled")
    return condition("Stalled", True, ready.reason, ready.message)


def _reconciling(readers: list[Subscriber], name: str, entry: StreamEntry) -> Condition:
    """Whether what the stream says now is on its way. Without numbers that move: it goes into a status."""
    going = [
        each.name
        for each in readers
        if each.asks and not each.says("Stalled") and (each.is_rolling_out or _is_news_to(each, name, entry))
    ]
    if not going or entry.content is None or entry.conflict:
        return condition("Reconciling", False, "Settled")
    more = f" and {len(going) - 5} more" if len(going) > 5 else ""
    text = f"on its way to {', '.join(going[:5])}{more}. Which of them waits for what: kubectl get kss"
    return condition("Reconciling", True, "RollingOut", text)


def _is_news_to(reader: Subscriber, name: str, entry: StreamEntry) -> bool:
    """Whether its document does not say yet what the stream says, because nobody has looked, or in a pause. What drains
    there does not count: it is no longer what the stream names."""
    if entry.content is None or name not in reader.rendered:
        return False
    there = active(reader.rendered[name])["clusters"]
    # A rename stays in the document until a driver has it, after the stream has taken it out.
    kept = {
        cluster: {"renamedFrom": content["renamedFrom"]}
        for cluster, content in there.items()
        if "renamedFrom" in content
    }
    desired = {cluster: {**kept.get(cluster, {}), **content} for cluster, content in entry.content["clusters"].items()}
    return document_hash({name: {"clusters": there}}) != document_hash({name: {"clusters": desired}})


def _rest(reader: Subscriber, name: str, entry: StreamEntry) -> _Rest | None:
    if reader.unknown:
        return _Rest(reader, frozenset(), f"neither its status nor its document can be read{_left_behind(reader)}")
    named = {name: entry.content} if entry.content is not None else {}
    desired = {key for _, key, _ in entries(named)}
    renamed = renames(named)
    rendered = {renamed_to(key, renamed) for stream, key, _ in entries(reader.rendered) if stream == name}
    left = rendered - desired | {
        Key(topic.cluster, topic.topic) for topic in reader.status.draining if topic.stream == name
    }
    # What several streams had drains in all of them; the status tells of it once.
    draining = [topic for topic in reader.status.draining if Key(topic.cluster, topic.topic) in left]
    if not left:
        return None
    first = min(left)
    why = f"its document still has {first}{_and_more(left)}{_left_behind(reader)}"
    if draining:
        since = min(topic.since for topic in draining)[:19]
        waits = draining[0]
        why = f"since {since}Z: {waits.cluster}/{waits.topic}: {waits.message or 'waits'}{_and_more(draining)}"
    return _Rest(reader, frozenset(key.cluster for key in left), why)


def _and_more(found: Collection[object]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _left_behind(reader: Subscriber) -> str:
    if not reader.orphan:
        return ""
    return f", and its subscription is gone: delete ConfigMap {reader.orphan} when no job reads it"


def _behind(
    readers: list[Subscriber], waiting: list[_Rest], before: KafkaStreamStatus, desired: list[str], *, at_once: bool
) -> list[_Rest]:
    """Those whose document has let go of something since it was last safe, without that being in force."""
    left = {each.id for each in before.clusters} - set(desired)
    was_safe = any(each.type == "SafeToDecommission" and each.status == "True" for each in before.conditions)
    if not left and was_safe and not at_once:
        return []
    known = {rest.reader.name for rest in waiting}
    return [
        _Rest(reader, frozenset(left), f"revision {reader.revision.rpartition('/')[2]} is not in force yet")
        for reader in readers
        if reader.is_behind and reader.name not in known
    ]


def _safe(readers: list[Subscriber], waiting: list[_Rest]) -> Condition:
    if not waiting:
        return condition("SafeToDecommission", True, "NothingDrains", "nobody reads what the stream does not name")
    who = "; ".join(f"{rest.reader.application} ({rest.reader.life}, {rest.why})" for rest in waiting)
    text = f"{len(readers) - len(waiting)} of {len(readers)} drained; waiting for {who}"
    names = sorted({rest.reader.name for rest in waiting if not rest.reader.orphan})
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        text = f"{text}. What to do: kubectl describe kss {' '.join(names[:5])}{more}"
    return condition("SafeToDecommission", False, "Draining", text)
