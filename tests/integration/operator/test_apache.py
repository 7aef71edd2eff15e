"""Apache's SparkApplication on a real API server. The test plays Apache's operator and the drivers.

The CRD is the project's own, with the fields that the operator reads (`tests/support/kube/apache`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import REFRESH_ANNOTATION, REVISION_ANNOTATION, STREAMS_ANNOTATION
from tests.integration.operator.stage import Stage, cluster, condition
from tests.support.fixtures import kept_open
from tests.support.kube import KubeCluster
from tests.support.kube.pods import PODS, set_phase
from tests.support.operator import OperatorProcess
from tests.support.places import ROOT
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each case of the second kind")

APPLICATIONS = "spark.apache.org/v1/sparkapplications"
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = ROOT / "tests" / "support" / "kube" / "apache"
QUICK = ["--confirm", "4s", "--confirm-live", "3s", "--between-restarts", "1s"]
ALWAYS = {"restartConfig": {"restartPolicy": "Always", "maxRestartAttempts": 5}}
ANNOTATION = "spark.kubernetes.driver.annotation."
RUNBOOKS = (ROOT / "docs" / "how-to" / "runbooks.md").read_text(encoding="utf-8")
SECRET = {"cluster": "west", "name": "login", "allowedServers": ["west:9092"]}


class Apache(Stage):
    """One namespace with an Apache application, and the actions of Apache's operator."""

    attempt = 0

    def subscription(self, name: str = "app", **spec: Any) -> None:
        """Apply a subscription of `app` to the stream `orders`."""
        super().subscription(name, applicationRef={"apiVersion": "spark.apache.org/v1", "name": "app"}, **spec)

    def application(self, name: str = "app", annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Apply a SparkApplication."""
        volumes = [{"name": "kafkastreams", "configMap": {"name": f"{name}-kafkastreams"}}]
        content = {
            "mainClass": "org.apache.spark.deploy.PythonRunner",
            "pyFiles": "local:///app.py",
            "runtimeVersions": {"sparkVersion": "4.2.0"},
            "sparkConf": {"spark.executor.instances": "1"},
            "driverSpec": {"podTemplateSpec": {"spec": {"volumes": volumes}}},
            **spec,
        }
        metadata = {"name": name, "annotations": dict(annotations or {})}
        self._apply(APPLICATIONS, "SparkApplication", metadata, content)

    def application_now(self) -> dict[str, Any]:
        """Return the present SparkApplication."""
        return dict(self.api.get(APPLICATIONS, "app", self.namespace))

    def state(self, summary: str) -> None:
        """Write the status, as Apache's operator does."""
        info = {"id": self.attempt, "restartCounter": self.attempt}
        now = {"currentStateSummary": summary, "lastTransitionTime": "2026-11-01T00:00:00Z"}
        status = {"currentState": now, "currentAttemptSummary": {"attemptInfo": info}}
        self.api.patch(APPLICATIONS, "app", self.namespace, {"status": status}, subresource="status")

    def attempts(self) -> dict[str, Any]:
        """Create the running pod of an attempt from the present spec, as Apache's operator does."""
        application = self.application_now()
        conf = application["spec"]["sparkConf"]
        name = f"app-{self.attempt}-driver"
        owner = {"apiVersion": "spark.apache.org/v1", "kind": "SparkApplication", "name": "app"}
        prefix = "spark.kubernetes.driver.secrets."
        secrets = [key.removeprefix(prefix) for key in conf if key.startswith(prefix)]
        mounts = [{"name": "kafkastreams", "mountPath": "/etc/kafkastreams"}]
        mounts += [{"name": secret, "mountPath": f"/etc/kafkastreams-secrets/{secret}"} for secret in secrets]
        pod = {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"spark-role": "driver", "spark.operator/spark-app-name": "app"},
                "annotations": {k.removeprefix(ANNOTATION): v for k, v in conf.items() if k.startswith(ANNOTATION)},
                "ownerReferences": [{**owner, "uid": application["metadata"]["uid"]}],
            },
            "spec": {
                "containers": [{"name": "spark-kubernetes-driver", "image": "none", "volumeMounts": mounts}],
                "volumes": [
                    *application["spec"]["driverSpec"]["podTemplateSpec"]["spec"]["volumes"],
                    *({"name": secret, "secret": {"secretName": secret}} for secret in secrets),
                ],
            },
        }
        self.api.create(PODS, pod)
        running = set_phase(self.api, self.api.get(PODS, name, self.namespace), "Running")
        self.state("RunningHealthy")
        return dict(running)

    def notices_that_the_driver_went(self) -> None:
        """Wait until the pod is gone, and schedule the next attempt, as Apache's operator does."""
        name = f"app-{self.attempt}-driver"
        self.api.wait(PODS, name, self.namespace, until=lambda pod: pod is None or _ends(pod), timeout=30)
        self.api.delete(PODS, name, self.namespace, gracePeriodSeconds=0)  # no kubelet would end it
        self.state("Failed")
        self.attempt += 1
        self.state("ScheduledToRestart")

    def runs(self, **spec: Any) -> dict[str, Any]:
        """Start an application that reads a stream on east, and return its driver's pod."""
        self.stream("orders", cluster("east"))
        self.application(applicationTolerations=ALWAYS)
        self.subscription(**spec)
        self.wait_document({"east/orders": "Active"})
        pod = self.attempts()
        self.wait_condition("ApplicationFound", "Running")
        return pod


def _ends(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@pytest.fixture
def apache(kube: KubeCluster, namespace: str) -> Apache:
    return Apache(kube, namespace)


@pytest.fixture
def installed(kube: KubeCluster) -> None:
    kube.install_crds(CRD)


@pytest.fixture
def operator(
    request: pytest.FixtureRequest, kube: KubeCluster, namespace: str, installed: None
) -> Iterator[OperatorProcess]:
    """Start the operator, by default with the right to delete drivers' pods."""
    made = OperatorProcess(kube, namespace, QUICK, may_restart=getattr(request, "param", True))
    with kept_open(request.config, request.node.stash, [made]):
        yield made.start()


def test_a_change_is_live_and_confirmed(apache: Apache, operator: OperatorProcess) -> None:
    pod = apache.runs()
    apache.report(pod)
    apache.wait_condition("Reporting", "Reporting")
    assert condition(apache.subscription_now(), "Mounted")["reason"] == "Mounted"
    generation = apache.application_now()["metadata"]["generation"]

    apache.stream("orders", cluster("east"), cluster("west"))
    apache.wait_document({"east/orders": "Active", "west/orders": "Active"})
    apache.api.wait(
        PODS,
        pod["metadata"]["name"],
        apache.namespace,
        until=lambda driver: REFRESH_ANNOTATION in driver["metadata"]["annotations"],
    )
    apache.report(pod)
    apache.wait_condition("RolledOut", "Confirmed")
    assert apache.application_now()["metadata"]["generation"] == generation


@DEEP
def test_a_topic_that_its_driver_has_drained_is_removed(apache: Apache, operator: OperatorProcess) -> None:
    pod = apache.runs()
    apache.report(pod)
    apache.stream("orders", cluster("west"), quietPeriod="1s")
    apache.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    drained = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 2, "openTransaction": False}
    apache.reports_until(pod, {"west/orders": "Active"}, draining=[drained])


@DEEP
def test_auto_reports_a_needed_restart_and_makes_none(apache: Apache, operator: OperatorProcess) -> None:
    pod = apache.runs(secrets=[SECRET])
    apache.report(pod)
    apache.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    rolled_out = apache.wait_condition("RolledOut", "RestartRequired")
    assert "updateStrategy: Restart, which spends" in rolled_out["message"]
    assert condition(apache.subscription_now(), "Mounted")["reason"] == "SecretsNotMounted"
    assert not _ends(apache.api.get(PODS, "app-0-driver", apache.namespace))
    assert "managedFields" in apache.application_now()["metadata"]
    assert "kafkastream" not in str(apache.application_now()["spec"]["sparkConf"])


def test_a_restart_is_confirmed_by_the_next_attempts_driver(apache: Apache, operator: OperatorProcess) -> None:
    apache.runs(updateStrategy="Restart", secrets=[SECRET])
    apache.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    document = apache.wait_document({"east/orders": "Active", "west/orders": "Active"})
    apache.notices_that_the_driver_went()
    pod = apache.attempts()
    apache.wait_condition("RolledOut", "Confirmed")
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    assert apache.application_now()["spec"]["sparkConf"]["spark.executor.instances"] == "1"
    apache.wait_condition("Mounted", "Mounted")


@DEEP
def test_an_application_that_would_not_return_is_not_ended(apache: Apache, operator: OperatorProcess) -> None:
    apache.runs(updateStrategy="Restart")
    apache.application(applicationTolerations={"restartConfig": {"restartPolicy": "OnFailure"}})
    apache.stream("orders", cluster("east"), cluster("west"))
    rolled_out = apache.wait_condition("RolledOut", "RestartRequired")
    assert "restartPolicy to Always" in rolled_out["message"]
    assert not _ends(apache.api.get(PODS, "app-0-driver", apache.namespace))


@DEEP
def test_the_runbooks_commands_find_application_and_driver(apache: Apache, operator: OperatorProcess) -> None:
    pod = apache.runs()
    names = {
        "NS": apache.namespace,
        "APP": "app",
        "KIND": "sparkapplication.spark.apache.org",
        "DRIVER": "-l spark-role=driver,spark.operator/spark-app-name=app",
    }
    # Without those that go on until Ctrl-C or show a driver's report, and without comments behind the others.
    once = r"^kubectl (-n NS (?:get|describe) (?!.*--watch|.*annotations).*?\b(?:KIND|DRIVER)\b.*?)(?: +#.*)?$"
    lines = re.findall(once, RUNBOOKS, re.MULTILINE)
    commands = {re.sub(r"\b(NS|APP|KIND|DRIVER)\b", lambda placeholder: names[placeholder[1]], line) for line in lines}
    shown = {call: apache.kube.kubectl(*shlex.split(call)) for call in commands}
    assert len(shown) > 4
    for command, text in shown.items():
        expected = pod["metadata"]["name"] if "-l" in command else "RunningHealthy" if " app" in command else "app"
        assert expected in text, command


@DEEP
@pytest.mark.parametrize("operator", [False], ids=["without it"], indirect=True)
def test_a_missing_right_to_delete_drivers_is_reported(
    kube: KubeCluster, apache: Apache, operator: OperatorProcess
) -> None:
    driver = apache.runs(updateStrategy="Restart")["metadata"]["name"]
    apache.stream("orders", cluster("east"), cluster("west"))
    rolled_out = apache.wait_condition("RolledOut", "PatchRefused")
    assert 'cannot delete resource "pods"' in rolled_out["message"]
    # The right changes neither the application nor the subscription: the operator tries again once a user asks for it
    home = ("--namespace", apache.namespace)
    account = f"--serviceaccount={apache.namespace}:{operator.release}"
    kube.kubectl("create", "role", "restarts", "--verb=delete", "--resource=pods", *home)
    kube.kubectl("create", "rolebinding", "restarts", "--role=restarts", account, *home)
    command = re.search(r"`(kubectl annotate .*)@REASON`", rolled_out["message"])
    assert command is not None
    _, *annotate = command[1].replace("kss/NAME", "kss/app").split()
    kube.kubectl(*annotate, *home)
    apache.api.wait(PODS, driver, apache.namespace, until=lambda pod: pod is None or _ends(pod))
    wait_until(lambda: ("Normal", "Retried") in apache.events(), "the event")


@DEEP
def test_a_kind_installed_later_is_served(
    request: pytest.FixtureRequest, kube: KubeCluster, apache: Apache, namespace: str
) -> None:
    kube.api.delete(CRDS, "sparkapplications.spark.apache.org")
    kube.api.wait(CRDS, "sparkapplications.spark.apache.org", until=lambda definition: definition is None, timeout=60)
    operator = OperatorProcess(kube, namespace, QUICK)
    with kept_open(request.config, request.node.stash, [operator]):
        operator.start()
        apache.stream("orders", cluster("east"))
        Stage.subscription(apache, "early", applicationRef={"apiVersion": "spark.apache.org/v1", "name": "early"})
        apache.wait_condition("ApplicationFound", "ApplicationMissing", "early")

        kube.install_crds(CRD)
        apache.application(annotations={STREAMS_ANNOTATION: "orders"})
        apache.wait_condition("ApplicationFound", "Starting")
        apache.attempts()
        apache.wait_condition("ApplicationFound", "Running")
        assert apache.subscription_now()["spec"]["applicationRef"]["apiVersion"] == "spark.apache.org/v1"
        apache.api.delete(APPLICATIONS, "app", namespace)
        apache.wait_condition("ApplicationFound", "Orphaned")
