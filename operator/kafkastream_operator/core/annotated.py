"""Subscriptions that come of annotations on a SparkApplication. Pure.

An annotated application gets a subscription of its own name. It is kept when the application vanishes, since
delete-and-apply must not end a drain, and goes after its orphan retention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError

from dynamic_kafka.metadata.kubernetes_names import (
    GROUP,
    PATTERN_ANNOTATION,
    RELEASE_ANNOTATION,
    STRATEGY_ANNOTATION,
    STREAMS_ANNOTATION,
)
from dynamic_kafka.metadata.validation_errors import explain
from kafkastream_operator.core.patterns import PatternError, pattern_of
from kafkastream_operator.models.subscription import MAX_NAME, Strategy, SubscriptionSpec

MADE_LABEL = f"{GROUP}/made-for"
"""On a subscription that came of annotations: the application's name."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OURS = (STREAMS_ANNOTATION, PATTERN_ANNOTATION, STRATEGY_ANNOTATION)
ALIKE = 0.85
"""So alike two keys are if one is a slip of the pen: `stream` and `streams`, `updatestrategy`, and no other word."""


@dataclass(frozen=True)
class Asked:
    """What an application's annotations ask for: a subscription, or a problem."""

    spec: SubscriptionSpec | None = None
    problem: str = ""


def asked_by(name: str, api_version: str, annotations: Mapping[str, str]) -> Asked | None:
    """What the annotations ask for; None if there are none of ours."""
    ids = annotations.get(STREAMS_ANNOTATION)
    pattern = annotations.get(PATTERN_ANNOTATION)
    if (ids is not None or pattern is not None) and len(name) > MAX_NAME:
        text = f"the application's name has {len(name)} characters, that of its subscription, which is a label, too,"
        return Asked(problem=f"{text} at most {MAX_NAME}: apply a KafkaStreamSubscription with a name of its own")
    if ids is None and pattern is None:
        if slip := misspelt(annotations):
            # Not that there are none: a subscription would go because of it.
            return Asked(problem=slip)
        if STRATEGY_ANNOTATION in annotations:
            return Asked(problem=f"{STRATEGY_ANNOTATION} alone does nothing: add {STREAMS_ANNOTATION}")
        return None
    if ids is not None and pattern is not None:
        return Asked(problem=f"set {STREAMS_ANNOTATION} or {PATTERN_ANNOTATION}, not both")
    strategy = annotations.get(STRATEGY_ANNOTATION, "Auto")
    if strategy not in get_args(Strategy):
        return Asked(problem=f"{STRATEGY_ANNOTATION} is {strategy[:40]!r}; it must be {', '.join(get_args(Strategy))}")
    if pattern is not None:
        asked = _asked(name, api_version, PATTERN_ANNOTATION, {"pattern": pattern}, strategy)
        try:
            # Only once it is known not to be too long.
            if asked.spec is not None:
                pattern_of(pattern)
        except PatternError as error:
            return Asked(problem=f"{PATTERN_ANNOTATION} {error}")
        return asked
    names = tuple(dict.fromkeys(each.strip() for each in re.split(r"[,;]", ids or "") if each.strip()))
    if not names:
        return Asked(problem=f"{STREAMS_ANNOTATION} names no stream; write them separated by commas")
    return _asked(name, api_version, STREAMS_ANNOTATION, {"ids": names}, strategy)


def misspelt(annotations: Mapping[str, str]) -> str:
    """What is wrong with an annotation that is nearly one of ours; "" if none is. It would do nothing, in silence."""
    for key in sorted(annotations):
        if key not in (*OURS, RELEASE_ANNOTATION) and (meant := get_close_matches(key, OURS, 1, ALIKE)):
            return f"{key[:80]} is not known and does nothing: if you mean {meant[0]}, write that"
    return ""


def without_effect(annotations: Mapping[str, str]) -> str:
    """Which annotation does nothing where it stands, whatever the others ask for; "" if none does."""
    if RELEASE_ANNOTATION in annotations:
        return f"{RELEASE_ANNOTATION} does nothing on an application: annotate its KafkaStreamSubscription"
    return misspelt(annotations)


def _asked(name: str, api_version: str, annotation: str, streams: Mapping[str, Any], strategy: str) -> Asked:
    content = {"applicationRef": {"apiVersion": api_version, "name": name}, "updateStrategy": strategy}
    try:
        return Asked(SubscriptionSpec.model_validate({**content, "streams": streams}))
    except ValidationError as error:
        return Asked(problem=f"{annotation}: {explain(error, SubscriptionSpec)[0].text}")


def subscription_for(namespace: str, name: str, spec: SubscriptionSpec) -> dict[str, Any]:
    """The object to apply. Only what the annotations say: the rest of its spec is the user's to add."""
    content = spec.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, mode="json")
    content["applicationRef"] = spec.application_ref.model_dump(by_alias=True)
    content["updateStrategy"] = spec.update_strategy
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {MADE_LABEL: name}},
        "spec": content,
    }


def is_applied_by_hand(subscription: Mapping[str, Any], *, but: str) -> bool:
    """Whether somebody, `but` this field manager, has applied a manifest of what annotations made: it says by itself
    whose application it is for.

    On the server's side the manager owns that field then. On the client's, `kubectl apply` writes what differs only,
    and keeps the manifest in an annotation.
    """
    meta = subscription["metadata"]
    if LAST_APPLIED in (meta.get("annotations") or {}):
        return True
    return any(
        "f:applicationRef" in ((each.get("fieldsV1") or {}).get("f:spec") or {})
        for each in meta.get("managedFields") or []
        if each.get("manager") != but
    )
