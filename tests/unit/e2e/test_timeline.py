"""The timeline notes what it sees in the cluster, and reports an error that ends its thread."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.contract.driver_report import DriverReport, ReportedTopic
from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from tests.e2e.application import Application
from tests.e2e.timeline import Driver, Rendered, Reported, Timeline
from tests.support.kube import PODS, KubeError
from tests.support.kube.api import Api
from tests.support.waiting import wait_until

LABELS = {"sparkoperator.k8s.io/app-name": "orders"}


class FakeApi(Api):
    """An API server with one driver pod, which is away at first."""

    def __init__(self, **metadata: Any) -> None:
        self._pod = {"metadata": {"uid": "1", "name": "driver", **metadata}}
        self._away = True

    def list(self, resource: str, namespace: str | None = None, **selectors: str) -> list[dict[str, Any]]:
        if self._away:
            self._away = False
            raise KubeError("away")
        return [self._pod] if resource == PODS else []


def test_a_driver_is_seen_after_the_server_was_away() -> None:
    timeline = Timeline(FakeApi(labels=LABELS), "shop")
    timeline.start()

    wait_until(lambda: timeline.drivers["orders"] or None, "the driver")

    timeline.stop()
    timeline.check()


@pytest.mark.parametrize(
    ("metadata", "error"),
    [({"labels": LABELS, "annotations": {REPORT_ANNOTATION: "{"}}, "DriverReport"), ({"labels": {}}, "KeyError")],
    ids=["a report that does not parse", "a driver of no application"],
)
def test_an_error_of_the_thread_is_raised(metadata: dict[str, Any], error: str) -> None:
    timeline = Timeline(FakeApi(**metadata), "shop")
    timeline.start()

    with pytest.raises(RuntimeError, match=f"the timeline's thread ended: .*{error}"):
        wait_until(timeline.check, "the error")


def drained(cluster: str = "C", lag: int | None = 0, quiet: float = 4.0) -> Reported:
    topic = ReportedTopic(cluster=cluster, topic="orders", lag=lag, quiet_s=quiet)
    return Reported(0.0, DriverReport(draining=(topic,)))


def test_a_report_shows_whether_a_cluster_is_drained() -> None:
    reports = [drained(), drained("B"), drained(lag=None), drained(lag=1), drained(quiet=2.0)]

    assert [report.drained("C", quiet_s=3.0) for report in reports] == [True, False, False, False, False]


def observed(strategy: str, folder: Path) -> tuple[Application, Timeline]:
    """Return an application that had a change at 100 s, and its timeline; the document before is of 50 s."""
    application, timeline = Application("orders", strategy, folder), Timeline(FakeApi(), "shop")
    timeline.rendered["orders"] += [Rendered(50.0, "l/1", {}), Rendered(100.5, "l/2", {}), Rendered(160.0, "l/3", {})]
    timeline.drivers["orders"] += [Driver(40.0, "old", "driver", "")]
    timeline.applied["orders", "l/1"]["old"] = 55.0
    timeline.applied["orders", "l/2"]["old"] = 102.0
    return application, timeline


def rows(*batches: tuple[float, str]) -> list[tuple[float, Counter[str]]]:
    return [(at, Counter(clusters)) for at, clusters in batches]


def test_the_times_of_a_live_change(tmp_path: Path) -> None:
    application, timeline = observed("Reload", tmp_path)
    application.batches = rows((98.0, "AC"), (99.0, "A"), (101.0, "A"), (103.5, "AC"), (104.0, "C"))

    change = timeline.change(application, "C is added", 100.0, "C")

    assert (change.apply_to_rendered, change.rendered_to_applied) == (0.5, 1.5)
    assert (change.applied_to_first_record, change.apply_to_first_record) == (1.5, 3.5)
    assert change.restart_total is None
    assert timeline.reads_again(application, 100.0)


def test_a_record_may_come_before_the_report(tmp_path: Path) -> None:
    application, timeline = observed("Reload", tmp_path)
    application.batches = rows((101.0, "C"))

    change = timeline.change(application, "C is added", 100.0, "C")

    assert (change.applied_to_first_record, change.apply_to_first_record) == (-1.0, 1.0)


def test_only_a_new_driver_confirms_a_restart(tmp_path: Path) -> None:
    application, timeline = observed("Restart", tmp_path)
    assert timeline.applied_since(application, 100.0) is None  # the old driver took the document up

    timeline.drivers["orders"].append(Driver(110.0, "new", "driver", "l/2"))
    assert timeline.applied_since(application, 100.0) is None

    timeline.applied["orders", "l/2"]["new"] = 150.0
    assert timeline.applied_since(application, 100.0) == 150.0


def test_a_restart_lasts_from_row_to_row(tmp_path: Path) -> None:
    application, timeline = observed("Restart", tmp_path)
    timeline.drivers["orders"].append(Driver(110.0, "new", "driver", "l/2"))
    timeline.applied["orders", "l/2"]["new"] = 150.0
    application.batches = rows((20.0, "A"), (99.0, "A"), (104.0, "A"), (120.0, ""))
    assert not timeline.reads_again(application, 100.0)  # an empty batch ends no pause

    application.batches += rows((148.0, "AC"), (300.0, "A"))
    assert timeline.reads_again(application, 100.0)
    change = timeline.change(application, "C is added", 100.0, "C")

    assert change.restart_total == 44.0
    assert change.apply_to_first_record == 48.0


def test_a_newer_document_confirms_an_older_change(tmp_path: Path) -> None:
    application, timeline = observed("Reload", tmp_path)
    del timeline.applied["orders", "l/2"]
    timeline.applied["orders", "l/3"]["old"] = 165.0

    assert timeline.applied_since(application, 100.0) == 165.0
