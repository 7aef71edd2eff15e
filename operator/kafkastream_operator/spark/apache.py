"""Apache's SparkApplication (`spark.apache.org/v1`): read from it, and patched in keys of `sparkConf` only. Pure.

Its operator reads the spec when it makes a driver's pod, and never again: a patch waits for the next attempt. A driver
whose pod is deleted is an attempt that failed; whether another one follows, `restartConfig` says, and the application
is over if not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dynamic_kafka.metadata.kubernetes_names import REVISION_ANNOTATION
from kafkastream_operator.core.application import Application, Life, Patch
from kafkastream_operator.spark.conf import ATTEMPT_ANNOTATION, ROLES, in_place, meant_for, number, secrets_for, written

NAME_LABEL = "spark.operator/spark-app-name"
"""On a driver's pod: the application that it belongs to."""
_ANNOTATION = "spark.kubernetes.driver.annotation.{}"
_ATTEMPTS = 3
"""`maxRestartAttempts` where the spec has none."""
_ID_CHARACTERS, _HASH_CHARACTERS = 46, 36
"""Lengths of an application's id, and of the hash in one that would be longer."""
_BEGINNINGS = ("Submitted", "ScheduledToRestart")
_ENDINGS = ("ResourceReleased", "TerminatedWithoutReleaseResources")
_LIVES: Mapping[str, Life] = {
    "": "Starting",
    "Submitted": "Starting",
    "ScheduledToRestart": "Starting",
    "DriverRequested": "Starting",
    "DriverStarted": "Starting",
    "DriverReady": "Running",
    "InitializedBelowThresholdExecutors": "Running",
    "RunningHealthy": "Running",
    "RunningWithPartialCapacity": "Running",
    "RunningWithBelowThresholdExecutors": "Running",
    "DriverStartTimedOut": "Failed",
    "ExecutorsStartTimedOut": "Failed",
    "DriverReadyTimedOut": "Failed",
    "SchedulingFailure": "Failed",
    "DriverEvicted": "Failed",
    "Failed": "Failed",
    "Succeeded": "Completed",
}


def application_of(found: Mapping[str, Any], config_map: str) -> Application:
    """What counts of a SparkApplication. `config_map` is the name of its document."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    conf = spec.get("sparkConf") or {}
    info = (status.get("currentAttemptSummary") or {}).get("attemptInfo") or {}
    attempt = number(info.get("id"))
    by_role = [in_place(secrets_for(role, conf) | _secrets_of(_template(spec, role))) for role in ROLES]
    unwilling, willing_at = _restarts(spec, status, info)
    return Application(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        life=_LIVES.get(_state(status), "Starting"),
        token=str(conf.get(_ANNOTATION.format(REVISION_ANNOTATION), "")),
        attempt=number(conf.get(_ANNOTATION.format(ATTEMPT_ANNOTATION))),
        submission=f"attempt-{attempt}",
        mounts=by_role[0] & by_role[1],
        document=config_map in _config_maps(spec) or None,
        driver_pod=driver_pod(meta["namespace"], meta["name"], attempt, conf),
        generation=int(meta.get("generation", 0)),
        restarts_itself=False,
        unwilling=unwilling,
        willing_at=willing_at,
    )


def is_driver(application: Application, pod: Mapping[str, Any]) -> bool:
    """Whether a pod is the one that the application's status speaks of: it has the attempt's name, and its owner."""
    owners = [each.get("uid") for each in pod["metadata"].get("ownerReferences") or []]
    return pod["metadata"]["name"] == application.driver_pod and application.uid in owners


def running(application: Application, pod: Mapping[str, Any]) -> Application:
    """The application with the Secrets that its driver has: what its spec says by now is for the next one."""
    return replace(application, mounts=application.mounts & in_place(_secrets_of(pod.get("spec") or {})))


def patched(found: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """What to apply for a patch: map keys, and the object that they are meant for."""
    conf = written(patch.token, patch.secrets)
    conf[_ANNOTATION.format(REVISION_ANNOTATION)] = patch.token
    conf[_ANNOTATION.format(ATTEMPT_ANNOTATION)] = str(patch.attempt)
    return meant_for(found, patch, {"sparkConf": conf})


def driver_pod(namespace: str, name: str, attempt: int, conf: Mapping[str, Any]) -> str:
    """The name that the driver's pod of an attempt has. The status does not have it: it is made as the operator and
    Spark make it."""
    known = f"{name}-{attempt}"
    if len(known) > _ID_CHARACTERS:
        digest = hashlib.sha256(f"{namespace}/{name}/{attempt}".encode()).digest()
        head = known[: _ID_CHARACTERS - _HASH_CHARACTERS - 1]
        known = f"{head}-{_base36(int.from_bytes(digest, 'big', signed=False))[:_HASH_CHARACTERS]}"
    known = str(conf.get("spark.app.id", known))
    return str(conf.get("spark.kubernetes.driver.pod.name", f"{known}-driver"))


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, rest = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def _state(status: Mapping[str, Any]) -> str:
    """The state that the application is in, or was in when it ended for good."""
    current = str((status.get("currentState") or {}).get("currentStateSummary", ""))
    if current not in _ENDINGS:
        return current
    before = [each for each in _history(status) if each.get("currentStateSummary") not in _ENDINGS]
    last = str(before[-1].get("currentStateSummary", "")) if before else ""
    return last if _LIVES.get(last) == "Completed" else "Failed"


def _history(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The states so far, in order: a map by number."""
    found = status.get("stateTransitionHistory") or {}
    return [found[key] for key in sorted(found, key=number)]


def _restarts(
    spec: Mapping[str, Any], status: Mapping[str, Any], info: Mapping[str, Any]
) -> tuple[str, datetime | None]:
    """Why the application would not start again if its driver were ended, and when that passes by itself.

    One attempt is left for a failure that nobody has planned.
    """
    config = (spec.get("applicationTolerations") or {}).get("restartConfig") or {}
    where = "spec.applicationTolerations.restartConfig"
    if config.get("restartPolicy", "Never") != "Always":
        # Under OnFailure it depends on how quickly the driver ends: one that stops in order has succeeded.
        return f"set {where}.restartPolicy to Always, or restart it by hand (delete and apply)", None
    limits = [(number(info.get("restartCounter")), config.get("maxRestartAttempts", _ATTEMPTS), "maxRestartAttempts")]
    if config.get("maxRestartOnFailure") is not None:
        limits.append((number(info.get("failureRestartCounter")), config["maxRestartOnFailure"], "maxRestartOnFailure"))
    spent = [(count, limit, name) for count, limit, name in limits if count + 1 >= number(limit)]
    if not spent:
        return "", None
    _, limit, name = spent[0]
    text = (
        f"{where}.{name} is {limit}, and one has to be left for a failure: raise it, or set restartCounterResetMillis"
    )
    reset = config.get("restartCounterResetMillis", -1)
    if reset is None or int(reset) < 0 or number(config.get("maxRestartAttempts", _ATTEMPTS)) < 2:
        return text, None
    began = [each for each in _history(status) if each.get("currentStateSummary") in _BEGINNINGS]
    since = str((began or [status.get("currentState") or {}])[-1].get("lastTransitionTime", ""))
    try:
        return text, datetime.fromisoformat(since.replace("Z", "+00:00")) + timedelta(milliseconds=int(reset))
    except (ValueError, OverflowError):
        return text, None


def _template(spec: Mapping[str, Any], role: str) -> Mapping[str, Any]:
    part = (spec.get(f"{role}Spec") or {}).get("podTemplateSpec") or {}
    found: Mapping[str, Any] = part.get("spec") or {}
    return found


def _secrets_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """{Secret: where it is mounted} of a pod's spec, or of a template for one."""
    volumes = {each["name"]: str((each.get("secret") or {}).get("secretName", "")) for each in pod.get("volumes") or []}
    return {
        volumes.get(mount["name"], ""): str(mount.get("mountPath", ""))
        for container in pod.get("containers") or []
        for mount in container.get("volumeMounts") or []
    }


def _config_maps(spec: Mapping[str, Any]) -> set[str]:
    volumes = _template(spec, "driver").get("volumes") or []
    return {str((each.get("configMap") or {}).get("name", "")) for each in volumes}
