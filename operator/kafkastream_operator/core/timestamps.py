"""Timestamps as the texts of a status. Pure."""

from __future__ import annotations

from datetime import datetime

from kafkastream_operator.models.fields import moment as parse

__all__ = ["parse", "stamp"]


def stamp(moment: datetime) -> str:
    """Return the text of a timestamp in Kubernetes' form, to the microsecond."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
