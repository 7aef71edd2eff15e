"""The driver over its lives: each is a pod that Kubeflow's operator has submitted. Killed as a crash would; counted.

Nobody here starts it. What a life was for is read off its pod: the operator's patch gives a restart's revision to the
new driver, and a kill is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from demo.settings import APPLICATION
from dynamic_kafka.metadata.kubernetes_names import REVISION_ANNOTATION
from tests.support.kube import LocalNode

POD = f"{APPLICATION}-driver"


class DriverError(Exception):
    """The driver ended though nobody asked it to, or not as it was asked to."""


@dataclass(frozen=True)
class Life:
    """One driver's pod.

    Attributes:
        revision: that it was restarted for; "" in the first, and as long as no change takes a restart.
        killed: whether our kill ended it.
    """

    uid: str
    revision: str
    killed: bool


@dataclass(frozen=True)
class Starts:
    """Why the driver was started after its first time.

    Attributes:
        for_changes: the revisions that it was restarted for.
        after_kills: how many starts a kill explains.
        unexplained: how many nothing explains.
    """

    for_changes: Sequence[str]
    after_kills: int
    unexplained: int

    @property
    def restarts_for_changes(self) -> int:
        """Starts that no kill explains: 0 when every change was taken live."""
        return len(self.for_changes) + self.unexplained


def explain(lives: Iterable[Life]) -> Starts:
    """Why each life but the first began."""
    for_changes, after_kills, unexplained = [], 0, 0
    for before, after in pairwise(lives):
        if after.revision != before.revision:
            for_changes.append(after.revision)
        elif before.killed:
            after_kills += 1
        else:
            unexplained += 1
    return Starts(for_changes, after_kills, unexplained)


class Driver:
    """The pods of the application on a node.

    Attributes:
        kills: how many lives our `kill` ended.
    """

    def __init__(self, node: Callable[[], LocalNode], state: Callable[[], str]) -> None:
        """`state` is what Kubeflow's operator says of the application."""
        self._node, self._state = node, state
        self._killed: set[str] = set()

    @property
    def kills(self) -> int:
        """How many lives ended by our kill."""
        return len(self._killed)

    @property
    def lives(self) -> list[Life]:
        """All so far."""
        return [life(pod, self._killed) for pod in list(self._node().started)]

    @property
    def pid(self) -> int | None:
        """Of its process, if it has one now."""
        try:
            return self._node().pid(POD)
        except KeyError:
            return None

    def check(self) -> None:
        """Raises `DriverError` with the end of its log when Kubeflow's operator has given it up."""
        state = self._state()
        if state in ("COMPLETED", "FAILED"):
            raise DriverError(f"the application is {state}; log of its driver: {self.log}\n{self.last_words()}")

    def kill(self) -> int:
        """kill -9 to everything it consists of; returns how many processes, once all are gone."""
        pod = next(each for each in reversed(self._node().started))
        processes = self._node().kill(POD)
        self._killed.add(pod["metadata"]["uid"])
        return processes

    @property
    def log(self) -> Path:
        """The folder with what its lives have printed."""
        return self._node().folder

    def ended_in_order(self) -> bool:
        """Whether the last life has said that it ends as it was asked to."""
        return "ended with exit code 0" in self.last_words()

    def last_words(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self._node().output(POD).splitlines()[-lines:])


def life(pod: Mapping[str, Any], killed: Iterable[str]) -> Life:
    """A pod as a life of the driver; `killed` are the UIDs of those that we killed."""
    metadata = pod["metadata"]
    return Life(
        metadata["uid"], (metadata.get("annotations") or {}).get(REVISION_ANNOTATION, ""), metadata["uid"] in killed
    )
