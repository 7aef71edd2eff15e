"""The alerts and the dashboard of the chart: they query metrics that exist, and each alert has its runbook."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from dynamic_kafka.app.telemetry.metrics import METRICS as JOB_METRICS
from dynamic_kafka.app.telemetry.metrics import PREFIX as JOB_PREFIX
from kafkastream_operator.core.metrics import METRICS, PREFIX
from kafkastream_operator.spark.kinds import KINDS
from tests.support import dashboard
from tests.support.places import ROOT
from tests.unit.operator.test_documentation import calls, events, reasons

RULES = ROOT / "charts" / "kafkastream-operator" / "monitoring" / "rules.yaml"
PAGE = (ROOT / "docs" / "reference" / "operator-metrics.md").read_text(encoding="utf-8")
RUNBOOKS = (ROOT / "docs" / "how-to" / "runbooks.md").read_text(encoding="utf-8")
QUERIES = [(panel.title, query) for row in dashboard.ROWS.values() for panel in row for query, _ in panel.queries]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def exported() -> set[str]:
    """Return the names of all series of the operator and of the jobs."""
    series = {JOB_PREFIX + name + "_total" * job_metric.counter for name, job_metric in JOB_METRICS.items()}
    for name, metric in METRICS.items():
        ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        series |= {PREFIX + name + end for end in ends}
    return series


def unknown(query: str) -> set[str]:
    """Return the metrics of a query that do not exist."""
    named = set(re.findall(rf"\b(?:{PREFIX}|{JOB_PREFIX})\w+", query))
    assert named, query
    return named - exported()


@pytest.mark.parametrize("name", alerts())
def test_an_alert_queries_existing_metrics(name: str) -> None:
    assert unknown(alerts()[name]["expr"]) == set()


@pytest.mark.parametrize("name", alerts())
def test_an_alert_has_a_runbook_and_a_row_in_the_table(name: str) -> None:
    _, _, section = RUNBOOKS.partition(f"\n## {name}\n")
    section = section.partition("\n## ")[0]
    for part in ("**Meaning:**", "**Check**", "**Remedy", "kubectl"):
        assert part in section
    assert alerts()[name]["annotations"]["runbook"] == f"docs/how-to/runbooks.md#{name.lower()}"
    assert f"\n| `{name}` |" in PAGE


def test_runbooks_and_table_have_no_other_alert() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == list(alerts())
    assert re.findall(r"^\| `(KafkaStream\w+)` \|", PAGE, re.MULTILINE) == list(alerts())


def test_the_runbooks_commands_fit_both_kinds() -> None:
    table, commands = {}, re.findall(r"^```\n(.*?)^```$", RUNBOOKS, re.MULTILINE | re.DOTALL)
    for line in re.findall(r"^\| `(?:KIND|DRIVER)` \|.*$", RUNBOOKS, re.MULTILINE):
        name, *kinds = re.findall("`([^`]+)`", line)
        table[name] = kinds
    groups = [api_version.partition("/")[0] for api_version in KINDS]
    assert table["KIND"] == [f"sparkapplication.{group}" for group in groups]
    assert table["DRIVER"] == [f"-l spark-role=driver,{kind.NAME_LABEL}=APP" for kind in KINDS.values()]
    assert len([command for command in commands if "KIND" in command or "DRIVER" in command]) > 4
    # A name of one kind in a command would be a command that fails for the other.
    assert not re.search("sparkoperator|spark.apache|APP-driver", "".join(commands))


def test_a_document_is_sought_in_projected_volumes_too() -> None:
    """A user deletes the document that no pod has: the operator takes a projected volume for a mount, too."""
    (check,) = [line for line in RUNBOOKS.splitlines() if "grep DOCUMENT" in line]
    assert "{.spec.volumes..configMap.name}" in check


def test_the_runbooks_name_existing_reasons() -> None:
    words = set(re.findall(r"`([A-Z][a-z]+[A-Za-z]*)`", RUNBOOKS)) - {"Auto"}
    assert len(words) > 5
    assert words <= reasons() | events() | calls("condition", 0)


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[f"{n}-{title}" for n, (title, _) in enumerate(QUERIES)])
def test_a_panel_queries_existing_metrics(title: str, query: str) -> None:
    assert unknown(query) == set()


def test_the_variables_of_the_dashboard_query_metrics() -> None:
    variables = [template for template in dashboard.dashboard()["templating"]["list"] if template["type"] == "query"]
    assert [unknown(variable["definition"]) for variable in variables] == [set(), set()]


def test_the_dashboard_shows_what_each_alert_is_about() -> None:
    shown = {name for _, query in QUERIES for name in re.findall(rf"{PREFIX}\w+", query)}
    alerted = {name for alert in alerts().values() for name in re.findall(rf"{PREFIX}\w+", alert["expr"])}
    # their ages and counts are
    shown_otherwise = ("drain_overdue", "reporting", "revision_rejected", "draining_topics")
    shown_otherwise += ("rollout_without_driver", "application_down", "internal_topic_lost")
    assert alerted - shown == {f"{PREFIX}subscription_{name}" for name in shown_otherwise}


def test_the_dashboard_in_the_chart_is_up_to_date() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.text(), "run `make dashboard`"


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard.dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
