"""From the cache to what the core decides on. No calls of the API server."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.metadata.contract import (
    METADATA_ROLE,
    RELEASE_ANNOTATION,
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
from kafkastream_operator.core.evidence import Driver, Report
from kafkastream_operator.core.release import releases_of
from kafkastream_operator.core.rollout import Timing
from kafkastream_operator.core.view import ConfigMap, View
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, PODS, STREAMS, SUBSCRIPTIONS, Object
from kafkastream_operator.kube.cache import Cache, ref_of
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS, Kind


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
        config_map=rendered_of(cache, namespace, document, name),
        application=known,
        driver=_driver(cache, pod, owned, document) if pod is not None else None,
        now=now,
        fresh_lineage=uuid.uuid4().hex[:12],
        released=releases_of((found["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, "")),
        rival=_rival(cache, namespace, found),
        made=MADE_LABEL in labels_of(found),
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
        if labels_of(each).get(ROLE_LABEL) == METADATA_ROLE and not each["metadata"].get("deletionTimestamp")
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


def rendered_of(cache: Cache, namespace: str, name: str, subscription: str) -> ConfigMap | None:
    """The ConfigMap of a document; None if there is none, or it is being deleted."""
    found = cache.get(CONFIG_MAPS, namespace, name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return None
    document, drifted = cache.made_of(found, _document)
    return ConfigMap(name, found["metadata"]["resourceVersion"], document_of(found) == subscription, document, drifted)


def document_of(found: Object) -> str:
    """The name of the subscription whose document a ConfigMap has by its labels; "" if it has none."""
    return str(labels_of(found).get(SUBSCRIPTION_LABEL, ""))


def _document(found: Object) -> tuple[Document | None, bool]:
    """What a ConfigMap says, and whether its keys are not exactly what that packs to."""
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
    silent_s, news = cache.heard(ref_of(PODS, pod), meta["uid"], text or f"running: {running}")
    return Driver(
        name=meta["name"],
        uid=meta["uid"],
        owned=owned,
        running=running,
        token=annotations.get(REVISION_ANNOTATION, ""),
        report=Report.parse(text),
        silent_s=silent_s,
        news=news,
        mounted=_mounts(pod, document),
    )


def _mounts(pod: Object, document: str) -> bool:
    volumes = pod.get("spec", {}).get("volumes") or []
    return any((each.get("configMap") or {}).get("name") == document for each in volumes)


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
