"""Apache's SparkApplication: how it is read, and how it is restarted under the strategy `Restart` only."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION, REVISION_ENVIRONMENT
from kafkastream_operator.core.application import Patch, Pod
from kafkastream_operator.errors import NotFoundError
from kafkastream_operator.handlers import apply_plan
from kafkastream_operator.handlers.subscription_view import ObservedSubscription
from kafkastream_operator.kube.api import Api
from kafkastream_operator.kube.cache import Cache
from kafkastream_operator.spark.apache import application_of, driver_pod, is_driver, patch_body, with_driver
from tests.unit.operator.world import World, cluster, running

PLACE = "/etc/kafkastreams-secrets/login"
ALWAYS = {"restartPolicy": "Always", "maxRestartAttempts": 10}


def application(state: str = "RunningHealthy", *, history: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    """Return a SparkApplication in its third attempt."""
    moments = {
        str(number): {"currentStateSummary": summary, "lastTransitionTime": f"2026-11-01T00:00:{number:02}.000Z"}
        for number, summary in enumerate(history)
    }
    return {
        "apiVersion": "spark.apache.org/v1",
        "kind": "SparkApplication",
        "metadata": {"name": "app", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": spec,
        "status": {
            "currentState": {"currentStateSummary": state},
            "stateTransitionHistory": moments,
            "currentAttemptSummary": {"attemptInfo": {"id": 2, "restartCounter": 2, "failureRestartCounter": 1}},
        },
    }


def tolerating(**config: Any) -> dict[str, Any]:
    """Return the part of a spec that has a restartConfig."""
    began = ("Submitted", "RunningHealthy", "Failed", "ScheduledToRestart", "RunningHealthy")
    return application(history=began, applicationTolerations={"restartConfig": config})


@pytest.mark.parametrize(
    ("state", "life"),
    [
        ("Submitted", "Starting"),
        ("ScheduledToRestart", "Starting"),
        ("DriverRequested", "Starting"),
        ("DriverStarted", "Starting"),
        ("DriverReady", "Running"),
        ("InitializedBelowThresholdExecutors", "Running"),
        ("RunningHealthy", "Running"),
        ("RunningWithPartialCapacity", "Running"),
        ("RunningWithBelowThresholdExecutors", "Running"),
        ("Succeeded", "Completed"),
        ("Failed", "Failed"),
        ("SchedulingFailure", "Failed"),
        ("DriverStartTimedOut", "Failed"),
        ("ExecutorsStartTimedOut", "Failed"),
        ("DriverReadyTimedOut", "Failed"),
        ("DriverEvicted", "Failed"),
        ("AStateOfTomorrow", "Starting"),
    ],
)
def test_the_state_of_an_application(state: str, life: str) -> None:
    assert application_of(application(state)).life == life


@pytest.mark.parametrize("end", ["ResourceReleased", "TerminatedWithoutReleaseResources"])
@pytest.mark.parametrize(("before", "life"), [("Succeeded", "Completed"), ("Failed", "Failed"), ("", "Failed")])
def test_an_ended_application_has_its_last_state(end: str, before: str, life: str) -> None:
    history = ("Submitted", "RunningHealthy", before, end) if before else ()
    assert application_of(application(end, history=history)).life == life


@pytest.mark.parametrize(("policy", "life"), [("Never", "Failed"), ("OnFailure", "Failing"), ("Always", "Failing")])
def test_an_attempt_that_another_one_follows_is_no_end(policy: str, life: str) -> None:
    tolerations = {"restartConfig": {"restartPolicy": policy}}
    assert application_of(application("DriverEvicted", applicationTolerations=tolerations)).life == life
    ended = application("ResourceReleased", history=("RunningHealthy", "Failed"), applicationTolerations=tolerations)
    assert application_of(ended).life == "Failed"


@pytest.mark.parametrize(
    ("before", "life"), [("Failed", "Failing"), ("DriverEvicted", "Failing"), ("Succeeded", "Starting")]
)
def test_the_wait_after_a_failure_is_part_of_it(before: str, life: str) -> None:
    history = ("Submitted", "RunningHealthy", before, "ScheduledToRestart")
    manifest = application("ScheduledToRestart", history=history)
    assert application_of(manifest).life == life
    status = manifest["status"]
    # The operator may keep the history of the attempt before apart.
    status["previousAttemptSummary"] = {"stateTransitionHistory": status.pop("stateTransitionHistory")}
    status["stateTransitionHistory"] = {"4": {"currentStateSummary": "ScheduledToRestart"}}
    assert application_of(manifest).life == life


def test_an_application_without_a_status_is_starting() -> None:
    manifest = application()
    del manifest["status"]
    assert application_of(manifest).life == "Starting"


def test_a_patch_has_keys_of_spark_conf_only_and_is_read_back() -> None:
    body = patch_body(application(), Patch("l/4", frozenset({"login"}), 2, "7"))
    assert body["metadata"] == {"name": "app", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    assert body["spec"] == {
        "sparkConf": {
            f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}": "l/4",
            f"spark.kubernetes.driver.annotation.{REVISION_ANNOTATION}": "l/4",
            "spark.kubernetes.driver.annotation.kafkastream.dev/attempt": "2",
            "spark.kubernetes.driver.secrets.login": PLACE,
            "spark.kubernetes.executor.secrets.login": PLACE,
        },
    }
    patched = application_of({**application(), "spec": body["spec"]})
    assert (patched.token, patched.attempt, patched.mounts) == ("l/4", 2, {"login"})


def template(path: str = PLACE) -> dict[str, Any]:
    """Return a pod template that mounts the document and a Secret."""
    mounts = [{"name": "login", "mountPath": path}]
    volumes = [
        {"name": "login", "secret": {"secretName": "login"}},
        {"name": "streams", "configMap": {"name": "app-kafkastreams"}},
    ]
    return {
        "podTemplateSpec": {"spec": {"containers": [{"name": "spark", "volumeMounts": mounts}], "volumes": volumes}}
    }


@pytest.mark.parametrize("gone", ["application", "driver"])
def test_a_missing_driver_is_fine_but_not_a_missing_application(gone: str) -> None:
    """If the application is gone, nothing was patched, and the subscription is reconciled again."""
    calls: list[str] = []

    def answer(what: str, manifest: dict[str, Any]) -> dict[str, Any]:
        calls.append(what)
        if what == gone:
            raise NotFoundError("PATCH", 404, "NotFound", what)
        return manifest

    api = SimpleNamespace(
        apply=lambda resource, body, **_: answer("application", application()),
        delete=lambda *_, **__: answer("driver", {}),
    )
    spec = SimpleNamespace(application_ref=SimpleNamespace(api_version="spark.apache.org/v1"))
    seen = cast(ObservedSubscription, SimpleNamespace(application=application(), view=SimpleNamespace(spec=spec)))
    patch = Patch("l/4", frozenset(), 2, "7", Pod("app-2-driver", "p"))
    if gone == "driver":
        assert apply_plan._patch(cast(Api, api), Cache(), seen, patch) == ""
        assert calls == ["application", "driver"]
    else:
        with pytest.raises(NotFoundError):
            apply_plan._patch(cast(Api, api), Cache(), seen, patch)
        assert calls == ["application"]


def test_pod_templates_may_mount_secrets() -> None:
    both = application_of(application(driverSpec=template(), executorSpec=template()))
    assert both.mounts == {"login"}
    one = application_of(application(driverSpec=template()))
    assert one.mounts == frozenset()
    elsewhere = template("/tmp/login")
    assert application_of(application(driverSpec=elsewhere, executorSpec=elsewhere)).mounts == frozenset()


def test_secrets_of_the_spec_count_when_the_driver_has_them() -> None:
    app = application_of(application(driverSpec=template(), executorSpec=template()))
    assert with_driver(app, {"spec": template()["podTemplateSpec"]["spec"]}).mounts == {"login"}
    assert with_driver(app, {"spec": {"containers": [{"name": "spark"}]}}).mounts == frozenset()


def test_the_driver_is_the_attempts_pod_owned_by_the_application() -> None:
    known = application_of(application())
    owner = [{"kind": "SparkApplication", "name": "app", "uid": "u"}]
    assert is_driver(known, {"metadata": {"name": "app-2-driver", "ownerReferences": owner}})
    assert not is_driver(known, {"metadata": {"name": "app-1-driver", "ownerReferences": owner}})
    assert not is_driver(known, {"metadata": {"name": "app-2-driver"}})
    assert not is_driver(known, {"metadata": {"name": "app-2-driver", "ownerReferences": [{"uid": "another"}]}})


def test_the_drivers_pod_has_the_name_of_apaches_operator() -> None:
    assert driver_pod("ns", "app", 0, {}) == "app-0-driver"
    assert driver_pod("ns", "app", 0, {"spark.app.id": "mine"}) == "mine-driver"
    assert driver_pod("ns", "app", 0, {"spark.kubernetes.driver.pod.name": "mine"}) == "mine"
    # The first 9 characters of the name, and 36 digits of sha256("ns/<name>/12") to the base of 36.
    name = "a-name-that-is-longer-than-forty-six-characters"
    assert driver_pod("ns", name, 12, {}) == "a-name-th-20ownp52i9qgnfbq48722p0h4z0zsmzolmu2-driver"


@pytest.mark.parametrize("config", [{}, {"restartPolicy": "Never"}, {"restartPolicy": "OnFailure"}])
def test_an_application_that_would_not_start_again_is_detected(config: dict[str, Any]) -> None:
    app = application_of(tolerating(**config, maxRestartAttempts=10))
    assert "restartPolicy to Always" in app.restart_refusal
    assert app.refuses_restart(datetime(2030, 1, 1, tzinfo=UTC))


def test_the_last_attempt_is_left_for_a_failure() -> None:
    assert application_of(tolerating(restartPolicy="Always", maxRestartAttempts=4)).restart_refusal == ""
    assert "maxRestartAttempts is 3" in application_of(tolerating(restartPolicy="Always")).restart_refusal
    limited = tolerating(restartPolicy="Always", maxRestartAttempts=9, maxRestartOnFailure=2)
    assert "maxRestartOnFailure is 2" in application_of(limited).restart_refusal


def test_a_restart_is_possible_again_when_the_counter_resets() -> None:
    app = application_of(tolerating(restartPolicy="Always", restartCounterResetMillis=60_000))
    # The time of this attempt, which began with the fourth state.
    assert app.restart_allowed_at == datetime(2026, 11, 1, 0, 1, 3, tzinfo=UTC)
    assert app.refuses_restart(datetime(2026, 11, 1, 0, 1, 2, tzinfo=UTC))
    assert not app.refuses_restart(datetime(2026, 11, 1, 0, 1, 4, tzinfo=UTC))


# -- stories -------------------------------------------------------------------------------------------------------


SECRET = {"cluster": "west", "name": "west-login", "allowedServers": ["west:9092"]}


def apaches(restart_refusal: str = "", **spec: Any) -> World:
    """Return the world of an Apache application that runs on cluster east."""
    world = running(**spec)
    world.application_is("Running", restarts_itself=False, restart_refusal=restart_refusal)
    return world


def started_anew(world: World) -> None:
    """Let Apache's operator start the driver of the next attempt."""
    assert world.driver is None
    world.driver_starts().settle()


def test_the_end_of_a_driver_in_a_restart_is_no_failure() -> None:
    world = apaches(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.driver is None
    world.application_is("Failing").settle()
    assert (world.condition("ApplicationFound"), world.condition("Ready")) == (
        ("True", "Failing"),
        ("False", "RollingOut"),
    )
    assert world.status.failure is None
    started_anew(world.application_is("Running"))
    assert world.condition("RolledOut") == ("True", "Confirmed")
    world.application_is("Failing", submission="attempt-2").settle()
    assert world.status.failure is not None
    assert (world.status.failure.submission, world.status.failure.count) == ("attempt-2", 1)


def test_auto_is_live() -> None:
    world = apaches()
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.writes[-2:] == ["status", "refresh"]
    world.driver_reports().settle()
    assert world.condition("RolledOut") == ("True", "Confirmed")
    assert world.patches == 0


def test_auto_never_restarts_and_names_the_remedy() -> None:
    world = apaches(secrets=[SECRET])
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert "updateStrategy: Restart, which spends" in world.message("RolledOut")
    assert (world.patches, "end" in world.writes) == (0, False)


def test_auto_does_not_restart_a_driver_without_reports() -> None:
    world = apaches()
    assert world.driver is not None
    world.driver = replace(world.driver, report=None, silent_s=1000)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert "does not report that it can take" in world.message("RolledOut")
    assert world.patches == 0


@pytest.mark.parametrize("writes", range(6))
def test_a_restart_ends_one_driver_after_a_death_at_any_write(writes: int) -> None:
    world = apaches(updateStrategy="Restart")
    before = len(world.writes)
    world.stream("orders", cluster("east"), cluster("west"))
    world.settle_with_deaths(writes) if writes else world.settle()
    assert world.writes.count("end") == 1
    assert world.writes[before:].index("patch") < world.writes[before:].index("end")
    started_anew(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")
    world.later(minutes=10).settle()
    assert world.writes.count("end") == 1


def test_a_slow_driver_costs_no_second_attempt() -> None:
    world = apaches(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west"))
    for _ in range(4):
        world.settle()
        world.later(minutes=2)
    assert world.writes.count("end") == 1
    started_anew(world)
    assert world.condition("RolledOut") == ("True", "Confirmed")


def test_a_driver_created_from_the_old_spec_is_ended_too() -> None:
    world = apaches(updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    world.driver_starts(reports=False)
    assert world.driver is not None
    world.driver = replace(world.driver, token="")
    world.settle()
    assert world.writes.count("end") == 1
    world.later(minutes=2).settle()
    assert world.writes.count("end") == 2


def test_an_application_that_would_not_return_is_not_ended() -> None:
    world = apaches("set restartPolicy to Always", updateStrategy="Restart")
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    assert re.search("would end .*: set restartPolicy to Always", world.message("RolledOut"))
    assert (world.patches, "end" in world.writes) == (0, False)
    world.application_is("Running", restart_refusal="").settle()
    assert world.writes.count("end") == 1


def test_a_pod_that_only_looks_like_the_driver_is_never_ended() -> None:
    world = apaches(updateStrategy="Restart")
    assert world.driver is not None
    world.driver = replace(world.driver, owned=False)
    world.stream("orders", cluster("east"), cluster("west")).settle()
    assert "end" not in world.writes
