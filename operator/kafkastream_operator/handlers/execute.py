"""A plan's writes, in its order, each with a precondition. What fails is decided anew from what is there."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.metadata.kubernetes_names import REFRESH_ANNOTATION, RENDERED_ROLE, ROLE_LABEL, SUBSCRIPTION_LABEL
from kafkastream_operator.core.application import Patch, Refresh
from kafkastream_operator.core.decide import after_refusal, without_document
from kafkastream_operator.core.document import Document, pack
from kafkastream_operator.core.view import Plan
from kafkastream_operator.errors import ApiError, NotFoundError
from kafkastream_operator.handlers.observe import Seen
from kafkastream_operator.kube.api import (
    APPLICATIONS,
    CONFIG_MAPS,
    EVENTS,
    MANAGER,
    PODS,
    SUBSCRIPTIONS,
    Api,
    Object,
    Resource,
)
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.models.stream import KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionStatus
from kafkastream_operator.spark.kinds import KINDS

PLURALS = {
    "configmaps": "ConfigMap",
    "sparkapplications": "SparkApplication",
    "kafkastreams": "KafkaStream",
    "kafkastreamsubscriptions": "KafkaStreamSubscription",
}
USUAL = frozenset({"Rendered", "Released", "Restarting", "RollingOut", "Coalescing", "Starting", "Paused"})
"""Events of what goes as it should; all others are warnings."""
REFUSED = (400, 403, 422)
"""What the API server answers to what it will not take however often it is tried, until somebody changes something."""

log = logging.getLogger(__name__)


def execute(api: Api, cache: Cache, seen: Seen, plan: Plan) -> None:
    """Make the writes.

    Raises:
        ApiError: one was refused, or had no answer; those after it were not made.
    """
    namespace = seen.subscription["metadata"]["namespace"]
    if plan.delete:
        # The document first: without its subscription it would stay for ever.
        document = cache.get(CONFIG_MAPS, namespace, plan.config_map)
        if document is not None and seen.view.config_map is not None and seen.view.config_map.ours:
            api.delete(CONFIG_MAPS, namespace, plan.config_map, uid=document["metadata"]["uid"])
        meta = seen.subscription["metadata"]
        api.delete(SUBSCRIPTIONS, namespace, meta["name"], uid=meta["uid"])
        return
    if plan.document is not None:
        try:
            _write_document(api, cache, seen, plan, plan.document)
        except ApiError as error:
            if error.status in REFUSED:
                _say_refused(api, cache, seen, without_document(seen.view, plan, error.message))
            raise
    subscription = seen.subscription
    if plan.status is not None:
        subscription = write_status(api, cache, SUBSCRIPTIONS, subscription, plan.status)
    if isinstance(plan.effect, Patch):
        refused = _patch(api, cache, seen, plan.effect)
        if refused:
            status = after_refusal(seen.view, plan, refused)
            write_status(api, cache, SUBSCRIPTIONS, subscription, status)
            said = next(each for each in status.conditions if each.type == "RolledOut")
            events = [each for each in plan.events if each[0] in ("Rendered", "Released")]
            for reason, message in [*events, (said.reason, said.message)]:
                tell(api, SUBSCRIPTIONS, subscription, reason, message)
            return
    if isinstance(plan.effect, Refresh):
        change = {"metadata": {"annotations": {REFRESH_ANNOTATION: plan.effect.token}}}
        cache.put(PODS, api.merge(PODS, namespace, plan.effect.pod, change))
    if plan.after is not None:
        subscription = write_status(api, cache, SUBSCRIPTIONS, subscription, plan.after)
    for reason, message in plan.events:
        tell(api, SUBSCRIPTIONS, subscription, reason, message)


def _say_refused(api: Api, cache: Cache, seen: Seen, status: SubscriptionStatus) -> None:
    """Write down that the document was not taken, and tell it if that is new."""
    if status == seen.view.status:
        return
    written = write_status(api, cache, SUBSCRIPTIONS, seen.subscription, status)
    before, said = (
        next((each.message for each in those.conditions if each.type == "StreamsResolved"), "")
        for those in (seen.view.status, status)
    )
    if said != before:
        tell(api, SUBSCRIPTIONS, written, "DocumentRefused", said)


def _patch(api: Api, cache: Cache, seen: Seen, patch: Patch) -> str:
    """Patch the application, and end its driver if that is what restarts it. Returns why the API server will not have
    it; "" if it did."""
    assert seen.application is not None
    kind = seen.view.spec.application_ref.api_version
    namespace = seen.application["metadata"]["namespace"]
    try:
        done = api.apply(APPLICATIONS[kind], KINDS[kind].patched(seen.application, patch))
        cache.put(APPLICATIONS[kind], done)
        if patch.ends is not None:
            with suppress(NotFoundError):  # it has ended by itself: the next one starts with what is patched
                api.delete(PODS, namespace, patch.ends.name, uid=patch.ends.uid)
    except ApiError as error:
        # Not that the application has changed meanwhile, which is a conflict, too.
        if (error.status == 409 and "Apply failed with" in error.message) or error.status in REFUSED:
            return error.message
        raise
    return ""


def tell(api: Api, resource: Resource, about: Object, reason: str, message: str) -> None:
    """An Event. Losing one loses nothing: what is true stands in the conditions."""
    meta = about["metadata"]
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {"name": f"{meta['name'][:200]}.{uuid.uuid4().hex[:12]}", "namespace": meta["namespace"]},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "action": reason,
        "reason": reason,
        "note": message[:1024],
        "type": "Normal" if reason in USUAL else "Warning",
        "reportingController": MANAGER,
        "reportingInstance": MANAGER,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": about.get("kind") or PLURALS[resource.plural],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
    }
    try:
        api.create(EVENTS, body)
    except ApiError as error:
        log.info("an event was not taken: %s", error)


def _write_document(api: Api, cache: Cache, seen: Seen, plan: Plan, document: Document) -> None:
    meta = seen.subscription["metadata"]
    data, binary = pack(document)
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": plan.config_map,
            "namespace": meta["namespace"],
            "labels": {ROLE_LABEL: RENDERED_ROLE, SUBSCRIPTION_LABEL: meta["name"]},
        },
        "data": data,
        "binaryData": binary,
    }
    if plan.expected:
        # Labels and annotations of others stay; of the content nothing that is not the document's.
        known = (cache.get(CONFIG_MAPS, meta["namespace"], plan.config_map) or {}).get("metadata", {})
        body["metadata"]["labels"] = {**(known.get("labels") or {}), **body["metadata"]["labels"]}
        body["metadata"]["annotations"] = known.get("annotations") or {}
        body["metadata"]["resourceVersion"] = plan.expected
        done = api.replace(CONFIG_MAPS, body)
    else:
        done = api.create(CONFIG_MAPS, body)
    cache.put(CONFIG_MAPS, done)


def write_status(
    api: Api, cache: Cache, resource: Resource, found: Object, status: KafkaStreamStatus | SubscriptionStatus
) -> Object:
    """Give exactly this object a status; the object as it is then. Raises ConflictError if it is another by now."""
    body = {**found, "status": status.model_dump(by_alias=True, exclude_none=True, mode="json")}
    done = api.replace(resource, body, subresource="status")
    cache.put(resource, done)
    return done
