"""A crash loop stays visible: the last failure, its count and its cause, until a driver reports, and an Event each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dynamic_kafka.contract.termination_message import TerminationMessage
from kafkastream_operator.core.application import FailedDriver
from kafkastream_operator.core.failure import Failure, driver_failure
from kafkastream_operator.core.last_failure import STEADY
from kafkastream_operator.handlers.failed_drivers import FailedDrivers
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, PODS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Ref
from kafkastream_operator.models.subscription import KUBEFLOW
from kafkastream_operator.spark import apache, kubeflow
from kafkastream_operator.spark.kinds import KINDS
from tests.unit.operator import test_apache, test_kubeflow
from tests.unit.operator.server import Operator, Server
from tests.unit.operator.world import World, cluster, running

IDENTITY = "exit code 4: IdentityError: cluster east: its servers belong to another Kafka cluster"


def failed(world: World) -> list[str]:
    """Return the notes of the Events about failures since the last call."""
    notes = [note for reason, note in world.events if reason == "ApplicationFailed"]
    world.events.clear()
    return notes


def crash(world: World, cause: str = IDENTITY) -> World:
    """Let the driver fail, and the application be submitted again before the operator reconciles it."""
    world.later(minutes=1).driver_fails(cause).settle()
    return world


def test_a_row_of_failures_keeps_its_first_time() -> None:
    world = crash(running())
    crash(world.driver_starts())
    failure = world.status.failure
    assert failure is not None
    assert (failure.count, failure.since, failure.at) == (
        2,
        "2026-11-01T00:01:00.000000Z",
        "2026-11-01T00:02:00.000000Z",
    )
    world.driver_starts().later(hours=1).settle()
    failure = crash(world).status.failure
    assert failure is not None
    assert (failure.count, failure.since) == (1, "2026-11-01T01:03:00.000000Z")


def test_a_failure_seen_only_in_the_pod_stays_until_a_report() -> None:
    world = running()
    failed(world)

    # When a driver fails, and its application is submitted again at once
    crash(world)
    assert world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert IDENTITY in world.message("Ready") and "exit code 4 of the bundled application" in world.message("Ready")
    assert "failed, last at 2026-11-01T00:01:00Z" in world.message("Ready")
    assert IDENTITY in world.message("ApplicationFound")

    # And when the next driver runs without a report yet
    world.driver_starts(reports=False).settle()
    assert world.condition("Reporting") == world.condition("Ready") == ("Unknown", "AwaitsReport")
    assert IDENTITY in world.message("Reporting")

    # Then a report ends that
    world.driver_reports().settle()
    assert world.condition("Ready") == ("True", "InForce")
    assert IDENTITY not in str(world.status.conditions)


def test_failures_in_a_row_are_counted_each_with_an_event() -> None:
    world = running()
    failed(world)
    for count in (1, 2, 3):
        crash(world)
        world.later(seconds=1).settle()
        (note,) = failed(world)
        assert IDENTITY in note
        assert world.status.failure is not None and world.status.failure.count == count
        world.driver_starts(reports=False).settle()
    assert "has failed 3 times in a row" in world.message("Ready")
    assert failed(world) == []


def test_a_failure_soon_after_a_report_goes_on_with_the_row() -> None:
    world = running()
    crash(crash(world).driver_starts().settle())
    assert "has failed 2 times in a row" in world.message("Ready")


def test_a_driver_that_runs_on_ends_the_row() -> None:
    world = crash(crash(running()).driver_starts().settle()).driver_starts().settle()
    assert world.again is not None
    assert world.again <= world.now + STEADY
    world.later(seconds=STEADY.total_seconds()).settle()
    assert world.status.failure is not None and world.status.failure.count == 0
    failed(world)
    crash(world)
    assert "The application has failed, last" in world.message("Ready")
    assert len(failed(world)) == 1


def test_a_driver_that_never_reports_ends_the_row_as_well() -> None:
    world = crash(running()).driver_starts(reports=False)
    assert world.driver is not None
    world.driver = replace(world.driver, silent_s=STEADY.total_seconds())
    world.later(seconds=STEADY.total_seconds()).settle()
    assert world.status.failure is not None and world.status.failure.count == 0


def test_pod_and_application_show_one_failure() -> None:
    # Given the pod's message first, and then the application's state
    world = running()
    failed(world)
    world.driver_fails(IDENTITY).settle()
    submission = world.application.submission if world.application is not None else ""
    world.application_is("Failing", failure="driver container failed with ExitCode: 4", submission=submission).settle()
    assert world.status.failure is not None and world.status.failure.count == 1
    assert IDENTITY in world.message("ApplicationFound")
    assert len(failed(world)) == 1

    # Or the application's state first: the exact cause then follows, in an Event of its own
    world = running().application_is("Failing", failure="driver container failed with ExitCode: 4").settle()
    assert "driver container failed" in failed(world)[-1]
    world.driver_fails(IDENTITY).application_is("Failing").settle()
    assert world.status.failure is not None and world.status.failure.count == 1
    assert IDENTITY in world.message("ApplicationFound")
    assert [IDENTITY in note for note in failed(world)] == [True]


def test_a_pod_is_not_counted_again_after_a_failed_submission() -> None:
    world = crash(running())
    world.application_is("Failing", submission="s9", failure="denied").settle()
    assert world.status.failure is not None
    assert (world.status.failure.count, world.status.failure.cause) == (2, "denied")
    world.later(minutes=1).settle()
    assert world.status.failure.count == 2


def test_an_operator_that_starts_anew_counts_no_failure_twice() -> None:
    world = crash(running())
    failed(world)
    pod = world.failed_driver
    world.failed_driver = None
    world.later(minutes=1).settle()
    world.failed_driver = pod
    world.later(minutes=1).settle()
    assert world.status.failure is not None and world.status.failure.count == 1
    assert failed(world) == []


def test_a_failure_before_the_first_document_is_an_event() -> None:
    world = World().application_is("Failed", failure="denied").settle()
    assert ["denied" in note for note in failed(world)] == [True]
    world.later(minutes=1).settle()
    assert failed(world) == []


def ended(message: str = "", *, code: int = 4, name: str = "spark-kubernetes-driver", **pod: Any) -> dict[str, Any]:
    """Return the status of a pod with a container that has ended."""
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message}}
    return {"phase": "Failed", "containerStatuses": [{"name": name, "state": state}], **pod}


def test_the_termination_message_is_the_cause() -> None:
    written = TerminationMessage(code=8, reason="SIGTERM").text()
    words = (
        "exit code 8: SIGTERM (exit code 8 of the bundled application: Stopped as asked, but not within `gracePeriod`)"
    )
    assert driver_failure(ended(written)) == Failure(words, 8)
    assert driver_failure(ended("another program")) == Failure("another program")
    unnamed = driver_failure(ended(" \n"))
    assert unnamed is not None and unnamed.code == 4
    assert unnamed.cause.startswith("container spark-kubernetes-driver failed with ExitCode: 4, Reason: Error")
    assert driver_failure(ended(code=0)) is None


OWNED = {"uid": "p1", "name": "app-driver", "namespace": "ns", "ownerReferences": [{"uid": "u"}]}
LABELS = {"spark-role": "driver", kubeflow.NAME_LABEL: "app", kubeflow.SUBMISSION_LABEL: "s"}
APPLICATION = kubeflow.application_of(test_kubeflow.application())


def observed(status: dict[str, Any], **metadata: Any) -> FailedDriver | None:
    """Return the failed driver of the application `app` after a pod with this status was seen."""
    drivers = FailedDrivers()
    pod = {"metadata": {**OWNED, "labels": LABELS, **metadata}, "status": status}
    drivers.observe(Ref(PODS, "ns", "app-driver"), pod)
    return drivers.of("ns", "app", KINDS[KUBEFLOW], APPLICATION)


def test_a_failed_pod_is_remembered_with_its_submission() -> None:
    assert observed(ended("killed")) == FailedDriver("p1", "s", Failure("killed"))
    evicted = observed({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."})
    assert evicted is not None and evicted.failure == Failure("Evicted: The node was low on memory")
    # A sidecar may keep the pod running.
    assert observed(ended(phase="Running")) is not None


@pytest.mark.parametrize(
    ("status", "metadata"),
    [
        ({"phase": "Running"}, {}),
        ({"phase": "Succeeded"}, {}),
        (ended(code=0, phase="Succeeded"), {}),
        (ended(name="proxy", phase="Running"), {}),
        (ended(), {"deletionTimestamp": "2026-11-01T00:00:00Z"}),
        (ended(), {"ownerReferences": [{"uid": "another"}]}),
        (ended(), {"labels": {"spark-role": "driver"}}),
    ],
)
def test_a_pod_that_has_not_failed_or_is_foreign_counts_not(status: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert observed(status, **metadata) is None


def test_an_attempt_that_failed_is_apaches_submission() -> None:
    known = apache.application_of(test_apache.application())
    pod = {"metadata": {"name": known.driver_pod, "ownerReferences": [{"uid": "u"}]}}
    assert apache.submission_of(known, pod) == "u/attempt-2"
    assert apache.submission_of(known, {"metadata": {"name": "app-1-driver", "ownerReferences": [{"uid": "u"}]}}) == ""
    # The wait for the third attempt has its number already.
    tolerations = {"restartConfig": test_apache.ALWAYS}
    for state, history, submission in (
        ("Failed", ("Submitted", "Failed"), "u/attempt-2"),
        ("ScheduledToRestart", ("Submitted", "Failed", "ScheduledToRestart"), "u/attempt-1"),
        ("RunningHealthy", (), ""),
    ):
        manifest = test_apache.application(state, history=history, applicationTolerations=tolerations)
        assert apache.application_of(manifest).failed_submission == submission


def test_a_failure_of_an_application_that_was_made_again_counts() -> None:
    """A user restarts Apache's kind so; its attempts then count anew."""
    world = running()
    world.driver = None
    for count, uid in enumerate(("first", "second", "third"), 1):
        manifest = test_apache.application("Failed", history=("Submitted", "Failed"))
        manifest["metadata"]["uid"] = uid
        world.application = apache.application_of(manifest)
        world.later(minutes=1).settle()
        assert world.status.failure is not None
        assert world.status.failure.count == count


def test_a_pod_gone_before_the_reconciliation_is_not_lost() -> None:
    server = Server()
    operator = Operator(server)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.stream(cluster("east"))
    server.subscription()
    server.spark()
    operator.works()
    # Given a driver that fails with a secret in its message
    pod = server.find(PODS, "app-driver")
    assert pod is not None
    pod["status"] = ended(TerminationMessage(code=6, reason="SinkError: password=hunter2 was refused").text())
    server.put(PODS, "app-driver", pod["spec"], labels={**pod["metadata"]["labels"], kubeflow.SUBMISSION_LABEL: "s1"})
    operator.sees()
    # When Kubeflow's operator deletes it before the subscription is reconciled
    server.remove(PODS, "app-driver")
    server._status(KUBEFLOW_APPLICATIONS, {"applicationState": {"state": "PENDING_RERUN"}})
    server.now += timedelta(seconds=1)
    operator.works()
    subscription = server.find(SUBSCRIPTIONS)
    assert subscription is not None
    ready = next(condition for condition in subscription["status"]["conditions"] if condition["type"] == "Ready")
    assert ready["reason"] == "AwaitsReport" and "exit code 6: SinkError: password=***" in ready["message"]
    (event,) = [server_event for server_event in server.events if server_event["reason"] == "ApplicationFailed"]
    assert (event["type"], "SinkError" in event["note"]) == ("Warning", True)
    assert "hunter2" not in str(server.writes) + str(subscription)
