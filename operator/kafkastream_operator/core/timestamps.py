"""Timestamps as the texts of a status. Pure."""

from __future__ import annotations

from datetime import datetime


def stamp(moment: datetime) -> str:
    """Return the text of a timestamp in Kubernetes' form, to the microsecond."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime:
    """Return the timestamp of a text. The API server also accepts lower-case letters in it."""
    return datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
