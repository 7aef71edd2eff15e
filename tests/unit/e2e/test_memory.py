"""The memory of a driver: processes by role, medians of two quarters, and the revisions that its log names."""

from __future__ import annotations

import pytest

from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.metadata.revision import described
from tests.e2e.memory import ROLES, TakenRevisions, by_role, problems, summary
from tests.e2e.report import render
from tests.e2e.story import Story
from tests.support.node.processes import Process

JAVA = (
    "/usr/bin/java",
    "-cp",
    "x",
    "org.apache.spark.deploy.SparkSubmit",
    "local:///opt/dynamic_kafka/app/__main__.py",
)
DRIVER = ("/opt/venv/bin/python", "/opt/dynamic_kafka/app/__main__.py", "run", "/etc/orders/app.yaml")
PLANNER = ("/opt/venv/bin/python3.11", "-m", "pyspark.sql.streaming.python_streaming_source_runner")


def test_processes_are_summed_by_role() -> None:
    processes = [
        Process(1, ("/usr/bin/tini", "-s"), 1.0),
        Process(2, JAVA, 400.0),
        Process(3, DRIVER, 150.0),
        Process(4, PLANNER, 120.0),
        Process(5, PLANNER, 130.0),
    ]

    assert by_role(processes) == {"jvm": 400.0, "driver": 150.0, "planners": 250.0}


def series(growth: float, role: str = "driver", changes: int = 100) -> list[dict[str, float]]:
    """Return the memory of a driver in which one role grows with each change."""
    return [dict.fromkeys(ROLES, 100.0) | {role: 100.0 + growth * number} for number in range(changes)]


@pytest.mark.parametrize("role", ["driver", "planners"])
def test_a_leak_is_found(role: str) -> None:
    figures = summary(series(0.3, role))

    assert figures[role]["growth_mib"] == pytest.approx(22.5)
    assert [role in problem for problem in problems(figures)] == [True]


def test_a_peak_is_no_leak() -> None:
    samples = series(0.0)
    for number in range(80, 90):
        samples[number]["planners"] += 500.0

    assert problems(summary(samples)) == []


def test_the_jvms_heap_may_grow_to_its_limit() -> None:
    assert problems(summary(series(2.0, "jvm"))) == []


def test_a_process_that_was_not_seen_is_a_problem() -> None:
    samples = [sample | {"planners": 0.0} for sample in series(0.0)]

    assert problems(summary(samples)) == ["no process of planners was seen"]


def test_a_revision_is_taken_by_the_driver_and_a_planner() -> None:
    revision = Revision("sha256:" + "0" * 64, 17, "lineage")
    text, taken = described(revision), TakenRevisions()

    taken.add([f'{{"level": "INFO", "message": "metadata {text} was read; clusters: B, C"}}'])
    assert not taken.has("lineage/17")
    taken.add(["noise", f"2026-11-01 INFO dynamic_kafka.driver.observer: metadata {text} is in force; clusters: B, C"])

    assert taken.has("lineage/17")
    assert not taken.has("lineage/1")


def test_the_page_shows_the_memory() -> None:
    story = Story("many-changes", "Many", began=1.0, ended=2.0, memory={"changes": 100, **summary(series(0.1))})

    page = render([story.as_json()])

    assert "<td>driver</td><td>101.2</td><td>108.7</td><td>7.5</td><td>20.0</td>" in page
    assert "<td>jvm</td><td>100.0</td><td>100.0</td><td>0.0</td><td>–</td>" in page
