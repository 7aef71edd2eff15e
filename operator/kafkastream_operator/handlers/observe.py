"""From the cache to what the core decides on. No calls of the API server."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.metadata.kubernetes_names import (
    CONFIG_MAP_SUFFIX,
    METADATA_ROLE,
    RELEASE_ANNOTATION,
    RENDERED_ROLE,
    REPORT_ANNOTATION,
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
from kafkastream_operator.core.document import Document, pack, read_document
from kafkastream_operator.core.drain_evidence import Driver, Report
from kafkastream_operator.core.release import releases_of
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.core.view import ConfigMap, View
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, PODS, STREAMS, SUBSCRIPTIONS, Object
from kafkastream_operator.kube.cache import Cache, ref_of
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS, Kind

DRIVER_CONTAINER = "spark-kubernetes-driver"
"""As Spark calls it, unless a pod template has another name for it."""


@dataclass(frozen=True)
class Seen:
    """A view, and the objects that it was made of."""

    view: View
    subscription: Object
    application: Object | None


def see(cache: Cache, namespace: str, name: str, now: datetime, timing: Timing) -> Seen | None:
    """Everything about a subscription; None if there is none, or it is being deleted.

    Raises:
        ValidationError: its spec is not one; the API server has let it through all the same.
    """
    found = cache.get(SUBSCRIPTIONS, namespace, name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    spec = SubscriptionSpec.model_validate(found["spec"])
    ref = spec.application_ref
    kind = KINDS[ref.api_version]
    application = cache.get(APPLICATIONS[ref.api_version], namespace, ref.name)
    document = config_map_name(ref.name)
    known = kind.application_of(application, document) if application is not None else None
    pod, owned = _driver_pod(cache, namespace, ref.name, kind, known)
    if known is not None and pod is not None and owned:
        known = kind.running(known, pod)
    view = View(
        name=name,
        uid=found["metadata"]["uid"],
        generation=int(found["metadata"].get("generation", 0)),
        spec=spec,
        status=status_of(found),
        catalog=catalog_of(cache, namespace),
        config_map=rendered_of(cache, namespace, document, found),
        application=known,
        driver=_driver(cache, pod, owned, document) if pod is not None else None,
        now=now,
        fresh_lineage=uuid.uuid4().hex[:12],
        released=releases_of((found["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, "")),
        rival=_rival(cache, namespace, found),
        annotated=MADE_LABEL in labels_of(found),
        timing=timing,
    )
    return Seen(view, found, application)


def catalog_of(cache: Cache, namespace: str) -> Catalog:
    """The streams of a namespace. What is being deleted is gone already."""
    streams = {
        each["metadata"]["name"]: cache.made_of(each, _stream_entry)
        for each in cache.all(STREAMS, namespace)
        if not each["metadata"].get("deletionTimestamp")
    }
    config_maps = {
        each["metadata"]["name"]: cache.made_of(each, _entries)
        for each in cache.all(CONFIG_MAPS, namespace)
        if labels_of(each).get(ROLE_LABEL) == METADATA_ROLE
        and not each["metadata"].get("deletionTimestamp")
        and owner_of(cache, each) is None
    }
    return put_together(streams, config_maps)


def _stream_entry(found: Object) -> StreamEntry:
    return stream_entry(found["metadata"]["name"], found.get("spec", {}))


def _entries(found: Object) -> tuple[list[StreamEntry], str]:
    return config_map_entries(ConfigMapText(found["metadata"]["name"], found.get("data") or {}))


def status_of(found: Object) -> SubscriptionStatus:
    """A status that this version cannot read is none: everything in it can be found out again."""
    try:
        return SubscriptionStatus.model_validate(found.get("status") or {})
    except ValidationError:
        return SubscriptionStatus()


def rendered_of(cache: Cache, namespace: str, name: str, subscription: Object) -> ConfigMap | None:
    """The ConfigMap of a subscription's document; None if there is none, or it is being deleted.

    It is the subscription's by its label, or where somebody has edited that, by what it says itself.
    """
    found = cache.get(CONFIG_MAPS, namespace, name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    document, drifted = document_in(cache, found)
    meta = subscription["metadata"]
    labelled = document_of(found) == meta["name"]
    ours = labelled or (document is not None and document.subscription == meta["uid"])
    drifted = drifted or not labelled or labels_of(found).get(ROLE_LABEL) != RENDERED_ROLE
    return ConfigMap(name, found["metadata"]["resourceVersion"], ours, document, drifted)


def document_in(cache: Cache, found: Object) -> tuple[Document | None, bool]:
    """What a ConfigMap says, and whether its keys are not exactly what that packs to."""
    return cache.made_of(found, _document)


def claims(subscription: Object | None, config_map: str) -> bool:
    """Whether a document of that name is the subscription's, if its labels say so as well."""
    return subscription is not None and config_map == config_map_name(subscription["spec"]["applicationRef"]["name"])


def owner_of(cache: Cache, found: Object) -> Object | None:
    """The subscription whose document a ConfigMap is; None if there is none such."""
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
    if not name.endswith(CONFIG_MAP_SUFFIX):
        return None
    labelled = cache.get(SUBSCRIPTIONS, namespace, document_of(found))
    if claims(labelled, name):
        return labelled
    document, _ = document_in(cache, found)
    if document is None:
        return None
    for each in cache.all(SUBSCRIPTIONS, namespace):
        if each["metadata"]["uid"] == document.subscription and claims(each, name):
            return each
    return None


def document_of(found: Object) -> str:
    """The name of the subscription whose document a ConfigMap has by its labels; "" if it has none."""
    return str(labels_of(found).get(SUBSCRIPTION_LABEL, ""))


def _document(found: Object) -> tuple[Document | None, bool]:
    data, binary = found.get("data") or {}, found.get("binaryData") or {}
    document = read_document(data, binary)
    return document, document is None or pack(document) != (dict(data), dict(binary))


def _driver_pod(
    cache: Cache, namespace: str, name: str, kind: Kind, application: Application | None
) -> tuple[Object | None, bool]:
    """The driver's pod, by the application's status, and True; or else the youngest with its labels, and False."""
    pods = [
        each
        for each in cache.all(PODS, namespace)
        if labels_of(each).get(kind.NAME_LABEL) == name and labels_of(each).get("spark-role") == "driver"
    ]
    for each in pods:
        if application is not None and kind.is_driver(application, each):
            return each, True
    return max(pods, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), default=None), False


def _driver(cache: Cache, pod: Object, owned: bool, document: str) -> Driver:
    meta = pod["metadata"]
    annotations = meta.get("annotations") or {}
    text = annotations.get(REPORT_ANNOTATION)
    running = pod.get("status", {}).get("phase") == "Running" and not meta.get("deletionTimestamp")
    report, (mounted, fault) = Report.parse(text), _mounts(pod, document)
    silent_s, news = cache.heard(ref_of(PODS, pod), meta["uid"], text or f"running: {running}")
    return Driver(
        name=meta["name"],
        uid=meta["uid"],
        owned=owned,
        running=running,
        token=annotations.get(REVISION_ANNOTATION, ""),
        report=report,
        silent_s=silent_s,
        news=news,
        mounted=mounted,
        mount_fault=fault,
        unreadable=bool(text) and report is None,
        namespace=meta["namespace"],
        account=str(pod.get("spec", {}).get("serviceAccountName") or "default"),
    )


def _mounts(pod: Object, document: str) -> tuple[bool, str]:
    """Whether the driver has the folder of the document; if it has it in a way that does not serve, in which."""
    spec = pod.get("spec") or {}
    volumes = {each["name"] for each in spec.get("volumes") or [] if document in _config_maps(each)}
    containers = spec.get("containers") or []
    drivers = [each for each in containers if each.get("name") == DRIVER_CONTAINER] or containers
    mounts = [each for one in drivers for each in one.get("volumeMounts") or [] if each.get("name") in volumes]
    whole = any(not each.get("subPath") and not each.get("subPathExpr") for each in mounts)
    if whole or not volumes:
        return whole, ""
    if mounts:
        return False, "mounts a part of the document by subPath, which Kubernetes never updates"
    return False, "has a volume with the document, and no volumeMount of it in the driver's container"


def _config_maps(volume: Mapping[str, Any]) -> set[str]:
    """The ConfigMaps that a volume shows, alone or beside others."""
    parts = [volume, *((volume.get("projected") or {}).get("sources") or [])]
    return {str((each.get("configMap") or {}).get("name", "")) for each in parts}


def _rival(cache: Cache, namespace: str, found: Object) -> str:
    """An older subscription of the same application."""
    mine = found["spec"]["applicationRef"]["name"]
    older = [
        each["metadata"]["name"]
        for each in cache.all(SUBSCRIPTIONS, namespace)
        if each["spec"]["applicationRef"]["name"] == mine and _age(each) < _age(found)
    ]
    return min(older, default="")


def _age(found: Object) -> tuple[str, str]:
    return found["metadata"]["creationTimestamp"], found["metadata"]["name"]


def labels_of(found: Object) -> Mapping[str, Any]:
    """Of an object."""
    labels: Mapping[str, Any] = found["metadata"].get("labels") or {}
    return labels
