"""Kubeflow's SparkApplication: how it is read, and that patches touch only keys of maps."""

from __future__ import annotations

from typing import Any

import pytest

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION, REVISION_ENVIRONMENT
from kafkastream_operator.core.application import Patch
from kafkastream_operator.spark.kubeflow import application_of, is_driver, patch_body


def application(state: str = "RUNNING", **spec: Any) -> dict[str, Any]:
    """Return a SparkApplication in this state."""
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "app", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": spec,
        "status": {
            "applicationState": {"state": state},
            "submissionID": "s",
            "driverInfo": {"podName": "app-driver"},
        },
    }


@pytest.mark.parametrize(
    ("state", "life"),
    [
        ("", "Starting"),
        ("SUBMITTED", "Starting"),
        ("RUNNING", "Running"),
        ("COMPLETED", "Completed"),
        ("FAILED", "Failed"),
        ("PENDING_RERUN", "Starting"),
        ("INVALIDATING", "Starting"),
        ("SUSPENDED", "Suspended"),
        ("A_STATE_OF_TOMORROW", "Starting"),
    ],
)
def test_the_state_of_an_application(state: str, life: str) -> None:
    assert application_of(application(state)).life == life


@pytest.mark.parametrize(
    ("policy", "life"),
    [
        ({}, "Failed"),
        ({"type": "Never", "onFailureRetryInterval": 5}, "Failed"),
        ({"type": "Always", "onFailureRetryInterval": 5}, "Failing"),
        ({"type": "Always"}, "Failed"),  # without an interval, Kubeflow's operator never goes on
        ({"type": "OnFailure", "onFailureRetryInterval": 5}, "Failed"),
        ({"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 5}, "Failed"),
        ({"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 5}, "Failing"),
    ],
)
def test_a_failure_that_is_tried_again_is_no_end(policy: dict[str, Any], life: str) -> None:
    manifest = application("FAILING", restartPolicy=policy)
    manifest["status"]["executionAttempts"] = 2
    assert application_of(manifest).life == life
    of_submission = {key.replace("onFailure", "onSubmissionFailure"): value for key, value in policy.items()}
    manifest = application("SUBMISSION_FAILED", restartPolicy=of_submission)
    manifest["status"] |= {"executionAttempts": 9, "submissionAttempts": 2}
    assert application_of(manifest).life == life


def test_an_application_with_suspend_set_is_suspended() -> None:
    assert application_of(application(suspend=True)).life == "Suspended"


def test_a_patch_has_map_keys_only_and_a_precondition() -> None:
    body = patch_body(application(), Patch("l/4", frozenset({"login"}), 2, "7"))
    assert body["metadata"] == {"name": "app", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    assert body["spec"] == {
        "driver": {"annotations": {REVISION_ANNOTATION: "l/4", "kafkastream.dev/attempt": "2"}},
        "sparkConf": {
            f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}": "l/4",
            "spark.kubernetes.driver.secrets.login": "/etc/kafkastreams-secrets/login",
            "spark.kubernetes.executor.secrets.login": "/etc/kafkastreams-secrets/login",
        },
    }


def test_a_patch_is_read_back() -> None:
    body = patch_body(application(), Patch("l/4", frozenset({"login"}), 2, "7"))
    patched = application_of({**application(), "spec": body["spec"]})
    assert (patched.token, patched.attempt, patched.mounts) == ("l/4", 2, {"login"})


def test_a_users_secret_counts_if_driver_and_executors_mount_it() -> None:
    place = "/etc/kafkastreams-secrets/login"
    both = {"secrets": [{"name": "login", "path": place, "secretType": "Generic"}]}
    assert application_of(application(driver=both, executor=both)).mounts == {"login"}
    assert application_of(application(driver=both)).mounts == frozenset()
    elsewhere = {"secrets": [{"name": "login", "path": "/tmp/login"}]}
    assert application_of(application(driver=elsewhere, executor=elsewhere)).mounts == frozenset()


def test_a_pod_of_another_application_is_not_the_driver() -> None:
    # Such a pod may be left from an earlier application of that name.
    known = application_of(application())
    assert is_driver(known, {"metadata": {"name": "app-driver", "ownerReferences": [{"uid": "u"}]}})
    assert is_driver(known, {"metadata": {"name": "app-driver"}})
    assert not is_driver(known, {"metadata": {"name": "app-driver", "ownerReferences": [{"uid": "before"}]}})
    assert not is_driver(known, {"metadata": {"name": "other", "ownerReferences": [{"uid": "u"}]}})
