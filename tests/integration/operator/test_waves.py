"""One change that restarts twenty applications, a few at a time, and none after a failure.

The test plays Kubeflow's operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import RELEASE_ROLLOUT_ANNOTATION, REVISION_ANNOTATION
from tests.integration.operator.stage import APPLICATIONS, PODS, STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.support.kube import SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import OperatorProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.deep("restarts in waves")

NAMES = [f"app{number}" for number in range(20)]


def token_of(resource: Any) -> str:
    """Return the revision that an application's spec names, or a driver's pod shows."""
    where = resource["spec"].get("driver") or {} if "driver" in resource["spec"] else resource["metadata"]
    return str((where.get("annotations") or {}).get(REVISION_ANNOTATION, ""))


class Fleet:
    """Twenty applications that read one stream."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.api = stage, stage.api
        self.starts = Counter[str]()
        stage.stream("orders", cluster("east"))
        for name in NAMES:
            stage.application(name)
            stage.subscription(name, applicationRef={"name": name}, updateStrategy="Restart")
            self.runs(name)
        for name in NAMES:
            stage.wait_condition("RolledOut", "Adopted", name)

    def is_now(self, name: str, state: str) -> None:
        """Write the application's status, as Kubeflow's operator does."""
        status = {
            "applicationState": {"state": state},
            "driverInfo": {"podName": f"{name}-driver"},
            "submissionID": f"{name}-{self.starts[name]}",
        }
        self.api.patch(APPLICATIONS, name, self.stage.namespace, {"status": status}, subresource="status")

    def runs(self, name: str) -> None:
        """Start a driver with what the application's spec has."""
        self.starts[name] += 1
        self.api.delete(PODS, f"{name}-driver", self.stage.namespace, gracePeriodSeconds=0)
        application = self.api.get(APPLICATIONS, name, self.stage.namespace)
        pod = {
            "metadata": {
                "name": f"{name}-driver",
                "namespace": self.stage.namespace,
                "labels": {"spark-role": "driver", "sparkoperator.k8s.io/app-name": name},
                "annotations": application["spec"]["driver"].get("annotations") or {},
            },
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        }
        self.is_now(name, "RUNNING")
        set_phase(self.api, self.api.create(PODS, pod), "Running")

    def patched(self) -> list[str]:
        """Return the applications whose spec names a revision that their drivers do not show."""
        shown = {pod["metadata"]["name"]: token_of(pod) for pod in self.api.list(PODS, self.stage.namespace)}
        applications = self.api.list(APPLICATIONS, self.stage.namespace)
        by_name = {application["metadata"]["name"]: token_of(application) for application in applications}
        return [name for name in NAMES if by_name[name] != shown.get(f"{name}-driver")]

    def reasons(self) -> Counter[str]:
        """Return how many subscriptions have each reason of `RolledOut`."""
        subscriptions = self.api.list(SUBSCRIPTIONS, self.stage.namespace)
        return Counter(condition(subscription, "RolledOut").get("reason", "") for subscription in subscriptions)

    def in_flight(self, version: str) -> Iterator[int]:
        """Yield how many restarts were in flight after each change since a version, by a watch of all objects."""
        resources = (APPLICATIONS, PODS)
        events = [delta for kind in resources for delta in self.api.changes_since(kind, self.stage.namespace, version)]
        flying, ended = set[str](), set[str]()
        for event in sorted(events, key=lambda delta: int(delta["object"]["metadata"]["resourceVersion"])):
            changed, name = event["object"], event["object"]["metadata"]["name"].removesuffix("-driver")
            status = changed.get("status", {})
            if token_of(changed) and changed["kind"] == "SparkApplication":
                flying.add(name)
            states = (status.get("phase"), status.get("applicationState", {}).get("state"))
            if token_of(changed) and ("Running" in states or "FAILED" in states):
                ended.add(name)
            yield len(flying - ended)


@pytest.mark.parametrize("operator", [["--confirm", "5m", "--confirm-live", "1s"]], indirect=True)
def test_a_change_restarts_five_at_a_time_and_stops_at_a_failure(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    spark_operator.kill()  # it has installed its kind
    fleet = Fleet(stage)

    # When one change takes a restart of each application
    stage.stream("orders", cluster("east"), cluster("west"))
    version = stage.api.get(STREAMS, "orders", stage.namespace)["metadata"]["resourceVersion"]

    # Then five begin, and each of the others has its place
    wait_until(lambda: fleet.reasons() == {"RollingOut": 5, "Queued": 15}, "five restarts", timeout_s=90)
    assert len(fleet.patched()) == 5
    first, *_ = fleet.patched()

    def has_message(text: str) -> bool:
        conditions = [condition(reader, "RolledOut") for reader in stage.api.list(SUBSCRIPTIONS, stage.namespace)]
        return any(text in rollout["message"] for rollout in conditions)

    # The first in the order may have been reconciled before all others waited; it is again after five seconds
    wait_until(lambda: has_message("number 1 of 15 that wait"), "the place of the first one")

    # And none begins after a failure, although there is room, and a new operator keeps to that
    fleet.starts[first] += 1  # another submission than before the patch
    fleet.is_now(first, "FAILED")
    wait_until(lambda: fleet.reasons()["RolloutPaused"] > 0, "the pause", timeout_s=60)
    operator.kill()
    operator.start()
    wait_until(lambda: fleet.reasons()["RolloutPaused"] == 15, "all to be paused", timeout_s=90)
    assert len(fleet.patched()) == 5

    # When a person releases the failure, the next one begins
    status = stage.subscription_now(first)["status"]
    change = {"metadata": {"annotations": {RELEASE_ROLLOUT_ANNOTATION: status["rollout"]["token"]}}}
    stage.api.patch(SUBSCRIPTIONS, first, stage.namespace, change)
    wait_until(lambda: len(fleet.patched()) == 6, "another restart", timeout_s=60)

    # And all follow, one for each that is confirmed
    fleet.runs(first)
    while fleet.reasons() != {"Confirmed": 20}:
        for name in fleet.patched():
            fleet.runs(name)
            stage.wait_condition("RolledOut", "Confirmed", name)
        wait_until(lambda: fleet.patched() or fleet.reasons() == {"Confirmed": 20}, "the next restart", timeout_s=60)
    assert max(fleet.in_flight(version)) == 5
