"""All subscribers of a namespace, arranged so that a look at one stream touches only those that matter to it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from kafkastream_operator.core.document import cluster_names
from kafkastream_operator.core.patterns import PatternError
from kafkastream_operator.core.resolve import asks_for
from kafkastream_operator.core.subscriber import Subscriber


class Reading(NamedTuple):
    """A stream that names a cluster, or an application whose document has the cluster for a stream."""

    stream: str
    application: str = ""

    def __str__(self) -> str:
        reads = f"application {self.application} reads it for stream {self.stream}"
        return reads if self.application else f"stream {self.stream} names it, or one of its servers"


class Everybody:
    """The subscribers of a namespace, and the documents that were left behind.

    Attributes:
        readings: the documents with a cluster, by its id and by each of its servers.
        applications: the applications of these documents, sorted.
    """

    def __init__(self, subscribers: Iterable[Subscriber] = (), last: Everybody | None = None) -> None:
        """Arrange the subscribers; what most of them share with the last ones is taken over."""
        self.subscribers = tuple(subscribers)
        self.readings, self.applications = self._readings(last)

    @cached_property
    def behind(self) -> tuple[Subscriber, ...]:
        """Those whose drivers may still use an older document."""
        return tuple(subscriber for subscriber in self.subscribers if subscriber.is_behind)

    @cached_property
    def unknown(self) -> tuple[Subscriber, ...]:
        """Those that had a document which cannot be read."""
        return tuple(subscriber for subscriber in self.subscribers if subscriber.unknown)

    def of(self, stream: str, before: Collection[str] = ()) -> list[Subscriber]:
        """Return those that read a stream, ask for it, drain a topic of it, or may do so without any sign of it.

        Args:
            before: the subscriptions that read the stream at the last reconciliation; their drivers may still do so.
        """
        found = [*self._by_stream.get(stream, ()), *self.unknown, *self._left_behind]
        found += [subscriber for subscriber in self._with_pattern if _asks(subscriber, stream)]
        found += [subscriber for subscriber in self.behind if subscriber.name in before]
        once = {(subscriber.name, subscriber.orphan): subscriber for subscriber in found}
        return [replace(reader, asks=bool(reader.orphan) or _asks(reader, stream)) for reader in once.values()]

    def _readings(self, last: Everybody | None) -> tuple[Mapping[str, Counter[Reading]], Mapping[str, tuple[str, ...]]]:
        """Return the readings and the applications of each cluster.

        Most documents are those of `last`: only the clusters of others are counted again. Two documents may have one
        reading, such as one that was left behind and its successor, so that readings are counted.
        """
        old = {(known.application, id(known.rendered)): known for known in last.subscribers} if last is not None else {}
        new = {(known.application, id(known.rendered)): known for known in self.subscribers}
        changes: defaultdict[str, Counter[Reading]] = defaultdict(Counter)
        for document in old.keys() - new.keys():
            for key, reading in _of_document(old[document]):
                changes[key][reading] -= 1
        for document in new.keys() - old.keys():
            for key, reading in _of_document(new[document]):
                changes[key][reading] += 1
        readings, applications = (dict(last.readings), dict(last.applications)) if last is not None else ({}, {})
        for key, change in changes.items():
            found = Counter(readings.get(key, ()))
            found.update(change)
            if counted := +found:
                readings[key] = counted
                applications[key] = tuple(sorted({reading.application for reading in counted}))
            else:
                readings.pop(key, None)
                applications.pop(key, None)
        return readings, applications

    @cached_property
    def _by_stream(self) -> Mapping[str, list[Subscriber]]:
        found: defaultdict[str, list[Subscriber]] = defaultdict(list)
        for subscriber in self.subscribers:
            drained = {topic.stream for topic in subscriber.status.draining}
            asked = (subscriber.spec.streams.ids or ()) if subscriber.spec is not None else ()
            for stream in {*subscriber.rendered, *drained, *asked}:
                found[stream].append(subscriber)
        return found

    @cached_property
    def _left_behind(self) -> tuple[Subscriber, ...]:
        return tuple(subscriber for subscriber in self.subscribers if subscriber.orphan)

    @cached_property
    def _with_pattern(self) -> tuple[Subscriber, ...]:
        return tuple(
            subscriber
            for subscriber in self.subscribers
            if subscriber.spec is not None and subscriber.spec.streams.pattern is not None
        )


def _of_document(subscriber: Subscriber) -> Iterator[tuple[str, Reading]]:
    """Yield the clusters of its document, by their ids and by each of their servers."""
    for stream, content in subscriber.rendered.items():
        for cluster, described in content["clusters"].items():
            for key in cluster_names(cluster, str(described["bootstrapServers"])):
                yield key, Reading(stream, subscriber.application)


def _asks(subscriber: Subscriber, stream: str) -> bool:
    """Return whether its spec asks for a stream; False if this version cannot read the spec."""
    try:
        return subscriber.spec is not None and asks_for(subscriber.spec, stream)
    except PatternError:
        return False
