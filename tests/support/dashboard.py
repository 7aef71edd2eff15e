"""Render the chart's Grafana dashboard, which covers the operator and the jobs.

`make dashboard` runs `python -m tests.support.dashboard FILE`. A test checks that every metric of a panel exists.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kafkastream_operator.core.metrics import PREFIX as OPERATOR
from tests.support.places import ROOT

FILE = ROOT / "charts" / "kafkastream-operator" / "monitoring" / "dashboard.json"
JOB = "dynamic_kafka_"
CHOSEN = '{namespace=~"$namespace"}'
SINK = '{sink=~"$sink"}'
SOURCE = {"type": "prometheus", "uid": "$datasource"}
BY_SUBSCRIPTION, BY_STREAM = "namespace, subscription", "namespace, stream"
NAMED_SUBSCRIPTION, NAMED_STREAM = "{{namespace}}/{{subscription}}", "{{namespace}}/{{stream}}"
WIDTH, HEIGHT = 8, 7
"""The size of a panel: three fit into a row of 24."""


class Panel(NamedTuple):
    """One panel: its title, its queries with the legend of each, its unit, and a sentence on how to read it."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    about: str = ""


def largest(metric: str, by: str, *, above: float | None = 0) -> str:
    """Return the query of the twenty largest series; two replicas may both have one for a moment."""
    query = f"topk(20, max by ({by}) ({OPERATOR}{metric}{CHOSEN})"
    return f"{query}{'' if above is None else f' > {above:g}'})"


def quantile(share: float, metric: str) -> str:
    """Return the query of a quantile over all chosen subscriptions."""
    return f"histogram_quantile({share}, sum by (le) (rate({OPERATOR}{metric}_bucket{CHOSEN}[$__rate_interval])))"


def duration(title: str, metric: str, about: str) -> Panel:
    """Return the panel of a histogram."""
    queries = tuple((quantile(share, metric), f"p{share * 100:.0f}") for share in (0.5, 0.99))
    return Panel(title, queries, "s", about)


def job(title: str, query: str, legend: str, unit: str = "short", about: str = "") -> Panel:
    """Return a panel of the jobs with one query, in which METRIC stands for a metric's prefix."""
    return Panel(title, ((query.replace("METRIC_", JOB), legend),), unit, about)


ROWS: dict[str, tuple[Panel, ...]] = {
    "Operator": (
        Panel(
            "Replicas that serve",
            ((f"sum by (namespace, job) ({OPERATOR}serving)", "{{namespace}}/{{job}}"),),
            about="1 for each release; 0: no change reaches a job.",
        ),
        Panel("Objects that wait", ((f"sum by (job) ({OPERATOR}queue_depth)", "{{job}}"),)),
        Panel(
            "Age of the watches",
            ((f"max by (resource) ({OPERATOR}watch_age_seconds)", "{{resource}}"),),
            "s",
            "At rest it rises to 300 s, until everything is listed again.",
        ),
        Panel(
            "Failed reconciliations",
            ((f"sum by (resource) (rate({OPERATOR}reconcile_errors_total[$__rate_interval]))", "{{resource}}"),),
            "ops",
        ),
        Panel(
            "Objects that fail now",
            ((largest("reconcile_failures", "resource, namespace, name"), "{{resource}} {{namespace}}/{{name}}"),),
        ),
        duration(
            "Change to document",
            "subscription_apply_to_rendered_seconds",
            "From the change that the operator has seen to the written document.",
        ),
    ),
    "Streams": (
        Panel(
            "Streams, and those not ready",
            (
                (f"count(max by ({BY_STREAM}) ({OPERATOR}stream_ready{CHOSEN}))", "all"),
                (f"count(max by ({BY_STREAM}) ({OPERATOR}stream_ready{CHOSEN}) == 0) or vector(0)", "not ready"),
            ),
        ),
        Panel("On their way", ((largest("stream_rollout_age_seconds", BY_STREAM), NAMED_STREAM),), "s"),
        Panel("Not drained", ((largest("stream_drain_age_seconds", BY_STREAM), NAMED_STREAM),), "s"),
    ),
    "Subscriptions": (
        Panel("Revision lag", ((largest("subscription_revision_lag", BY_SUBSCRIPTION), NAMED_SUBSCRIPTION),)),
        Panel(
            "Roll-outs under way or failed",
            (
                (
                    largest("subscription_rollout_age_seconds", f"{BY_SUBSCRIPTION}, method"),
                    f"{NAMED_SUBSCRIPTION} {{{{method}}}}",
                ),
            ),
            "s",
        ),
        duration(
            "Document to driver",
            "subscription_rendered_to_applied_seconds",
            "From the begin of a roll-out until its revision is in force; a pause counts.",
        ),
        Panel(
            "Age of drains", ((largest("subscription_drain_age_seconds", BY_SUBSCRIPTION), NAMED_SUBSCRIPTION),), "s"
        ),
        Panel(
            "Age of driver reports",
            ((largest("subscription_report_age_seconds", BY_SUBSCRIPTION), NAMED_SUBSCRIPTION),),
            "s",
            "It grows while nothing changes and nothing drains. While a topic drains, it stays below 30 s.",
        ),
        Panel(
            "A person is needed",
            (
                (largest("subscription_stalled", BY_SUBSCRIPTION), NAMED_SUBSCRIPTION),
                (largest("subscription_rollout_paused", "namespace"), "{{namespace}}: paused by a failed restart"),
            ),
            about="`kubectl describe kss` has the condition with its remedy.",
        ),
        Panel(
            "Documents without a subscription",
            ((largest("document_left_behind", "namespace, document"), "{{namespace}}/{{document}}"),),
            about="Delete the ConfigMap when no job reads it, or apply its subscription again.",
        ),
        Panel(
            "Restarts, failures and rejected revisions in an hour",
            tuple(
                (
                    f"sum by ({BY_SUBSCRIPTION}) (increase({OPERATOR}subscription_{metric}_total{CHOSEN}[1h])) > 0",
                    f"{NAMED_SUBSCRIPTION} {what}",
                )
                for metric, what in (
                    ("restarts", "restarts"),
                    ("failures", "failures"),
                    ("rejected_revisions", "rejected"),
                )
            ),
        ),
    ),
    "Jobs": (
        job("Lag by cluster", f"sum by (sink, cluster) (METRIC_cluster_lag{SINK})", "{{sink}} {{cluster}}"),
        job(
            "Records read",
            f"sum by (sink, cluster) (rate(METRIC_cluster_records_read_total{SINK}[$__rate_interval]))",
            "{{sink}} {{cluster}}",
            "rowsps",
        ),
        job(
            "Age of the latest record",
            f"max by (sink, cluster) (METRIC_cluster_event_time_lag_seconds{SINK})",
            "{{sink}} {{cluster}}",
            "s",
        ),
        job(
            "Clusters that do not answer",
            f"max by (sink, cluster) (METRIC_cluster_stalled{SINK} or METRIC_cluster_never_reached{SINK}) > 0",
            "{{sink}} {{cluster}}",
        ),
        job(
            "Round-trip time",
            f"sum by (sink, cluster) (rate(METRIC_cluster_client_round_trip_seconds_total{SINK}[$__rate_interval]))"
            f" / sum by (sink, cluster) (rate(METRIC_cluster_client_round_trips_total{SINK}[$__rate_interval]))",
            "{{sink}} {{cluster}}",
            "s",
            "Mean over the requests of executors' consumers; a broker's wait for records counts.",
        ),
        job(
            "Connection errors in an hour",
            f"sum by (sink, cluster) (increase(METRIC_cluster_client_connection_errors_total{SINK}[1h]))",
            "{{sink}} {{cluster}}",
        ),
        job(
            "Throttled",
            f"sum by (sink, cluster) (rate(METRIC_cluster_client_throttled_seconds_total{SINK}[$__rate_interval]))",
            "{{sink}} {{cluster}}",
            about="Seconds in each second for which brokers make executors' consumers wait, by their quotas.",
        ),
        job("Duration of the last batch", f"max by (sink) (METRIC_batch_seconds{SINK})", "{{sink}}", "s"),
        job("Parked splits", f"sum by (sink, stream) (METRIC_parked_splits{SINK})", "{{sink}} {{stream}}"),
        job("Restarts of queries in an hour", f"sum by (sink) (increase(METRIC_restarts_total{SINK}[1h]))", "{{sink}}"),
        job("Rejected metadata", "max by (namespace, pod) (METRIC_metadata_rejected)", "{{namespace}}/{{pod}}"),
        job(
            "Failed commits to groups",
            f"sum by (sink, cluster) (rate(METRIC_cluster_commits_failed_total{SINK}[$__rate_interval]))",
            "{{sink}} {{cluster}}",
            "ops",
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "kafkastream",
        "title": "KafkaStreams: operator and jobs",
        "tags": ["kafka", "spark"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("namespace", f"label_values({OPERATOR}stream_ready, namespace)"),
                _variable("sink", f"label_values({JOB}active_splits, sink)"),
            ]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(_panels(), 1)],
    }


def _panels() -> Iterable[dict[str, Any]]:
    """Return the panels, three abreast below the heading of their row."""
    y = 0
    for row, panels in ROWS.items():
        yield {"type": "row", "title": row, "collapsed": False, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}}
        for place, panel in enumerate(panels):
            at = {"h": HEIGHT, "w": WIDTH, "x": place % 3 * WIDTH, "y": y + 1 + place // 3 * HEIGHT}
            yield {
                "type": "timeseries",
                "title": panel.title,
                "description": panel.about,
                "datasource": SOURCE,
                "gridPos": at,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + n), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                    for n, (expression, legend) in enumerate(panel.queries)
                ],
            }
        y += 1 + -(-len(panels) // 3) * HEIGHT


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def text() -> str:
    """Return the content of the chart's file."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
