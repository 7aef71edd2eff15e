"""Documents whose subscription is gone: each stays for a week after its application. Operator; `reconcile.py` calls it.

A job may run with such a document, or start with it, so nothing else deletes it. An annotation has the time since which
the application is gone: the operator may be another one when the week is over. If the operator dies before it has
written that, the next one writes it. An application or a subscription that is made again stops the clock. Right before
the deletion the API server is asked for both: a cache may be behind.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dynamic_kafka.contract.kubernetes_names import (
    APPLICATION_GONE_ANNOTATION,
    CONFIG_MAP_SUFFIX,
    config_map_name,
)
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.handlers.subscription_view import claims
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, SUBSCRIPTIONS, Api, Object
from kafkastream_operator.kube.cache import Cache

KEPT = timedelta(days=7)
"""As `orphanRetention` keeps a subscription from annotations by default."""
LOOK_AGAIN = timedelta(hours=1)


def keep_or_delete(api: Api, cache: Cache, config_map: Object, now: datetime) -> datetime | None:
    """Delete a document that was left behind, if its week is over.

    Returns:
        When to look again; None if the document stays, since an application has its name, or if it was deleted.

    Raises:
        ApiError: the API server refused a call; ConflictError if the ConfigMap has changed since.
    """
    meta = config_map["metadata"]
    name, namespace = meta["name"], meta["namespace"]
    if not name.endswith(CONFIG_MAP_SUFFIX):
        return None  # somebody's copy
    known = (application for kind in APPLICATIONS.values() for application in cache.all(kind, namespace))
    exists = any(_reads(application, name) for application in known)
    gone_since = _gone_since(config_map, now)
    if exists or gone_since is None:
        gone_since = None if exists else now
        _record(api, cache, config_map, gone_since)
    elif now >= gone_since + KEPT:
        if _is_needed(api, namespace, name):
            return now + LOOK_AGAIN  # or before, when the cache has it
        api.delete(CONFIG_MAPS, namespace, name, uid=meta["uid"], resource_version=meta["resourceVersion"])
        return None
    return gone_since + KEPT if gone_since is not None else None


def _is_needed(api: Api, namespace: str, name: str) -> bool:
    """Ask the API server whether an application or a subscription of the document exists."""
    subscriptions = api.list(SUBSCRIPTIONS, namespace).objects
    applications = [application for kind in APPLICATIONS.values() for application in api.list(kind, namespace).objects]
    return any(claims(known, name) for known in subscriptions) or any(_reads(known, name) for known in applications)


def _reads(application: Object, config_map: str) -> bool:
    return config_map_name(application["metadata"]["name"]) == config_map


def _gone_since(config_map: Object, now: datetime) -> datetime | None:
    """Return since when no application has the name; None if that is not known: the time is absent, or was edited."""
    try:
        since = parse(config_map["metadata"]["annotations"][APPLICATION_GONE_ANNOTATION])
    except (KeyError, TypeError, ValueError):
        return None
    return since if since <= now else None


def _record(api: Api, cache: Cache, config_map: Object, since: datetime | None) -> None:
    annotations = dict(config_map["metadata"].get("annotations") or {})
    before = annotations.pop(APPLICATION_GONE_ANNOTATION, None)
    if since is not None:
        annotations[APPLICATION_GONE_ANNOTATION] = stamp(since)
    if since is not None or before is not None:
        meta = {**config_map["metadata"], "annotations": annotations}
        cache.put(CONFIG_MAPS, api.replace(CONFIG_MAPS, {**config_map, "metadata": meta}))
