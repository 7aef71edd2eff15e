"""The driver's pods: count them, kill them, and explain each start.

Kubeflow's operator submits the pods. A restart for a change shows its revision in the new pod's annotation; the demo
itself notes which pods it has killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.settings import APPLICATION
from dynamic_kafka.contract.kubernetes_names import REVISION_ANNOTATION
from tests.support.kube import LocalNode

POD = f"{APPLICATION}-driver"
COMPLETED = "COMPLETED"
"""The state of an application whose driver has ended with exit code 0, by Kubeflow's operator."""


class DriverError(Exception):
    """The application has ended, although the story needs it."""


@dataclass(frozen=True)
class DriverPod:
    """One driver's pod.

    Attributes:
        revision: the revision that the driver was restarted for; empty if it was not restarted for one.
        killed: whether the demo killed it.
    """

    uid: str
    revision: str
    killed: bool


@dataclass(frozen=True)
class Starts:
    """The reasons for all starts of the driver but the first.

    Attributes:
        for_changes: the revisions that it was restarted for.
        after_kills: number of starts after a kill.
        unexplained: number of starts without a reason.
    """

    for_changes: Sequence[str]
    after_kills: int
    unexplained: int

    @property
    def restarts_for_changes(self) -> int:
        """Return the starts that no kill explains: 0 if every change was live."""
        return len(self.for_changes) + self.unexplained


def explain_starts(pods: Iterable[DriverPod]) -> Starts:
    """Return the reasons for all pods but the first."""
    for_changes, after_kills, unexplained = [], 0, 0
    for before, after in pairwise(pods):
        if after.revision != before.revision:
            for_changes.append(after.revision)
        elif before.killed:
            after_kills += 1
        else:
            unexplained += 1
    return Starts(for_changes, after_kills, unexplained)


class Driver:
    """The driver of the application: one pod after another on the demo's node.

    Attributes:
        may_complete: whether the application may end by itself now.
    """

    def __init__(self, node: Callable[[], LocalNode], state: Callable[[], str]) -> None:
        """Watch the pods of `node`; `state` returns the application's state by Kubeflow's operator."""
        self._node, self._state = node, state
        self._killed: set[str] = set()
        self.may_complete = False

    @property
    def kills(self) -> int:
        """Return how many pods the demo has killed."""
        return len(self._killed)

    @property
    def pods(self) -> list[DriverPod]:
        """Return all pods so far."""
        return [driver_pod(pod, self._killed) for pod in list(self._node().started)]

    @property
    def pid(self) -> int | None:
        """Return the process id of the running driver, or None."""
        try:
            return self._node().pid(POD)
        except KeyError:
            return None

    def check(self) -> None:
        """Raise DriverError with the end of the log if the application has failed, or has ended too early."""
        state = self._state()
        if state == "FAILED" or (state == COMPLETED and not self.may_complete):
            raise DriverError(f"the application is {state}; log of its driver: {self.log}\n{self.log_tail()}")

    def kill(self) -> int:
        """Send SIGKILL to all processes of the driver; return their number when all are gone."""
        pod = next(started_pod for started_pod in reversed(self._node().started))
        processes = self._node().kill(POD)
        self._killed.add(pod["metadata"]["uid"])
        return processes

    @property
    def log(self) -> Path:
        """Return the folder with the pods' output."""
        return self._node().folder

    def ended_in_order(self) -> bool:
        """Return whether the last pod has logged an orderly end."""
        return "ended with exit code 0" in self.log_tail()

    def log_tail(self, lines: int = 30) -> str:
        """Return the last lines of the log."""
        return "\n".join(self._node().output(POD).splitlines()[-lines:])


def driver_pod(pod: Mapping[str, Any], killed: Iterable[str]) -> DriverPod:
    """Return a pod's reason to start; `killed` has the UIDs of the pods that the demo has killed."""
    metadata = pod["metadata"]
    return DriverPod(
        metadata["uid"], (metadata.get("annotations") or {}).get(REVISION_ANNOTATION, ""), metadata["uid"] in killed
    )
