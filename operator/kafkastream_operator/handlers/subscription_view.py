"""Build the view of one subscription from the cache, for the core to decide on. Operator; makes no API calls.

A worker calls it through `reconcile.py`, for each reconciliation.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import (
    APPLICATION_GONE_ANNOTATION,
    CONFIG_MAP_SUFFIX,
    METADATA_ROLE,
    RELEASE_ANNOTATION,
    RENDERED_ROLE,
    REPORT_ANNOTATION,
    RETRY_ANNOTATION,
    REVISION_ANNOTATION,
    ROLE_LABEL,
    SUBSCRIPTION_LABEL,
    config_map_name,
)
from kafkastream_operator.core.annotated import MADE_LABEL
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.catalog import (
    Catalog,
    ConfigMapText,
    StreamEntry,
    config_map_entries,
    put_together,
    stream_entry,
)
from kafkastream_operator.core.document import Document, is_packed, read_document
from kafkastream_operator.core.drain_evidence import Driver, Report
from kafkastream_operator.core.failure import finished_at
from kafkastream_operator.core.release import releases_of
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.core.view import ConfigMap, View
from kafkastream_operator.handlers.failed_drivers import DRIVER_CONTAINER, FailedDrivers
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, PODS, STREAMS, SUBSCRIPTIONS, Object
from kafkastream_operator.kube.cache import Cache, Part, ref_of
from kafkastream_operator.kube.tags import document_tag, label_tag
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import RELEASE_CHARACTERS, SubscriptionSpec, SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS, Kind


@dataclass(frozen=True)
class ObservedSubscription:
    """The view of a subscription, with the objects that it was built from."""

    view: View
    subscription: Object
    application: Object | None


def observe_subscription(
    cache: Cache,
    namespace: str,
    name: str,
    now: datetime,
    timing: Timing,
    *,
    failed: FailedDrivers | None = None,
    turn: Turn | None = None,
) -> ObservedSubscription | None:
    """Return the view of a subscription; None if it does not exist or is being deleted.

    Args:
        failed: the drivers that have failed; without it, the view has none.
        turn: its place in the order of the restarts.

    Raises:
        ValidationError: this version cannot read its spec, although the API server has accepted it.
    """
    subscription = cache.get(SUBSCRIPTIONS, namespace, name)
    if subscription is None or subscription["metadata"].get("deletionTimestamp"):
        return None
    spec = cache.derive(subscription, spec_of, of_spec=True)
    ref = spec.application_ref
    kind = KINDS[ref.api_version]
    application = cache.get(APPLICATIONS[ref.api_version], namespace, ref.name)
    document = config_map_name(ref.name)
    known = cache.derive(application, kind.application_of) if application is not None else None
    pod, owned = _driver_pod(cache, namespace, ref.name, kind, known)
    current = False
    if known is not None and pod is not None and owned:
        known = kind.with_driver(known, pod)
        current = kind.submission_of(known, pod) == known.submission != ""
    annotations = subscription["metadata"].get("annotations") or {}
    view = View(
        uid=subscription["metadata"]["uid"],
        generation=int(subscription["metadata"].get("generation", 0)),
        spec=spec,
        status=cache.derive(subscription, status_of),
        catalog=catalog_of(cache, namespace),
        config_map=rendered_config_map(cache, namespace, document, subscription),
        application=known,
        driver=_driver(cache, pod, owned, document, current) if pod is not None else None,
        now=now,
        fresh_lineage=uuid.uuid4().hex[:12],
        released=releases_of(annotations.get(RELEASE_ANNOTATION, "")),
        retry=str(annotations.get(RETRY_ANNOTATION, ""))[:RELEASE_CHARACTERS],
        rival=_older_subscription(cache, namespace, subscription),
        annotated=MADE_LABEL in labels_of(subscription),
        failed_driver=failed.of(namespace, ref.name, kind, known) if failed is not None else None,
        turn=turn,
        timing=timing,
    )
    return ObservedSubscription(view, subscription, application)


def catalog_of(cache: Cache, namespace: str) -> Catalog:
    """Return the streams of a namespace, without objects that are being deleted."""
    return cache.made_from(namespace, _CATALOG_PARTS, _catalog)


_CATALOG_PARTS = (
    Part(STREAMS, with_status=False),
    Part(CONFIG_MAPS, METADATA_ROLE),
    Part(SUBSCRIPTIONS, with_status=False),  # one may own a ConfigMap that has the role by mistake
)


def _catalog(cache: Cache, namespace: str, _: Catalog | None) -> Catalog:
    streams = {
        stream["metadata"]["name"]: stream_entry_of(cache, stream)
        for stream in cache.all(STREAMS, namespace)
        if not stream["metadata"].get("deletionTimestamp")
    }
    config_maps = {
        config_map["metadata"]["name"]: cache.derive(config_map, _config_map_entries)
        for config_map in cache.all(CONFIG_MAPS, namespace)
        if labels_of(config_map).get(ROLE_LABEL) == METADATA_ROLE
        and not config_map["metadata"].get("deletionTimestamp")
        and owner_of(cache, config_map) is None
    }
    return put_together(streams, config_maps)


def streams_in_map(cache: Cache, config_map: Object | None) -> set[str]:
    """Return the ids of the streams in a user's ConfigMap."""
    entries, _ = cache.derive(config_map, _config_map_entries) if config_map is not None else ((), "")
    return {entry.stream for entry in entries}


def stream_entry_of(cache: Cache, stream: Object) -> StreamEntry:
    """Return what the catalog has of a KafkaStream, without its conflicts."""
    return cache.derive(stream, _stream_entry, of_spec=True)


def _stream_entry(stream: Object) -> StreamEntry:
    return stream_entry(stream["metadata"]["name"], stream.get("spec", {}))


def _config_map_entries(config_map: Object) -> tuple[list[StreamEntry], str]:
    return config_map_entries(ConfigMapText(config_map["metadata"]["name"], config_map.get("data") or {}))


def spec_of(subscription: Object) -> SubscriptionSpec:
    """Return the spec of a subscription.

    Raises:
        ValidationError: this version cannot read it.
    """
    return SubscriptionSpec.model_validate(subscription["spec"])


def status_of(subscription: Object) -> SubscriptionStatus:
    """Return the status of a subscription. One that this version cannot read counts as empty: it can be rebuilt."""
    try:
        return SubscriptionStatus.model_validate(subscription.get("status") or {})
    except ValidationError:
        return SubscriptionStatus()


def stream_status_of(stream: Object) -> KafkaStreamStatus:
    """Return the status of a stream. One that this version cannot read counts as empty: it can be rebuilt."""
    try:
        return KafkaStreamStatus.model_validate(stream.get("status") or {})
    except ValidationError:
        return KafkaStreamStatus()


def rendered_config_map(cache: Cache, namespace: str, name: str, subscription: Object) -> ConfigMap | None:
    """Return the ConfigMap of a subscription's document; None if it does not exist or is being deleted.

    `owner_of` says to which subscription it belongs.
    """
    config_map = cache.get(CONFIG_MAPS, namespace, name)
    if config_map is None or config_map["metadata"].get("deletionTimestamp"):
        return None
    document, drifted = document_in(cache, config_map)
    meta = subscription["metadata"]
    labelled = subscription_named_in(config_map) == meta["name"]
    owner = subscription if labelled else owner_of(cache, config_map)
    ours = owner is not None and owner["metadata"]["uid"] == meta["uid"]
    was_left_behind = APPLICATION_GONE_ANNOTATION in (config_map["metadata"].get("annotations") or {})
    mislabelled = not labelled or labels_of(config_map).get(ROLE_LABEL) != RENDERED_ROLE
    drifted = drifted or mislabelled or was_left_behind
    return ConfigMap(config_map["metadata"]["resourceVersion"], ours, document, drifted)


def document_in(cache: Cache, config_map: Object) -> tuple[Document | None, bool]:
    """Return the document in a ConfigMap, and whether the ConfigMap's content differs from what the operator writes."""
    return cache.derive(config_map, _document)


def claims(subscription: Object | None, config_map: str) -> bool:
    """Return whether the document of a subscription has this ConfigMap's name. The label has to match as well."""
    return subscription is not None and config_map == config_map_name(subscription["spec"]["applicationRef"]["name"])


def owner_of(cache: Cache, config_map: Object) -> Object | None:
    """Return the subscription to which a rendered ConfigMap belongs; None without one.

    Its label names it. If somebody has edited the label, the UID in the document decides. A document whose subscription
    is gone, perhaps as it was renamed, goes over to another one of the same application, with what drains.
    """
    namespace, name = config_map["metadata"]["namespace"], config_map["metadata"]["name"]
    if not name.endswith(CONFIG_MAP_SUFFIX):
        return None
    labelled = cache.get(SUBSCRIPTIONS, namespace, subscription_named_in(config_map))
    if claims(labelled, name):
        return labelled
    document, _ = document_in(cache, config_map)
    if document is None:
        return None
    claiming = cache.tagged(SUBSCRIPTIONS, namespace, document_tag(name))
    for subscription in claiming:
        if subscription["metadata"]["uid"] == document.subscription:
            return subscription
    if labels_of(config_map).get(ROLE_LABEL) != RENDERED_ROLE:
        return None
    return min(
        (known for known in claiming if not known["metadata"].get("deletionTimestamp")), key=_creation, default=None
    )


def subscription_named_in(config_map: Object) -> str:
    """Return the subscription that a ConfigMap's label names; "" if it names none."""
    return str(labels_of(config_map).get(SUBSCRIPTION_LABEL, ""))


def _document(config_map: Object) -> tuple[Document | None, bool]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    document = read_document(data, binary)
    return document, document is None or not is_packed(document, data, binary)


def _driver_pod(
    cache: Cache, namespace: str, name: str, kind: Kind, application: Application | None
) -> tuple[Object | None, bool]:
    """Return the pod that the application's status names and True, or else the newest pod with its labels and False."""
    pods = [
        pod
        for pod in cache.tagged(PODS, namespace, label_tag(kind.NAME_LABEL, name))
        if labels_of(pod).get("spark-role") == "driver"
    ]
    for pod in pods:
        if application is not None and kind.is_driver(application, pod):
            return pod, True
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None), False


def _driver(cache: Cache, pod: Object, owned: bool, document: str, current: bool) -> Driver:
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    text = annotations.get(REPORT_ANNOTATION)
    running = pod.get("status", {}).get("phase") == "Running" and not meta.get("deletionTimestamp")
    report, (mounted, fault) = cache.derive(pod, _report_of), _mounts(pod, document)
    silent_s, seen_alive = cache.text_age(ref_of(PODS, pod), meta["uid"], text or f"running: {running}")
    return Driver(
        name=meta["name"],
        uid=meta["uid"],
        owned=owned,
        running=running,
        token=annotations.get(REVISION_ANNOTATION, ""),
        report=report,
        silent_s=silent_s,
        seen_alive=seen_alive,
        mounted=mounted,
        mount_fault=fault,
        unreadable=bool(text) and report is None,
        namespace=meta["namespace"],
        account=str(pod.get("spec", {}).get("serviceAccountName") or "default"),
        verdict=TopicVerdict.of(pod.get("status") or {}, frozenset({DRIVER_CONTAINER}))
        if owned and not running
        else None,
        finished_at=finished_at(pod.get("status") or {}) if current else "",
    )


def _report_of(pod: Object) -> Report | None:
    return Report.parse((pod["metadata"].get("annotations") or {}).get(REPORT_ANNOTATION))


def _mounts(pod: Object, document: str) -> tuple[bool, str]:
    """Return whether the driver mounts the folder of the document; if it mounts it wrongly, also how."""
    spec = pod.get("spec") or {}
    volumes = {volume["name"] for volume in spec.get("volumes") or [] if document in _config_maps(volume)}
    containers = spec.get("containers") or []
    drivers = [container for container in containers if container.get("name") == DRIVER_CONTAINER] or containers
    mounts = [
        volume_mount
        for one in drivers
        for volume_mount in one.get("volumeMounts") or []
        if volume_mount.get("name") in volumes
    ]
    whole = any(not mount.get("subPath") and not mount.get("subPathExpr") for mount in mounts)
    if whole or not volumes:
        return whole, ""
    if mounts:
        return False, "mounts a part of the document by subPath, which Kubernetes never updates"
    return False, "has a volume with the document, but no volumeMount of it in the driver's container"


def _config_maps(volume: Mapping[str, Any]) -> set[str]:
    """Return the names of the ConfigMaps in a volume, which may be a projected one."""
    parts = [volume, *((volume.get("projected") or {}).get("sources") or [])]
    return {str((part.get("configMap") or {}).get("name", "")) for part in parts}


def _older_subscription(cache: Cache, namespace: str, own: Object) -> str:
    """Return an older subscription of the same application; "" if there is none, or it is being deleted."""
    mine = config_map_name(own["spec"]["applicationRef"]["name"])
    older = [
        subscription["metadata"]["name"]
        for subscription in cache.tagged(SUBSCRIPTIONS, namespace, document_tag(mine))
        if not subscription["metadata"].get("deletionTimestamp") and _creation(subscription) < _creation(own)
    ]
    return min(older, default="")


def _creation(subscription: Object) -> tuple[str, str]:
    return subscription["metadata"]["creationTimestamp"], subscription["metadata"]["name"]


def labels_of(kube_object: Object) -> Mapping[str, Any]:
    """Return the labels of an object."""
    labels: Mapping[str, Any] = kube_object["metadata"].get("labels") or {}
    return labels
