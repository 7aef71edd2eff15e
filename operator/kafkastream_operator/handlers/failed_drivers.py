"""Remember how the last failed driver of each application ended. Operator; `reconcile.py` uses it. Thread-safe.

Kubeflow's operator deletes a failed driver's pod within a second, which may be before the subscription is reconciled.
So each version of a pod is looked at when it enters the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkastream_operator.core.application import Application, FailedDriver
from kafkastream_operator.core.failure import Failure, driver_failure, failure_in
from kafkastream_operator.kube.api import PODS, Object
from kafkastream_operator.kube.cache import Ref
from kafkastream_operator.spark.kinds import Kind, application_named_in

DRIVER_CONTAINER = "spark-kubernetes-driver"
"""Spark's name for the driver's container, unless a pod template gives it another one."""


class _Ended(NamedTuple):
    """A failed pod without its spec, and the failure that it names."""

    metadata: Mapping[str, Any]
    failure: Failure


class FailedDrivers:
    """The last failed driver's pod of each application, also after the pod is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[tuple[str, str], _Ended] = {}

    def observe(self, ref: Ref, kube_object: Object) -> None:
        """Remember a driver's pod that has failed. One that is being deleted was ended by somebody, and counts not."""
        name = application_named_in(kube_object["metadata"].get("labels") or {}) if ref.resource == PODS else ""
        if not name or kube_object["metadata"].get("deletionTimestamp"):
            return
        ended = _ended(kube_object)
        if ended is not None:
            with self._lock:
                self._ended[ref.namespace, name] = ended

    def of(self, namespace: str, name: str, kind: Kind, application: Application | None) -> FailedDriver | None:
        """Return the last failed driver of an application; None if there is none of this very application."""
        with self._lock:
            ended = self._ended.get((namespace, name))
        if ended is None or application is None:
            return None
        submission = kind.submission_of(application, {"metadata": ended.metadata})
        return FailedDriver(str(ended.metadata["uid"]), submission, ended.failure) if submission else None


def _ended(pod: Object) -> _Ended | None:
    """Return how a driver's pod has failed; None if it has not.

    Where a sidecar keeps the pod running, the driver's own container decides.
    """
    status = pod.get("status") or {}
    whole = status.get("phase") == "Failed"
    failure = driver_failure(status, frozenset() if whole else frozenset({DRIVER_CONTAINER}))
    if not whole and failure is None:
        return None
    kept = {key: pod["metadata"].get(key) for key in ("name", "uid", "labels", "ownerReferences")}
    # An evicted pod has no container that has ended.
    reason = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return _Ended(kept, failure or failure_in(reason))
