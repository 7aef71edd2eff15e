"""Whether a revision is in force: by the token of a driver's pod, or by the driver's own report. Pure."""

from __future__ import annotations

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.drain_evidence import Driver, own_report
from kafkastream_operator.core.rollout.step import Wanted
from kafkastream_operator.models.subscription import Rollout, Strategy


def is_in_force(
    wanted: Wanted,
    before: Rollout,
    application: Application | None,
    driver: Driver | None,
    strategy: Strategy,
    *,
    promised: bool,
) -> bool:
    """Return whether the running driver has at least this revision, by its token or by its own report.

    A report does not always count:

    - It has to name this pod and this subscription.
    - It names no Secrets: a driver may use a revision while it waits for a cluster whose Secret is not mounted.
    - It shows no restart. Under `Restart`, a driver may take up a revision live while its patch is lost, or not made
      yet. There, only the report of a driver that was submitted since then counts, or of one that was promised to take
      the revision at its start.

    If the operator restarts a driver for the very revision that it was started for, only the next driver's token
    counts.
    """
    if before.token == wanted.token and before.phase == "Confirmed":
        return True
    if driver is None or not driver.running or not driver.owned:
        return False
    restarting = (before.token, before.method) == (wanted.token, "Restart")
    submitted_since = restarting and _is_submitted_since(before, application)
    lacks_secrets = application is not None and (
        (restarting and before.phase != "Failed") or not wanted.secrets <= application.mounts
    )
    report_counts = (strategy != "Restart" or promised or submitted_since) and not (wanted.secrets and lacks_secrets)
    token_counts = submitted_since or not restarting
    report = own_report(driver, wanted.subscription) if report_counts else None
    shown = [Revision.parse(driver.token) if token_counts else None, report.applied if report is not None else None]
    return any(revision is not None and revision.is_at_least(wanted.revision) for revision in shown)


def _is_submitted_since(before: Rollout, application: Application | None) -> bool:
    """Return whether the application was submitted again after its restart was begun, patched or given up."""
    if not before.submission or application is None:
        return True
    return application.submission not in ("", before.submission)


def mounts_are_gone(wanted: Wanted, before: Rollout, application: Application | None) -> bool:
    """Return whether Secrets are missing that a confirmed roll-out had mounted.

    Either the application was deleted and applied again, or somebody removed the patch after it was confirmed. The
    first document's Secrets do not count: its user mounts them.
    """
    done = (before.token, before.phase) == (wanted.token, "Confirmed") and before.method != "Adopt"
    return done and application is not None and not wanted.secrets <= application.mounts


def takes_changes_live(driver: Driver | None) -> bool:
    """Return whether the driver reports that it takes up a revision without a restart."""
    return driver is not None and driver.report is not None and "live" in driver.report.abilities
