"""Documents whose subscription is gone: each stays for a week after its application. Operator; `reconcile.py` calls it.

A job may run with such a document, or start with it, so nothing else deletes it. An annotation has the time since which
the application is gone: the operator may be another one when the week is over. If the operator dies before it has
written that, the next one writes it. An application or a subscription that is made again stops the clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dynamic_kafka.contract.kubernetes_names import APPLICATION_GONE_ANNOTATION, CONFIG_MAP_SUFFIX
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.kube.api import APPLICATIONS, CONFIG_MAPS, Api, Object
from kafkastream_operator.kube.cache import Cache

KEPT = timedelta(days=7)
"""As `orphanRetention` keeps a subscription from annotations by default."""


def keep_or_delete(api: Api, cache: Cache, config_map: Object, now: datetime) -> datetime | None:
    """Delete a document that was left behind, if its week is over.

    Returns:
        When the document goes; None if it stays, since an application has its name.

    Raises:
        ApiError: a write was refused; ConflictError if the ConfigMap has changed since.
    """
    meta = config_map["metadata"]
    namespace, application = meta["namespace"], meta["name"].removesuffix(CONFIG_MAP_SUFFIX)
    exists = any(cache.get(kind, namespace, application) is not None for kind in APPLICATIONS.values())
    gone_since = _gone_since(config_map)
    if exists or gone_since is None:
        gone_since = None if exists else now
        _record(api, cache, config_map, gone_since)
    elif now >= gone_since + KEPT:
        api.delete(CONFIG_MAPS, namespace, meta["name"], uid=meta["uid"])
    return gone_since + KEPT if gone_since is not None else None


def _gone_since(config_map: Object) -> datetime | None:
    try:
        return parse(config_map["metadata"]["annotations"][APPLICATION_GONE_ANNOTATION])
    except (KeyError, TypeError, ValueError):  # not there, or edited
        return None


def _record(api: Api, cache: Cache, config_map: Object, since: datetime | None) -> None:
    annotations = dict(config_map["metadata"].get("annotations") or {})
    before = annotations.pop(APPLICATION_GONE_ANNOTATION, None)
    if since is not None:
        annotations[APPLICATION_GONE_ANNOTATION] = stamp(since)
    if since is not None or before is not None:
        meta = {**config_map["metadata"], "annotations": annotations}
        cache.put(CONFIG_MAPS, api.replace(CONFIG_MAPS, {**config_map, "metadata": meta}))
