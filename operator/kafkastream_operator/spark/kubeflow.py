"""Kubeflow's SparkApplication (`sparkoperator.k8s.io/v1beta2`): read from it, and patched in map keys only. Pure.

Lists of its spec belong to the user, and GitOps tools report changes of lists as drift; maps merge by key. Its operator
restarts the application on any change of the spec, and runs a completed one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamic_kafka.metadata.kubernetes_names import REVISION_ANNOTATION
from kafkastream_operator.core.application import Application, Life, Patch
from kafkastream_operator.spark.conf import ATTEMPT_ANNOTATION, ROLES, in_place, meant_for, number, secrets_for, written

NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""On a driver's pod: the application that it belongs to."""
_LIVES: Mapping[str, Life] = {
    "": "Starting",
    "SUBMITTED": "Starting",
    "RUNNING": "Running",
    "COMPLETED": "Completed",
    "FAILED": "Failed",
    "SUBMISSION_FAILED": "Failed",
    "PENDING_RERUN": "Starting",
    "INVALIDATING": "Starting",
    "SUCCEEDING": "Completed",
    "FAILING": "Failed",
    "SUSPENDING": "Suspended",
    "SUSPENDED": "Suspended",
    "RESUMING": "Starting",
    "UNKNOWN": "Starting",
}


def application_of(found: Mapping[str, Any], config_map: str) -> Application:
    """What counts of a SparkApplication. `config_map` is the name of its document."""
    meta, spec, status = found["metadata"], found.get("spec", {}), found.get("status", {})
    driver = spec.get("driver") or {}
    state = str(status.get("applicationState", {}).get("state", ""))
    conf = spec.get("sparkConf") or {}
    by_role = [in_place(secrets_for(role, conf) | _listed(spec.get(role) or {})) for role in ROLES]
    return Application(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        life="Suspended" if spec.get("suspend") else _LIVES.get(state, "Starting"),
        token=(driver.get("annotations") or {}).get(REVISION_ANNOTATION, ""),
        attempt=number((driver.get("annotations") or {}).get(ATTEMPT_ANNOTATION)),
        submission=str(status.get("submissionID", "")),
        mounts=by_role[0] & by_role[1],
        document=any(each.get("name") == config_map for each in driver.get("configMaps") or []) or None,
        driver_pod=str(status.get("driverInfo", {}).get("podName", "")),
        generation=int(meta.get("generation", 0)),
    )


def is_driver(application: Application, pod: Mapping[str, Any]) -> bool:
    """Whether a pod is the one that the application's status speaks of.

    Kubeflow's webhook gives the pod its application as an owner. One without owners is not refused: where the webhook
    was away when the pod was made, a restart would never count as done.
    """
    owners = [each.get("uid") for each in pod["metadata"].get("ownerReferences") or []]
    return bool(pod["metadata"]["name"] == application.driver_pod) and (not owners or application.uid in owners)


def running(application: Application, pod: Mapping[str, Any]) -> Application:
    """The application: what its spec says, its driver has, or is being restarted for."""
    return application


def patched(found: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """What to apply for a patch: map keys, and the object that they are meant for."""
    annotations = {REVISION_ANNOTATION: patch.token, ATTEMPT_ANNOTATION: str(patch.attempt)}
    spec = {"driver": {"annotations": annotations}, "sparkConf": written(patch.token, patch.secrets)}
    return meant_for(found, patch, spec)


def _listed(part: Mapping[str, Any]) -> dict[str, str]:
    """{Secret: where it is mounted} by the list of the driver or of executors."""
    return {str(each.get("name")): str(each.get("path")) for each in part.get("secrets") or []}
