"""Find the objects to look at after a change: those whose look may end otherwise than before. Operator.

An object that is missed here is looked at when something else wakes it, or by the resync (`watch.py`). So all are woken
where something is rare, or cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dynamic_kafka.contract.kubernetes_names import SUBSCRIPTION_LABEL, config_map_name
from kafkastream_operator.core.document import cluster_names
from kafkastream_operator.core.patterns import PatternError, pattern_of
from kafkastream_operator.handlers.stream_subscribers import life_of
from kafkastream_operator.handlers.subscription_view import (
    document_in,
    labels_of,
    stream_entry_of,
    streams_in_map,
    subscription_named_in,
)
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CLUSTERS,
    CONFIG_MAPS,
    PODS,
    STREAMS,
    SUBSCRIPTIONS,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache, Ref, is_status_alone
from kafkastream_operator.kube.tags import (
    CONFLICTING,
    CROWDED,
    PATTERN,
    cluster_tag,
    document_tag,
    former_tag,
    names_of,
    reader_tag,
    stream_tag,
    subscriber_tag,
    tags_of,
)
from kafkastream_operator.spark.kinds import application_named_in

Clusters = Mapping[str, Mapping[str, Any]]
_COMPARED = 3
"""With how many others a changed stream is compared: the first ones may disagree themselves, and not say so yet."""


def concerned(cache: Cache, ref: Ref, before: Object | None, after: Object | None) -> Iterator[Ref]:
    """Yield the objects that a change concerns, some of them several times.

    Args:
        cache: as it is after the change.
        before, after: the object; None if it was not there, or is gone.
    """
    if ref.resource == SUBSCRIPTIONS:
        yield from _of_subscription(cache, ref, before, after)
    elif ref.resource == STREAMS:
        yield from _of_stream(cache, ref, before, after)
    elif ref.resource == CONFIG_MAPS:
        yield from _of_config_map(cache, ref, before, after)
    elif ref.resource == PODS:
        labels = [labels_of(version) for version in (before, after) if version is not None]
        for application in {application_named_in(named) for named in labels} - {""}:
            yield from _subscriptions_of(cache, ref.namespace, application)
    else:
        yield from _of_application(cache, ref, before, after)


def all_keys(cache: Cache, namespace: str) -> Iterator[Ref]:
    """Yield all objects of a namespace that are looked at."""
    for kind in (SUBSCRIPTIONS, STREAMS, *APPLICATIONS.values()):
        yield from all_of(cache, kind, namespace)
    yield from metadata_config_maps(cache, namespace)


def all_of(cache: Cache, resource: Resource, namespace: str) -> Iterator[Ref]:
    """Yield all objects of a kind in a namespace."""
    return (Ref(resource, namespace, item["metadata"]["name"]) for item in cache.all(resource, namespace))


def metadata_config_maps(cache: Cache, namespace: str) -> Iterator[Ref]:
    """Yield the users' ConfigMaps: each may shadow another one, or conflict with it."""
    for config_map in cache.all(CONFIG_MAPS, namespace):
        if SUBSCRIPTION_LABEL not in labels_of(config_map):
            yield Ref(CONFIG_MAPS, namespace, config_map["metadata"]["name"])


def _of_subscription(cache: Cache, ref: Ref, before: Object | None, after: Object | None) -> Iterator[Ref]:
    yield ref
    if before is not None and after is not None and before["metadata"]["uid"] != after["metadata"]["uid"]:
        yield from _of_subscription(cache, ref, before, None)
        before = None
    changed = after if after is not None else before
    assert changed is not None
    application = str(changed["spec"]["applicationRef"]["name"])
    if after is None or after["metadata"].get("deletionTimestamp"):
        yield from _subscriptions_of(cache, ref.namespace, application)  # its successor's turn
    if (before is None or after is None) and cache.get(CONFIG_MAPS, ref.namespace, config_map_name(application)):
        yield from all_of(cache, STREAMS, ref.namespace)  # the document is left behind, or was
    for version in (before, after):
        if version is not None:
            yield from _named_by(cache, ref.namespace, version)
    yield from _streams_with(cache, ref.namespace, [subscriber_tag(ref.name)])
    if _progress(before) != _progress(after):
        yield from _where_read(cache, ref.namespace, application)
    for kind in APPLICATIONS.values() if not is_status_alone(before, after) else ():
        # The annotations of the application may ask for this subscription, which somebody may have changed.
        if cache.get(kind, ref.namespace, ref.name) is not None:
            yield Ref(kind, ref.namespace, ref.name)


def _progress(subscription: Object | None) -> object:
    """Return what a subscription says about the document that its driver uses."""
    if subscription is None:
        return None
    status = subscription.get("status") or {}
    rollout, rendered = status.get("rollout") or {}, status.get("rendered")
    return rollout.get("token"), rollout.get("phase"), rendered, subscription["metadata"].get("deletionTimestamp")


def _of_stream(cache: Cache, ref: Ref, before: Object | None, after: Object | None) -> Iterator[Ref]:
    yield ref
    if is_status_alone(before, after):
        return
    namespace = ref.namespace
    for user_map in metadata_config_maps(cache, namespace):
        yield user_map
        if ref.name in streams_in_map(cache, cache.get(*user_map)):
            yield from all_of(cache, STREAMS, namespace)  # it shadows the stream of the ConfigMap, or did
    for subscription in cache.tagged(SUBSCRIPTIONS, namespace, stream_tag(ref.name)):
        yield Ref(SUBSCRIPTIONS, namespace, subscription["metadata"]["name"])
    for subscription in cache.tagged(SUBSCRIPTIONS, namespace, PATTERN):
        if _matches(subscription["spec"]["streams"]["pattern"], ref.name):
            yield Ref(SUBSCRIPTIONS, namespace, subscription["metadata"]["name"])
    for config_map in cache.all(CONFIG_MAPS, namespace):
        named_in = subscription_named_in(config_map)
        if named_in and ref.name in _streams_in(cache, config_map):
            yield Ref(SUBSCRIPTIONS, namespace, named_in)
    yield from _streams_with(cache, namespace, [CONFLICTING])
    yield from _neighbours(cache, ref, *(_described(cache, version) for version in (before, after)))


def _described(cache: Cache, stream: Object | None) -> Clusters:
    """Return what a stream says of its clusters to others; nothing if it is invalid, or being deleted."""
    if stream is None or stream["metadata"].get("deletionTimestamp"):
        return {}
    return stream_entry_of(cache, stream).described


def _neighbours(cache: Cache, ref: Ref, before: Clusters, after: Clusters) -> Iterator[Ref]:
    """Yield the streams that may come to disagree with a changed one, or no longer name a cluster that it names."""
    for cluster in before.keys() | after.keys():
        versions = [clusters[cluster] for clusters in (before, after) if cluster in clusters]
        if len(versions) == 2 and versions[0] == versions[1]:
            continue
        names = {name for described in versions for name in cluster_names(cluster, str(described["bootstrapServers"]))}
        yield from _streams_with(cache, ref.namespace, map(former_tag, names))
        renamed = {str(described["renamedFrom"]) for described in versions if "renamedFrom" in described}
        if renamed:
            yield from _streams_with(cache, ref.namespace, map(cluster_tag, names | renamed))
        elif cluster in after:
            others = [other for other in _streams_with(cache, ref.namespace, [cluster_tag(cluster)]) if other != ref]
            # All that do not disagree say the same: it is enough to compare with one.
            if not any(_agrees(cache, other, cluster, after[cluster]) for other in others[:_COMPARED]):
                yield from others


def _agrees(cache: Cache, other: Ref, cluster: str, described: Mapping[str, Any]) -> bool:
    stream = cache.get(*other)
    if stream is None or CONFLICTING in tags_of(STREAMS, stream):
        return False
    return _described(cache, stream).get(cluster) == described


def _of_config_map(cache: Cache, ref: Ref, before: Object | None, after: Object | None) -> Iterator[Ref]:
    versions = [version for version in (before, after) if version is not None]
    if any(SUBSCRIPTION_LABEL not in labels_of(version) for version in versions):
        yield from all_of(cache, SUBSCRIPTIONS, ref.namespace)
        yield from all_of(cache, STREAMS, ref.namespace)
        yield from metadata_config_maps(cache, ref.namespace)
        return
    owners = cache.tagged(SUBSCRIPTIONS, ref.namespace, document_tag(ref.name))
    names = {owner["metadata"]["name"] for owner in owners}
    for name in names | {subscription_named_in(version) for version in versions}:
        yield Ref(SUBSCRIPTIONS, ref.namespace, name)
    was, now = (_readings_in(cache, version) for version in (before, after))
    is_gone = after is None or after["metadata"].get("deletionTimestamp")
    if is_gone or not names or was is None or now is None:
        # A subscriber without a document may read any stream. So may one that was left behind.
        yield from all_of(cache, STREAMS, ref.namespace)
        return
    # The streams of a subscription follow its status. Others name a cluster that the document has, or has no more.
    # Many streams may have a cluster, and many documents change at once: such a key finds those whose status changes.
    yield from (Ref(CLUSTERS, ref.namespace, name) for name in {name for _, name in was ^ now})


def _of_application(cache: Cache, ref: Ref, before: Object | None, after: Object | None) -> Iterator[Ref]:
    if not is_status_alone(before, after):
        yield ref
    yield from _subscriptions_of(cache, ref.namespace, ref.name)
    if len({life_of(cache, ref.resource.api_version, version) for version in (before, after)}) == 1:
        return
    subscriptions = cache.tagged(SUBSCRIPTIONS, ref.namespace, document_tag(config_map_name(ref.name)))
    for subscription in subscriptions:
        yield from _named_by(cache, ref.namespace, subscription)
        yield from _streams_with(cache, ref.namespace, [subscriber_tag(subscription["metadata"]["name"])])
    if subscriptions:
        yield from _where_read(cache, ref.namespace, ref.name)
    elif cache.get(CONFIG_MAPS, ref.namespace, config_map_name(ref.name)) is not None:
        yield from all_of(cache, STREAMS, ref.namespace)  # the document was left behind


def _subscriptions_of(cache: Cache, namespace: str, application: str) -> Iterator[Ref]:
    """Yield the subscriptions of an application, and that of a document which was left behind."""
    for subscription in cache.tagged(SUBSCRIPTIONS, namespace, document_tag(config_map_name(application))):
        yield Ref(SUBSCRIPTIONS, namespace, subscription["metadata"]["name"])
    # Its document may have been left behind: then it stays for as long as the application is there.
    document = cache.get(CONFIG_MAPS, namespace, config_map_name(application))
    if document is not None and (named := subscription_named_in(document)):
        yield Ref(SUBSCRIPTIONS, namespace, named)


def _named_by(cache: Cache, namespace: str, subscription: Object) -> Iterator[Ref]:
    """Yield the streams that a subscription asks for, reads or drains."""
    spec, status = subscription["spec"], subscription.get("status") or {}
    pattern = (spec.get("streams") or {}).get("pattern")
    if pattern is not None:
        yield from (stream for stream in all_of(cache, STREAMS, namespace) if _matches(pattern, stream.name))
    names = {*((spec.get("streams") or {}).get("ids") or ()), *(status.get("kept") or ())}
    names |= {str(topic.get("stream")) for topic in status.get("draining") or ()}
    document = cache.get(CONFIG_MAPS, namespace, config_map_name(spec["applicationRef"]["name"]))
    if document is not None:
        if _readings_in(cache, document) is None and not status.get("kept"):
            yield from all_of(cache, STREAMS, namespace)
            return
        names |= _streams_in(cache, document)
    elif status.get("rendered") and not status.get("kept"):
        yield from all_of(cache, STREAMS, namespace)
        return
    yield from (Ref(STREAMS, namespace, name) for name in names)


def _matches(pattern: str, stream: str) -> bool:
    try:
        return pattern_of(pattern).fullmatch(stream) is not None
    except PatternError:
        return False


def _where_read(cache: Cache, namespace: str, application: str) -> Iterator[Ref]:
    """Yield the streams with a cluster that an application may still read, although its document has it no more."""
    yield from _streams_with(cache, namespace, [CROWDED])
    document = cache.get(CONFIG_MAPS, namespace, config_map_name(application))
    there = {name for _, name in _readings_in(cache, document) or ()}
    for stream in cache.tagged(STREAMS, namespace, reader_tag(application)):
        listed = (cluster for cluster in stream["status"]["clusters"] if application in (cluster.get("readers") or ()))
        if any(there.isdisjoint(names_of(cluster)) for cluster in listed):
            yield Ref(STREAMS, namespace, stream["metadata"]["name"])


def _streams_with(cache: Cache, namespace: str, tags: Iterable[tuple[str, str]]) -> Iterator[Ref]:
    for tag in tags:
        for stream in cache.tagged(STREAMS, namespace, tag):
            yield Ref(STREAMS, namespace, stream["metadata"]["name"])


def _streams_in(cache: Cache, config_map: Object) -> set[str]:
    document, _ = document_in(cache, config_map)
    return set(document.streams) if document is not None else set()


def _readings_in(cache: Cache, config_map: Object | None) -> set[tuple[str, str]] | None:
    """Return the streams in a document, each with its clusters by id and server; None if it cannot be read."""
    if config_map is None:
        return set()
    document, _ = document_in(cache, config_map)
    if document is None:
        return None
    return {
        (stream, name)
        for stream, content in document.streams.items()
        for cluster, described in content["clusters"].items()
        for name in cluster_names(cluster, str(described["bootstrapServers"]))
    }
