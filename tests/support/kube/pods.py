"""The status that a kubelet writes into a pod, for tests that drive pods by hand and for `local_node.py`."""

from __future__ import annotations

import datetime
from typing import Any, Literal

from tests.support.kube.api import Api, Json

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
PODS = "v1/pods"


def set_phase(
    api: Api,
    pod: Json,
    phase: Phase,
    *,
    exit_code: int | None = None,
    reason: str = "",
    message: str = "",
    written: str = "",
) -> Json:
    """Write the status of `pod` as a kubelet does when all its containers are in that phase.

    Args:
        pod: as last read; its name, namespace and containers count.
        exit_code: of a container that has ended; 0 for Succeeded and 1 for Failed by default.
        reason: why the pod failed, such as `Evicted`.
        message: the same in a sentence.
        written: the text of the containers' termination logs.
    """
    now = timestamp()
    ready = "True" if phase == "Running" else "False"
    types = {"PodScheduled": "True", "Initialized": "True", "Ready": ready, "ContainersReady": ready}
    state = _container_state(phase, exit_code, now, pod)
    if written:
        state["terminated"]["message"] = written
    status: Json = {
        "phase": phase,
        "startTime": pod.get("status", {}).get("startTime", now),
        "conditions": [{"type": kind, "status": status, "lastTransitionTime": now} for kind, status in types.items()],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": phase == "Running",
                "started": phase == "Running",
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ],
    }
    if phase == "Running":
        status |= {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "hostIP": "127.0.0.1"}
    if reason:
        status |= {"reason": reason, "message": message}
    metadata = pod["metadata"]
    # The uid, so that a pod of the same name that came later is not taken for this one.
    patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
    return api.patch(PODS, metadata["name"], metadata["namespace"], patch, subresource="status")


def timestamp() -> str:
    """Now, as Kubernetes writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container_state(phase: Phase, exit_code: int | None, now: str, pod: Json) -> dict[str, Any]:
    if phase == "Pending":
        return {"waiting": {"reason": "ContainerCreating"}}
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    started = statuses[0].get("state", {}).get("running", {}).get("startedAt", now)
    if phase == "Running":
        return {"running": {"startedAt": started}}
    code = exit_code if exit_code is not None else int(phase == "Failed")
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}
