"""How a new revision reaches the application: by a confirmed restart, or live. Pure: a state machine.

One step at a time, from what is seen: the token goes into the status before the patch, and a roll-out is done when the
driver shows the token (restart) or reports the revision (live). A patch may be lost (Kubeflow's operator was down):
it is made again until it is confirmed, or given up with a condition. Nothing is ever done to an application that does
not run: it takes the newest document when it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from kafkastream_operator.core.application import Application, Patch, Pod, Refresh
from kafkastream_operator.core.conditions.rollout import (
    REVERSIONS,
    given_up,
    going_on,
    kept_apart,
    mounting,
    restart_required,
    taken_back,
)
from kafkastream_operator.core.drain_evidence import Driver, time_left_to_report
from kafkastream_operator.core.in_force import Wanted, is_able, is_in_force, mounts_are_gone
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.models.conditions import Condition, condition
from kafkastream_operator.models.subscription import Rollout, Strategy

ATTEMPTS = 5


@dataclass(frozen=True)
class Timing:
    """How long things may take.

    Attributes:
        confirm: a restart, until its patch counts as lost.
        confirm_live: a live change; the kubelet alone may need a minute and a half. Also a driver's first report.
        between_restarts: the least time between two restarts of one application.
        gather: from a change that takes a restart until it begins, for more that come with it.
    """

    confirm: timedelta = timedelta(seconds=90)
    confirm_live: timedelta = timedelta(seconds=120)
    between_restarts: timedelta = timedelta(seconds=60)
    gather: timedelta = timedelta(seconds=2)


USUAL = Timing()


@dataclass(frozen=True)
class Step:
    """What to do next.

    Attributes:
        rollout: for the status, to be written before the effect.
        effect: the one write that follows; None for none.
        after: for the status, once the effect is there; None: as before.
        again: when to look again, if nothing happens before.
        condition: what to say of it.
        restarted: the effect restarts the application.
    """

    rollout: Rollout | None
    condition: Condition
    effect: Patch | Refresh | None = None
    after: Rollout | None = None
    again: datetime | None = None
    restarted: bool = False


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
    asked_anew: bool = False,
    promised: bool = False,
    timing: Timing = USUAL,
) -> Step:
    """The next step of rolling `wanted` out.

    Args:
        before: the roll-out as the status has it; None: nothing was ever rolled out.
        restarted_at: when the operator restarted the application last.
        paused: why nothing may be rolled out; "" if it may.
        asked_anew: the subscription has changed since it was looked at last: what was given up is tried again.
        promised: it was said last that a driver takes the newest revision when it starts.
    """
    if before is None:
        return _adopt(wanted, now)
    gone = mounts_are_gone(wanted, before, application)
    if not gone and is_in_force(wanted, before, application, driver, strategy, promised=promised):
        return _confirmed(wanted, before, now)
    if application is None or application.life in ("Absent", "Suspended", "Completed", "Failed"):
        life = "is not there" if application is None else f"is {application.life}"
        text = f"the application {life}: it takes revision {wanted.revision.counter} when it starts"
        if application is not None and application.life == "Failed":
            text += "; why it failed is in its status and in its driver's log"
        return Step(before, condition("RolledOut", None, "NotRunning", text))
    if paused:
        return Step(before, condition("RolledOut", False, "Paused", paused))
    if before.phase == "Failed" and before.token == wanted.token:
        tried = (before.generation, before.submission)
        changed = before.problem and tried != (application.generation, application.submission)
        if not (changed or asked_anew):
            return Step(before, given_up(before))
        # The application has changed, or is another one of that name: perhaps in what stood in the way. Or who answers
        # for it has seen to that, or wants another strategy.
        before = Rollout(
            token=wanted.token,
            method="Restart",
            phase="Pending",
            at=stamp(now),
            submission=application.submission,
        )
        if strategy != "Reload":
            return Step(before, going_on(wanted.revision, "by a restart"), again=now)
    silent = time_left_to_report(driver, timing.confirm_live)
    method = _method(strategy, wanted, before, application, driver, silent=silent is not None)
    begun = (before.token, before.method) == (wanted.token, "Restart") and before.phase != "Pending"
    if method == "Restart" and promised and not begun and wanted.secrets <= application.mounts:
        # Patched now, it would start twice.
        if driver is None or not driver.running:
            text = f"revision {wanted.revision.counter} waits for the driver that starts, and takes it then"
            return Step(before, condition("RolledOut", None, "Waiting", text))
        method = "Wait" if silent is not None else method
    if method == "Wait":
        assert driver is not None
        text = f"revision {wanted.revision.counter} waits until driver {driver.name} has said what it can"
        return Step(before, condition("RolledOut", None, "Waiting", text), again=now + (silent or timedelta()))
    if method == "Reload":
        return _live(wanted, strategy, before, application, driver, now=now, timing=timing)
    return (
        _mounted_again(wanted, before, application, now)
        if gone
        else _restart(wanted, before, application, driver, now=now, restarted_at=restarted_at, timing=timing)
    )


def _adopt(wanted: Wanted, now: datetime) -> Step:
    adopted = Rollout(token=wanted.token, method="Adopt", phase="Confirmed", at=stamp(now))
    return _confirmed(wanted, adopted, now)


def _confirmed(wanted: Wanted, before: Rollout, now: datetime) -> Step:
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
        text = "the first document was rendered; the application takes it when it starts"
        return Step(done, condition("RolledOut", True, "Adopted", text))
    return Step(done, condition("RolledOut", True, "Confirmed", f"revision {wanted.revision.counter} is in force"))


def _method(
    strategy: Strategy,
    wanted: Wanted,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    silent: bool,
) -> Literal["Restart", "Reload", "Wait"]:
    if strategy != "Auto":
        return strategy
    begun = before.token == wanted.token and before.method == "Restart" and before.phase != "Confirmed"
    if application.restarts_itself and (begun or not wanted.secrets <= application.mounts):
        return "Restart"
    if driver is None or not driver.running:
        return "Reload"  # it takes the newest document when it starts, and may be able to take the next one live
    if silent:
        return "Wait"
    # Where restarts are counted, and end the application when they are spent, only who asks for one gets it.
    return "Reload" if is_able(driver) or not application.restarts_itself else "Restart"


def _live(
    wanted: Wanted,
    strategy: Strategy,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    now: datetime,
    timing: Timing,
) -> Step:
    unmounted = wanted.secrets - application.mounts
    if unmounted:
        why = f"revision {wanted.revision.counter} needs the Secrets {', '.join(sorted(unmounted))} mounted"
        return Step(before, restart_required(why, strategy, application, f"with {mounting(unmounted)}"))
    rejected = driver.report.rejected if driver is not None and driver.report is not None else None
    if rejected is not None and rejected[0] == wanted.token:
        text = (
            f"the driver refuses revision {wanted.revision.counter} and goes on with the one before, until it ends: the"
            f" next one would not start with it. {rejected[1]}. Mend the stream, or revert it"
        )
        return Step(before, condition("RolledOut", False, "Rejected", text))
    if driver is None or not driver.running:
        text = f"revision {wanted.revision.counter} waits for the driver to run"
        return Step(before, condition("RolledOut", None, "Waiting", text))
    if not is_able(driver) and (strategy == "Auto" or driver.report is not None):
        why = f"the driver {driver.name} does not report that it takes revision {wanted.revision.counter} live"
        return Step(before, restart_required(why, strategy, application))
    if before.token != wanted.token or before.method != "Reload":
        began = Rollout(token=wanted.token, method="Reload", phase="Patched", at=stamp(now), attempts=1)
        return Step(
            began,
            going_on(wanted.revision, "live"),
            Refresh(driver.name, wanted.token),
            again=now + timing.confirm_live,
        )
    due = parse(before.at) + timing.confirm_live
    if now < due:
        return Step(before, going_on(wanted.revision, "live"), again=due)
    # Silence never becomes a restart.
    text = (
        f"the driver {driver.name} has not confirmed revision {wanted.revision.counter} within"
        f" {timing.confirm_live.total_seconds():.0f} s: see its log; nothing is restarted because of it"
    )
    return Step(before, condition("RolledOut", False, "NotConfirmed", text))


def _restart(
    wanted: Wanted,
    before: Rollout,
    application: Application,
    driver: Driver | None,
    *,
    now: datetime,
    restarted_at: datetime | None,
    timing: Timing,
) -> Step:
    mine = before.token == wanted.token and before.method == "Restart"
    if application.refuses_restart(now) and not (mine and before.phase == "Patched"):
        text = f"revision {wanted.revision.counter} takes a restart, which would end the application: "
        said = condition("RolledOut", False, "RestartRequired", text + application.unwilling)
        return Step(before, said, again=application.willing_at)
    if not mine and _is_unnoted(before, application):
        made_at = min(now, parse(before.at) + timing.gather)
        restarted_at = max(made_at, restarted_at or made_at)
    earliest = restarted_at + timing.between_restarts if restarted_at is not None else now
    if mine and before.phase == "Pending":
        attempt = before.attempts + 1
        ends = _driver_to_end(application, driver)
        patch = Patch(wanted.token, wanted.secrets, attempt, application.resource_version, ends)
        submission = _submission(application, driver)
        update = {"phase": "Patched", "at": stamp(now), "attempts": attempt, "submission": submission}
        done = before.model_copy(update=update)
        if (application.token, application.attempt) == (wanted.token, attempt) and ends is None:
            # An operator that died right after it has made this patch; what was submitted since was so because of it.
            done = done.model_copy(update={"submission": before.submission})
            return Step(done, going_on(wanted.revision, "by a restart"), again=now + timing.confirm, restarted=True)
        if now < (gathered := _gathered_at(before, timing)):
            return Step(before, going_on(wanted.revision, "by a restart"), again=gathered)
        if now < earliest:
            # It was made, and lost or taken back: who does that at once gets it no sooner than anybody else.
            return Step(before, kept_apart(before, wanted.revision, timing.between_restarts), again=earliest)
        return Step(
            before, going_on(wanted.revision, "by a restart"), patch, done, now + timing.confirm, restarted=True
        )
    if not mine:
        if now < earliest:
            return Step(before, kept_apart(None, wanted.revision, timing.between_restarts), again=earliest)
        # What came before is not begun yet: one restart is for both, and no later because of this one.
        gathering = before.method == "Restart" and before.phase == "Pending" and not before.attempts
        began = Rollout(
            token=wanted.token,
            method="Restart",
            phase="Pending",
            at=before.at if gathering and not before.reverted else stamp(now),
            submission=_submission(application, driver),
        )
        return Step(began, going_on(wanted.revision, "by a restart"), again=max(now, _gathered_at(began, timing)))
    if application.token != wanted.token:
        return _reverted(before, now)
    due = parse(before.at) + timing.confirm
    if now < due:
        return Step(before, going_on(wanted.revision, "by a restart"), again=due)
    if application.submission != before.submission and application.life == "Starting":
        # It was submitted anew, and only takes its time: waiting for an executor, for quota, for an image.
        text = f"the application was submitted for revision {wanted.revision.counter}; its driver is not there yet"
        return Step(before, condition("RolledOut", False, "Starting", text), again=now + timing.confirm)
    if before.attempts >= ATTEMPTS:
        failed = before.model_copy(update={"phase": "Failed", "at": stamp(now)})
        return Step(failed, given_up(failed))
    again = before.model_copy(update={"phase": "Pending", "at": stamp(now)})
    return Step(again, going_on(wanted.revision, "by a restart, again"), again=now)


def _gathered_at(before: Rollout, timing: Timing) -> datetime:
    """When the first patch for a revision may be made: until then, more changes may come that it can bring as well."""
    begun = before.attempts or before.reverted
    return parse(before.at) + (timedelta() if begun else timing.gather)


def _is_unnoted(before: Rollout, application: Application) -> bool:
    """Whether an operator died right after it had made this patch: it is there, and its status does not have it."""
    pending = (before.method, before.phase) == ("Restart", "Pending")
    return pending and (application.token, application.attempt) == (before.token, before.attempts + 1)


def _submission(application: Application, driver: Driver | None) -> str:
    """Whose driver does not count, since it was made from the spec as it is; "" if any that comes was made after this.

    Where a patch submits nothing, an attempt whose driver has no pod yet gets one from the patched spec.
    """
    made = driver is not None and driver.owned
    return application.submission if application.restarts_itself or made else ""


def _driver_to_end(application: Application, driver: Driver | None) -> Pod | None:
    """The driver that runs with what the spec said before, and goes on with that until it ends."""
    if application.restarts_itself or driver is None or not (driver.running and driver.owned):
        return None
    return Pod(driver.name, driver.uid)


def _mounted_again(wanted: Wanted, before: Rollout, application: Application, now: datetime) -> Step:
    """What was confirmed holds no more: the application lacks the Secrets that a restart had mounted."""
    # An attempt that its spec names is one that was made; the next patch has to differ from that.
    attempts = application.attempt if application.token == wanted.token else 0
    begun = before.model_copy(
        update={"method": "Restart", "attempts": attempts, "submission": application.submission, "problem": ""}
    )
    if application.generation > 1 or application.token:
        return _reverted(begun, now)
    # It was deleted and applied again, as its manifest has it: nobody is against the patch.
    again = begun.model_copy(update={"phase": "Pending", "at": stamp(now)})
    return Step(again, going_on(wanted.revision, "by a restart"), again=now)


def _reverted(before: Rollout, now: datetime) -> Step:
    """Somebody took the patch back: a GitOps tool that applies what it has in Git."""
    count = before.reverted + 1
    if count >= REVERSIONS:
        failed = before.model_copy(update={"phase": "Failed", "at": stamp(now), "reverted": count})
        return Step(failed, given_up(failed))
    again = before.model_copy(update={"phase": "Pending", "at": stamp(now), "reverted": count})
    return Step(again, taken_back(again), again=now)
