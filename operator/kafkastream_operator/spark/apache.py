"""Read and patch Apache's SparkApplication (`spark.apache.org/v1`), in keys of `sparkConf` only. Pure.

Apache's operator reads the spec only when it creates a driver's pod, so a patch takes effect with the next attempt. If
the driver's pod is deleted, the attempt counts as failed. `restartConfig` decides whether another attempt follows; if
not, the application has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION
from kafkastream_operator.core.application import FAILED, Application, Life, Patch
from kafkastream_operator.core.failure import NO_FAILURE, Failure, driver_failure, failure_in
from kafkastream_operator.core.topic_integrity import TopicVerdict
from kafkastream_operator.spark.conf import (
    ATTEMPT_ANNOTATION,
    ROLES,
    apply_body,
    as_int,
    correctly_mounted,
    revision_conf,
    secrets_for,
)

NAME_LABEL = "spark.operator/spark-app-name"
"""The label of a driver's pod that names its application."""
_ANNOTATION = "spark.kubernetes.driver.annotation.{}"
_RESTARTS = "spec.applicationTolerations.restartConfig"
_ATTEMPTS = 3
"""The default of `maxRestartAttempts`."""
_ID_CHARACTERS, _HASH_CHARACTERS = 46, 36
"""The longest application id, and the length of the hash in an id that would be longer."""
_WAITING = "ScheduledToRestart"
_BEGINNINGS = ("Submitted", _WAITING)
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


def application_of(manifest: Mapping[str, Any]) -> Application:
    """Read a SparkApplication."""
    meta, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    conf = spec.get("sparkConf") or {}
    info = (status.get("currentAttemptSummary") or {}).get("attemptInfo") or {}
    attempt = as_int(info.get("id"))
    by_role = [correctly_mounted(secrets_for(role, conf) | _secrets_of(_template(spec, role))) for role in ROLES]
    restart_refusal, restart_allowed_at = _restarts(spec, status, info)
    life = _life(spec, status)
    return Application(
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        life=life,
        token=str(conf.get(_ANNOTATION.format(REVISION_ANNOTATION), "")),
        attempt=as_int(conf.get(_ANNOTATION.format(ATTEMPT_ANNOTATION))),
        submission=_submission(meta, attempt),
        mounts=by_role[0] & by_role[1],
        driver_pod=driver_pod(meta["namespace"], meta["name"], attempt, conf),
        generation=int(meta.get("generation", 0)),
        restarts_itself=False,
        restart_refusal=restart_refusal,
        restart_allowed_at=restart_allowed_at,
        failure=_failure(_last_state(status)) if life in FAILED else NO_FAILURE,
        runs_again=f"{_RESTARTS}.restartPolicy to OnFailure"
        if _restart_config(spec).get("restartPolicy") == "Always"
        else "",
        # The wait for the next attempt counts as that attempt already.
        failed_submission=_submission(meta, attempt - (_state(status) == _WAITING)) if life in FAILED else "",
        # Its pod may be gone.
        verdict=TopicVerdict.of(_driver_status(_last_state(status))) if life in FAILED else None,
    )


def is_driver(application: Application, pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is the driver of the current attempt: it has its name, and the application owns it."""
    owners = [owner_reference.get("uid") for owner_reference in pod["metadata"].get("ownerReferences") or []]
    return pod["metadata"]["name"] == application.driver_pod and application.uid in owners


def submission_of(application: Application, pod: Mapping[str, Any]) -> str:
    """Return the submission that a driver's pod was made for; "" if it is not the current one's."""
    return application.submission if is_driver(application, pod) else ""


def with_driver(application: Application, pod: Mapping[str, Any]) -> Application:
    """Return the application with only the Secrets that its driver mounts: the spec may already be for the next one."""
    return replace(application, mounts=application.mounts & correctly_mounted(_secrets_of(pod.get("spec") or {})))


def patch_body(manifest: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """Return the body of the server-side apply that makes a patch."""
    conf = revision_conf(patch.token, patch.secrets)
    conf[_ANNOTATION.format(REVISION_ANNOTATION)] = patch.token
    conf[_ANNOTATION.format(ATTEMPT_ANNOTATION)] = str(patch.attempt)
    return apply_body(manifest, patch, {"sparkConf": conf})


def driver_pod(namespace: str, name: str, attempt: int, conf: Mapping[str, Any]) -> str:
    """Return the name of the driver's pod of an attempt, built as Apache's operator and Spark build it.

    The status does not contain the name.
    """
    known = f"{name}-{attempt}"
    if len(known) > _ID_CHARACTERS:
        digest = hashlib.sha256(f"{namespace}/{name}/{attempt}".encode()).digest()
        head = known[: _ID_CHARACTERS - _HASH_CHARACTERS - 1]
        known = f"{head}-{_base36(int.from_bytes(digest, 'big', signed=False))[:_HASH_CHARACTERS]}"
    known = str(conf.get("spark.app.id", known))
    return str(conf.get("spark.kubernetes.driver.pod.name", f"{known}-driver"))


def _submission(meta: Mapping[str, Any], attempt: int) -> str:
    """Return the id of an attempt. The attempts of an application that was deleted and applied again count from 0."""
    return f"{meta['uid']}/attempt-{attempt}"


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, rest = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def _life(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Life:
    """Return the application's state.

    After a failed attempt, `restartPolicy` decides between the next attempt and an ending, which follows at once. The
    next attempt then waits as `ScheduledToRestart`.
    """
    state = _state(status)
    if state == _WAITING:
        before = str(_last_state(status).get("currentStateSummary", ""))
        return "Failing" if _LIVES.get(before) == "Failed" else "Starting"
    life = _LIVES.get(state, "Starting")
    over = str((status.get("currentState") or {}).get("currentStateSummary", "")) != state
    tried_again = not over and _restart_config(spec).get("restartPolicy", "Never") != "Never"
    return "Failing" if life == "Failed" and tried_again else life


def _state(status: Mapping[str, Any]) -> str:
    """Return the application's state; if it has ended for good, the state in which it ended."""
    current = str((status.get("currentState") or {}).get("currentStateSummary", ""))
    if current not in _ENDINGS:
        return current
    before = [state for state in _history(status) if state.get("currentStateSummary") not in _ENDINGS]
    last = str(before[-1].get("currentStateSummary", "")) if before else ""
    return last if _LIVES.get(last) == "Completed" else "Failed"


def _last_state(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the last state of the last attempt that has begun; the history may begin anew with each attempt."""
    histories = _history(status.get("previousAttemptSummary") or {}), _history(status)
    states = [*histories[0], *histories[1], status.get("currentState") or {}]
    later = ("", *_ENDINGS, _WAITING)
    return next((state for state in reversed(states) if state.get("currentStateSummary", "") not in later), {})


def _driver_status(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of the driver's pod that a state has kept."""
    pod_status: Mapping[str, Any] = state.get("lastObservedDriverStatus") or {}
    return pod_status


def _failure(state: Mapping[str, Any]) -> Failure:
    """Return the failure in a state: that of the driver's containers, else its own words."""
    return driver_failure(_driver_status(state)) or failure_in(str(state.get("message") or ""))


def _restart_config(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    config: Mapping[str, Any] = (spec.get("applicationTolerations") or {}).get("restartConfig") or {}
    return config


def _history(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the states so far, in order. The status has them as a map by number."""
    by_number = status.get("stateTransitionHistory") or {}
    return [by_number[key] for key in sorted(by_number, key=as_int)]


def _restarts(
    spec: Mapping[str, Any], status: Mapping[str, Any], info: Mapping[str, Any]
) -> tuple[str, datetime | None]:
    """Return why the application would not start again after its driver is deleted, and when that ends by itself.

    The operator leaves one attempt for an unplanned failure.
    """
    config = _restart_config(spec)
    if config.get("restartPolicy", "Never") != "Always":
        # Under OnFailure, a driver that stops in order may count as succeeded: its exit code races with the pod's end.
        return f"set {_RESTARTS}.restartPolicy to Always, or restart it by hand (delete and apply)", None
    limits = [(as_int(info.get("restartCounter")), config.get("maxRestartAttempts", _ATTEMPTS), "maxRestartAttempts")]
    if config.get("maxRestartOnFailure") is not None:
        limits.append((as_int(info.get("failureRestartCounter")), config["maxRestartOnFailure"], "maxRestartOnFailure"))
    spent = [(count, limit, name) for count, limit, name in limits if count + 1 >= as_int(limit)]
    if not spent:
        return "", None
    _, limit, name = spent[0]
    text = f"{_RESTARTS}.{name} is {limit}, and one attempt is kept for a failure: raise it"
    text += ", or set restartCounterResetMillis"
    reset = config.get("restartCounterResetMillis", -1)
    if reset is None or int(reset) < 0 or as_int(config.get("maxRestartAttempts", _ATTEMPTS)) < 2:
        return text, None
    began = [state for state in _history(status) if state.get("currentStateSummary") in _BEGINNINGS]
    since = str((began or [status.get("currentState") or {}])[-1].get("lastTransitionTime", ""))
    try:
        return text, datetime.fromisoformat(since.replace("Z", "+00:00")) + timedelta(milliseconds=int(reset))
    except (ValueError, OverflowError):
        return text, None


def _template(spec: Mapping[str, Any], role: str) -> Mapping[str, Any]:
    part = (spec.get(f"{role}Spec") or {}).get("podTemplateSpec") or {}
    pod_spec: Mapping[str, Any] = part.get("spec") or {}
    return pod_spec


def _secrets_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return {Secret: mount path} of a pod's spec, or of a pod template's."""
    volumes = {
        volume["name"]: str((volume.get("secret") or {}).get("secretName", "")) for volume in pod.get("volumes") or []
    }
    return {
        volumes.get(mount["name"], ""): str(mount.get("mountPath", ""))
        for container in pod.get("containers") or []
        for mount in container.get("volumeMounts") or []
    }
