"""Make the writes of a plan, in its order, each with a precondition. Operator; `reconcile.py` calls it.

A write that fails ends the plan. The next reconciliation decides again, from the state at that time.
docs/contributing/decisions/013-operator-writes.md lists every write with its precondition.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dynamic_kafka.contract.kubernetes_names import (
    APPLICATION_GONE_ANNOTATION,
    REFRESH_ANNOTATION,
    RENDERED_ROLE,
    ROLE_LABEL,
    SUBSCRIPTION_LABEL,
)
from kafkastream_operator.core.application import Patch, Refresh
from kafkastream_operator.core.conditions.events import Events
from kafkastream_operator.core.decide import after_refusal, without_document, without_status
from kafkastream_operator.core.document import Document, pack
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import Plan
from kafkastream_operator.errors import ApiError, NotFoundError
from kafkastream_operator.handlers.subscription_view import ObservedSubscription
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

_KINDS_BY_PLURAL = {
    "configmaps": "ConfigMap",
    "sparkapplications": "SparkApplication",
    "kafkastreams": "KafkaStream",
    "kafkastreamsubscriptions": "KafkaStreamSubscription",
}
NORMAL_EVENTS = frozenset(
    {
        "Rendered",
        "Released",
        "Retried",
        "Restarting",
        "RollingOut",
        "Coalescing",
        "Starting",
        "Paused",
        "Confirmed",
        "Finished",
    }
)
"""Reasons of Events of the type Normal; all others are of the type Warning."""
PERMANENT_REFUSALS = (400, 403, 413, 422)
"""HTTP statuses of a permanent refusal: a retry fails as well, until somebody changes something."""
TOO_LARGE = ("request is too large", "trying to send message larger than max")
"""Parts of the messages, with HTTP status 500, for an object that etcd does not take: of etcd, and of its client."""

log = logging.getLogger(__name__)


def apply_plan(api: Api, cache: Cache, seen: ObservedSubscription, plan: Plan) -> Plan:
    """Make the writes of a plan.

    Returns:
        The plan as it was made: the API server may refuse the effect for good, which changes what follows.

    Raises:
        ApiError: a write was refused or had no answer. The writes after it were not made. Only the Events of a status
            that was written were sent.
    """
    namespace = seen.subscription["metadata"]["namespace"]
    if plan.delete:
        # The document goes first: after the subscription, nothing would delete it.
        document = cache.get(CONFIG_MAPS, namespace, plan.config_map)
        if document is not None and seen.view.config_map is not None and seen.view.config_map.ours:
            api.delete(CONFIG_MAPS, namespace, plan.config_map, uid=document["metadata"]["uid"])
        meta = seen.subscription["metadata"]
        api.delete(SUBSCRIPTIONS, namespace, meta["name"], uid=meta["uid"])
        return plan
    if plan.document is not None:
        try:
            _write_document(api, cache, seen, plan, plan.document)
        except ApiError as error:
            if error.status in PERMANENT_REFUSALS:
                status = without_document(seen.view, plan, error.message)
                _record_refusal(api, cache, seen, status, "DocumentRefused")
            raise
    subscription = seen.subscription
    if plan.status is not None:
        subscription = _write_first_status(api, cache, seen, plan.status)
    try:
        plan, subscription = _make_effect(api, cache, seen, plan, subscription)
    except ApiError:
        if plan.status is not None:  # it shows what these Events are about, so that no later plan has them
            _send_events(api, subscription, _without(plan.events, "Restarting"))
        raise
    _send_events(api, subscription, plan.events)
    return plan


def _make_effect(
    api: Api, cache: Cache, seen: ObservedSubscription, plan: Plan, subscription: Object
) -> tuple[Plan, Object]:
    """Make the effect of a plan, and write the status after it. Return the plan as made, and the subscription."""
    if isinstance(plan.effect, Patch):
        refused = _patch(api, cache, seen, plan.effect)
        if refused:
            status = after_refusal(seen.view, plan, refused)
            rolled_out = next(condition for condition in status.conditions if condition.type == "RolledOut")
            refusal = (rolled_out.reason, rolled_out.message)
            plan = replace(plan, after=status, events=(*_without(plan.events, "Restarting", "RollingOut"), refusal))
    if isinstance(plan.effect, Refresh):
        change = {"metadata": {"annotations": {REFRESH_ANNOTATION: plan.effect.token}}}
        namespace = subscription["metadata"]["namespace"]
        cache.put(PODS, api.merge(PODS, namespace, plan.effect.pod, change))
    if plan.after is not None:
        subscription = write_status(api, cache, SUBSCRIPTIONS, subscription, plan.after)
    return plan, subscription


def _without(events: Events, *reasons: str) -> Events:
    return tuple(event for event in events if event[0] not in reasons)


def _send_events(api: Api, subscription: Object, events: Events) -> None:
    for reason, message in events:
        send_event(api, SUBSCRIPTIONS, subscription, reason, message)


def _write_first_status(api: Api, cache: Cache, seen: ObservedSubscription, status: SubscriptionStatus) -> Object:
    """Write the status before the effect. If the API server refuses it for good, the last status shows that."""
    try:
        return write_status(api, cache, SUBSCRIPTIONS, seen.subscription, status)
    except ApiError as error:
        if error.status in PERMANENT_REFUSALS or any(words in error.message for words in TOO_LARGE):
            _record_refusal(api, cache, seen, without_status(seen.view, error.message), "StatusRefused")
        raise


def _record_refusal(
    api: Api, cache: Cache, seen: ObservedSubscription, status: SubscriptionStatus, reason: str
) -> None:
    """Write the refusal of the document or of the new status into the last status, and send an Event if it is new."""
    if status == seen.view.status:
        return
    written = write_status(api, cache, SUBSCRIPTIONS, seen.subscription, status)
    before, after = (
        next((condition.message for condition in those.conditions if condition.type == "StreamsResolved"), "")
        for those in (seen.view.status, status)
    )
    if after != before:
        send_event(api, SUBSCRIPTIONS, written, reason, after)


def _patch(api: Api, cache: Cache, seen: ObservedSubscription, patch: Patch) -> str:
    """Patch the application, and delete its driver's pod if that is what restarts it.

    Returns:
        The API server's reason for a permanent refusal; "" if it accepted the patch.
    """
    assert seen.application is not None
    kind = seen.view.spec.application_ref.api_version
    namespace = seen.application["metadata"]["namespace"]
    try:
        done = api.apply(APPLICATIONS[kind], KINDS[kind].patch_body(seen.application, patch))
        cache.put(APPLICATIONS[kind], done)
        if patch.pod_to_delete is not None:
            with suppress(NotFoundError):  # it has ended by itself: the next driver starts with the patch
                api.delete(PODS, namespace, patch.pod_to_delete.name, uid=patch.pod_to_delete.uid)
    except ApiError as error:
        # A conflict is a refusal only if another manager owns a field. If the application has changed since, the
        # next reconciliation tries again.
        if (error.status == 409 and "Apply failed with" in error.message) or error.status in PERMANENT_REFUSALS:
            return error.message
        raise
    return ""


def send_event(api: Api, resource: Resource, about: Object, reason: str, message: str) -> None:
    """Create an Event about an object of this kind. A failure is only logged, because the conditions say the same."""
    meta = about["metadata"]
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {"name": f"{meta['name'][:200]}.{uuid.uuid4().hex[:12]}", "namespace": meta["namespace"]},
        "eventTime": stamp(datetime.now(UTC)),
        "action": reason,
        "reason": reason,
        "note": message[:1024],
        "type": "Normal" if reason in NORMAL_EVENTS else "Warning",
        "reportingController": MANAGER,
        "reportingInstance": MANAGER,
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": about.get("kind") or _KINDS_BY_PLURAL[resource.plural],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
    }
    try:
        api.create(EVENTS, body)
    except ApiError as error:
        log.info("the API server did not accept an Event: %s", error)


def _write_document(api: Api, cache: Cache, seen: ObservedSubscription, plan: Plan, document: Document) -> None:
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
        # Labels and annotations of others stay. Other keys of the content go.
        known = (cache.get(CONFIG_MAPS, meta["namespace"], plan.config_map) or {}).get("metadata", {})
        body["metadata"]["labels"] = {**(known.get("labels") or {}), **body["metadata"]["labels"]}
        annotations = dict(known.get("annotations") or {})
        annotations.pop(APPLICATION_GONE_ANNOTATION, None)
        body["metadata"]["annotations"] = annotations
        body["metadata"]["resourceVersion"] = plan.expected
        done = api.replace(CONFIG_MAPS, body)
    else:
        done = api.create(CONFIG_MAPS, body)
    cache.put(CONFIG_MAPS, done)


def write_status(
    api: Api, cache: Cache, resource: Resource, kube_object: Object, status: KafkaStreamStatus | SubscriptionStatus
) -> Object:
    """Write the status of exactly this version of an object, and return the object with it.

    Raises:
        ConflictError: the object has changed since.
    """
    body = {**kube_object, "status": status.model_dump(by_alias=True, exclude_none=True, mode="json")}
    done = api.replace(resource, body, subresource="status")
    cache.put(resource, done)
    return done
