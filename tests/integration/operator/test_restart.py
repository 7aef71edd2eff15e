"""Roll-outs by restart, with Kubeflow's real controller: patched, confirmed, and never lost."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION, REVISION_ENVIRONMENT
from dynamic_kafka.contract.termination_message import TerminationMessage
from tests.e2e import large
from tests.integration.operator.stage import APPLICATIONS, STREAMS, SUBSCRIPTIONS, Stage, cluster, condition
from tests.support.kube import PODS, SparkOperator
from tests.support.kube.pods import set_phase
from tests.support.operator import CONFIG_MAPS, OperatorProcess
from tests.support.resources import states
from tests.support.waiting import wait_until

DEEP = pytest.mark.deep("each case of a restart, and of none")

ENVIRONMENT = f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}"


def runs(stage: Stage, strategy: str = "Restart", **spec: Any) -> str:
    """Start an application that reads a stream on east, and return the UID of its driver's pod."""
    stage.stream("orders", cluster("east"))
    stage.application(**spec)
    stage.subscription(updateStrategy=strategy)
    stage.wait_document({"east/orders": "Active"})
    pod = stage.driver_runs()
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("RUNNING"))
    return str(pod["metadata"]["uid"])


def _is(state: str):  # type: ignore[no-untyped-def]
    return lambda found: found is not None and found.get("status", {}).get("applicationState", {}).get("state") == state


def test_a_change_takes_one_restart_that_the_new_driver_confirms(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    uid = runs(stage)
    assert len(spark_operator.submissions("app")) == 1

    stage.stream("orders", cluster("east"), cluster("west"))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs(after=uid)
    stage.wait_condition("RolledOut", "Confirmed")

    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    first, second = spark_operator.submissions("app")
    assert REVISION_ANNOTATION not in json.dumps(first.conf)
    assert second.conf[ENVIRONMENT] == document.revision.token
    assert condition(stage.subscription_now(), "Ready")["status"] == "False"  # the stub's pod mounts nothing
    assert condition(stage.subscription_now(), "Mounted")["reason"] == "NotMounted"


@DEEP
def test_the_first_document_patches_nothing(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    runs(stage)
    stage.wait_condition("RolledOut", "Adopted")
    assert len(spark_operator.submissions("app")) == 1
    assert stage.application_now()["metadata"]["generation"] == 1


@DEEP
def test_a_patch_that_kubeflow_has_slept_through_is_made_again(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    uid = runs(stage)
    spark_operator.kill()
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=lambda a: ENVIRONMENT in json.dumps(a))
    spark_operator.start()
    pod = stage.driver_runs(after=uid)
    stage.wait_condition("RolledOut", "Confirmed")
    assert REVISION_ANNOTATION in pod["metadata"]["annotations"]


@DEEP
def test_an_application_deleted_during_its_restart_stays_deleted(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    runs(stage)
    spark_operator.kill()  # so that the restart does not proceed
    stage.stream("orders", cluster("east"), cluster("west"))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=lambda a: ENVIRONMENT in json.dumps(a))
    stage.deleted()
    stage.wait_condition("RolledOut", "NotRunning")
    assert stage.api.find(APPLICATIONS, "app", stage.namespace) is None
    spark_operator.start()
    stage.application()
    pod = stage.api.wait(
        PODS,
        "app-driver",
        stage.namespace,
        until=lambda driver: (driver or {}).get("metadata", {}).get("annotations", {}).get(REVISION_ANNOTATION),
        timeout=60,
    )
    assert pod is not None
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    set_phase(stage.api, pod, "Running")
    stage.wait_condition("RolledOut", "Confirmed")
    # The first driver, its successor, and the restart of the successor.
    assert len(spark_operator.submissions("app")) <= 3


# A slow machine may take long for fifty patches; they have to come within `--gather`.
@DEEP
@pytest.mark.parametrize("operator", [["--gather", "10s"]], indirect=True)
def test_fifty_changes_in_a_second_are_one_restart(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    uid = runs(stage)
    for number in range(50):
        stage.stream("orders", cluster("east"), cluster(f"west{number}"))
    pod = stage.driver_runs(after=uid)
    stage.wait_condition("RolledOut", "Confirmed", timeout=60)
    document = stage.document()
    assert document is not None
    assert (states(document) or {})["west49/orders"] == "Active"
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    assert len(spark_operator.submissions("app")) == 2


@DEEP
@pytest.mark.parametrize("state", ["SUSPENDED", "COMPLETED"])
def test_an_application_that_does_not_run_is_not_patched(
    state: str, stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    runs(stage)
    if state == "SUSPENDED":
        stage.application(suspend=True)
    else:
        set_phase(stage.api, stage.api.get(PODS, "app-driver", stage.namespace), "Succeeded")
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is(state), timeout=60)
    generation = stage.application_now()["metadata"]["generation"]
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    stage.wait_condition("RolledOut", "NotRunning")
    assert stage.application_now()["metadata"]["generation"] == generation


@DEEP
def test_a_corrected_stream_starts_what_the_wrong_one_has_ended(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    # Given a driver that does not start with the cluster that was added
    uid = runs(stage, restartPolicy={"type": "Never"})
    stage.stream("orders", cluster("east"), cluster("wrong"))
    uid = stage.driver_runs(after=uid)["metadata"]["uid"]
    stage.wait_condition("RolledOut", "Confirmed")
    message = TerminationMessage(code=ExitCode.CLUSTER, reason="ClusterError: wrong does not answer").text()
    pod = stage.api.get(PODS, "app-driver", stage.namespace)
    set_phase(stage.api, pod, "Failed", exit_code=ExitCode.CLUSTER, written=message)
    stage.api.wait(APPLICATIONS, "app", stage.namespace, until=_is("FAILED"))
    stage.wait_condition("ApplicationFound", "Failed")

    # When the stream is corrected, then Kubeflow's operator runs the application again, once
    stage.stream("orders", cluster("east"), cluster("right"))
    pod = stage.driver_runs(after=uid)
    stage.wait_condition("RolledOut", "Confirmed")
    document = stage.document()
    assert document is not None
    assert pod["metadata"]["annotations"][REVISION_ANNOTATION] == document.revision.token
    assert len(spark_operator.submissions("app")) == 3


@DEEP
def test_a_field_that_a_user_owns_is_a_condition_and_not_a_fight(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    uid = runs(stage)
    stage.application(sparkConf={ENVIRONMENT: "mine"})
    assert stage.driver_runs(after=uid)
    stage.stream("orders", cluster("east"), cluster("west"))
    rolled_out = stage.wait_condition("RolledOut", "FieldTaken")
    assert "gitops" in rolled_out["message"]
    assert stage.application_now()["spec"]["sparkConf"] == {ENVIRONMENT: "mine"}
    wait_until(lambda: ("Warning", "FieldTaken") in stage.events(), "the event")


@DEEP
def test_the_operator_gives_up_after_three_reverted_patches(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    runs(stage)
    stage.stream("orders", cluster("east"), cluster("west"))
    deadline = time.monotonic() + 90
    while condition(stage.subscription_now(), "RolledOut").get("reason") != "RevertedByOthers":
        assert time.monotonic() < deadline, stage.subscription_now()["status"]
        if ENVIRONMENT in json.dumps(stage.application_now()["spec"]):
            back = {"spec": {"sparkConf": {ENVIRONMENT: None}, "driver": {"annotations": None}}}
            stage.api.patch(APPLICATIONS, "app", stage.namespace, back)
        time.sleep(0.1)


@DEEP
def test_another_zlib_makes_no_operator_write(stage: Stage, operator: OperatorProcess) -> None:
    large.create(stage.api, stage.namespace)
    wait_until(lambda: large.is_rendered(stage.api, stage.namespace), "the packed document")
    operator.stop()
    large.pack_otherwise(stage.api, stage.namespace)
    before = stage.api.get(CONFIG_MAPS, large.DOCUMENT, stage.namespace)
    operator.start()
    large.change_subscription(stage.api, stage.namespace)
    wait_until(lambda: large.is_reconciled(stage.api, stage.namespace), "the operator to reconcile the document")
    assert stage.api.get(CONFIG_MAPS, large.DOCUMENT, stage.namespace) == before


@DEEP
def test_an_operator_that_starts_without_a_change_writes_nothing(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator
) -> None:
    uid = runs(stage)
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.driver_runs(after=uid)
    stage.wait_condition("RolledOut", "Confirmed")
    stage.wait_condition("ApplicationFound", "Running")
    stage.api.wait(STREAMS, "orders", stage.namespace, until=lambda stream: '"state": "Running"' in json.dumps(stream))

    def versions() -> list[str]:
        objects = [
            stage.api.get(STREAMS, "orders", stage.namespace),
            stage.api.get(SUBSCRIPTIONS, "app", stage.namespace),
            stage.api.get(CONFIG_MAPS, "app-kafkastreams", stage.namespace),
        ]
        return [kube_object["metadata"]["resourceVersion"] for kube_object in objects]

    operator.stop()
    before = versions()
    operator.start()
    # A change of another object shows that the operator works.
    stage.stream("other", cluster("north"))
    stage.api.wait(STREAMS, "other", stage.namespace, until=lambda stream: condition(stream, "Ready"))
    assert versions() == before
