"""The verdict on each cluster of a stream: `InUse`, `Draining` or `Released`. Pure; `core.stream_status` calls it.

`Released` is the word before a cluster is shut down. So it is about the whole namespace: no stream names the cluster,
and no document that a driver uses, or may start with, has it. The rendered documents decide: a subscription may be
paused, or come later in the queue, so that its removal has not even begun. A document without the cluster is not enough
either: until it is in force, the driver uses the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from dynamic_kafka.wording import first_few
from kafkastream_operator.core.catalog import Catalog, StreamEntry
from kafkastream_operator.core.document import Key, active, cluster_names, entries
from kafkastream_operator.core.everybody import Everybody, Reading
from kafkastream_operator.core.render import renamed_to, renames
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.core.timestamps import parse
from kafkastream_operator.models.conditions import Condition, condition
from kafkastream_operator.models.fields import MAX_CLUSTERS
from kafkastream_operator.models.stream import MAX_READERS, ClusterState, ClusterStatus, KafkaStreamStatus

RELEASED_KEPT = timedelta(days=7)
"""How long a released cluster stays in the status: as long as sources keep its offsets by default."""


@dataclass(frozen=True)
class Remainder:
    """The clusters that a subscriber still reads and the stream no longer names, with the reason for a message."""

    reader: Subscriber
    clusters: frozenset[str]
    why: str

    def __str__(self) -> str:
        return f"{self.reader.application} ({self.reader.life}, {self.why})"


def remainders(
    name: str, entry: StreamEntry, readers: Sequence[Subscriber], before: KafkaStreamStatus, *, at_once: bool
) -> list[Remainder]:
    """Return the rest of each subscriber of the stream that has one.

    Args:
        at_once: whether a topic may have left a document without ever being seen to drain.
    """
    waiting = [rest for reader in readers if (rest := _remainder(reader, name, entry)) is not None]
    read = {cluster.id for cluster in before.clusters if cluster.in_stream or cluster.state == "Draining"}
    left = read - set(_named(entry))
    # In statuses of earlier releases, the second one says that a document without the topic is in force.
    last = [known.status for known in before.conditions if known.type in ("Drained", "SafeToDecommission")]
    if not left and last and set(last) == {"True"} and not at_once:
        return waiting
    found = {rest.reader.name: rest for rest in waiting}
    for reader in readers:
        if reader.is_behind:
            rest = found.get(reader.name) or Remainder(reader, frozenset(), _not_in_force(reader))
            found[reader.name] = replace(rest, clusters=rest.clusters | left)
    return list(found.values())


def drained(readers: Sequence[Subscriber], waiting: Sequence[Remainder]) -> Condition:
    """Say whether the subscribers of the stream read nothing that it no longer names."""
    if not waiting:
        return condition("Drained", "NothingDrains", "no application reads anything that the stream no longer names")
    text = f"{len(readers) - len(waiting)} of {len(readers)} drained; {_waits_for(waiting)}"
    return condition("Drained", "Draining", text)


def verdicts(
    name: str,
    catalog: Catalog,
    waiting: Sequence[Remainder],
    everybody: Everybody,
    before: KafkaStreamStatus,
    *,
    now: str,
) -> tuple[ClusterStatus, ...]:
    """Return the clusters of the status: those of the stream first, as it names them.

    Args:
        waiting: what the subscribers of the stream still read and it no longer names.
        everybody: all subscribers of the namespace, and all documents that were left behind.
        before: the last status. It has the clusters that the stream no longer names.
    """
    entry = catalog.streams[name]
    known = {cluster.id: cluster for cluster in before.clusters}
    named = _named(entry) if entry.content is not None else _last_named(name, everybody.of(name), before)
    found: dict[str, ClusterStatus] = {}

    def add(cluster: str, state: ClusterState, servers: str, message: str = "", *, more: Iterable[str] = ()) -> None:
        last = known.get(cluster)
        servers = servers or (last.bootstrap_servers if last is not None else "")
        readers, more_readers = _readers(cluster, servers, last, everybody, more, in_stream=cluster in named)
        found[cluster] = ClusterStatus(
            id=cluster,
            state=state,
            since=last.since if last is not None and last.state == state and last.since else now,
            bootstrap_servers=servers,
            readers=readers,
            more_readers=more_readers and state != "Released",
            in_stream=cluster in named,
            message=message[:1024],
        )

    for cluster, content in named.items():
        add(cluster, "InUse", _servers_of(content))
    servers = {
        cluster: _servers_of(content)
        for rest in waiting
        for cluster, content in _clusters(rest.reader.rendered.get(name))
    }
    for cluster in sorted({cluster for rest in waiting for cluster in rest.clusters} - found.keys()):
        rests = [rest for rest in waiting if cluster in rest.clusters]
        applications = [rest.reader.application for rest in rests]
        add(cluster, "Draining", servers.get(cluster, ""), _waits_for(rests), more=applications)
    renamed = renames({name: entry.content} if entry.content is not None else {})
    for last in before.clusters:
        if last.id in found or last.id in renamed:
            continue
        others = _readings(catalog, everybody, cluster_names(last.id, last.bootstrap_servers))
        doubts = [] if last.state == "Released" else _doubts(last, everybody)
        if others:
            text = f"no longer in this stream under this id; {first_few(sorted(map(str, others)), 5)}"
            add(last.id, "InUse", "", text)
        elif doubts:
            add(last.id, last.state, "", _waits_for(doubts), more=[doubt.reader.application for doubt in doubts])
        elif not _is_forgotten(last, now):
            add(last.id, "Released", "")
    in_order = sorted(found.values(), key=lambda cluster: (cluster.state == "Released", cluster.id not in named))
    return tuple(in_order[: 4 * MAX_CLUSTERS])


def _readers(
    cluster: str,
    servers: str,
    last: ClusterStatus | None,
    everybody: Everybody,
    more: Iterable[str] = (),
    *,
    in_stream: bool,
) -> tuple[tuple[str, ...], bool]:
    """Return the first of the applications that read a cluster for any stream, or may still do so; and `more_readers`.

    A document that comes into force wakes no stream whose cluster does not list its application. So `more_readers`
    stays while the cluster is in the stream, and ends after it has left.
    """
    lists = [everybody.applications.get(key, ())[: MAX_READERS + 1] for key in cluster_names(cluster, servers)]
    before = last.readers if last is not None else ()
    behind = [reader.application for reader in everybody.behind if reader.application in before]
    names = sorted({*behind, *more}.union(*lists))
    were_more = last is not None and _had_more(last) and (in_stream or bool(everybody.behind))
    return tuple(names[:MAX_READERS]), were_more or len(names) > MAX_READERS


def _had_more(cluster: ClusterStatus) -> bool:
    """Return whether more applications may have read a cluster than its status names; older ones do not say."""
    return cluster.more_readers or len(cluster.readers) == MAX_READERS


def is_outdated(status: KafkaStreamStatus, name: str, everybody: Everybody) -> bool:
    """Return whether a look at a stream may find other readers of a cluster than its status has.

    Args:
        name: of the cluster: an id, or one of its servers.
    """
    found = [known for known in status.clusters if name in cluster_names(known.id, known.bootstrap_servers)]
    return not found or any(
        known.state != "InUse"
        or not known.in_stream
        or (known.readers, known.more_readers)
        != _readers(known.id, known.bootstrap_servers, known, everybody, in_stream=True)
        for known in found
    )


def _readings(catalog: Catalog, everybody: Everybody, keys: Iterable[str]) -> Collection[Reading]:
    """Return the streams that name a cluster, and the documents that have it, under any of its names."""
    names = list(keys)
    streams = {Reading(stream) for key in names for stream in catalog.naming.get(key, ())}
    return streams.union(*(everybody.readings.get(key, ()) for key in names))


def _doubts(cluster: ClusterStatus, everybody: Everybody) -> list[Remainder]:
    """Return the subscribers that may still read a cluster: documents that cannot be read, or are not in force yet."""
    behind = (
        reader
        for reader in everybody.behind
        if not reader.unknown and (_had_more(cluster) or reader.application in cluster.readers)
    )
    return [
        *(Remainder(reader, frozenset(), _unreadable(reader)) for reader in everybody.unknown),
        *(Remainder(reader, frozenset(), _not_in_force(reader)) for reader in behind),
    ]


def _clusters(content: Mapping[str, Any] | None) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return content["clusters"].items() if content is not None else ()


def _servers_of(content: Mapping[str, Any]) -> str:
    return str(content["bootstrapServers"])


def _named(entry: StreamEntry) -> Mapping[str, Mapping[str, Any]]:
    return dict(_clusters(entry.content))


def _last_named(name: str, readers: Iterable[Subscriber], before: KafkaStreamStatus) -> Mapping[str, Mapping[str, Any]]:
    """Return the clusters of a stream whose spec is invalid: it stays as it was."""
    named: dict[str, Mapping[str, Any]] = {
        cluster.id: {"bootstrapServers": cluster.bootstrap_servers}
        for cluster in before.clusters
        if cluster.state == "InUse" and cluster.in_stream
    }
    for reader in readers:
        if name in reader.rendered:
            named |= active(reader.rendered[name])["clusters"]
    return named


def _is_forgotten(cluster: ClusterStatus, now: str) -> bool:
    since = cluster.since if cluster.state == "Released" else None
    return since is not None and parse(now) - parse(since) > RELEASED_KEPT


def _not_in_force(reader: Subscriber) -> str:
    return f"revision {reader.revision.rpartition('/')[2]} is not in force yet{_left_behind(reader)}"


def _unreadable(reader: Subscriber) -> str:
    return f"neither its status nor its document can be read{_left_behind(reader)}"


def _waits_for(waiting: Sequence[Remainder]) -> str:
    text = f"waiting for {'; '.join(map(str, waiting))}"
    names = sorted({rest.reader.name for rest in waiting if not rest.reader.orphan})
    return f"{text}. For the remedy: kubectl describe kss {first_few(names, 5, separator=' ')}" if names else text


def _remainder(reader: Subscriber, name: str, entry: StreamEntry) -> Remainder | None:
    if reader.unknown:
        return Remainder(reader, frozenset(), _unreadable(reader))
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
    return Remainder(reader, frozenset(key.cluster for key in left), why)


def _and_more(items: Collection[object]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""


def _left_behind(reader: Subscriber) -> str:
    if not reader.orphan:
        return ""
    return f", and its subscription is gone: delete ConfigMap {reader.orphan} when no job reads it"
