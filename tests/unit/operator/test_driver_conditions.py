"""The conditions and Events of a driver that does not mount the document, or does not report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.contract.driver_report import StandingClock
from dynamic_kafka.contract.kubernetes_names import REPORT_ANNOTATION
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.conditions.driver import reporting
from kafkastream_operator.core.document import Document
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.core.view import View
from kafkastream_operator.handlers.subscription_view import observe_subscription
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, PODS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.models.conditions import MESSAGE_CHARACTERS
from tests.unit.operator.world import START, World, cluster, running

PATIENCE_S = DEFAULT_TIMING.confirm_live.total_seconds()


def silent() -> World:
    """Return a world whose driver has started, and has not reported."""
    world = World(spec={"updateStrategy": "Reload"})
    world.stream("orders", cluster("east"), cluster("west"))
    world.application_is("Starting").settle()
    world.driver_starts(reports=False).settle()
    return world


def stays_silent(world: World, seconds: float) -> None:
    """Let this time pass without a report."""
    assert world.driver is not None
    world.later(seconds=seconds)
    world.driver = replace(world.driver, silent_s=world.driver.silent_s + seconds)
    world.settle()


def events_of(world: World, reason: str) -> int:
    """Return the number of Events with this reason."""
    return [event for event, _ in world.events].count(reason)


def test_a_silent_driver_is_one_event_after_its_time() -> None:
    world = silent()
    assert world.condition("Reporting") == ("Unknown", "AwaitsReport")
    assert world.again is not None
    assert (world.again - world.now).total_seconds() == PATIENCE_S
    stays_silent(world, PATIENCE_S - 1)
    assert world.condition("Reporting") == ("Unknown", "AwaitsReport")
    stays_silent(world, 1)
    assert world.condition("Reporting") == ("False", "NoReport")
    stays_silent(world, 3600)
    assert events_of(world, "NoReport") == 1
    world.driver_reports().settle()
    assert world.condition("Reporting") == ("True", "Reporting")


def test_a_new_operator_still_calls_a_silent_driver_silent() -> None:
    world = silent()
    stays_silent(world, PATIENCE_S)
    assert world.driver is not None
    world.driver = replace(world.driver, silent_s=0.0)
    before = len(world.writes)
    world.settle()
    assert len(world.writes) == before


def test_a_cluster_never_reached_is_a_condition_and_an_event() -> None:
    # Given a driver whose report names a cluster that it has never read
    world = silent()
    assert world.condition("ClusterNeverReached") == ("Unknown", "AwaitsReport")
    world.driver_reports()
    world.settle()
    assert world.condition("ClusterNeverReached") == ("False", "AllReached")
    assert world.driver is not None and world.driver.report is not None
    causes = {"west": "could not list topics: timed out; west has the bootstrap servers west:9029"}
    world.driver = replace(world.driver, report=replace(world.driver.report, never_reached=causes))
    world.settle()

    # Then a condition has address and cause, once, and the subscription stays ready
    assert world.condition("ClusterNeverReached") == ("True", "NeverReached")
    assert f"never read west: {causes['west']}. Correct" in world.message("ClusterNeverReached")
    assert world.condition("Ready") == ("True", "NeverReached"), "a column of kubectl get kss shows the reason"
    assert world.message("Ready") == world.message("ClusterNeverReached")
    stays_silent(world, 60)
    assert events_of(world, "NeverReached") == 1

    # And no driver, no statement
    world.driver = None
    world.settle()
    assert world.condition("ClusterNeverReached") == ("Unknown", "NoDriver")


def never_reaching(world: World, **causes: str) -> None:
    """Let the driver's present report name these clusters as never reached."""
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, never_reached=causes))
    world.settle()


def test_only_a_report_on_the_revision_shows_all_reached() -> None:
    # Given a driver that has reached all clusters, and a cluster that it has not tried yet
    world = running(updateStrategy="Restart")
    assert world.condition("ClusterNeverReached") == ("False", "AllReached")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.condition("ClusterNeverReached") == ("Unknown", "AwaitsReport")

    # When a new driver confirms the revision by its token, and has not reported
    restarted_silently(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.condition("ClusterNeverReached") == ("Unknown", "AwaitsReport")

    # And when it reports the revision, first before west has answered
    world.driver_reports()
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, unanswered=frozenset({"west"})))
    world.settle()
    assert world.condition("ClusterNeverReached") == ("Unknown", "AwaitsAnswer")
    assert "waits for the first answer of west" in world.message("ClusterNeverReached")
    world.driver_reports().settle()
    assert world.condition("ClusterNeverReached") == ("False", "AllReached")


def test_a_clock_that_stands_is_the_reason_of_ready() -> None:
    world = silent()
    world.driver_reports().settle()
    driver = world.driver
    assert driver is not None and driver.report is not None
    held = StandingClock(query="lake", clock_ms=1_700_000_000_500, held_by="west/orders[3]")
    waits = StandingClock(query="sums", held_by="east/orders[0]", waits_for=("south",))
    world.driver = replace(driver, report=replace(driver.report, standing_clocks=(held, waits)))
    world.settle()
    assert world.condition("Ready") == ("True", "ClockStands")
    assert world.message("Ready") == (
        f"driver {driver.name} has unread records, and in query lake the clock stands at 2023-11-14 22:13:20Z, waiting"
        " for west/orders[3]; in query sums there is no first clock, waiting for the announced cluster south. See"
        " docs/how-to/time.md#if-the-stream-stands-still"
    )
    # And the stream's own status names the subscription with that reason
    (subscriber,) = world.stream_status("orders", [world.reader()]).subscribers
    assert (subscriber.name, subscriber.reason) == ("app", "ClockStands")
    world.driver_reports().settle()
    assert world.condition("Ready") == ("True", "InForce")


def restarted_silently(world: World) -> None:
    """Let a new driver follow the patch, and report nothing yet."""
    world.application_is("Starting").driver = None
    world.settle().driver_starts(reports=False).settle()


def test_never_reached_follows_the_newest_document() -> None:
    # Given a cluster that was never reached
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_reports()
    never_reaching(world, west="timed out; west has the bootstrap servers west:9029")
    assert "revision" not in world.message("ClusterNeverReached")

    # When its servers are corrected, the message says that its address is of the last report
    west = cluster("west", bootstrapServers="west:9093")
    world.stream("orders", cluster("east"), west).settle()
    assert world.condition("ClusterNeverReached") == ("True", "NeverReached")
    assert world.message("ClusterNeverReached").endswith(
        "This is from its last report: driver driver-1 has not reported revision 3 yet"
    )
    assert events_of(world, "NeverReached") == 1

    # And when it is taken out of the stream, the condition does not speak of it any more
    world.stream("orders", cluster("east")).settle()
    assert world.condition("ClusterNeverReached") == ("Unknown", "AwaitsReport")
    assert "west" not in world.message("ClusterNeverReached") + world.message("Ready")
    world.driver_reports()
    never_reaching(world, west="timed out")
    assert world.condition("ClusterNeverReached") == ("False", "AllReached"), "it only drains"


def test_the_text_begins_with_a_driver_that_still_starts() -> None:
    world = silent()
    stays_silent(world, PATIENCE_S)
    message = world.message("Reporting")
    places = [
        message.index(hint) for hint in ("still be starting", "lacks the right", "runbooks.md#kafkastreamreportinglost")
    ]
    assert places == sorted(places)
    assert message.startswith("driver driver-1 has run for 120 s without a report")


def test_a_pod_that_does_not_run_yet_uses_up_no_time() -> None:
    now = 0.0
    cache = Cache(clock=lambda: now)
    for version, (now, phase) in enumerate([(0.0, "Pending"), (600.0, "Running"), (601.0, "Running")]):  # noqa: B007
        driver = seen(pod(mounts=[]), phase=phase, version=str(version), cache=cache).driver
    assert driver is not None
    assert driver.silent_s == 1.0


def commands(message: str) -> list[str]:
    """Return the commands in a message."""
    return re.findall(r"`(kubectl [^`]+)`", message)


def test_the_commands_for_a_silent_driver_run_as_written() -> None:
    world = silent()
    stays_silent(world, PATIENCE_S)
    assert commands(world.message("Reporting")) == [
        "kubectl create role kafkastream-reporter -n jobs --verb=get,patch --resource=pods",
        "kubectl create rolebinding kafkastream-reporter-shop -n jobs --role=kafkastream-reporter"
        " --serviceaccount=jobs:shop",
    ]
    (note,) = [text for reason, text in world.events if reason == "NoReport"]
    assert commands(note[:1024]) == commands(note)


def test_the_commands_fit_into_a_message_with_long_names() -> None:
    world = silent()
    stays_silent(world, PATIENCE_S)
    assert world.driver is not None
    world.driver = replace(world.driver, name="p" * 253, namespace="n" * 63, account="a" * 253)
    world.status = world.status.model_copy(update={"conditions": ()})
    assert world.document is not None
    condition = reporting(world.view(), world.document)
    assert len(condition.message) < MESSAGE_CHARACTERS
    assert len(commands(condition.message)) == 2


SECRET = {"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}


def with_a_secret(*, mounts: frozenset[str] = frozenset()) -> World:
    """Return an application on east, which needs a Secret."""
    world = World(spec={"secrets": [SECRET]})
    world.stream("orders", cluster("east", secretRef={"name": "login"}))
    world.application_is("Starting", mounts=mounts).settle()
    world.driver_starts().settle()
    return world


def test_missing_secrets_of_the_first_document_are_one_event() -> None:
    world = with_a_secret()
    stays_silent(world, 60)
    assert world.condition("Mounted") == ("False", "SecretsNotMounted")
    assert events_of(world, "SecretsNotMounted") == 1


@pytest.mark.parametrize(("strategy", "times"), [("Restart", 0), ("Reload", 1)])
def test_missing_secrets_are_an_event_without_a_restart(strategy: str, times: int) -> None:
    world = running(updateStrategy=strategy, secrets=[SECRET | {"cluster": "west", "allowedServers": ["west:9092"]}])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"})).settle()
    assert events_of(world, "SecretsNotMounted") == times


def test_missing_secrets_are_an_event_after_giving_up() -> None:
    world = running(updateStrategy="Restart", secrets=[SECRET | {"cluster": "west", "allowedServers": ["west:9092"]}])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "login"}))
    world.look()
    assert world.condition("Mounted") == ("False", "SecretsNotMounted")
    assert events_of(world, "SecretsNotMounted") == 0
    world.changes(updateStrategy="Reload").settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert events_of(world, "SecretsNotMounted") == 1


DRIVER = "spark-kubernetes-driver"
DOCUMENT = {"name": "streams", "configMap": {"name": "app-kafkastreams"}}
PROJECTED = {"name": "streams", "projected": {"sources": [{"secret": {}}, {"configMap": {"name": "app-kafkastreams"}}]}}
FOLDER = {"name": "streams", "mountPath": "/etc/kafkastreams"}


def seen(
    spec: Mapping[str, Any],
    report: str | None = None,
    *,
    phase: str = "Running",
    version: int = 1,
    cache: Cache | None = None,
) -> View:
    """Return the view of a driver whose pod has this spec."""
    cache = cache or Cache()
    meta = {"namespace": "ns", "resourceVersion": "1", "creationTimestamp": "x"}
    asked = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}}
    cache.put(SUBSCRIPTIONS, {"metadata": {**meta, "name": "app", "uid": "s"}, "spec": asked})
    status = {"applicationState": {"state": "RUNNING"}, "driverInfo": {"podName": "app-driver"}}
    cache.put(KUBEFLOW_APPLICATIONS, {"metadata": {**meta, "name": "app", "uid": "a"}, "spec": {}, "status": status})
    labels = {"spark-role": "driver", "sparkoperator.k8s.io/app-name": "app"}
    annotations = {} if report is None else {REPORT_ANNOTATION: report}
    pod = {
        **meta,
        "resourceVersion": str(version),
        "name": "app-driver",
        "uid": "p",
        "labels": labels,
        "annotations": annotations,
    }
    cache.put(PODS, {"metadata": pod, "spec": spec, "status": {"phase": phase}})
    observed = observe_subscription(cache, "ns", "app", START, DEFAULT_TIMING)
    assert observed is not None
    return observed.view


def pod(*volumes: Mapping[str, Any], mounts: list[dict[str, Any]], container: str = DRIVER) -> dict[str, Any]:
    """Return a pod's spec with an idle container and one with these mounts."""
    containers = [{"name": container, "volumeMounts": mounts}]
    return {"volumes": [{"name": "other", "emptyDir": {}}, *volumes], "containers": [{"name": "idle"}, *containers]}


@pytest.mark.parametrize(
    "spec",
    [
        pod(DOCUMENT, mounts=[FOLDER]),
        pod(PROJECTED, mounts=[FOLDER]),
        pod(DOCUMENT, mounts=[FOLDER], container="as-a-template-calls-it"),
        pod(DOCUMENT, mounts=[FOLDER | {"subPath": "streams.json"}, FOLDER]),
    ],
    ids=["volume", "projected", "other name", "folder beside a file"],
)
def test_a_driver_with_the_folder_mounts_the_document(spec: dict[str, Any]) -> None:
    assert seen(spec).driver is not None
    assert seen(spec).driver.mounted is True  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (pod(mounts=[]), ""),
        (pod(DOCUMENT | {"configMap": {"name": "another"}}, mounts=[FOLDER]), ""),
        (pod(DOCUMENT, mounts=[]), "no volumeMount"),
        (pod(DOCUMENT, mounts=[FOLDER | {"name": "other"}]), "no volumeMount"),
        (
            {
                **pod(DOCUMENT, mounts=[FOLDER]),
                "containers": [{"name": "idle", "volumeMounts": [FOLDER]}, {"name": DRIVER}],
            },
            "no volumeMount",
        ),
        (pod(DOCUMENT, mounts=[FOLDER | {"subPath": "streams.json"}]), "subPath"),
        (pod(PROJECTED, mounts=[FOLDER | {"subPathExpr": "$(X)"}]), "subPath"),
    ],
    ids=["nothing", "another", "unmounted", "another volume", "another container", "subPath", "subPathExpr"],
)
def test_a_driver_without_the_folder_is_not_mounted(spec: dict[str, Any], fault: str) -> None:
    driver = seen(spec).driver
    assert driver is not None
    assert driver.mounted is False
    assert fault in driver.mount_fault
    assert bool(fault) == bool(driver.mount_fault)


def test_the_condition_names_the_mount_fault() -> None:
    world = running(updateStrategy="Reload")
    assert world.driver is not None
    world.driver = replace(world.driver, mounted=False, mount_fault="mounts a part of the document by subPath")
    world.settle()
    assert world.condition("Mounted") == ("False", "NotMounted")
    assert re.search("by subPath: mount ConfigMap app-kafkastreams .* /etc/kafkastreams;", world.message("Mounted"))


def test_an_unreadable_report_differs_from_a_missing_one() -> None:
    garbled, none = seen(pod(mounts=[]), "{"), seen(pod(mounts=[]))
    document = Document(Revision(), {})
    assert reporting(garbled, document).reason == "ReportUnreadable"
    assert reporting(none, document).reason == "AwaitsReport"


@pytest.mark.parametrize(("given", "account"), [({"serviceAccountName": "spark"}, "spark"), ({}, "default")])
def test_the_account_is_the_pods_service_account(given: dict[str, Any], account: str) -> None:
    driver = seen({**pod(mounts=[]), **given}).driver
    assert driver is not None
    assert (driver.namespace, driver.account) == ("ns", account)


def test_a_pod_that_looks_like_the_driver_has_no_conditions() -> None:
    world = silent()
    assert world.driver is not None
    world.driver = replace(world.driver, owned=False, mounted=False, account="evil")
    stays_silent(world, PATIENCE_S)
    assert world.condition("Reporting") == ("Unknown", "NoDriver")
    assert world.condition("Mounted") == ("Unknown", "NoDriver")
    assert "evil" not in str(world.status)
