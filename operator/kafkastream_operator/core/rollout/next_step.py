"""The state machine of a roll-out: one step at a time, decided from what the operator sees. Pure.

`core.decide` calls it. The token goes into the status before the patch. A restart is done when a driver's pod shows the
token; a live change is done when the driver reports the revision. The operator does nothing to an application that
does not run: it takes the newest document when it starts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from kafkastream_operator.core.application import ALIVE, Application
from kafkastream_operator.core.conditions import rollout as conditions
from kafkastream_operator.core.drain_evidence import Driver, has_applied, time_left_to_report
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.rollout.in_force import is_in_force, mounts_are_gone, takes_changes_live
from kafkastream_operator.core.rollout.live import change_live, rejection
from kafkastream_operator.core.rollout.restart import mount_again, restart
from kafkastream_operator.core.rollout.step import DEFAULT_TIMING, Step, Timing, Wanted
from kafkastream_operator.core.starter import BY_OPERATOR, Starter
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.subscription import Rollout, Strategy


def next_step(
    wanted: Wanted,
    strategy: Strategy,
    before: Rollout | None,
    application: Application | None,
    driver: Driver | None,
    *,
    now: datetime,
    restarted_at: datetime | None,
    paused: str = "",
    tries_again: bool = False,
    promised: bool = False,
    starter: Starter = "SparkOperator",
    turn: Turn | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> Step:
    """Return the next step of rolling `wanted` out.

    Args:
        before: the roll-out as the status has it; None if nothing was ever rolled out.
        restarted_at: when the operator last restarted the application.
        paused: why nothing may be rolled out; "" if it may.
        tries_again: if the operator had given up, it tries again: the subscription's spec has changed since the last
            reconciliation, or a user asks for it.
        promised: the last condition said that the next driver takes the newest revision when it starts.
        starter: what starts the next driver.
        turn: the place of the restart in the order of all; None if no budget holds for it.
    """
    if before is None:
        first = Rollout(token=wanted.token, method="Adopt", phase="Confirmed", at=stamp(now))
        return _confirmed(wanted, first, driver, now)
    gone = mounts_are_gone(wanted, before, application)
    if not gone and is_in_force(wanted, before, application, driver, strategy, promised=promised):
        return _confirmed(wanted, before, driver, now)
    hindered = _hindered(wanted, before, application, driver, paused=paused, starter=starter)
    if application is None or hindered is not None:
        return Step(before, hindered or conditions.not_running(wanted.revision, application))
    if before.phase == "Failed" and before.token == wanted.token:
        tried = (before.generation, before.submission)
        application_changed = before.problem and tried != (application.generation, application.submission)
        if not (application_changed or tries_again):
            return Step(before, conditions.given_up(before))
        # The change may have removed the obstacle. Or the user has removed it, or has chosen another strategy.
        before = Rollout(
            token=wanted.token,
            method="Restart",
            phase="Pending",
            at=stamp(now),
            submission=application.submission,
        )
        if strategy != "Reload":
            return Step(before, conditions.rolling_out(wanted.revision, "by a restart"), again=now)
    if starter == "Operator":
        # A change of its spec is what makes Kubeflow's operator run it again.
        return restart(
            wanted, before, application, driver, now=now, restarted_at=restarted_at, turn=turn, timing=timing
        )
    time_left = time_left_to_report(driver, timing.confirm_live)
    method = _method(strategy, wanted, before, application, driver, may_still_report=time_left is not None)
    begun = (before.token, before.method) == (wanted.token, "Restart") and before.phase != "Pending"
    if method == "Restart" and promised and not begun and wanted.secrets <= application.mounts:
        # A patch now would start the application twice.
        if driver is None or not driver.running:
            return Step(before, conditions.waits_for_starting_driver(wanted.revision))
        method = "Wait" if time_left is not None else method
    if method == "Wait":
        assert driver is not None
        again = now + (time_left or timedelta())
        return Step(before, conditions.waits_for_report(wanted.revision, driver), again=again)
    if method == "Reload":
        return change_live(wanted, strategy, before, application, driver, now=now, timing=timing)
    if gone:
        return mount_again(wanted, before, application, now)
    return restart(wanted, before, application, driver, now=now, restarted_at=restarted_at, turn=turn, timing=timing)


def _hindered(
    wanted: Wanted,
    before: Rollout,
    application: Application | None,
    driver: Driver | None,
    *,
    paused: str,
    starter: Starter,
) -> Condition | None:
    """Return why nothing is rolled out now; None if nothing stands in the way.

    A pause does not hide that the driver rejects a live change: the document has it, and would stop the next driver.
    """
    if application is None or (application.life not in ALIVE and starter not in BY_OPERATOR):
        return conditions.not_running(wanted.revision, application)
    if paused:
        changing = (before.token, before.method) == (wanted.token, "Reload")
        return (rejection(wanted, driver) if changing else None) or conditions.paused(paused)
    return conditions.topic_changed(wanted.revision) if starter == "Nothing" else None


def _confirmed(wanted: Wanted, before: Rollout, driver: Driver | None, now: datetime) -> Step:
    if before.token == wanted.token and before.phase == "Confirmed":
        done = before
    else:
        same = before.token == wanted.token
        done = Rollout(
            token=wanted.token,
            method=before.method if same else "Reload",
            phase="Confirmed",
            at=stamp(now),
            attempts=before.attempts,
            reverted=before.reverted if same else 0,
        )
    if done.method == "Adopt":
        running = driver if driver is not None and driver.running and driver.owned else None
        taken = has_applied(wanted.revision, subscription=wanted.subscription, driver=running)
        return Step(done, conditions.adopted(wanted.revision, running, taken=taken))
    return Step(done, conditions.confirmed(wanted.revision))


def _method(
    strategy: Strategy,
    wanted: Wanted,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    may_still_report: bool,
) -> Literal["Restart", "Reload", "Wait"]:
    """Choose between a restart and a live change; "Wait" until a driver that has just started reports its abilities."""
    if strategy != "Auto":
        return strategy
    begun = before.token == wanted.token and before.method == "Restart" and before.phase != "Confirmed"
    if application.restarts_itself and (begun or not wanted.secrets <= application.mounts):
        return "Restart"
    if driver is None or not driver.running:
        return "Reload"  # the next driver takes the newest document when it starts, and may take later ones live
    if may_still_report:
        return "Wait"
    # Apache's operator counts restarts, and ends the application after the last one. Only `Restart` asks for one there.
    return "Reload" if takes_changes_live(driver) or not application.restarts_itself else "Restart"
