"""The kinds of SparkApplication that the operator serves, each with its module. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kafkastream_operator.core.application import Application, Patch
from kafkastream_operator.models.subscription import APACHE, KUBEFLOW
from kafkastream_operator.spark import apache, kubeflow


class Kind(Protocol):
    """The functions of a module for one kind of SparkApplication."""

    @property
    def NAME_LABEL(self) -> str:
        """The label of a driver's pod that names its application."""

    def application_of(self, manifest: Mapping[str, Any]) -> Application:
        """Read a SparkApplication."""

    def is_driver(self, application: Application, pod: Mapping[str, Any]) -> bool:
        """Return whether a pod is the one that the application's status names."""

    def submission_of(self, application: Application, pod: Mapping[str, Any]) -> str:
        """Return the submission that a driver's pod was made for; "" if it is not the application's."""

    def with_driver(self, application: Application, pod: Mapping[str, Any]) -> Application:
        """Return the application, corrected by what the pod of its running driver shows."""

    def patch_body(self, manifest: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
        """Return the body of the server-side apply that makes a patch."""


KINDS: Mapping[str, Kind] = {KUBEFLOW: kubeflow, APACHE: apache}
"""The modules by `apiVersion`."""
LABELS = tuple(kind.NAME_LABEL for kind in KINDS.values())


def application_named_in(labels: Mapping[str, Any]) -> str:
    """Return the application that the labels of a driver's pod name; "" if they name none."""
    return next((str(labels[label]) for label in LABELS if label in labels), "")
