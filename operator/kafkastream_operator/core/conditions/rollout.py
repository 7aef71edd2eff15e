"""The condition `RolledOut`: one function for each state of a roll-out. Pure.

The roll-out (`core.rollout`) calls them. `models.reasons` has the remedy of each reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dynamic_kafka.contract.exit_codes import MEANINGS, ExitCode
from dynamic_kafka.contract.kubernetes_names import (
    RETRY_ANNOTATION,
    REVISION_ANNOTATION,
    REVISION_ENVIRONMENT,
    SECRETS_PATH,
)
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.wording import first_few
from kafkastream_operator.core.application import ALIVE, Application
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.rollout.budget import Turn
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.models.conditions import Condition, condition
from kafkastream_operator.models.subscription import Rollout, Strategy

MAX_REVERSIONS = 3
"""The operator stops making a patch that was removed this many times."""


def adopted(revision: Revision, driver: Driver | None, *, taken: bool) -> Condition:
    """Say that the first document is there, or that the driver reports it.

    Args:
        driver: the running driver; None if none runs.
    """
    state = "is rendered; the application takes it when it starts"
    if driver is not None:
        state = "is in force" if taken else f"is rendered; driver {driver.name} has started, and has not reported it"
    return condition("RolledOut", "Adopted", f"revision {revision.counter}, the first document, {state}")


def confirmed(revision: Revision) -> Condition:
    """Say that the driver has the revision."""
    return condition("RolledOut", "Confirmed", f"revision {revision.counter} is in force")


def not_running(revision: Revision, application: Application | None) -> Condition:
    """Say that the application does not run, and so is left alone."""
    state = "does not exist" if application is None else f"is {application.life}"
    text = f"the application {state}: it takes revision {revision.counter} when it starts"
    if application is not None and application.life == "Failed":
        text += "; its status and its driver's log have the reason of the failure"
    return condition("RolledOut", "NotRunning", text)


def topic_changed(revision: Revision) -> Condition:
    """Say that the operator restarts nothing for this revision, because the next driver would end at once."""
    text = f"revision {revision.counter} waits: the driver has ended for a changed topic; ApplicationFound has the way"
    return condition("RolledOut", MEANINGS[ExitCode.TOPIC_INTEGRITY].reason, f"{text} out")


def paused(reason: str) -> Condition:
    """Say that a pause holds the revision back."""
    return condition("RolledOut", "Paused", reason)


def waits_for_starting_driver(revision: Revision) -> Condition:
    """Say that the application starts, and that its driver will take the revision."""
    text = f"the application is about to start a driver, which takes revision {revision.counter}"
    return condition("RolledOut", "Waiting", text)


def waits_for_report(revision: Revision, driver: Driver) -> Condition:
    """Say that the driver has not reported its abilities yet."""
    text = f"revision {revision.counter} waits for the first report of driver {driver.name}"
    return condition("RolledOut", "Waiting", text)


def waits_for_driver(revision: Revision) -> Condition:
    """Say that no driver runs that could take the revision live."""
    return condition("RolledOut", "Waiting", f"revision {revision.counter} waits for a driver to run")


def rolling_out(revision: Revision, how: str) -> Condition:
    """Say that the roll-out is under way."""
    return condition("RolledOut", "RollingOut", f"revision {revision.counter} is being rolled out {how}")


def coalescing(before: Rollout | None, revision: Revision, apart: timedelta) -> Condition:
    """Say that a restart waits, because the last one was too recent.

    Args:
        before: the roll-out, if its patch is to be made again.
    """
    text = f"restarts are {apart.total_seconds():.0f} s apart"
    if before is not None and before.reverted:
        rolled_out = reverted(before)
        return rolled_out.model_copy(update={"message": f"{rolled_out.message}; {text}"})
    return condition("RolledOut", "Coalescing", f"revision {revision.counter} waits: {text}")


def awaits_turn(revision: Revision, turn: Turn) -> Condition:
    """Say that a restart waits for others, or until a failed one of them is dealt with."""
    reason = "RolloutPaused" if turn.paused else "Queued"
    text = (
        f"the restart for revision {revision.counter} is number {turn.place} of {turn.of} that wait: {turn.hindrance}"
    )
    return condition("RolledOut", reason, text)


def reverted(before: Rollout) -> Condition:
    """Say that somebody removed the patch, and that the operator makes it again."""
    text = (
        f"the operator's patch for revision {before.token} was removed from the application; the operator makes it"
        f" again ({before.reverted} of {MAX_REVERSIONS})"
    )
    return condition("RolledOut", "Reverted", text)


def starting(revision: Revision) -> Condition:
    """Say that the application was submitted again, and that its driver takes its time."""
    text = (
        f"the application was submitted again for revision {revision.counter}, and its driver does not run yet:"
        " kubectl describe the driver's pod. Meanwhile it holds up restarts of this namespace only"
    )
    return condition("RolledOut", "Starting", text)


def rejected(revision: Revision, reason: str) -> Condition:
    """Say that the driver does not use the revision."""
    text = (
        f"the driver rejects revision {revision.counter} and keeps the one before: {reason}. Correct or revert the"
        " stream soon: a driver that starts anew would not start with this revision"
    )
    return condition("RolledOut", "Rejected", text)


def not_confirmed(revision: Revision, driver: Driver, patience: timedelta) -> Condition:
    """Say that the driver did not report a live change in time. The operator never restarts it for that."""
    text = (
        f"driver {driver.name} has not confirmed revision {revision.counter} within {patience.total_seconds():.0f} s."
        " The operator does not restart it: see its log, and restart the application if it hangs"
    )
    return condition("RolledOut", "NotConfirmed", text)


def awaits_another(revision: Revision, application: Application | None, driver: Driver | None) -> Condition | None:
    """Return the condition if a driver waits, or the next one would, for a revision that this document never becomes.

    Such a revision is a later one, or of another lineage: a manifest of another Kubernetes or a backup names it.
    Drivers of this version accept another lineage; only a driver's report shows its version.
    """
    if application is None or application.life not in ALIVE:
        return None
    own = driver if driver is not None and driver.owned and driver.running else None
    if own is not None and own.report is not None and own.report.applied is not None:
        return None  # it has begun, whatever revision it was started for
    awaited = Revision.parse(own.token if own is not None else application.token)
    if awaited is None or revision.is_at_least(awaited):
        return None
    effect = "The driver waits for it and then fails"
    if awaited.lineage != revision.lineage:
        effect += " if its image is an older one; a newer one begins with a warning"
    keys = f"{REVISION_ANNOTATION} and spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}"
    text = (
        f"the application's spec names revision {awaited.token}, which the document ({revision.token}) never becomes."
        f" {effect}. Remove {keys} from the spec (docs/how-to/install-operator.md#gitops), and restart the application"
    )
    return condition("RolledOut", "AwaitsAnother", text)


def mount_keys(secrets: Iterable[str]) -> str:
    """Return the keys of `sparkConf` that mount these Secrets, two for each, for a message."""
    keys = [f"spark.kubernetes.{role}.secrets.{name}" for name in sorted(secrets) for role in ("driver", "executor")]
    return f"sparkConf {first_few(keys, 8)}: {SECRETS_PATH}/<name of the Secret>"


def restart_required(why: str, strategy: Strategy, application: Application, by_hand: str = "") -> Condition:
    """Say that the change needs a restart, and that the strategy makes none.

    Args:
        by_hand: the change of the spec that a restart by hand needs; "" if it needs none.
    """
    how = "Auto or Restart" if application.restarts_itself else "Restart, which spends one of its restart attempts"
    restart = " ".join(filter(None, ("restart the application when it suits", by_hand)))
    text = f"{why}. That takes a restart, and updateStrategy is {strategy}: {restart}, or set updateStrategy: {how}"
    return condition("RolledOut", "RestartRequired", text)


def restart_refused(revision: Revision, application: Application) -> Condition:
    """Say that the change needs a restart that the application would not survive."""
    why = application.restart_refusal
    text = f"revision {revision.counter} takes a restart, which would end the application: {why}"
    return condition("RolledOut", "RestartRequired", text)


def patch_refused(before: Rollout, application: Application, why: str, now: datetime) -> tuple[Rollout, Condition]:
    """Give the roll-out up: the API server refused the patch for a field of another manager, or for missing rights."""
    tried = {"generation": application.generation, "submission": application.submission}
    update = {"phase": "Failed", "at": stamp(now), "problem": why[:1024], **tried}
    failed = before.model_copy(update=update)
    return failed, given_up(failed)


def _retry(failed: Rollout) -> str:
    return (
        f"`kubectl annotate --overwrite kss/NAME {RETRY_ANNOTATION}={failed.token}@REASON`, with a new REASON each time"
    )


GIVEN_UP = frozenset({"FieldTaken", "PatchRefused", "RevertedByOthers", "Stalled"})
"""Reasons of `RolledOut` with which the operator makes no further patch by itself."""


def given_up(failed: Rollout) -> Condition:
    """Say that the operator makes no further patch for this revision by itself."""
    if failed.problem:
        conflict = "conflict" in failed.problem
        how = "Take the field out of what that manager applies" if conflict else "Give the operator what it lacks"
        text = (
            f"the API server refuses the patch for revision {failed.token}: {failed.problem}. {how}, or use"
            " updateStrategy: Reload. Any change of the application or of the subscription's spec makes the operator"
            f" try again, and so does {_retry(failed)}"
        )
        return condition("RolledOut", "FieldTaken" if conflict else "PatchRefused", text)
    if failed.reverted >= MAX_REVERSIONS:
        text = (
            f"the operator's patch for revision {failed.token} was removed {failed.reverted} times. Let your GitOps"
            f" tool ignore the operator's keys, as docs/how-to/install-operator.md#gitops says. Then {_retry(failed)}"
        )
        return condition("RolledOut", "RevertedByOthers", text)
    text = (
        f"{failed.attempts} patches for revision {failed.token} brought no new driver: see the Spark operator's log and"
        " the application's status. Any change of the subscription's spec or of its streams makes the operator try"
        f" again, and so does {_retry(failed)}"
    )
    return condition("RolledOut", "Stalled", text)
