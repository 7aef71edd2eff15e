"""Live changes and drains, by the reports of a driver that the test plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, REFRESH_ANNOTATION, RELEASE_ANNOTATION
from tests.integration.operator.stage import DOCUMENT, STREAMS, SUBSCRIPTIONS, Stage, cluster
from tests.support.kube import PODS, Json, SparkOperator
from tests.support.operator import CONFIG_MAPS, OperatorProcess

DEEP = pytest.mark.deep("each state of a live change")

DRAINED = {"cluster": "east", "topic": "orders", "lag": 0, "quiet": 301.0, "openTransaction": False}

MOUNTING = {
    "spec": {
        "containers": [
            {
                "name": "spark-kubernetes-driver",
                "volumeMounts": [{"name": "kafkastreams", "mountPath": MOUNT_PATH, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "kafkastreams", "configMap": {"name": DOCUMENT}}],
    }
}
"""The pod template that Kubeflow's webhook would make, since the webhook does not run in tests."""


@pytest.fixture
def driver(stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator) -> Json:
    """Start a driver that reads east and west and reports, and return its pod."""
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application()
    stage.subscription()
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    pod = stage.driver_runs()
    stage.wait_condition("ApplicationFound", "Running")
    stage.report(pod)
    stage.wait_condition("Reporting", "Reporting")
    return pod


def generation(stage: Stage) -> int:
    """Return the generation of the application: a restart would change it."""
    return int(stage.application_now()["metadata"]["generation"])


def drains(stage: Stage, driver: Json) -> None:
    """Remove east, and let the driver have that revision in force."""
    stage.stream("orders", cluster("west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    stage.report(driver)


def test_a_live_change_is_confirmed_without_a_restart(stage: Stage, driver: Json) -> None:
    before = generation(stage)
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})
    stage.api.wait(
        PODS,
        "app-driver",
        stage.namespace,
        until=lambda pod: (pod or {})["metadata"]["annotations"].get(REFRESH_ANNOTATION) == document.revision.token,
    )
    stage.report(driver)
    stage.wait_condition("RolledOut", "Confirmed")
    assert generation(stage) == before


@DEEP
def test_a_report_for_another_subscription_confirms_nothing(stage: Stage, driver: Json) -> None:
    # The driver went on with the document of a subscription that was deleted and applied again.
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})
    stage.wait_condition("RolledOut", "RollingOut")
    stage.report(driver, subscription="another")
    stage.wait_condition("RolledOut", "NotConfirmed")
    stage.report(driver, beat=2)
    stage.wait_condition("RolledOut", "Confirmed")


@DEEP
def test_kubectl_shows_readiness_by_the_drivers_report(
    stage: Stage, operator: OperatorProcess, spark_operator: SparkOperator, tmp_path: Path
) -> None:
    # Given an application with a document, whose driver has not reported yet
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.application(driver={"cores": 1, "memory": "512m", "serviceAccount": "default", "template": MOUNTING})
    stage.subscription()
    assert stage.wait_condition("Ready", "AwaitsReport")["status"] == "Unknown"
    assert stage.wait_condition("RolledOut", "Adopted")["status"] == "True"

    # When it reports, and has never reached a cluster, then both are columns of the row
    silent = {"cluster": "west", "reason": "timed out; west has the bootstrap servers west:9092"}
    pod = stage.driver_runs()
    stage.report(pod, neverReached=[silent])
    assert stage.wait_condition("Ready", "NeverReached")["status"] == "True"
    row = stage.kube.kubectl("get", "kss", "app", "-n", stage.namespace, "--cache-dir", str(tmp_path)).splitlines()[1]
    assert row.split()[5:7] == ["True", "NeverReached"], row

    # And a revision that the driver has not reported is not called reached
    stage.report(pod, beat=2)
    stage.wait_condition("ClusterNeverReached", "AllReached")
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    stage.wait_condition("ClusterNeverReached", "AwaitsReport")
    stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})
    stage.report(pod, beat=3, unanswered=["north"])
    stage.wait_condition("RolledOut", "Confirmed")
    stage.wait_condition("ClusterNeverReached", "AwaitsAnswer")


@DEEP
def test_a_driver_that_does_not_confirm_is_not_restarted(stage: Stage, driver: Json) -> None:
    before = generation(stage)
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    stage.wait_condition("RolledOut", "NotConfirmed")
    assert generation(stage) == before


def test_a_rejected_revision_is_reported(stage: Stage, driver: Json) -> None:
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    document = stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})
    why = "north is the same Kafka cluster as east"
    applied = f"{document.revision.lineage}/{document.revision.counter - 1}"
    stage.report(driver, applied=applied, rejected={"revision": document.revision.token, "reason": why})
    assert why in stage.wait_condition("RolledOut", "Rejected")["message"]


def test_a_removed_cluster_stays_until_its_drain_is_shown(stage: Stage, driver: Json) -> None:
    drains(stage, driver)
    stage.wait_condition("Drained", "Draining")
    stage.wait_verdict("east", "Draining", "waiting for app (Running")
    stage.report(driver, draining=[{**DRAINED, "lag": 5}])
    stage.reports_until(driver, {"west/orders": "Active"}, draining=[DRAINED])
    # The new document is written, but the driver still uses the last one.
    assert stage.wait_verdict("east", "Draining", "is not in force yet")["readers"] == ["app"]
    stage.report(driver, beat=99)
    stage.wait_verdict("east", "Released")


@DEEP
def test_a_deleted_stream_drains_and_a_returning_one_is_read_on(stage: Stage, driver: Json) -> None:
    stage.api.delete(STREAMS, "orders", stage.namespace)
    stage.wait_document({"east/orders": "Draining", "west/orders": "Draining"})
    stage.wait_condition("StreamsResolved", "StreamMissing")
    stage.stream("orders", cluster("east"), cluster("west"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active"})


@DEEP
@pytest.mark.parametrize("what", ["document", "status", "both", "edited"])
@pytest.mark.sampled
def test_drains_survive_the_loss_of(what: str, stage: Stage, driver: Json, operator: OperatorProcess) -> None:
    drains(stage, driver)
    document = stage.document()
    assert document is not None
    stage.report(driver, streams=document.streams)
    operator.kill()
    if what in ("document", "both"):
        stage.api.delete(CONFIG_MAPS, DOCUMENT, stage.namespace)
    if what in ("status", "both"):
        stage.api.patch(SUBSCRIPTIONS, "app", stage.namespace, {"status": None}, subresource="status")
    if what == "edited":
        stage.api.patch(CONFIG_MAPS, DOCUMENT, stage.namespace, {"data": {"streams.json": "{}"}})
    operator.start()
    again = stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    assert again.revision.counter >= document.revision.counter
    drained = stage.wait_condition("Drained", "Draining")
    assert "east/orders" in drained["message"]


@DEEP
def test_a_person_lets_go(stage: Stage, driver: Json) -> None:
    drains(stage, driver)
    change = {"metadata": {"annotations": {RELEASE_ANNOTATION: "east/orders"}}}
    stage.api.patch(SUBSCRIPTIONS, "app", stage.namespace, change)
    stage.wait_document({"west/orders": "Active"})


@DEEP
def test_an_edit_by_hand_is_put_right_without_a_new_revision(stage: Stage, driver: Json) -> None:
    before = stage.document()
    assert before is not None
    stage.api.patch(CONFIG_MAPS, DOCUMENT, stage.namespace, {"data": {"streams.json": "{}", "more": "x"}})
    after = stage.wait_document({"east/orders": "Active", "west/orders": "Active"})
    assert after == before
    stage.api.wait(CONFIG_MAPS, DOCUMENT, stage.namespace, until=lambda config: "more" not in (config or {})["data"])


@DEEP
def test_deleting_the_subscription_harms_no_running_job(stage: Stage, driver: Json) -> None:
    before = stage.document()
    stage.api.delete(SUBSCRIPTIONS, "app", stage.namespace)
    # The stream's change and the deletion come by two watches: the operator has to see the deletion first.
    stage.api.wait(STREAMS, "orders", stage.namespace, until=lambda stream: not (stream or {})["status"]["subscribers"])
    stage.stream("orders", cluster("north"))
    stage.api.wait(STREAMS, "orders", stage.namespace, until=_is_observed)
    assert stage.document() == before
    # A subscription that is created again continues from the rendered document, with its drains and its counter.
    stage.subscription()
    after = stage.wait_document({"east/orders": "Draining", "west/orders": "Draining", "north/orders": "Active"})
    assert before is not None
    assert after.revision.counter == before.revision.counter + 1


@DEEP
def test_a_drain_survives_delete_and_apply_of_the_application(stage: Stage, driver: Json) -> None:
    drains(stage, driver)
    stage.deleted()
    stage.wait_condition("ApplicationFound", "ApplicationMissing")
    stage.application()
    pod = stage.driver_runs(after=driver["metadata"]["uid"])
    stage.report(pod)
    stage.wait_condition("Drained", "Draining")
    stage.reports_until(pod, {"west/orders": "Active"}, draining=[DRAINED])


@DEEP
@pytest.mark.parametrize("operator", [["--confirm-live", "60s"]], indirect=True)
def test_a_new_driver_gets_time_to_report_before_a_restart(
    stage: Stage, driver: Json, operator: OperatorProcess
) -> None:
    before = generation(stage)
    stage.stream("orders", cluster("west"))
    stage.wait_document({"east/orders": "Draining", "west/orders": "Active"})
    stage.wait_condition("RolledOut", "RollingOut")
    # The driver ends before it has confirmed, and the operator is away until the next driver runs.
    operator.kill()
    stage.deleted()
    stage.application()
    pod = stage.driver_runs(after=driver["metadata"]["uid"])
    operator.start()
    stage.wait_condition("Reporting", "AwaitsReport")
    stage.wait_condition("RolledOut", "Waiting")
    stage.report(pod)
    stage.wait_condition("RolledOut", "Confirmed")
    stage.reports_until(pod, {"west/orders": "Active"}, draining=[DRAINED])
    assert generation(stage) == before == 1
    assert stage.api.get(PODS, "app-driver", stage.namespace)["metadata"]["uid"] == pod["metadata"]["uid"]


@DEEP
def test_an_api_server_that_was_away_is_caught_up_with(stage: Stage, driver: Json) -> None:
    stage.kube.stop_api_server()
    stage.kube.start_api_server()
    stage.stream("orders", cluster("east"), cluster("west"), cluster("north"))
    stage.wait_document({"east/orders": "Active", "west/orders": "Active", "north/orders": "Active"})


def _is_observed(stream: Json | None) -> bool:
    return stream is not None and stream["status"]["observedGeneration"] == stream["metadata"]["generation"]
