"""Find the subscribers of a stream in the cache. Operator; `reconcile.py` calls it. It makes no API calls.

Every document of the namespace counts, even if its subscription is gone: a job may still run with that document.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import CONFIG_MAP_SUFFIX, RENDERED_ROLE, ROLE_LABEL, config_map_name
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.everybody import Everybody
from kafkastream_operator.core.subscriber import Subscriber
from kafkastream_operator.handlers.subscription_view import (
    document_in,
    labels_of,
    owner_of,
    rendered_config_map,
    spec_of,
    subscription_named_in,
)
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, SUBSCRIPTIONS, Object
from kafkastream_operator.kube.cache import Cache, Part
from kafkastream_operator.models.subscription import KUBEFLOW, SubscriptionSpec, SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS


def everybody(cache: Cache, namespace: str) -> Everybody:
    """Return the subscribers of a namespace, and the documents that were left behind."""
    return cache.made_from(namespace, _MADE_FROM, _everybody)


_MADE_FROM = tuple(map(Part, (SUBSCRIPTIONS, CONFIG_MAPS, *APPLICATIONS.values())))


def _everybody(cache: Cache, namespace: str, last: Everybody | None) -> Everybody:
    subscriptions = cache.all(SUBSCRIPTIONS, namespace)
    return Everybody([*(_subscriber(cache, known) for known in subscriptions), *_orphans(cache, namespace)], last)


def is_left_behind(cache: Cache, config_map: Object) -> bool:
    """Return whether a ConfigMap is a rendered document whose subscription is gone."""
    rendered = labels_of(config_map).get(ROLE_LABEL) == RENDERED_ROLE
    being_deleted = config_map["metadata"].get("deletionTimestamp")
    return rendered and not being_deleted and owner_of(cache, config_map) is None


def application_api_version(subscription: Object) -> str:
    """Return the `apiVersion` of a subscription's application."""
    return str(subscription["spec"]["applicationRef"].get("apiVersion", KUBEFLOW))


def _subscriber(cache: Cache, subscription: Object) -> Subscriber:
    meta, application = subscription["metadata"], subscription["spec"]["applicationRef"]["name"]
    spec, status, readable = cache.derive(subscription, _parsed)
    config_map = rendered_config_map(cache, meta["namespace"], config_map_name(application), subscription)
    document = config_map.document if config_map is not None and config_map.ours else None
    # Without the document, the copy in the status counts. Large streams have no copy: then the streams are unknown.
    unknown = document is None and not status.kept and (not readable or status.rendered is not None)
    return Subscriber(
        meta["name"],
        application,
        _life(cache, meta["namespace"], application, application_api_version(subscription)),
        status,
        document.streams if document is not None else status.kept,
        unknown=unknown,
        revision=document.revision.token if document is not None else "",
        spec=spec,
    )


def _parsed(subscription: Object) -> tuple[SubscriptionSpec | None, SubscriptionStatus, bool]:
    """Return the spec, None if this version cannot read it; the status, and whether it can be read."""
    spec, status = None, SubscriptionStatus()
    with contextlib.suppress(ValidationError):
        spec = spec_of(subscription)
    try:
        status = SubscriptionStatus.model_validate(subscription.get("status") or {})
    except ValidationError:
        return spec, status, False
    return spec, status, True


def _orphans(cache: Cache, namespace: str) -> Iterator[Subscriber]:
    """Yield a subscriber for each document whose subscription is gone: a job may run with it, or start with it."""
    for config_map in cache.all(CONFIG_MAPS, namespace):
        if not is_left_behind(cache, config_map):
            continue
        name, owner = config_map["metadata"]["name"], subscription_named_in(config_map)
        application = name.removesuffix(CONFIG_MAP_SUFFIX)
        lives = [_life(cache, namespace, application, kind) for kind in KINDS]
        document, _ = document_in(cache, config_map)
        yield Subscriber(
            owner or name,
            application,
            next((life for life in lives if life != "Absent"), "Absent"),
            SubscriptionStatus(),
            document.streams if document is not None else {},
            orphan=name,
            unknown=document is None,
            revision=document.revision.token if document is not None else "",
        )


def _life(cache: Cache, namespace: str, name: str, kind: str) -> Life:
    return life_of(cache, kind, cache.get(APPLICATIONS[kind], namespace, name))


def life_of(cache: Cache, kind: str, application: Object | None) -> Life:
    """Return the state of an application. One that cannot be read counts as running: a driver may read."""
    try:
        return cache.derive(application, KINDS[kind].application_of).life if application is not None else "Absent"
    except Exception:  # its CRD allows what this version does not expect; the look at its subscription says so
        return "Running"
