"""The cause of a failure in an application's condition: the useful line, without secrets, and stable."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from dynamic_kafka.contract.termination_message import TerminationMessage
from kafkastream_operator.core.failure import MAX_CHARACTERS, Failure, failure_in
from kafkastream_operator.handlers.reconcile import Reconciler
from kafkastream_operator.kube.api import KUBEFLOW_APPLICATIONS, SUBSCRIPTIONS, Api
from kafkastream_operator.kube.cache import Cache, Ref
from kafkastream_operator.spark import apache, kubeflow
from tests.unit.operator import test_apache, test_kubeflow
from tests.unit.operator.server import NAMESPACE, TIMING, Server
from tests.unit.operator.world import cluster, running

REFUSED = (
    'pods is forbidden: User "system:serviceaccount:jobs:spark" cannot create resource "pods" in API group "" in the'
    ' namespace "jobs"'
)
SUBMISSION = f"""failed to submit spark application: failed to run spark-submit: log4j:WARN No appenders could be found
26/11/23 09:00:01 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
26/11/23 09:00:02 ERROR Client: Please check "kubectl auth can-i create pod" first. It should be yes.
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at:\
 https://10.96.0.1:443/api/v1/namespaces/jobs/pods. Message: {REFUSED}. Received status: Status(apiVersion=v1, code=403)
\tat io.fabric8.kubernetes.client.KubernetesClientException.copyAsCause(KubernetesClientException.java:238)
\t... 12 more
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST"""
CRASHED = "driver container failed with ExitCode: 6, Reason: Error"
SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("driver pod not found", "driver pod not found"),
        (
            SUBMISSION,
            f'Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: {REFUSED}',
        ),
        (
            'Exception in thread "main" a.B: x\n\tat a.B.c(B.java:1)\nCaused by: a.C: y\n\tat a.C.d(C.java)\n'
            "Caused by: a.D: z",
            "Caused by: a.D: z",
        ),
        (
            "submitted\nTraceback (most recent call last):\n"
            "  File \"/app/main.py\", line 3, in <module>\nModuleNotFoundError: No module named 'x'",
            "ModuleNotFoundError: No module named 'x'",
        ),
        ("a.B: x\n\tat a.AccessDeniedException.c(A.java:1)\n\tat b.c(b.java)", "a.B: x"),
        ("26/11/23 09:00:01 WARN A: b\n26/11/23 09:00:01 ERROR C: d", "ERROR C: d"),
        ("failed to run spark-submit: signal: killed", "failed to run spark-submit: signal: killed"),
        ("a.NoCredentialsException: none was found", "a.NoCredentialsException: none was found"),
    ],
)
def test_the_useful_line_is_quoted(text: str, cause: str) -> None:
    assert failure_in(text).cause == cause


@pytest.mark.parametrize(
    "text",
    [
        f"failed to run spark-submit: --conf spark.hadoop.fs.s3a.secret.key={SECRET} --conf a=b: forbidden",
        f"forbidden: --conf spark.hadoop.fs.s3a.access.key={SECRET}",
        f'org.E: kafka.sasl.jaas.config=o.a.k.PlainLoginModule required username="al" password="x {SECRET}";',
        rf"org.E: \"kafka.sasl.jaas.config\":\"o.a.k.PlainLoginModule required password=\\\"x {SECRET}\\\";\"",
        f"Caused by: org.E: password=correct {SECRET} battery, forbidden",
        f"denied: password=a,{SECRET};b&{SECRET}",
        f"org.E: Map(spark.authenticate.secret -> {SECRET}, a -> b)",
        f"spark-submit --sasl-password {SECRET} failed with a.E: x",
        f'["--token","{SECRET}"] is forbidden',
        f"401 of https://bob:a@{SECRET}@registry/v1: denied",
        f"Authorization: Bearer {SECRET} denied",
        f'{{"password": "a\n{SECRET} is denied"}}\nAn Exception',
        f"ssl.key.pem=-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\nforbidden {SECRET}",
        f"spark.ssl.keyPassword={SECRET}" + "x" * 70_000,
    ],
)
def test_no_secret_of_another_text_is_quoted(text: str) -> None:
    world = running().application_is("Failed", failure=text).settle()
    message = world.message("ApplicationFound")
    assert failure_in(text).cause in message
    assert SECRET not in message + str(world.status)


def test_a_cause_is_one_short_line() -> None:
    for text in ("x" * 9000, "a.B: Exception " + "\x1b[31my\t\u202ez " * 900):
        cause = failure_in(text).cause
        assert len(cause) == MAX_CHARACTERS
        assert cause.endswith("…")
        assert cause.isprintable()


@pytest.mark.parametrize("piece", ["token", "--token"])
def test_a_hostile_text_does_not_hold_the_operator_up(piece: str) -> None:
    # Without bounds in the patterns, each takes half a minute.
    assert len(failure_in(piece * 40_000).cause) <= MAX_CHARACTERS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("26/11/23 09:00:01 ERROR A: b", "26/11/24 10:11:12 ERROR A: b"),
        ("2026-11-23T09:00:01.123Z a.Exception", "2026-11-24T10:00:02.4+01:00 a.Exception"),
        ("pod app-1f2e3d4c5b6a7988-driver denied", "pod app-8877665544aabbcc-driver denied"),
        ("pod app-3-driver denied", "pod app-4-driver denied"),
        ("pod job-x2k4q denied", "pod job-7bcdf denied"),
        ("pod app-1504601675797-exec-1 denied", "pod app-1504601999999-exec-12 denied"),
        ("submission attempt 3 failed", "submission attempt 4 failed"),
        (
            "submission 0b7a3c1e-54aa-4f0e-9d0c-2f1f6a3c9e11 failed",
            "submission 1c7a3c1e-54aa-4f0e-9d0c-2f1f6a3c9e22 failed",
        ),
        ("a.B@1f2e3d4c: Exception", "a.B@99aabb: Exception"),
        (f"{SUBMISSION}\n26/11/23 09:00:03 INFO Shutdown", SUBMISSION.replace("26/11/23 09", "27/12/24 11")),
    ],
)
def test_two_attempts_that_fail_alike_have_one_cause(one: str, other: str) -> None:
    assert failure_in(one).cause == failure_in(other).cause != ""


def test_different_causes_stay_different() -> None:
    texts = [REFUSED, CRASHED, CRASHED.replace("6", "5"), CRASHED.replace("6", "137"), "a:9092 denied", "a:9093 denied"]
    assert len({failure_in(text).cause for text in texts}) == len(texts)


def test_an_exit_code_of_ours_is_put_into_words() -> None:
    explained = rf"{re.escape(CRASHED)} \(exit code 6 .*: The query failed .*Spark\)"
    assert re.fullmatch(explained, failure_in(CRASHED).cause)
    assert failure_in(CRASHED.replace("6", "137")).cause == CRASHED.replace("6", "137")
    assert failure_in("spark-submit: exit status 6") == Failure("spark-submit: exit status 6")
    assert failure_in("exit code 404") == Failure("exit code 404")


def test_only_a_failed_kubeflow_application_has_a_cause() -> None:
    for state, failure in (("FAILED", failure_in(CRASHED)), ("RUNNING", Failure()), ("PENDING_RERUN", Failure())):
        manifest = test_kubeflow.application(state)
        manifest["status"]["applicationState"]["errorMessage"] = CRASHED
        assert kubeflow.application_of(manifest).failure == failure
    assert kubeflow.application_of(test_kubeflow.application("FAILED")).failure == Failure()


def failed_apache(current: str, **more: Any) -> dict[str, Any]:
    """Return Apache's application whose last state before `current` is a failure with these fields."""
    manifest = test_apache.application(current, history=("Submitted", "Failed", current))
    manifest["status"]["stateTransitionHistory"]["1"] |= more
    manifest["spec"] = {"applicationTolerations": {"restartConfig": test_apache.ALWAYS}}
    return manifest


@pytest.mark.parametrize("current", ["ScheduledToRestart", "ResourceReleased"])
def test_apaches_cause_is_that_of_the_last_attempt(current: str) -> None:
    message = "Driver has one or more failed critical container(s), refer last observed status for details."
    assert apache.application_of(failed_apache(current, message=message)).failure == Failure(message[:-1])
    ended = {
        "exitCode": 2,
        "reason": "Error",
        "message": TerminationMessage(code=2, reason="OptionError: app.yaml:7: x").text(),
    }
    sidecar = {"name": "proxy", "state": {"terminated": {"exitCode": 0, "message": "no Exception"}}}
    for end, cause in (
        (ended, "exit code 2: OptionError: app.yaml:7: x"),
        ({**ended, "message": None}, "container main failed with ExitCode: 2"),
    ):
        pod = {"containerStatuses": [sidecar, {"name": "main", "state": {"terminated": end}}]}
        failure = apache.application_of(failed_apache(current, message=message, lastObservedDriverStatus=pod)).failure
        assert failure.code == 2 and failure.cause.startswith(cause)
        assert re.search(r"\(exit code 2 .*: `app\.yaml`", failure.cause)


def test_a_running_apache_application_has_no_cause() -> None:
    manifest = failed_apache("RunningHealthy", message="Driver has failed.")
    manifest["status"]["currentState"]["message"] = "Application is running healthy."
    assert apache.application_of(manifest).failure == Failure()


def test_the_condition_quotes_the_cause() -> None:
    for life in ("Failed", "Failing"):
        world = running().application_is(life, failure=SUBMISSION).settle()
        assert REFUSED in world.message("ApplicationFound")
        assert REFUSED in world.message("Ready")
    world.application_is("Starting", failure="").driver = None
    assert REFUSED in world.settle().message("Ready")
    world.driver_starts().settle()
    assert REFUSED not in str(world.status.conditions)


def test_a_cause_that_differs_in_trifles_is_not_written_again() -> None:
    server, cache = Server(), Cache()
    reconcile = Reconciler(cast(Api, server), cache, TIMING, lambda: server.now)
    server.put(KUBEFLOW_APPLICATIONS, "app", {})
    server.stream(cluster("east"))
    server.subscription()

    def writes_after(text: str, submission: str) -> int:
        state = {"applicationState": {"state": "FAILED", "errorMessage": text}, "submissionID": submission}
        server._status(KUBEFLOW_APPLICATIONS, state)
        before = len(server.writes)
        for _ in range(3):
            for ref, content in server.objects.items():
                cache.put(ref.resource, content)
            reconcile(Ref(SUBSCRIPTIONS, NAMESPACE, "app"))
        return len(server.writes) - before

    assert writes_after(f"26/11/23 09:00:01 {REFUSED} of app-1-driver", "s1") > 0
    assert REFUSED in str(server.find(SUBSCRIPTIONS))
    assert writes_after(f"26/11/23 09:07:55 {REFUSED} of app-2-driver", "s1") == 0
    assert writes_after(CRASHED, "s2") == 2  # the status and an Event
    assert CRASHED in str(server.find(SUBSCRIPTIONS))
