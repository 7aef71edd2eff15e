"""A restart by a patch of the application's spec, confirmed by the token on the next driver's pod. Pure.

The operator makes a patch that was lost again (the Spark operator was down), and gives up after `MAX_ATTEMPTS`. It also
makes a patch again that somebody removed, and gives up after `MAX_REVERSIONS`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkastream_operator.core.application import Application, Patch, Pod
from kafkastream_operator.core.conditions import rollout as conditions
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.rollout.budget import Turn, is_unrecorded
from kafkastream_operator.core.rollout.step import Step, Timing, Wanted
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.models.subscription import Rollout

MAX_ATTEMPTS = 5
LOOK_AGAIN = timedelta(seconds=5)
"""A waiting restart is reconciled again after this time for each place in the order, and when its turn comes."""


def restart(
    wanted: Wanted,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    now: datetime,
    restarted_at: datetime | None,
    turn: Turn | None,
    timing: Timing,
) -> Step:
    """Return the next step of a restart: begin it, make its patch, or wait for the driver.

    Args:
        restarted_at: when the operator last restarted the application.
        turn: its place in the order of the restarts; None if no budget holds for it.
    """
    begun = before.token == wanted.token and before.method == "Restart"
    if begun and before.phase == "Patched":
        return _await_driver(wanted, before, application, now=now, timing=timing)
    if application.refuses_restart(now):
        refused = conditions.restart_refused(wanted.revision, application)
        return Step(before, refused, again=application.restart_allowed_at)
    if not begun and is_unrecorded(before, application):
        made_at = min(now, parse(before.at) + timing.gather)
        restarted_at = max(made_at, restarted_at or made_at)
    earliest = restarted_at + timing.between_restarts if restarted_at is not None else now
    if begun:
        return _patch(wanted, before, application, driver, now=now, earliest=earliest, turn=turn, timing=timing)
    if now < earliest:
        return Step(before, conditions.coalescing(None, wanted.revision, timing.between_restarts), again=earliest)
    return _begin(wanted, before, application, driver, now=now, timing=timing)


def mount_again(wanted: Wanted, before: Rollout, application: Application, now: datetime) -> Step:
    """Return the step that mounts Secrets again that a confirmed restart had mounted and the application lacks now."""
    # The spec names the attempt of the last patch. The next patch has to differ from it.
    attempts = application.attempt if application.token == wanted.token else 0
    begun = before.model_copy(
        update={"method": "Restart", "attempts": attempts, "submission": application.submission, "problem": ""}
    )
    if application.generation > 1 or application.token:
        return _reverted(begun, now)
    # The application was deleted and applied again from its manifest, so nobody has removed the patch on purpose.
    again = begun.model_copy(update={"phase": "Pending", "at": stamp(now)})
    return Step(again, conditions.rolling_out(wanted.revision, "by a restart"), again=now)


def _begin(
    wanted: Wanted, before: Rollout, application: Application, driver: Driver | None, *, now: datetime, timing: Timing
) -> Step:
    # If an earlier change is still gathered, one restart brings both, and it is no later because of this change.
    gathering = before.method == "Restart" and before.phase == "Pending" and not before.attempts
    began = Rollout(
        token=wanted.token,
        method="Restart",
        phase="Pending",
        at=before.at if gathering and not before.reverted else stamp(now),
        submission=_submission(application, driver),
    )
    again = max(now, _gathered_at(began, timing))
    return Step(began, conditions.rolling_out(wanted.revision, "by a restart"), again=again)


def _patch(
    wanted: Wanted,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    now: datetime,
    earliest: datetime,
    turn: Turn | None,
    timing: Timing,
) -> Step:
    under_way = conditions.rolling_out(wanted.revision, "by a restart")
    attempt = before.attempts + 1
    pod_to_delete = _pod_to_delete(application, driver)
    submission = _submission(application, driver)
    update = {"phase": "Patched", "at": stamp(now), "attempts": attempt, "submission": submission}
    done = before.model_copy(update=update)
    if (application.token, application.attempt) == (wanted.token, attempt) and pod_to_delete is None:
        # An operator made this patch and died. Every submission since then is an effect of the patch.
        done = done.model_copy(update={"submission": before.submission})
        return Step(done, under_way, again=now + timing.confirm, restarted=True)
    if now < (gathered := _gathered_at(before, timing)):
        return Step(before, under_way, again=gathered)
    if now < earliest:
        # This patch was made before, and was lost or removed. Removing it at once does not bring the next one sooner.
        apart = conditions.coalescing(before, wanted.revision, timing.between_restarts)
        return Step(before, apart, again=earliest)
    if turn is not None and turn.hindrance:
        return Step(before, conditions.awaits_turn(wanted.revision, turn), again=now + LOOK_AGAIN * turn.place)
    patch = Patch(wanted.token, wanted.secrets, attempt, application.resource_version, pod_to_delete)
    return Step(before, under_way, patch, done, now + timing.confirm, restarted=True)


def _await_driver(wanted: Wanted, before: Rollout, application: Application, *, now: datetime, timing: Timing) -> Step:
    if application.token != wanted.token:
        return _reverted(before, now)
    due = parse(before.at) + timing.confirm
    if now < due:
        return Step(before, conditions.rolling_out(wanted.revision, "by a restart"), again=due)
    if application.submission != before.submission and application.life in ("Starting", "Failing"):
        # The patch was not lost: the application is submitted, and waits for quota, an image or an executor.
        return Step(before, conditions.starting(wanted.revision), again=now + timing.confirm)
    if before.attempts >= MAX_ATTEMPTS:
        failed = before.model_copy(update={"phase": "Failed", "at": stamp(now)})
        return Step(failed, conditions.given_up(failed))
    again = before.model_copy(update={"phase": "Pending", "at": stamp(now)})
    return Step(again, conditions.rolling_out(wanted.revision, "by a restart, again"), again=now)


def _gathered_at(before: Rollout, timing: Timing) -> datetime:
    """Return when the first patch for a revision may be made: until then it waits for more changes to bring."""
    begun = before.attempts or before.reverted
    return parse(before.at) + (timedelta() if begun else timing.gather)


def _submission(application: Application, driver: Driver | None) -> str:
    """Return the submission whose driver has the spec from before the patch; "" if every new driver has the patch.

    Where a patch submits nothing (Apache's), an attempt without a driver's pod yet gets one from the patched spec.
    """
    has_driver = driver is not None and driver.owned
    return application.submission if application.restarts_itself or has_driver else ""


def _pod_to_delete(application: Application, driver: Driver | None) -> Pod | None:
    """Return the running driver's pod, where the application does not restart by itself and so keeps its old spec."""
    if application.restarts_itself or driver is None or not (driver.running and driver.owned):
        return None
    return Pod(driver.name, driver.uid)


def _reverted(before: Rollout, now: datetime) -> Step:
    """Patch again after somebody removed the patch, such as a GitOps tool that applies the manifest from Git."""
    count = before.reverted + 1
    if count >= conditions.MAX_REVERSIONS:
        failed = before.model_copy(update={"phase": "Failed", "at": stamp(now), "reverted": count})
        return Step(failed, conditions.given_up(failed))
    again = before.model_copy(update={"phase": "Pending", "at": stamp(now), "reverted": count})
    return Step(again, conditions.reverted(again), again=now)
