"""The kinds of SparkApplication that are served, each by a module that knows what is particular to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kafkastream_operator.core.application import Application, Patch
from kafkastream_operator.models.subscription import APACHE, KUBEFLOW
from kafkastream_operator.spark import apache, kubeflow


class Kind(Protocol):
    """What a module has to know of its SparkApplications."""

    @property
    def NAME_LABEL(self) -> str:
        """On a driver's pod: the application that it belongs to."""

    def application_of(self, found: Mapping[str, Any], config_map: str) -> Application:
        """What counts of a SparkApplication. `config_map` is the name of its document."""

    def is_driver(self, application: Application, pod: Mapping[str, Any]) -> bool:
        """Whether a pod is the one that the application's status speaks of."""

    def running(self, application: Application, pod: Mapping[str, Any]) -> Application:
        """The application with what the pod of its running driver shows of it."""

    def patched(self, found: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
        """What to apply for a patch: map keys, and the object that they are meant for."""


KINDS: Mapping[str, Kind] = {KUBEFLOW: kubeflow, APACHE: apache}
"""By `apiVersion`."""
LABELS = tuple(kind.NAME_LABEL for kind in KINDS.values())


def application_named_by(labels: Mapping[str, Any]) -> str:
    """The name of the application that a driver's pod belongs to by its labels; "" if they name none."""
    return next((str(labels[label]) for label in LABELS if label in labels), "")
