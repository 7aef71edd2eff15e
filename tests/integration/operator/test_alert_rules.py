"""The alerts as Prometheus evaluates them: each fires in its case, and stays silent in the ordinary ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dynamic_kafka.app.telemetry.metrics import PREFIX as JOB_PREFIX
from kafkastream_operator.core.metrics import PREFIX
from tests.support.dashboard import dashboard
from tests.support.operator import CHART, rendered

RULES = CHART / "monitoring" / "rules.yaml"
WHOSE = {"namespace": "jobs", "subscription": "app"}
RELEASE = {"namespace": "system", "job": "system/operator"}


class Case(NamedTuple):
    """A story of a few series, one value a minute unless it says otherwise.

    Attributes:
        series: {a series without the operator's prefix and common labels: its values}; promtool expands `0x5` and
            `0+60x5`.
        silent: a minute at which the alert must not fire.
        fires: a later minute at which it must; None: it never fires.
        labels: the labels of the alert.
    """

    alert: str
    series: Mapping[str, str]
    silent: int
    fires: int | None
    labels: Mapping[str, str] = WHOSE
    interval: str = "1m"


CASES = {
    "an overdue drain": Case("KafkaStreamDrainBlocked", {"subscription_drain_overdue": "0x5 1x20"}, 10, 12),
    "a drain that ends": Case("KafkaStreamDrainBlocked", {"subscription_drain_overdue": "1x3 0x20"}, 12, None),
    "a drain across a fail-over": Case(
        "KafkaStreamDrainBlocked",
        {
            'subscription_drain_overdue{pod="a"}': "1x4 stale",
            'subscription_drain_overdue{pod="b"}': "_x3 1x20",
        },
        4,
        6,
    ),
    "a deleted subscription": Case("KafkaStreamDrainBlocked", {"subscription_drain_overdue": "1x9 stale"}, 22, None),
    "a driver that never reports": Case("KafkaStreamReportingLost", {"subscription_reporting": "1x5 0x20"}, 10, 12),
    "reports that end while a topic drains": Case(
        "KafkaStreamReportingLost",
        {
            "subscription_reporting": "1x30",
            "subscription_report_age_seconds": "0x5 0+60x20",
            "subscription_draining_topics": "2x30",
            "subscription_revision_lag": "0x30",
        },
        10,
        15,
    ),
    "the silence of a driver without the revision": Case(
        "KafkaStreamReportingLost",
        {
            "subscription_reporting": "1x30",
            "subscription_report_age_seconds": "0+60x30",
            "subscription_draining_topics": "2x30",
            "subscription_revision_lag": "1x30",
        },
        25,
        None,
    ),
    "a driver with nothing to report": Case(
        "KafkaStreamReportingLost",
        {
            "subscription_reporting": "1x30",
            "subscription_report_age_seconds": "0+60x30",
            "subscription_draining_topics": "0x30",
        },
        25,
        None,
    ),
    "a drain that begins after a quiet day": Case(
        "KafkaStreamReportingLost",
        {
            "subscription_reporting": "1x30",
            "subscription_report_age_seconds": "86400x9 5x20",
            "subscription_draining_topics": "0x7 1x20",
        },
        12,
        None,
    ),
    "a rejected revision": Case("KafkaStreamRevisionRejected", {"subscription_revision_rejected": "0x3 1x9"}, 3, 6),
    "a slow restart": Case(
        "KafkaStreamRestartUnconfirmed", {'subscription_rollout_age_seconds{method="Restart"}': "0+60x20"}, 10, 13
    ),
    "a slow live change": Case(
        "KafkaStreamRestartUnconfirmed", {'subscription_rollout_age_seconds{method="Reload"}': "0+60x40"}, 30, None
    ),
    "a restart that a pause has held up": Case(
        "KafkaStreamRestartUnconfirmed",
        {'subscription_rollout_age_seconds{method="Restart"}': "_x9 9000+60x3 _x20"},
        13,
        None,
    ),
    "a failed restart that pauses others": Case(
        "KafkaStreamWavePaused",
        {'subscription_rollout_paused{app="a"}': "0x2 1x40", 'subscription_rollout_paused{app="b"}': "1x2 0x2 1x40"},
        14,
        20,
        {"namespace": "jobs"},
    ),
    "a pause that a success ends": Case(
        "KafkaStreamWavePaused", {"subscription_rollout_paused": "0x2 1x9 0x30"}, 25, None
    ),
    "a roll-out without a driver": Case(
        "KafkaStreamRolloutWithoutDriver", {"subscription_rollout_without_driver": "0x2 1x20"}, 7, 9
    ),
    "an application that starts anew": Case(
        "KafkaStreamRolloutWithoutDriver", {"subscription_rollout_without_driver": "0x2 1x3 0x20"}, 10, None
    ),
    "an application that fails every ten minutes": Case(
        "KafkaStreamApplicationFailing",
        {
            "subscription_failures_total": "0x9 1x9 2x9 3x9 4x9",
            "subscription_ready": "1x9 0 1x8 0 1x8 0 1x8",
            "subscription_stalled": "0x50",
        },
        29,
        36,
    ),
    "an application that fails again after a fail-over": Case(
        "KafkaStreamApplicationFailing",
        {
            'subscription_failures_total{pod="a"}': "0x9 1x9 2x9 stale",
            'subscription_failures_total{pod="b"}': "_x30 0x9 1x20",
        },
        39,
        47,
    ),
    "an application that failed a few hours ago": Case(
        "KafkaStreamApplicationFailing", {"subscription_failures_total": "0x9 1x3 2x3 3x3 4x3 5x200"}, 110, None
    ),
    "an application whose next driver never comes": Case(
        "KafkaStreamApplicationDown", {"subscription_application_down": "0x2 1x30"}, 17, 19
    ),
    "a driver that is replaced": Case(
        "KafkaStreamApplicationDown", {"subscription_application_down": "0x2 1x9 0x2 1x9 0x20"}, 30, None
    ),
    "one failure": Case("KafkaStreamApplicationFailing", {"subscription_failures_total": "0x9 1x90"}, 60, None),
    "a subscription that needs a person": Case("KafkaStreamNeedsAPerson", {"subscription_stalled": "0x2 1x30"}, 17, 19),
    "a driver that hangs while revisions go on": Case(
        "KafkaStreamNeedsAPerson",
        {
            "subscription_stalled": "0x2 1x9 0x2 1x9 0x2 1x9 0x2 1x9",
            'subscription_rollout_age_seconds{method="Reload"}': "0+60x60",
        },
        15,
        23,
    ),
    "live changes one after another": Case(
        "KafkaStreamNeedsAPerson",
        {
            "subscription_stalled": "0x60",
            'subscription_rollout_age_seconds{method="Reload"}': "0+60x4 _ 0+60x4 _ 0+60x4 _ 0+60x4 _ 0+60x4 _x20",
        },
        28,
        None,
    ),
    "an internal topic that was lost": Case(
        "KafkaStreamInternalTopicLost", {"subscription_internal_topic_lost": "0x2 1x30"}, 7, 9
    ),
    "a changelog that cannot be written": Case(
        "KafkaStreamChangelogUnwritten",
        {"dynamic_kafka_changelog_unwritten_seconds": "0x5 0+60x30"},
        20,
        23,
        {"namespace": "jobs", "pod": "app-driver"},
    ),
    **{
        what: Case(
            "KafkaStreamClockStands",
            {"dynamic_kafka_clock_timestamp_seconds": clock, "dynamic_kafka_maxOffsetsBehindLatest": lag, **more},
            silent,
            fires,
            {"namespace": "jobs", "pod": "app-driver", "sink": "lake"},
        )
        for what, clock, lag, more, silent, fires in (
            ("a clock that stands while records wait", "100+60x5 400x60", "9x70", {}, 19, 26),
            ("a stream without new records", "400x60", "0x20 9 0x40", {}, 40, None),
            ("a backlog that is read", "100+1x60", "9x70", {}, 40, None),
            ("a driver that has just started", "400x22", "9x22", {}, 19, None),
            (
                "a clock that has waited for an announced cluster, and begins to move",
                "400x40 401+1x40",
                "9x80",
                {'dynamic_kafka_clock_announced{cluster="new"}': "1x29 _x50"},
                38,
                None,
            ),
        )
    },
    **{
        what: Case(
            "KafkaStreamRowsLate",
            {series: values},
            silent,
            fires,
            {"namespace": "jobs", "pod": "app-driver", "sink": "lake", "cluster": "west"},
        )
        for what, series, values, silent, fires in (
            ("late rows", "dynamic_kafka_cluster_late_rows_total", "0x10 9x30", 10, 13),
            ("late rows of a new cluster", "dynamic_kafka_cluster_late_rows_total", "_x9 9x30", 8, 11),
            ("a cluster that is added back", "dynamic_kafka_cluster_late_rows_total", "7x9 _x60 7x20", 80, None),
            ("late rows of long ago", "dynamic_kafka_cluster_late_rows_total", "7x90", 50, None),
            ("an announced cluster that did not come", "dynamic_kafka_clock_announced", "1x10 0x20", 10, 13),
        )
    },
    "a document without a subscription": Case(
        "KafkaStreamDocumentLeftBehind",
        {"document_left_behind": "_x4 1x90"},
        60,
        66,
        {"namespace": "jobs", "document": "app-kafkastreams"},
    ),
    "a subscription that is made again": Case(
        "KafkaStreamDocumentLeftBehind",
        {"document_left_behind": "1x30 _x60"},
        80,
        None,
        {"namespace": "jobs", "document": "app-kafkastreams"},
    ),
    "an object that fails again and again": Case(
        "KafkaStreamReconcileFailing",
        {"reconcile_failures": "0+1x40"},
        20,
        22,
        {"resource": "kafkastreams.kafkastream.dev", "namespace": "jobs", "name": "orders"},
    ),
    "an operator that sees nothing": Case(
        "KafkaStreamOperatorStale",
        {"watch_age_seconds": "0+60x40", "serving": "1x40"},
        19,
        22,
        RELEASE,
    ),
    "an operator at rest": Case(
        "KafkaStreamOperatorStale",
        {"watch_age_seconds": "0+60x5 0+60x5 0+60x5 0+60x5", 'serving{pod="a"}': "1x40", 'serving{pod="b"}': "0x40"},
        22,
        None,
        RELEASE,
    ),
    "replicas that all stand by": Case(
        "KafkaStreamOperatorStale",
        {'serving{pod="a"}': "1x5 0x20", 'serving{pod="b"}': "0x25"},
        10,
        12,
        RELEASE,
    ),
    "a fail-over": Case(
        "KafkaStreamOperatorStale",
        {'serving{pod="a"}': "1x5 0x20", 'serving{pod="b"}': "0x7 1x20"},
        12,
        None,
        RELEASE,
    ),
    "no operator at all": Case("KafkaStreamOperatorStale", {}, 4, 6, {}),
}
FIRING = {
    "KafkaStreamDrainBlocked": ("subscription_drain_overdue{%s}", 1),
    "KafkaStreamReportingLost": ("subscription_reporting{%s}", 0),
    "KafkaStreamRevisionRejected": ("subscription_revision_rejected{%s}", 1),
    "KafkaStreamRestartUnconfirmed": ('subscription_rollout_age_seconds{method="Restart",%s}', 900),
    "KafkaStreamRolloutWithoutDriver": ("subscription_rollout_without_driver{%s}", 1),
    "KafkaStreamApplicationDown": ("subscription_application_down{%s}", 1),
    "KafkaStreamNeedsAPerson": ("subscription_stalled{%s}", 1),
    "KafkaStreamInternalTopicLost": ("subscription_internal_topic_lost{%s}", 1),
}
"""The series by which each alert on a subscription fires, and its value then."""
CASES |= {
    f"{alert} across 90 s without a replica that serves": Case(
        alert,
        {series % 'pod="a"': f"{value}x40 stale", series % 'pod="b"': f"_x44 {value}x40"},
        0,
        22,
        interval="30s",
    )
    for alert, (series, value) in FIRING.items()
}


def expected(case: Case) -> dict[str, Any]:
    """Return the alert as promtool compares it, with the texts of the rule."""
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    (rule,) = [alert_rule for alert_rule in group["rules"] if alert_rule["alert"] == case.alert]

    def filled(text: str) -> str:
        return re.sub(r"{{ \$labels\.(\w+) }}", lambda found: case.labels[found[1]], text)

    annotations = {key: filled(text) for key, text in rule["annotations"].items()}
    return {"exp_labels": {**rule["labels"], **case.labels}, "exp_annotations": annotations}


def series(case: Case) -> list[dict[str, str]]:
    """Return the input of promtool."""
    inputs = []
    for name, values in case.series.items():
        metric, _, own = name.removesuffix("}").partition("{")
        labels = [own, *(f'{key}="{value}"' for key, value in case.labels.items())]
        full = metric if metric.startswith(JOB_PREFIX) else PREFIX + metric
        inputs.append({"series": f"{full}{{{','.join(filter(None, labels))}}}", "values": values})
    return inputs


@pytest.mark.parametrize("what", CASES)
def test_an_alert_fires_for(what: str, promtool: Callable[..., None], tmp_path: Path) -> None:
    case = CASES[what]
    moments: list[dict[str, Any]] = [{"eval_time": f"{case.silent}m", "alertname": case.alert, "exp_alerts": []}]
    if case.fires is not None:
        moments.append({"eval_time": f"{case.fires}m", "alertname": case.alert, "exp_alerts": [expected(case)]})
    story = {"interval": case.interval, "input_series": series(case), "alert_rule_test": moments}
    file = tmp_path / "story.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [story]}))
    promtool("test", "rules", file)


def test_no_other_release_hides_that_one_is_gone(promtool: Callable[..., None], tmp_path: Path) -> None:
    settings = ("metrics.rules.create=true", "metrics.podMonitor.create=true")
    objects = rendered("kafkastream-operator", "system", *settings)
    (rule,) = [manifest["spec"] for manifest in objects if manifest["kind"] == "PrometheusRule"]
    rules, file = tmp_path / "rules.yaml", tmp_path / "story.yaml"
    rules.write_text(yaml.safe_dump(rule))
    case = Case("KafkaStreamOperatorStale", {"serving": "1x20"}, 0, 6, {"namespace": "other", "job": "other/operator"})
    fired = expected(case)
    fired["exp_labels"] = {"severity": "warning", "job": "system/kafkastream-operator"}
    moment = {"eval_time": "6m", "alertname": case.alert, "exp_alerts": [fired]}
    story = {"interval": "1m", "input_series": series(case), "alert_rule_test": [moment]}
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [story]}))
    promtool("test", "rules", file)


def test_prometheus_accepts_the_rules(promtool: Callable[..., None]) -> None:
    promtool("check", "rules", "--lint-fatal", RULES)


def test_prometheus_accepts_the_queries_of_the_dashboard(promtool: Callable[..., None], tmp_path: Path) -> None:
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 20
    filled = [query.replace("$__rate_interval", "2m") for query in queries]
    rules = [{"record": f"query:{number}", "expr": expression} for number, expression in enumerate(filled)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", file)
