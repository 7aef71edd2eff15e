"""The tags by which the cache finds objects without a search: what each kind names. Pure.

A tag is a pair of its kind and a text. Objects are not validated yet, so that every field may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynamic_kafka.contract.kubernetes_names import config_map_name
from kafkastream_operator.kube.api import PODS, STREAMS, SUBSCRIPTIONS, Object, Resource
from kafkastream_operator.models.stream import MAX_READERS

Tag = tuple[str, str]

CONFLICTING: Tag = ("conflict", "")
"""A stream that disagrees with another one, by its status."""
CROWDED: Tag = ("crowded", "")
"""A stream with a former cluster that may have more readers than its status names."""
PATTERN: Tag = ("pattern", "")
"""A subscription that asks for streams by a pattern."""


def cluster_tag(name: str) -> Tag:
    """Return the tag of streams that name a cluster of this id or former id, or with this server."""
    return "cluster", name


def former_tag(name: str) -> Tag:
    """Return the tag of streams that no longer name such a cluster, and still have it in their status."""
    return "former", name


def reader_tag(application: str) -> Tag:
    """Return the tag of streams whose status names the application as a reader."""
    return "reader", application


def subscriber_tag(subscription: str) -> Tag:
    """Return the tag of streams whose status names the subscription."""
    return "subscriber", subscription


def stream_tag(stream: str) -> Tag:
    """Return the tag of subscriptions that name a stream in their spec or status."""
    return "stream", stream


def document_tag(config_map: str) -> Tag:
    """Return the tag of subscriptions whose document has this name: those of one application."""
    return "document", config_map


def label_tag(label: str, value: str) -> Tag:
    """Return the tag of pods with a label."""
    return label, value


def tags_of(resource: Resource, kube_object: Object) -> frozenset[Tag]:
    """Return the tags of an object."""
    if resource == STREAMS:
        return frozenset(_of_stream(kube_object))
    if resource == SUBSCRIPTIONS:
        return frozenset(_of_subscription(kube_object))
    if resource == PODS:
        labels = kube_object["metadata"].get("labels") or {}
        return frozenset(label_tag(label, str(value)) for label, value in labels.items())
    return frozenset()


def clusters_of(stream: Object) -> dict[str, dict[str, Any]]:
    """Return the clusters that a stream names, by their ids."""
    return {str(cluster.get("id")): cluster for cluster in _listed(stream, "spec", "clusters")}


def names_of(cluster: Mapping[str, Any]) -> set[str]:
    """Return the names of a cluster in a stream's spec or status: its id, a former one, and its servers."""
    ids = [str(cluster[key]) for key in ("id", "renamedFrom") if cluster.get(key)]
    return {*ids, *str(cluster.get("bootstrapServers", "")).split(",")} - {""}


def _of_stream(stream: Object) -> Iterator[Tag]:
    named = clusters_of(stream)
    for cluster in named.values():
        yield from map(cluster_tag, names_of(cluster))
    if any(condition.get("reason") == "Conflict" for condition in _listed(stream, "status", "conditions")):
        yield CONFLICTING
    for subscriber in _listed(stream, "status", "subscribers"):
        yield subscriber_tag(str(subscriber.get("name")))
    for cluster in _listed(stream, "status", "clusters"):
        if cluster.get("id") not in named:
            yield from map(former_tag, names_of(cluster))
        readers = cluster.get("readers") or ()
        yield from map(reader_tag, readers)
        if not cluster.get("inStream") and (cluster.get("moreReaders") or len(readers) >= MAX_READERS):
            yield CROWDED


def _of_subscription(subscription: Object) -> Iterator[Tag]:
    spec, status = subscription.get("spec") or {}, subscription.get("status") or {}
    yield document_tag(config_map_name(str((spec.get("applicationRef") or {}).get("name"))))
    streams = spec.get("streams") or {}
    if streams.get("pattern") is not None:
        yield PATTERN
    yield from map(stream_tag, {*(streams.get("ids") or ()), *(status.get("kept") or ())})
    for topic in _listed(subscription, "status", "draining"):
        yield stream_tag(str(topic.get("stream")))


def _listed(kube_object: Object, part: str, name: str) -> list[dict[str, Any]]:
    content = kube_object.get(part)
    found = content.get(name) if isinstance(content, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
