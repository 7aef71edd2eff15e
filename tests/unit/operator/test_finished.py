"""An application that has read everything says `Finished`, and blocks no drain, also when its last report is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamic_kafka.contract.termination_message import TerminationMessage
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING
from kafkastream_operator.handlers.apply_plan import NORMAL_EVENTS
from kafkastream_operator.handlers.subscription_view import observe_subscription
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, PODS, SUBSCRIPTIONS
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.models.subscription import SubscriptionStatus
from kafkastream_operator.spark import apache, kubeflow
from tests.unit.operator import test_apache, test_kubeflow
from tests.unit.operator.recorded_states import finished, reporting
from tests.unit.operator.world import START, World, cluster, drained_of, running

ALWAYS = "spec.restartPolicy.type to OnFailure"


def without_pod(world: World) -> World:
    """Delete the driver's pod, with its last report."""
    world.driver = None
    return world.later(minutes=5).settle()


def events(world: World) -> list[str]:
    """Return the reasons of the Events since the last call."""
    event_reasons = [reason for reason, _ in world.events]
    world.events.clear()
    return event_reasons


def test_a_finished_application_says_so_and_is_ready() -> None:
    world = finished()
    for _ in range(2):
        assert world.condition("Finished") == world.condition("Ready") == ("True", "Finished")
        assert "by itself at 2026-11-01T00:00:00Z" in world.message("Ready")
        assert world.condition("Stalled") == ("False", "Settled")
        without_pod(world)  # what counts of the report is kept
    assert world.status.finished is not None
    assert (world.status.finished.driver, world.status.finished.submission) == ("uid-1", "s1")
    assert world.document is not None
    assert world.status.finished.revision == world.document.revision.token


def test_the_end_is_one_normal_event() -> None:
    world = finished()
    assert events(world).count("Finished") == 1
    assert "Finished" in NORMAL_EVENTS
    without_pod(world)
    assert "Finished" not in events(world)


@pytest.mark.parametrize("pod", [True, False])
def test_a_finished_application_blocks_no_decommissioning(pod: bool) -> None:
    # Given an application that has finished, and completed
    world = finished() if pod else without_pod(finished())
    before = world.stream_status("orders", [world.reader("Completed")])

    # When a cluster is taken out, nothing waits for a driver that never comes
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.condition("Drained") == ("True", "NothingDrains")
    after = world.stream_status("orders", [world.reader("Completed")], before, generation=2)
    assert drained_of(after)[0] == "True"


def test_a_drain_under_way_ends_with_the_application() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle().driver_reports(east__orders=TopicReport(5, 0.0)).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    reporting(world, finished=True)
    assert world.rendered() == {"west/orders": "Active"}


def test_a_finished_topic_drains_while_others_are_read() -> None:
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle()
    before = world.stream_status("orders", [world.reader()])
    assert drained_of(before)[0] == "False"
    world.driver_reports(east__orders=TopicReport(None, 0.0, finished=True)).settle()
    assert world.rendered() == {"west/orders": "Active"}
    world.driver_reports().settle()
    after = world.stream_status("orders", [world.reader()], before, generation=2)
    assert drained_of(after)[0] == "True"


@pytest.mark.parametrize("life", ["Completed", "Suspended"])
def test_no_finished_application_has_to_be_started_again(life: Life) -> None:
    # Given a drain that waits, and the end of the application
    world = running(updateStrategy="Reload")
    world.stream("orders", cluster("west")).settle().driver_reports(east__orders=TopicReport(5, 0.0)).settle()
    before = world.stream_status("orders", [world.reader()])
    assert world.driver is not None and world.driver.report is not None
    world.driver = replace(world.driver, report=replace(world.driver.report, finished=True))
    world.settle().application_is(life).settle()
    # Then nothing asks for a start
    texts = [condition.message for condition in world.status.conditions]
    status = world.stream_status("orders", [world.reader(life)], before, generation=2)
    assert drained_of(status)[0] == "True"
    assert not any("start it again" in text for text in [*texts, drained_of(status)[1]])


@pytest.mark.parametrize("lost", [False, True], ids=["status kept", "status lost"])
def test_an_operator_that_starts_anew_awaits_no_report(lost: bool) -> None:
    world = finished()
    assert world.driver is not None
    world.driver = replace(
        world.driver, seen_alive=False, silent_s=0.0, finished_at="2026-11-01T04:05:06Z" if lost else ""
    )
    world.status = SubscriptionStatus() if lost else world.status
    world.later(hours=1).settle()
    assert world.condition("Ready") == world.condition("Finished") == ("True", "Finished")
    assert "AwaitsReport" not in {condition.reason for condition in world.status.conditions}
    without_pod(world)
    assert world.condition("Ready") == ("True", "Finished")


def test_a_completed_application_without_it_still_drains() -> None:
    world = running(updateStrategy="Reload").application_is("Completed")
    world.driver = None
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    assert world.condition("Finished") == ("False", "Stopped")
    assert "Start it again: it reads on" in world.message("Finished")


@pytest.mark.parametrize("foreign", [{"pod": "another"}, {"subscription": "another"}])
def test_only_the_drivers_own_report_ends_it(foreign: dict[str, str]) -> None:
    world = reporting(running(), finished=True, **foreign)
    assert world.condition("Finished") == ("False", "NotFinished")
    assert world.status.finished is None


@pytest.mark.parametrize("life", ["Completed", "Suspended", "Starting", "Failed"])
def test_no_report_ends_an_application_that_does_not_run(life: Life) -> None:
    # Another pod may have taken the name of its driver
    world = reporting(running(updateStrategy="Reload").application_is(life), finished=True)
    world.stream("orders", cluster("west")).settle()
    assert world.status.finished is None
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}


def test_another_run_drains_until_it_reports_its_end_too() -> None:
    # Given a finished application that is started again, maybe with another checkpoint
    world = finished()
    world.driver = None
    world.application_is("Starting").settle()
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    # When its driver reads again
    world.driver_starts().settle()
    assert world.condition("Finished") == ("False", "NotFinished")
    assert world.status.finished is None
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}
    # And when the driver reports the end
    reporting(world, finished=True)
    assert world.rendered() == {"west/orders": "Active"}


def test_a_later_run_that_completes_unseen_proves_nothing() -> None:
    world = finished().application_is("Completed", submission="s9")
    world.driver = None
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Draining", "west/orders": "Active"}


def test_apaches_application_that_is_made_again_is_another_run() -> None:
    """Its attempts count anew, and it may have another checkpoint: nobody has read the removed cluster for it."""
    world = running()
    world.application = apache.application_of(test_apache.application("RunningHealthy"))
    reporting(world, finished=True)
    world.driver = None
    for uid, state, drains in (("u", "Succeeded", False), ("another", "Failed", True)):
        made = test_apache.application(state, history=("Submitted", state))
        made["metadata"]["uid"] = uid
        world.application = apache.application_of(made)
        world.stream("orders", cluster("west")).settle()
        assert ("east/orders" in world.rendered()) == drains
        world.stream("orders", cluster("east"), cluster("west")).settle()


def completed_unseen(submission: str = "s1", at: str = "2026-11-01T04:05:06Z") -> World:
    """Return an application that has read everything for good while the operator was away."""
    world = running(updateStrategy="Reload")
    assert world.driver is not None
    world.driver = replace(world.driver, running=False, finished_at=at)
    return world.later(hours=9).application_is("Completed", submission=submission).settle()


def test_the_ended_container_shows_an_end_that_was_missed() -> None:
    # Given an operator that was away while the application has ended
    world = completed_unseen()
    assert world.condition("Finished") == world.condition("Ready") == ("True", "Finished")
    assert "by itself at 2026-11-01T04:05:06Z" in world.message("Finished")
    assert events(world).count("Finished") == 1

    # Then nothing drains, also after the pod is gone
    without_pod(world)
    assert world.condition("Finished") == ("True", "Finished")
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.status.finished is not None
    assert (world.status.finished.submission, world.status.finished.revision) == ("s1", "")


def test_the_ended_container_adds_nothing_to_a_report() -> None:
    world = finished()
    before = world.status.finished
    assert world.driver is not None
    world.driver = replace(world.driver, finished_at="2026-11-01T04:05:06Z")
    assert world.settle().status.finished == before


def test_a_later_run_that_has_finished_unseen_counts() -> None:
    world = finished()
    assert world.driver is not None
    world.driver = replace(world.driver, uid="uid-9", finished_at="2026-11-01T04:05:06Z")
    world.application_is("Completed", submission="s9").settle()
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"west/orders": "Active"}
    assert world.status.finished is not None
    assert world.status.finished.at.startswith(START.strftime("%Y-%m-%dT%H:%M"))


@pytest.mark.parametrize("life", ["Running", "Suspended", "Starting", "Failed"])
def test_an_ended_container_counts_only_once_completed(life: Life) -> None:
    world = completed_unseen().application_is(life)
    world.status = world.status.model_copy(update={"finished": None})
    assert world.settle().status.finished is None


@pytest.mark.parametrize("pod", [True, False])
def test_stopped_says_where_the_evidence_is(pod: bool) -> None:
    world = completed_unseen(at="")
    world = world if pod else without_pod(world)
    assert world.condition("Finished") == ("False", "Stopped")
    assert ("its driver's pod does not say" in world.message("Finished")) == pod
    assert ("its driver's pod is gone" in world.message("Finished")) != pod


MESSAGE = TerminationMessage.of_finished(1, 3).text()


@pytest.mark.parametrize(
    ("submission", "code", "message", "owner", "shown"),
    [
        ("s1", 0, MESSAGE, "app-uid", True),
        ("s0", 0, MESSAGE, "app-uid", False),
        ("s1", 1, MESSAGE, "app-uid", False),
        ("s1", 0, TerminationMessage(code=0, reason="finished").text(), "app-uid", False),
        ("s1", 0, MESSAGE, "another", False),
        ("", 0, MESSAGE, "app-uid", False),
    ],
    ids=["its own", "an earlier run's", "a failure", "not for good", "another owner's", "no submission"],
)
def test_only_the_ended_pod_of_the_last_run_counts(
    submission: str, code: int, message: str, owner: str, shown: bool
) -> None:
    cache, app = Cache(), test_kubeflow.application("COMPLETED")
    meta = {"namespace": app["metadata"]["namespace"], "resourceVersion": "1", "creationTimestamp": "x"}
    app["metadata"] |= {**meta, "name": "app", "uid": "app-uid"}
    app["status"] |= {"submissionID": "s1" if submission else "", "driverInfo": {"podName": "app-driver"}}
    asked = {"applicationRef": {"name": "app"}, "streams": {"ids": ["orders"]}}
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-11-01T04:05:06Z"}
    labels = {
        "spark-role": "driver",
        kubeflow.NAME_LABEL: "app",
        kubeflow.SUBMISSION_LABEL: submission,
    }
    pod = {**meta, "name": "app-driver", "uid": "p", "labels": labels, "ownerReferences": [{"uid": owner}]}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    cache.put(SUBSCRIPTIONS, {"metadata": {**meta, "name": "app", "uid": "s"}, "spec": asked})
    cache.put(KUBEFLOW_APPLICATIONS, app)
    cache.put(PODS, {"metadata": pod, "spec": {}, "status": status})
    observed = observe_subscription(cache, meta["namespace"], "app", START, DEFAULT_TIMING)
    assert observed is not None and observed.view.driver is not None
    assert observed.view.driver.finished_at == ("2026-11-01T04:05:06Z" if shown else "")


def test_a_finished_application_that_is_deleted_drains_nothing() -> None:
    world = finished()
    world.application = world.driver = None
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"west/orders": "Active"}


def test_an_application_that_is_run_again_is_one_warning() -> None:
    world = finished(runs_again=ALWAYS)
    assert world.condition("Finished") == ("True", "RunsAgain")
    assert f"set {ALWAYS}" in world.message("Finished")
    assert events(world).count("RunsAgain") == 1
    assert "RunsAgain" not in NORMAL_EVENTS
    for _ in range(2):
        world.driver = None
        world.later(minutes=1).application_is("Starting").settle()
        reporting(world.driver_starts(), finished=True)
    assert "RunsAgain" not in events(world)
    assert world.status.finished is not None
    assert world.status.finished.at.startswith(START.strftime("%Y-%m-%dT%H:%M"))
    assert world.status.finished.driver == "uid-3"
    world.application_is("Completed", runs_again="").settle()
    assert world.condition("Finished") == ("True", "Finished")


def test_open_splits_are_named_with_the_warning() -> None:
    world = reporting(running(), open_splits=("east/orders[1]", "east/orders[2]"))
    assert world.condition("Finished") == ("False", "SplitsOpen")
    assert "east/orders[1], east/orders[2]" in world.message("Finished")
    assert "again and again" not in world.message("Finished")
    assert world.condition("Ready") == ("True", "InForce")
    world.application_is("Running", runs_again=ALWAYS).settle()
    assert f"again and again: set {ALWAYS}" in world.message("Finished")
    assert world.driver is not None
    world.driver = replace(world.driver, report=None)
    assert world.settle().condition("Finished") == ("False", "NotFinished")


def test_both_kinds_show_whether_they_run_again() -> None:
    apps = {rule: test_kubeflow.application(restartPolicy={"type": rule}) for rule in ("Always", "OnFailure", "Never")}
    shown = {rule: bool(kubeflow.application_of(application).runs_again) for rule, application in apps.items()}
    assert shown == {"Always": True, "OnFailure": False, "Never": False}
    for policy in ("Always", "OnFailure"):
        tolerations = {"restartConfig": {"restartPolicy": policy}}
        known = apache.application_of(test_apache.application(applicationTolerations=tolerations))
        assert ("restartConfig.restartPolicy to OnFailure" in known.runs_again) == (policy == "Always")
    assert kubeflow.application_of(test_kubeflow.application()).runs_again == ""
    assert apache.application_of(test_apache.application()).runs_again == ""
