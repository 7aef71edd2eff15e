"""Whether a revision is in force: by the token of a driver's pod, or by the driver's own report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.models.subscription import Rollout, Strategy


@dataclass(frozen=True)
class Wanted:
    """What should be in force: a revision, and the Secrets that it needs mounted."""

    revision: Revision
    secrets: frozenset[str]

    @property
    def token(self) -> str:
        """The revision as annotations have it."""
        return self.revision.token


def is_in_force(
    wanted: Wanted,
    before: Rollout,
    application: Application | None,
    driver: Driver | None,
    strategy: Strategy,
    *,
    promised: bool,
) -> bool:
    """Whether the running driver has at least this revision, by its token or by its own report.

    A report does not tell of Secrets: a driver may go by a revision, and wait for the cluster whose Secret it lacks.
    Nor does it tell of a restart: under `Restart`, a driver that takes the revision up live while its patch is lost, or
    has yet to be made, confirms nothing. One that was submitted since does, and one that was promised to take it. And
    a restart for the very revision that a driver was started for is confirmed by its successor only.
    """
    if before.token == wanted.token and before.phase == "Confirmed":
        return True
    if driver is None or not driver.running or not driver.owned:
        return False
    restarting = (before.token, before.method) == (wanted.token, "Restart")
    since = restarting and _is_submitted_since(before, application)
    lacks = application is not None and (
        (restarting and before.phase != "Failed") or not wanted.secrets <= application.mounts
    )
    told = (strategy != "Restart" or promised or since) and not (wanted.secrets and lacks)
    applied = driver.report.applied if driver.report is not None and driver.report.pod == driver.uid else None
    seen = [Revision.parse(driver.token) if since or not restarting else None, applied if told else None]
    return any(each is not None and each.is_at_least(wanted.revision) for each in seen)


def _is_submitted_since(before: Rollout, application: Application | None) -> bool:
    """Whether the application was submitted anew since its restart was begun, patched or given up, by whomever."""
    if not before.submission or application is None:
        return True
    return application.submission not in ("", before.submission)


def mounts_are_gone(wanted: Wanted, before: Rollout, application: Application | None) -> bool:
    """Whether Secrets that were mounted are so no more: the application was deleted and applied again, or somebody took
    the patch back after it was confirmed. What the first document needs mounted is the user's to mount."""
    done = (before.token, before.phase) == (wanted.token, "Confirmed") and before.method != "Adopt"
    return done and application is not None and not wanted.secrets <= application.mounts


def is_able(driver: Driver | None) -> bool:
    """Whether the driver says that it takes a revision up live."""
    return driver is not None and driver.report is not None and "live" in driver.report.abilities
