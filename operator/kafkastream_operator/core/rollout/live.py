"""A live change: the driver takes the revision up from its mounted document, and reports it. Pure."""

from __future__ import annotations

from datetime import datetime

from kafkastream_operator.core.application import Application, Refresh
from kafkastream_operator.core.conditions import rollout as conditions
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.rollout.in_force import takes_changes_live
from kafkastream_operator.core.rollout.step import Step, Timing, Wanted
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.subscription import Rollout, Strategy


def change_live(
    wanted: Wanted,
    strategy: Strategy,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    now: datetime,
    timing: Timing,
) -> Step:
    """Return the next step of a live change, or the condition that says why there can be none.

    The only effect is an annotation of the driver's pod, which makes the kubelet refresh the mounted document at once.
    A driver that never confirms leads to a condition, and never to a restart.
    """
    unmounted = wanted.secrets - application.mounts
    if unmounted:
        why = f"revision {wanted.revision.counter} needs the Secrets {', '.join(sorted(unmounted))} mounted"
        by_hand = f"with {conditions.mount_keys(unmounted)}"
        return Step(before, conditions.restart_required(why, strategy, application, by_hand))
    if (rejected := rejection(wanted, driver)) is not None:
        return Step(before, rejected)
    if driver is None or not driver.running:
        return Step(before, conditions.waits_for_driver(wanted.revision))
    if not takes_changes_live(driver) and (strategy == "Auto" or driver.report is not None):
        why = f"driver {driver.name} does not report that it can take revision {wanted.revision.counter} live"
        return Step(before, conditions.restart_required(why, strategy, application))
    under_way = conditions.rolling_out(wanted.revision, "live")
    if before.token != wanted.token or before.method != "Reload":
        began = Rollout(token=wanted.token, method="Reload", phase="Patched", at=stamp(now), attempts=1)
        return Step(began, under_way, Refresh(driver.name, wanted.token), again=now + timing.confirm_live)
    due = parse(before.at) + timing.confirm_live
    if now < due:
        return Step(before, under_way, again=due)
    return Step(before, conditions.not_confirmed(wanted.revision, driver, timing.confirm_live))


def rejection(wanted: Wanted, driver: Driver | None) -> Condition | None:
    """Return the condition if the running driver rejects the revision; None if it does not, or none runs."""
    rejected = driver.report.rejected if driver is not None and driver.running and driver.report is not None else None
    if rejected is None or rejected[0] != wanted.token:
        return None
    return conditions.rejected(wanted.revision, rejected[1])
