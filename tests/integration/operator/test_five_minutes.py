"""Steps 2 to 6 of docs/start/operator.md, with its YAML, Kubeflow's operator and a fake driver."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.integration.operator.stage import APPLICATIONS, Stage
from tests.support.kube import SparkOperator
from tests.support.operator import CONFIG_MAPS, STREAMS, SUBSCRIPTIONS, OperatorProcess
from tests.support.places import ROOT

TOUR = (ROOT / "docs" / "start" / "operator.md").read_text(encoding="utf-8").replace("orders-app", "app")
RESOURCES = {
    "KafkaStream": STREAMS,
    "KafkaStreamSubscription": SUBSCRIPTIONS,
    "ConfigMap": CONFIG_MAPS,
    "SparkApplication": APPLICATIONS,
}


def tour_objects(namespace: str) -> dict[str, dict[str, Any]]:
    """Return the objects of the tour by their kinds, in the test's namespace and with its service account."""
    texts = re.findall(r"^```yaml\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)
    objects = {manifest["kind"]: manifest for manifest in map(yaml.safe_load, texts)}
    for manifest in objects.values():
        manifest["metadata"]["namespace"] = namespace
    objects["SparkApplication"]["spec"]["driver"]["serviceAccount"] = "default"
    return objects


def added_cluster() -> dict[str, Any]:
    """Return the cluster of the tour's live change."""
    (text,) = re.findall(r"^```\n( +- id: west\n.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)
    (cluster,) = yaml.safe_load(text)
    return dict(cluster)


def test_the_five_minutes_of_the_guide_work(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    objects = tour_objects(stage.namespace)
    for kind, resource in RESOURCES.items():
        stage.api.apply(resource, objects[kind], manager="gitops")
    stage.wait_document({"east/orders": "Active"})
    driver = stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    stage.report(driver)
    stage.wait_condition("Reporting", "Reporting")
    stage.wait_condition("RolledOut", "Adopted")

    stream = objects["KafkaStream"]
    clusters = stream["spec"]["clusters"]
    clusters.append(added_cluster())
    stage.api.apply(STREAMS, stream, manager="gitops")
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.report(driver, beat=2)
    stage.wait_condition("RolledOut", "Confirmed")

    del clusters[0]
    stage.api.apply(STREAMS, stream, manager="gitops")
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    drained = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 301.0, "openTransaction": False}
    stage.reports_until(driver, {"west/orders": "Active"}, draining=[drained])
    stage.report(driver, beat=20)
    stage.wait_verdict("east", "Released")
    assert len(spark_operator.submissions("app")) == 1
