"""The tree of `kubectl kafkastream status`, from the objects as the API server has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.fleet_tree import tree
from tests.unit.operator.recorded_states import stream
from tests.unit.operator.world import UID, World, cluster, report_text, running


def lines(world: World, pod: str = "", phase: str = "Running", **draining: TopicReport) -> list[str]:
    """Return the tree of a world whose driver reports these topics, written `cluster__topic`."""
    world.driver_reports(**draining).settle()
    assert world.driver is not None and world.driver.report is not None and world.document is not None
    report = report_text(world.document, pod or world.driver.uid, world.driver.report.draining)
    meta = {"uid": world.driver.uid, "annotations": {REPORT_ANNOTATION: report}}
    reader = {"metadata": {"namespace": "jobs", "name": "app", "uid": UID}, "spec": world.spec}
    status = world.status.model_dump(by_alias=True, exclude_none=True, mode="json")
    return tree([stream(world)], [{**reader, "status": status}], [{"metadata": meta, "status": {"phase": phase}}])


def changed() -> World:
    return running(updateStrategy="Reload").stream("orders", cluster("west")).settle()


def test_the_tree_has_streams_clusters_and_jobs() -> None:
    assert lines(running()) == [
        "jobs/orders  Valid  in force in 1 of 1",
        "└─ east  InUse",
        "   └─ app  Running  revision 1  Adopted",
    ]


@pytest.mark.parametrize(
    ("seen", "bar"),
    [
        (TopicReport(lag=1200, quiet_s=0), "░░░░░░░░░░  lag 1,200"),
        (TopicReport(lag=None, quiet_s=0), "░░░░░░░░░░  lag not known"),
        (TopicReport(lag=0, quiet_s=60, open_transaction=True), "░░░░░░░░░░  lag 0, a transaction is open"),
        (TopicReport(lag=0, quiet_s=180), "██████░░░░  lag 0, quiet for 180 s of 5m"),
    ],
)
def test_a_bar_fills_while_a_topic_drains(seen: TopicReport, bar: str) -> None:
    rows = lines(changed(), east__orders=seen)
    assert rows[:4] == [
        "jobs/orders  Valid  in force in 1 of 1",
        "├─ west  InUse",
        "│  └─ app  Running  revision 2  Confirmed",
        "└─ east  Draining",
    ]
    assert rows[4].startswith(f"   └─ app  orders  {bar}  ")


@pytest.mark.parametrize("forged", [{"pod": "another"}, {"phase": "Failed"}])
def test_a_bar_needs_the_drivers_own_report(forged: Mapping[str, Any]) -> None:
    assert "orders  ░░░░░░░░░░  no report  " in lines(changed(), **forged, east__orders=TopicReport(0, 180))[-1]


def test_a_stream_that_nobody_has_looked_at_says_so() -> None:
    new = {"metadata": {"namespace": "jobs", "name": "orders", "generation": 2}, "status": {"observedGeneration": 1}}
    assert tree([new], [], []) == ["jobs/orders  the operator has not looked at it yet"]
