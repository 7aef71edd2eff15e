"""The migration of docs/how-to/gitops.md: three commits and a revert, applied as GitOps tools do."""

from __future__ import annotations

import json
import re
import shlex
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION
from tests.integration.operator.stage import APPLICATIONS, STREAMS, Stage
from tests.support.gitops import PATCHES, ExampleRepository, Tool, kustomized
from tests.support.gitops_health import health, kstatus
from tests.support.kube import KubeCluster, KubeError, SparkOperator
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, CRD_FOLDER, OperatorProcess
from tests.support.places import ROOT
from tests.support.waiting import wait_until

DEPLOYMENTS = "apps/v1/deployments"
PAGE = (ROOT / "docs" / "how-to" / "gitops.md").read_text(encoding="utf-8")
WITHOUT_WEBHOOK = """
resources: [../production]
patches:
  - target: {kind: SparkApplication}
    patch: |-
      - {op: remove, path: /spec/driver/configMaps}
      - op: add
        path: /spec/driver/template
        value:
          spec:
            containers:
              - name: spark-kubernetes-driver
                volumeMounts: [{name: kafkastreams, mountPath: /etc/kafkastreams, readOnly: true}]
            volumes: [{name: kafkastreams, configMap: {name: app-kafkastreams}}]
  - target: {kind: KafkaStreamSubscription}
    patch: |-
      - {op: add, path: /spec/updateStrategy, value: STRATEGY}
"""
"""An overlay with the pod template that Kubeflow's webhook would make, since the webhook does not run in tests."""
ACCOUNT = {"metadata": {"name": "spark-operator-spark"}}
"""The account that Kubeflow's chart makes for drivers."""


def commands(step: int, stage: Stage) -> list[list[str]]:
    """Return the arguments of the page's `kubectl` commands that wait for a step of the migration."""
    text = PAGE.partition(f"\n**{step}. ")[2].partition("\n**")[0].partition("\nTo try it")[0]
    lines = re.findall(r"^kubectl (.+)$", text, re.MULTILINE)
    assert lines
    return [shlex.split(line.replace("spark-jobs", stage.namespace).replace("orders-app", "app")) for line in lines]


def repository(folder: Path, stage: Stage) -> ExampleRepository:
    """Return the example's repository for the test's namespace and for the application `app`."""
    stage.api.create("v1/serviceaccounts", ACCOUNT, stage.namespace)
    return ExampleRepository(folder, {"spark-jobs": stage.namespace, "orders-app": "app"})


def tool_of(stage: Stage, folder: Path) -> Tool:
    """Return a GitOps tool for a folder of the repository."""
    return Tool(stage.kube, stage.namespace, lambda: kustomized(stage.kube, folder))


def healths(stage: Stage) -> set[tuple[str, str]]:
    """Return the judgements of Argo CD and Flux on the stream and the subscription."""
    resources = (stage.api.get(STREAMS, "orders", stage.namespace), stage.subscription_now())
    return {(health(resource).status, kstatus(resource)) for resource in resources}


def is_waited_for(step: int, stage: Stage) -> bool:
    """Return whether the page's commands would all return at once."""
    for command in commands(step, stage):
        try:
            stage.kube.kubectl(*[re.sub("--timeout=.*", "--timeout=0s", argument) for argument in command])
        except KubeError:
            return False
    return True


def wait_for(step: int, stage: Stage) -> None:
    """Run the page's commands, and check that both tools then judge everything healthy."""
    for command in commands(step, stage):
        stage.kube.kubectl(*command)
    wait_until(lambda: healths(stage) == {("Healthy", "Current")}, "healthy objects")


def producers_run(stage: Stage) -> None:
    """Write the status of the producers' Deployment as its controller does when the newest pods run."""
    deployment = stage.api.get(DEPLOYMENTS, "orders-producer", stage.namespace)
    counts = dict.fromkeys(
        ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), deployment["spec"]["replicas"]
    )
    status = {"status": {"observedGeneration": deployment["metadata"]["generation"], **counts}}
    stage.api.patch(DEPLOYMENTS, "orders-producer", stage.namespace, status, subresource="status")


@pytest.fixture
def kinds(kube: KubeCluster) -> None:
    """Install the kinds of both operators, without an operator."""
    kube.install_crds(CRD_FOLDER)
    kube.install_crds(spark_operator_crds())


@pytest.mark.usefixtures("kinds")
def test_each_commit_is_accepted_by_the_api_server(stage: Stage, tmp_path: Path) -> None:
    made = repository(tmp_path / "orders", stage)
    tool = tool_of(stage, made.overlay)
    tool.sync()
    assert tool.drift() == []
    built = [tool.build()]
    for patch in PATCHES:
        made.take(patch)
        built.append(tool.build())
        assert tool.drift() != []
        tool.sync()
    assert all(before != after for before, after in combinations(built, 2))
    assert len(built) == 4
    made.git("revert", "--no-edit", "HEAD")
    tool.sync()
    assert tool.build() == built[2]
    assert tool.drift() == []


@pytest.mark.deep("the health of new objects")
@pytest.mark.usefixtures("kinds")
def test_new_objects_are_in_progress_without_an_operator(stage: Stage, tmp_path: Path) -> None:
    tool_of(stage, repository(tmp_path / "orders", stage).overlay).sync()
    stream, reader = stage.api.get(STREAMS, "orders", stage.namespace), stage.subscription_now()
    assert [(health(entry).status, kstatus(entry)) for entry in (stream, reader)] == [("Progressing", "InProgress")] * 2


@pytest.mark.parametrize("strategy", ["Auto", pytest.param("Restart", marks=pytest.mark.deep("the second strategy"))])
def test_a_migration_is_three_commits_and_a_revert(
    strategy: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator, tmp_path: Path
) -> None:
    made = repository(tmp_path / "orders", stage)
    overlay = tmp_path / "orders" / "without-webhook"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(WITHOUT_WEBHOOK.replace("STRATEGY", strategy))
    tool = tool_of(stage, overlay)

    def in_force(driver: dict[str, Any], wanted: dict[str, str], beat: int = 2) -> dict[str, Any]:
        """Let the application take the newest document, by the strategy's way, and report it."""
        stage.wait_document(wanted)
        new = stage.driver_runs(after=driver["metadata"]["uid"]) if strategy == "Restart" else driver
        stage.report(new, beat=beat)
        return new

    # Given an application that reads orders from east
    tool.sync()
    stage.wait_document({"east/orders": "Active"})
    driver = stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    stage.report(driver)
    stage.wait_condition("Reporting", "Reporting")
    wait_for(1, stage)

    # When west is added, the page's commands return once the driver has it
    made.take(PATCHES[0])
    tool.sync()
    assert not is_waited_for(1, stage)
    both = {"east/orders": "Active", "west/orders": "Active"}
    driver = in_force(driver, both)
    wait_for(1, stage)

    # And the operator's keys are no drift, and another apply restarts nothing
    keys = json.dumps(stage.api.get(APPLICATIONS, "app", stage.namespace)["spec"])
    assert (REVISION_ANNOTATION in keys) == (strategy == "Restart")
    submissions = len(spark_operator.submissions("app"))
    assert tool.drift() == []
    tool.sync()
    assert json.dumps(stage.api.get(APPLICATIONS, "app", stage.namespace)["spec"]) == keys
    assert len(spark_operator.submissions("app")) == submissions

    # When the producers move, nothing changes for the application
    made.take(PATCHES[1])
    tool.sync()
    producers_run(stage)
    wait_for(2, stage)
    servers = stage.api.list(CONFIG_MAPS, stage.namespace)
    assert {"w1:9092,w2:9092"} <= {server.get("data", {}).get("KAFKA_BOOTSTRAP_SERVERS") for server in servers}
    assert len(spark_operator.submissions("app")) == submissions

    # When east is removed, it is read on, and a revert makes it active again
    made.take(PATCHES[2])
    tool.sync()
    assert not is_waited_for(3, stage)
    driver = in_force(driver, {"east/orders": "Draining", "west/orders": "Active"})
    wait_until(lambda: healths(stage) == {("Healthy", "Current")}, "healthy objects")
    assert "east/orders" in health(stage.api.get(STREAMS, "orders", stage.namespace)).message
    assert not is_waited_for(3, stage)
    made.git("revert", "--no-edit", "HEAD")
    tool.sync()
    driver = in_force(driver, both)
    wait_for(1, stage)

    # When it is removed for good, the page's command returns once it is drained
    made.git("revert", "--no-edit", "HEAD")
    tool.sync()
    driver = in_force(driver, {"east/orders": "Draining", "west/orders": "Active"})
    drained = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 301.0, "openTransaction": False}
    stage.reports_until(driver, {"west/orders": "Active"}, draining=[drained])
    in_force(driver, {"west/orders": "Active"}, beat=20)
    wait_for(3, stage)
    assert tool.drift() == []


@pytest.mark.usefixtures("kinds")
def test_the_api_server_refuses_a_slip_in_a_commit(stage: Stage, tmp_path: Path) -> None:
    made = repository(tmp_path / "orders", stage)
    file = made.overlay / "kafkastream.yaml"
    stream = yaml.safe_load(file.read_text())
    stream["spec"]["clusters"][0]["topcis"] = ["orders"]
    file.write_text(yaml.safe_dump(stream))
    (command,) = re.findall(r"^- `kubectl kustomize production \| kubectl (apply .+) -f -` checks", PAGE, re.MULTILINE)
    manifests = stage.kube.kubectl("kustomize", str(made.overlay))
    with pytest.raises(KubeError, match="topcis"):
        stage.kube.kubectl(*command.split(), "-f", "-", stdin=manifests)
