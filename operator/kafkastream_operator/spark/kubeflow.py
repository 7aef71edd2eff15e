"""Kubeflow's SparkApplication (`sparkoperator.k8s.io/v1beta2`): read from it, and patched in map keys only. Pure.

Lists of its spec belong to the user, and GitOps tools report changes of lists as drift; maps merge by key. Its operator
restarts the application on any change of the spec, and runs a completed one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dynamic_kafka.metadata.contract import GROUP, REVISION_ANNOTATION, REVISION_ENVIRONMENT, SECRETS_PATH
from kafkastream_operator.core.rollout import Application, Life, Patch

ATTEMPT_ANNOTATION = f"{GROUP}/attempt"
"""On the driver: counts the patches for one revision, so that one that was lost can be made again."""
NAME_LABEL = "sparkoperator.k8s.io/app-name"
"""On a driver's pod: the application that it belongs to."""
_SECRETS = "spark.kubernetes.{}.secrets.{}"
_ROLES = ("driver", "executor")
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
    return Application(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        life="Suspended" if spec.get("suspend") else _LIVES.get(state, "Starting"),
        token=(driver.get("annotations") or {}).get(REVISION_ANNOTATION, ""),
        attempt=_number((driver.get("annotations") or {}).get(ATTEMPT_ANNOTATION)),
        submission=str(status.get("submissionID", "")),
        mounts=frozenset(_mounted(conf, driver, spec.get("executor") or {})),
        document=any(each.get("name") == config_map for each in driver.get("configMaps") or []) or None,
        driver_pod=str(status.get("driverInfo", {}).get("podName", "")),
        generation=int(meta.get("generation", 0)),
    )


def patched(found: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """What to apply for a patch: map keys, and the object that they are meant for, by UID and resourceVersion.

    Without the UID, applying to an application that was deleted meanwhile would be the creation of a new one.
    """
    conf = {f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}": patch.token}
    for secret in sorted(patch.secrets):
        for role in _ROLES:
            conf[_SECRETS.format(role, secret)] = f"{SECRETS_PATH}/{secret}"
    annotations = {REVISION_ANNOTATION: patch.token, ATTEMPT_ANNOTATION: str(patch.attempt)}
    meta = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": patch.expected,
        },
        "spec": {"driver": {"annotations": annotations}, "sparkConf": conf},
    }


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


def _mounted(conf: Mapping[str, Any], driver: Mapping[str, Any], executor: Mapping[str, Any]) -> Iterable[str]:
    """Secrets that driver and executors both mount where they are looked for, whoever wrote that."""
    by_role = []
    for role, part in zip(_ROLES, (driver, executor), strict=True):
        prefix = _SECRETS.format(role, "")
        found = {key.removeprefix(prefix): path for key, path in conf.items() if key.startswith(prefix)}
        found |= {each.get("name"): each.get("path") for each in part.get("secrets") or []}
        by_role.append({name for name, path in found.items() if path == f"{SECRETS_PATH}/{name}"})
    return by_role[0] & by_role[1]
