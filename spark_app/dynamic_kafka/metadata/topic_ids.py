"""Kafka's topic ids as texts: the form that Kafka's own tools print, and the form that the client prints. Pure.

Both are base64 of the same 16 bytes, without padding. Kafka prints the URL-safe alphabet (`-`, `_`), librdkafka the
standard one (`+`, `/`). Metadata and messages have Kafka's form. Offset documents, acceptances and reports keep the
client's form, in which every release has saved it: an older one would else take each such topic for another one.
"""

from __future__ import annotations

import base64

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of all zeros, in both forms: the broker does not report ids."""

_SHOWN = str.maketrans("+/", "-_")
_SAVED = str.maketrans("-_", "+/")
_BYTES, _CHARACTERS = 16, 22


def shown_topic_id(saved: str | None) -> str | None:
    """Return an id as Kafka's tools print it, from the client's form or from Kafka's own."""
    return saved.translate(_SHOWN) if saved is not None else None


def saved_topic_id(shown: str | None) -> str | None:
    """Return an id in the client's form, from Kafka's form or from the client's own."""
    return shown.translate(_SAVED) if shown is not None else None


def check_topic_id(value: str) -> str:
    """Check a topic id in the form that Kafka's tools print, and return it."""
    where = "copy it from `kafka-topics.sh --describe`, where it is the `TopicId`"
    if value == NO_TOPIC_ID:
        raise ValueError(f"is the id of a broker that reports none, so it names no topic; {where}")
    try:
        raw_id = base64.b64decode(f"{value}==".encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        raw_id = b""
    # The last character has four bits too many. Kafka writes zeros there, and no other text is equal to its own.
    if len(value) != _CHARACTERS or len(raw_id) != _BYTES or _text(raw_id) != value:
        raise ValueError(f"{value[:80]!r} is no topic id: those have 22 characters of base64url; {where}")
    return value


def _text(raw_id: bytes) -> str:
    return base64.urlsafe_b64encode(raw_id).decode("ascii").rstrip("=")
