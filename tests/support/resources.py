"""Conditions and states, as tests and the demo read them from the operator's resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkastream_operator.core.document import Document


def condition(resource: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Return a condition of an object; an empty one if it has none of that type."""
    conditions = ((resource or {}).get("status") or {}).get("conditions", [])
    return next((dict(entry) for entry in conditions if entry["type"] == kind), {})


def states(document: Document | None) -> dict[str, str] | None:
    """{`cluster/topic`: `Active` or `Draining`} of a document."""
    if document is None:
        return None
    by_topic = {}
    for stream in document.streams.values():
        for name, content in stream["clusters"].items():
            for topic in content["topics"]:
                draining = content.get("state") == "Draining" or topic in content.get("drainingTopics", ())
                by_topic[f"{name}/{topic}"] = "Draining" if draining else "Active"
    return by_topic
