"""The migration of docs/gitops.md: three commits and a revert, applied to a real API server as GitOps tools do."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from dynamic_kafka.metadata.kubernetes_names import REVISION_ANNOTATION
from tests.integration.operator.stage import APPLICATIONS, STREAMS, Stage
from tests.support.gitops import PATCHES, Repository, health, kstatus
from tests.support.kube import KubeCluster, KubeError, SparkOperator
from tests.support.kube_programs import spark_operator_crds
from tests.support.operator import CONFIG_MAPS, CRD_FOLDER, OperatorProcess
from tests.support.places import ROOT
from tests.support.waiting import wait_until

DEPLOYMENTS = "apps/v1/deployments"
PAGE = (ROOT / "docs" / "gitops.md").read_text(encoding="utf-8")
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
    found = re.findall(r"^kubectl (.+)$", text, re.MULTILINE)
    assert found
    return [shlex.split(each.replace("spark-jobs", stage.namespace).replace("orders-app", "app")) for each in found]


class Tool:
    """A GitOps tool: it builds a folder of the repository and applies the result on the server's side."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage, self._folder = stage, folder

    def build(self) -> str:
        """Return the manifests of the newest commit."""
        return self._stage.kube.kubectl("kustomize", str(self._folder))

    def apply(self, *options: str) -> list[dict[str, Any]]:
        """Apply everything, as Argo CD does; return the objects as the API server has them then."""
        manager = ("--field-manager=argocd-controller", "--force-conflicts", "--validate=strict")
        command = ("apply", "--server-side", *manager, *options, "-o", "json", "-f", "-")
        return list(json.loads(self._stage.kube.kubectl(*command, stdin=self.build()))["items"])

    def drift(self) -> list[tuple[Any, Any]]:
        """Return the objects that an apply would change, as they are (None: not there) and as they would be."""
        predicted = _contents(self.apply("--dry-run=server"))
        command = ("get", "--ignore-not-found", "-o", "json", "-f", "-")
        live = _contents(json.loads(self._stage.kube.kubectl(*command, stdin=self.build()))["items"])
        pairs = [(live.get(name), after) for name, after in predicted.items()]
        return [(before, after) for before, after in pairs if before != after]


def _contents(found: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return objects by kind and name, without their status and the server's own metadata."""
    own = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
    contents = {}
    for each in found:
        metadata = {key: value for key, value in each["metadata"].items() if key not in own}
        rest = {key: value for key, value in each.items() if key not in ("status", "metadata")}
        contents[each["kind"], metadata["name"]] = {**rest, "metadata": metadata}
    return contents


def repository(folder: Path, stage: Stage) -> Repository:
    """Return the example's repository for the test's namespace and for the application `app`."""
    stage.api.create("v1/serviceaccounts", ACCOUNT, stage.namespace)
    return Repository(folder, {"spark-jobs": stage.namespace, "orders-app": "app"})


def healths(stage: Stage) -> set[tuple[str, str]]:
    """Return the judgements of Argo CD and Flux on the stream and the subscription."""
    found = (stage.api.get(STREAMS, "orders", stage.namespace), stage.subscription_now())
    return {(health(each).status, kstatus(each)) for each in found}


def is_waited_for(step: int, stage: Stage) -> bool:
    """Return whether the page's commands would all return at once."""
    for command in commands(step, stage):
        try:
            stage.kube.kubectl(*[re.sub("--timeout=.*", "--timeout=0s", each) for each in command])
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
    found = stage.api.get(DEPLOYMENTS, "orders-producer", stage.namespace)
    counts = dict.fromkeys(
        ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), found["spec"]["replicas"]
    )
    status = {"status": {"observedGeneration": found["metadata"]["generation"], **counts}}
    stage.api.patch(DEPLOYMENTS, "orders-producer", stage.namespace, status, subresource="status")


@pytest.fixture
def kinds(kube: KubeCluster) -> None:
    """Install the kinds of both operators, without an operator."""
    kube.install_crds(CRD_FOLDER)
    kube.install_crds(spark_operator_crds())


@pytest.mark.usefixtures("kinds")
def test_each_commit_is_accepted_by_the_api_server(stage: Stage, tmp_path: Path) -> None:
    made = repository(tmp_path / "orders", stage)
    tool = Tool(stage, made.overlay)
    tool.apply()
    assert tool.drift() == []
    built = [tool.build()]
    for patch in PATCHES:
        made.take(patch)
        built.append(tool.build())
        assert tool.drift() != []
        tool.apply()
    assert len(set(built)) == 4
    made.git("revert", "--no-edit", "HEAD")
    tool.apply()
    assert tool.build() == built[2]


@pytest.mark.usefixtures("kinds")
def test_new_objects_are_in_progress_without_an_operator(stage: Stage, tmp_path: Path) -> None:
    Tool(stage, repository(tmp_path / "orders", stage).overlay).apply()
    stream, reader = stage.api.get(STREAMS, "orders", stage.namespace), stage.subscription_now()
    assert [(health(each).status, kstatus(each)) for each in (stream, reader)] == [("Progressing", "InProgress")] * 2


@pytest.mark.parametrize("strategy", ["Auto", "Restart"])
def test_a_migration_is_three_commits_and_a_revert(
    strategy: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator, tmp_path: Path
) -> None:
    made = repository(tmp_path / "orders", stage)
    overlay = tmp_path / "orders" / "without-webhook"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(WITHOUT_WEBHOOK.replace("STRATEGY", strategy))
    tool = Tool(stage, overlay)

    def in_force(driver: dict[str, Any], wanted: dict[str, str], beat: int = 2) -> dict[str, Any]:
        """Let the application take the newest document, by the strategy's way, and report it."""
        stage.wait_document(wanted)
        new = stage.driver_runs(after=driver["metadata"]["uid"]) if strategy == "Restart" else driver
        stage.report(new, beat=beat)
        return new

    # Given an application that reads orders from east
    tool.apply()
    stage.wait_document({"east/orders": "Active"})
    driver = stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    stage.report(driver)
    stage.wait_condition("Reporting", "Reporting")
    wait_for(1, stage)

    # When west is added, the page's commands return once the driver has it
    made.take(PATCHES[0])
    tool.apply()
    assert not is_waited_for(1, stage)
    both = {"east/orders": "Active", "west/orders": "Active"}
    driver = in_force(driver, both)
    wait_for(1, stage)

    # And the operator's keys are no drift, and another apply restarts nothing
    keys = json.dumps(stage.api.get(APPLICATIONS, "app", stage.namespace)["spec"])
    assert (REVISION_ANNOTATION in keys) == (strategy == "Restart")
    submissions = len(spark_operator.submissions("app"))
    assert tool.drift() == []
    tool.apply()
    assert json.dumps(stage.api.get(APPLICATIONS, "app", stage.namespace)["spec"]) == keys
    assert len(spark_operator.submissions("app")) == submissions

    # When the producers move, nothing changes for the application
    made.take(PATCHES[1])
    tool.apply()
    producers_run(stage)
    wait_for(2, stage)
    servers = stage.api.list(CONFIG_MAPS, stage.namespace)
    assert {"w1:9092,w2:9092"} <= {each.get("data", {}).get("KAFKA_BOOTSTRAP_SERVERS") for each in servers}
    assert len(spark_operator.submissions("app")) == submissions

    # When east is removed, it is read on, and a revert makes it active again
    made.take(PATCHES[2])
    tool.apply()
    assert not is_waited_for(3, stage)
    driver = in_force(driver, {"east/orders": "Draining", "west/orders": "Active"})
    wait_until(lambda: healths(stage) == {("Healthy", "Current")}, "healthy objects")
    assert "east/orders" in health(stage.api.get(STREAMS, "orders", stage.namespace)).message
    assert not is_waited_for(3, stage)
    made.git("revert", "--no-edit", "HEAD")
    tool.apply()
    driver = in_force(driver, both)
    wait_for(1, stage)

    # When it is removed for good, the page's command returns once it is drained
    made.git("revert", "--no-edit", "HEAD")
    tool.apply()
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
