"""Moments as texts of statuses. Pure."""

from __future__ import annotations

from datetime import datetime


def stamp(moment: datetime) -> str:
    """As Kubernetes writes moments, to the microsecond."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime:
    """The moment of a stamp."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
