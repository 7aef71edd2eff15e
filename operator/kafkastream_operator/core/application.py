"""A SparkApplication of Kubeflow's or Apache's operator, and the operator's effects on it. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from kafkastream_operator.core.failure import NO_FAILURE, Failure
from kafkastream_operator.core.topic_integrity import TopicVerdict

Life = Literal["Running", "Starting", "Failing", "Suspended", "Completed", "Failed", "Absent"]
ALIVE: frozenset[Life] = frozenset({"Running", "Starting", "Failing"})
"""The states in which a driver runs, or its Spark operator starts the next one by itself."""
SHOULD_RUN: frozenset[str] = ALIVE | {"Failed", "TopicIntegrity"}
"""The reasons of `ApplicationFound` for an application that nobody has stopped."""
FAILED: frozenset[Life] = frozenset({"Failing", "Failed"})
"""The states after a failure, until the next attempt begins."""


@dataclass(frozen=True)
class Application:
    """A SparkApplication of either Spark operator.

    Attributes:
        life: its state; `Starting` is everything between submission and a running driver, and `Failing` a failure after
            which its Spark operator tries again.
        token: the revision that its spec names.
        attempt: the number of the patch that named it.
        submission: an id that changes with each submission.
        mounts: the Secrets that are mounted for driver and executors, by the operator or the user.
        driver_pod: the name of the driver's pod, from its status.
        restarts_itself: a change of its spec restarts it (Kubeflow's). If not (Apache's), it reads its spec at the next
            start only: a restart takes the deletion of its driver, and only `updateStrategy: Restart` makes one.
        restart_refusal: why it would not start again after its driver ended, with a remedy; "" if it would.
        restart_allowed_at: from when on it would start again, if `restart_refusal` ends by itself.
        verdict: why its driver has ended for good, if its status has that (Apache's) and a topic is the reason.
        failure: the failure in its status; an empty one if it has not failed, or names none.
        runs_again: the change of its spec without which its Spark operator runs it again after it has completed; ""
            if it does not.
        failed_submission: the submission that has failed, until the next attempt begins; "" if none has.
    """

    uid: str
    resource_version: str
    life: Life
    token: str = ""
    attempt: int = 0
    submission: str = ""
    mounts: frozenset[str] = frozenset()
    driver_pod: str = ""
    generation: int = 0
    restarts_itself: bool = True
    restart_refusal: str = ""
    restart_allowed_at: datetime | None = None
    failure: Failure = NO_FAILURE
    verdict: TopicVerdict | None = None
    failed_submission: str = ""
    runs_again: str = ""

    def refuses_restart(self, now: datetime) -> bool:
        """Return whether the application would end for good if its driver ended now."""
        return bool(self.restart_refusal) and (self.restart_allowed_at is None or now < self.restart_allowed_at)


class Pod(NamedTuple):
    """A pod by name and UID, so that a later pod of the same name is not mistaken for it."""

    name: str
    uid: str


class FailedDriver(NamedTuple):
    """A driver's pod that has failed, and maybe exists no more.

    Attributes:
        submission: the submission of the application that it was made for.
        failure: an empty one if the pod names none.
    """

    uid: str
    submission: str
    failure: Failure


@dataclass(frozen=True)
class Patch:
    """A patch of the application: the token, and the Secrets to mount.

    Attributes:
        attempt: a number that makes every patch a change of the spec. If a patch was lost, the spec already has its
            content, and the same patch again would restart nothing.
        expected: the application's resourceVersion; the patch is refused if the application has changed since.
        pod_to_delete: the driver's pod, deleted after the patch if the application does not restart by itself.
    """

    token: str
    secrets: frozenset[str]
    attempt: int
    expected: str
    pod_to_delete: Pod | None = None


@dataclass(frozen=True)
class Refresh:
    """A new value of the driver pod's annotation, which makes the kubelet refresh the pod's volumes at once."""

    pod: str
    token: str
