"""Read and patch Kubeflow's SparkApplication (`sparkoperator.k8s.io/v1beta2`), in keys of maps only. Pure.

Kubeflow's operator restarts an application on every change of its spec, and runs a completed one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION
from kafkastream_operator.core.application import FAILED, Application, Life, Patch
from kafkastream_operator.core.failure import NO_FAILURE, failure_in
from kafkastream_operator.spark.conf import (
    ATTEMPT_ANNOTATION,
    ROLES,
    apply_body,
    as_int,
    correctly_mounted,
    revision_conf,
    secrets_for,
)

NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""The label of a driver's pod that names its application."""
SUBMISSION_LABEL = "sparkoperator.k8s.io/submission-id"
"""The label of a driver's pod that names the application's submission."""
_LIVES: Mapping[str, Life] = {
    "": "Starting",
    "SUBMITTED": "Starting",
    "RUNNING": "Running",
    "COMPLETED": "Completed",
    "FAILED": "Failed",
    "PENDING_RERUN": "Starting",
    "INVALIDATING": "Starting",
    "SUCCEEDING": "Completed",
    "SUSPENDING": "Suspended",
    "SUSPENDED": "Suspended",
    "RESUMING": "Starting",
    "UNKNOWN": "Starting",
}
_RETRIES = {
    "FAILING": ("executionAttempts", "onFailure"),
    "SUBMISSION_FAILED": ("submissionAttempts", "onSubmissionFailure"),
}
"""{a state that another attempt may follow: the count of attempts in the status, how the policy's fields begin}."""


def application_of(manifest: Mapping[str, Any]) -> Application:
    """Read a SparkApplication."""
    meta, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    driver = spec.get("driver") or {}
    state = status.get("applicationState", {})
    life: Life = "Suspended" if spec.get("suspend") else _life(str(state.get("state", "")), spec, status)
    conf = spec.get("sparkConf") or {}
    by_role = [correctly_mounted(secrets_for(role, conf) | _listed(spec.get(role) or {})) for role in ROLES]
    return Application(
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        life=life,
        token=(driver.get("annotations") or {}).get(REVISION_ANNOTATION, ""),
        attempt=as_int((driver.get("annotations") or {}).get(ATTEMPT_ANNOTATION)),
        submission=str(status.get("submissionID", "")),
        mounts=by_role[0] & by_role[1],
        driver_pod=str(status.get("driverInfo", {}).get("podName", "")),
        generation=int(meta.get("generation", 0)),
        failure=failure_in(str(state.get("errorMessage") or "")) if life in FAILED else NO_FAILURE,
        failed_submission=str(status.get("submissionID", "")) if life in FAILED else "",
        runs_again="spec.restartPolicy.type to OnFailure, with onFailureRetries"
        if (spec.get("restartPolicy") or {}).get("type") == "Always"
        else "",
    )


def is_driver(application: Application, pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is the one that the application's status names.

    Kubeflow's webhook makes the application the owner of the pod. A pod without owners is accepted, too: the webhook
    may have been away when the pod was created, and its restart would otherwise never be confirmed.
    """
    return bool(pod["metadata"]["name"] == application.driver_pod) and _may_own(application, pod)


def submission_of(application: Application, pod: Mapping[str, Any]) -> str:
    """Return the submission that a driver's pod was made for; "" if the pod is not the application's.

    After a failure, the application's status names the pod no more.
    """
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(SUBMISSION_LABEL, "")) if _may_own(application, pod) else ""


def _may_own(application: Application, pod: Mapping[str, Any]) -> bool:
    owners = [owner_reference.get("uid") for owner_reference in pod["metadata"].get("ownerReferences") or []]
    return not owners or application.uid in owners


def with_driver(application: Application, pod: Mapping[str, Any]) -> Application:
    """Return the application as it is: its driver has what the spec says, or is being restarted for it."""
    return application


def patch_body(manifest: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Return the body of the server-side apply that makes a patch."""
    annotations = {REVISION_ANNOTATION: patch.token, ATTEMPT_ANNOTATION: str(patch.attempt)}
    spec = {"driver": {"annotations": annotations}, "sparkConf": revision_conf(patch.token, patch.secrets)}
    return apply_body(manifest, patch, spec)


def _life(state: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Life:
    """Return the application's state. Kubeflow's operator decides in two of them whether it tries again.

    It needs an interval for that, which its webhook sets where the spec has none.
    """
    if state not in _RETRIES:
        return _LIVES.get(state, "Starting")
    attempts, cause = _RETRIES[state]
    policy = spec.get("restartPolicy") or {}
    kind, limit = policy.get("type"), policy.get(f"{cause}Retries")
    left = limit is not None and as_int(status.get(attempts)) <= as_int(limit)
    again = kind == "Always" or (kind == "OnFailure" and left)
    return "Failing" if again and policy.get(f"{cause}RetryInterval") is not None else "Failed"


def _listed(part: Mapping[str, Any]) -> dict[str, str]:
    """Return {Secret: mount path} from the list `secrets` of the driver or the executors."""
    return {str(secret.get("name")): str(secret.get("path")) for secret in part.get("secrets") or []}
