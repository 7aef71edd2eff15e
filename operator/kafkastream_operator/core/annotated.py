"""Subscriptions from annotations on a SparkApplication. Pure; `handlers.reconcile` applies them.

An annotated application gets a subscription of its own name. The subscription outlives the application by
`orphanRetention` (`core.orphan`), because delete-and-apply must not end a drain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from dynamic_kafka.contract.kubernetes_names import (
    GROUP,
    PATTERN_ANNOTATION,
    RELEASE_ANNOTATION,
    STRATEGY_ANNOTATION,
    STREAMS_ANNOTATION,
)
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.wording import nearest
from kafkastream_operator.core.patterns import PatternError, pattern_of
from kafkastream_operator.models.subscription import MAX_NAME, Strategy, SubscriptionSpec

MADE_LABEL = f"{GROUP}/made-for"
"""The label of a subscription that was made from annotations. Its value is the application's name."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATIONS = (STREAMS_ANNOTATION, PATTERN_ANNOTATION, STRATEGY_ANNOTATION)
MISSPELT_CUTOFF = 0.85
"""The similarity of a misspelt key, such as `stream` for `streams`. Other words are less similar."""


@dataclass(frozen=True)
class Request:
    """The subscription that an application's annotations ask for, or the problem with them."""

    spec: SubscriptionSpec | None = None
    problem: str = ""


def requested_subscription(name: str, api_version: str, annotations: Mapping[str, str]) -> Request | None:
    """Return the subscription that the annotations ask for; None if no annotation is the operator's."""
    ids = annotations.get(STREAMS_ANNOTATION)
    pattern = annotations.get(PATTERN_ANNOTATION)
    if (ids is not None or pattern is not None) and len(name) > MAX_NAME:
        text = f"the application's name has {len(name)} characters, and a subscription's name, which is also a label,"
        return Request(problem=f"{text} at most {MAX_NAME}: apply a KafkaStreamSubscription with a name of its own")
    if ids is None and pattern is None:
        if problem := misspelt_annotation(annotations):
            # A problem, and not None: without a request the operator would delete the subscription.
            return Request(problem=problem)
        if STRATEGY_ANNOTATION in annotations:
            return Request(problem=f"{STRATEGY_ANNOTATION} alone does nothing: add {STREAMS_ANNOTATION}")
        return None
    if ids is not None and pattern is not None:
        return Request(problem=f"set {STREAMS_ANNOTATION} or {PATTERN_ANNOTATION}, not both")
    strategy = annotations.get(STRATEGY_ANNOTATION, "Auto")
    if strategy not in get_args(Strategy):
        return Request(
            problem=f"{STRATEGY_ANNOTATION} is {strategy[:40]!r}; it must be {', '.join(get_args(Strategy))}"
        )
    if pattern is not None:
        request = _request(name, api_version, PATTERN_ANNOTATION, {"pattern": pattern}, strategy)
        try:
            # Compile it only after its length was checked.
            if request.spec is not None:
                pattern_of(pattern)
        except PatternError as error:
            return Request(problem=f"{PATTERN_ANNOTATION} {error}")
        return request
    names = tuple(dict.fromkeys(part.strip() for part in re.split(r"[,;]", ids or "") if part.strip()))
    if not names:
        return Request(problem=f"{STREAMS_ANNOTATION} names no stream; write them separated by commas")
    return _request(name, api_version, STREAMS_ANNOTATION, {"ids": names}, strategy)


def misspelt_annotation(annotations: Mapping[str, str]) -> str:
    """Return the problem with an annotation that is nearly one of the operator's; "" if there is none.

    Without a message, such an annotation would silently have no effect.
    """
    for key in sorted(annotations):
        known = (*ANNOTATIONS, RELEASE_ANNOTATION)
        if key not in known and (meant := nearest(key, ANNOTATIONS, cutoff=MISSPELT_CUTOFF)):
            return f"{key[:80]} is not known and does nothing: if you mean {meant}, write that"
    return ""


def ineffective_annotation(annotations: Mapping[str, str]) -> str:
    """Return the problem with an annotation that has no effect on an application; "" if there is none."""
    if RELEASE_ANNOTATION in annotations:
        return f"{RELEASE_ANNOTATION} does nothing on an application: annotate its KafkaStreamSubscription"
    return misspelt_annotation(annotations)


def _request(name: str, api_version: str, annotation: str, streams: Mapping[str, Any], strategy: str) -> Request:
    content = {"applicationRef": {"apiVersion": api_version, "name": name}, "updateStrategy": strategy}
    try:
        return Request(SubscriptionSpec.model_validate({**content, "streams": streams}))
    except ValidationError as error:
        return Request(problem=f"{annotation}: {explain(error, SubscriptionSpec)[0].text}")


def subscription_for(namespace: str, name: str, spec: SubscriptionSpec) -> dict[str, Any]:
    """Return the object to apply. It has only the annotations' fields, so that the user can add the rest."""
    content = spec.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")
    content["applicationRef"] = spec.application_ref.model_dump(by_alias=True)
    content["updateStrategy"] = spec.update_strategy
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {MADE_LABEL: name}},
        "spec": content,
    }


def is_applied_by_hand(subscription: Mapping[str, Any], *, manager: str) -> bool:
    """Return whether somebody other than this field manager has applied a manifest of the subscription.

    After a server-side apply, another manager owns `applicationRef`. A client-side `kubectl apply` may own nothing, as
    it writes only what differs; but it keeps the manifest in an annotation.
    """
    meta = subscription["metadata"]
    if LAST_APPLIED in (meta.get("annotations") or {}):
        return True
    return any(
        "f:applicationRef" in ((managed_field.get("fieldsV1") or {}).get("f:spec") or {})
        for managed_field in meta.get("managedFields") or []
        if managed_field.get("manager") != manager
    )
