"""`kubectl kafkastream` on a real API server, as kubectl finds it on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.operator.stage import STREAMS, SUBSCRIPTIONS, cluster
from tests.integration.operator.test_apache import CRD, Apache
from tests.support.kube import KubeCluster
from tests.support.kube_programs import kubectl
from tests.support.operator import OperatorProcess
from tests.support.places import ROOT
from tests.support.waiting import wait_until

SECRET = {"name": "login"}


class Plugin:
    """The plugin, in the namespace of a stage."""

    def __init__(self, stage: Apache, folder: Path) -> None:
        self._stage, self._folder = stage, folder
        (folder / "kubectl").symlink_to(kubectl())
        plugin = folder / "kubectl-kafkastream"
        plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkastream_operator.kubectl "$@"\n')
        plugin.chmod(0o755)

    def __call__(self, *arguments: str, stdin: str | None = None) -> tuple[int, str]:
        """Run a command, and return its exit code and its output."""
        environment = self._stage.kube.environment() | {
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'spark_app'}",
        }
        command = ["kubectl", "kafkastream", *arguments, "-n", self._stage.namespace]
        done = subprocess.run(command, env=environment, input=stdin, text=True, capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def plan(self, *manifests: Mapping[str, Any]) -> tuple[int, list[str]]:
        """Return exit code and lines of a plan."""
        code, shown = self("plan", "-f", "-", stdin=yaml.safe_dump_all(manifests))
        return code, [line.removeprefix(f"{self._stage.namespace}/") for line in shown.splitlines()]


@pytest.fixture
def stage(kube: KubeCluster, namespace: str) -> Iterator[Apache]:
    kube.install_crds(CRD)
    yield Apache(kube, namespace)


@pytest.fixture
def plugin(stage: Apache, tmp_path: Path) -> Plugin:
    return Plugin(stage, tmp_path)


def orders(*clusters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest of the stream `orders`."""
    meta = {"name": "orders"}
    return {"apiVersion": "kafkastream.dev/v1alpha1", "kind": "KafkaStream", "metadata": meta} | {
        "spec": {"clusters": list(clusters)}
    }


@pytest.mark.parametrize("operator", [["--confirm-live", "60s"]], indirect=True)
def test_a_migration_is_planned_watched_and_released(stage: Apache, plugin: Plugin, operator: OperatorProcess) -> None:
    # Given an application that reads east
    driver = stage.runs()
    stage.report(driver)
    stage.wait_condition("Ready", "InForce")

    # When a change is planned, then the plan says what it does, and changes nothing
    before = stage.subscription_now()
    assert plugin.plan(orders(cluster("east"))) == (
        0, ["0 applications: 0 unchanged, 0 live, 0 restart, 0 at its start, 0 begin to drain; 0 held, 0 refused"]
    )  # fmt: skip
    assert plugin.plan(orders(cluster("west"))) == (2, [
        "app  live  drains east/orders",
        "1 application: 0 unchanged, 1 live, 0 restart, 0 at its start, 1 begin to drain; 0 held, 0 refused",
    ])  # fmt: skip
    code, lines = plugin.plan(orders(cluster("east"), cluster("west", secretRef=SECRET)))
    assert code == 3 and "app  unchanged  held  SecretNotBound: " in lines[0]
    code, lines = plugin.plan(orders(cluster("east", startingOffsets={"orders": {"0": -9}})))
    assert code == 3 and lines[0].startswith("KafkaStream orders  refused  ") and "startingOffsets" in lines[0]
    code, lines = plugin.plan(orders(cluster("east", bootstrapServers="e:99999")), orders(cluster("west")))
    assert code == 3 and "bootstrapServers" in lines[0] and "1 refused" in lines[-1]
    assert stage.subscription_now() == before

    # When it is applied, then the tree shows the drain
    stage.stream("orders", cluster("west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    seen = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 150.0, "openTransaction": False}
    stage.report(driver, beat=2, draining=[seen])
    stage.wait_condition("RolledOut", "Confirmed")
    stage.api.wait(
        STREAMS,
        "orders",
        stage.namespace,
        until=lambda stream: ((stream or {}).get("status") or {}).get("clusterNames") == "west, east (draining)",
    )
    code, shown = plugin("status", "orders")
    assert code == 0 and "└─ app  orders  █████░░░░░  lag 0, quiet for 150 s of 5m" in shown

    # When it is released, then time, user and reason are in the status and in the Event
    code, shown = plugin("release", "orders", "east/payments", "--reason", "no such topic")
    assert code == 1 and "draining now: east/orders" in shown
    code, shown = plugin("release", "orders", "east/orders", "--reason", "the data is elsewhere, see #7")
    assert code == 0, shown
    stage.wait_document({"west/orders": "Active"})
    subscription = stage.api.wait(
        SUBSCRIPTIONS, "app", stage.namespace, until=lambda reader: ((reader or {}).get("status") or {}).get("released")
    )
    assert subscription is not None
    (noted,) = subscription["status"]["released"]
    topic, _, note = noted.partition("@")
    assert topic == "east/orders" and note.endswith(": the data is elsewhere; see #7")
    assert stage.wait_condition("Drained", "NothingDrains")
    wait_until(lambda: any(note in event_note for event_note in stage.notes("Released")), "the Event of the release")
