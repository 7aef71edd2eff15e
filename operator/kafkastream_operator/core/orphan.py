"""Orphans: subscriptions from annotations whose application is gone. Pure; `core.decide` calls it.

An orphan keeps its document and its drains for `spec.orphanRetention`, so that delete-and-apply of the application does
not end a drain. Then the operator deletes it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import SubscriptionStatus


def orphaned_at(view: View) -> str | None:
    """Return since when the subscription is an orphan, as the status has it; None if it is none."""
    if view.application is not None or not view.annotated:
        return None
    return view.status.orphaned_at or stamp(view.now)


def is_expired(view: View) -> bool:
    """Return whether the orphan's retention is over."""
    deletion = deletion_time(view, view.status)
    return view.application is None and view.annotated and deletion is not None and view.now >= deletion


def deletion_time(view: View, status: SubscriptionStatus) -> datetime | None:
    """Return when the orphan's retention ends; None if the subscription is no orphan."""
    if not status.orphaned_at:
        return None
    retention = parse_duration_ms(view.spec.orphan_retention, where="spec.orphanRetention")
    return parse(status.orphaned_at) + timedelta(milliseconds=retention)
