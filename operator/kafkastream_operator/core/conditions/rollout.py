"""How a roll-out stands, in words, and when it is given up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from dynamic_kafka.metadata.kubernetes_names import REVISION_ANNOTATION, REVISION_ENVIRONMENT, SECRETS_PATH
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import Application
from kafkastream_operator.core.drain_evidence import Driver
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.models.conditions import Condition, condition
from kafkastream_operator.models.subscription import Rollout, Strategy

REVERSIONS = 3
"""When a patch was taken back so often, it is not made again."""


def going_on(revision: Revision, how: str) -> Condition:
    """It is under way."""
    return condition("RolledOut", False, "RollingOut", f"revision {revision.counter} is being rolled out {how}")


def kept_apart(before: Rollout | None, revision: Revision, apart: timedelta) -> Condition:
    """A restart waits, for the sake of those before it. `before`: the roll-out, if it is for a patch made anew."""
    text = f"restarts are {apart.total_seconds():.0f} s apart"
    if before is not None and before.reverted:
        said = taken_back(before)
        return said.model_copy(update={"message": f"{said.message}; {text}"})
    return condition("RolledOut", False, "Coalescing", f"revision {revision.counter} waits: {text}")


def taken_back(before: Rollout) -> Condition:
    """Somebody took the patch back, and it is made again."""
    text = f"the patch for {before.token} was taken back; it is made again ({before.reverted} of {REVERSIONS})"
    return condition("RolledOut", False, "Reverted", text)


def waits_in_vain(revision: Revision, application: Application | None, driver: Driver | None) -> Condition | None:
    """A driver waits, or the next one would, for a revision that this document never becomes: that of another line of
    documents, as a manifest of another Kubernetes has it, or a backup. None if none does.

    Drivers of this version go on without one of another lineage. Which version a driver has, only its report tells."""
    if application is None or application.life not in ("Starting", "Running"):
        return None
    mine = driver if driver is not None and driver.owned and driver.running else None
    if mine is not None and mine.report is not None and mine.report.applied is not None:
        return None  # it has begun, whatever it was started for
    awaited = Revision.parse(mine.token if mine is not None else application.token)
    if awaited is None or revision.is_at_least(awaited):
        return None
    waits = "its driver waits for it until it fails"
    if awaited.lineage != revision.lineage:
        waits += " if its image is an older one; a newer one begins with a warning, and this goes when it reports"
    text = (
        f"the application's spec names revision {awaited.token}, and the document is {revision.token}, which never"
        f" becomes that: a manifest from elsewhere, or a backup, has brought it along, and {waits}. Take the"
        f" operator's keys out of the application's spec ({REVISION_ANNOTATION} of the driver's annotations, and"
        f" spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT} of sparkConf), and restart it"
    )
    return condition("RolledOut", False, "AwaitsAnother", text)


def mounting(secrets: Iterable[str]) -> str:
    """What mounts Secrets, in words: two keys for each."""
    keys = [f"spark.kubernetes.{who}.secrets.{name}" for name in sorted(secrets) for who in ("driver", "executor")]
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return f"sparkConf {', '.join(keys[:8])}{more}: {SECRETS_PATH}/<its name>"


def restart_required(why: str, strategy: Strategy, application: Application, how_to: str = "") -> Condition:
    """The strategy makes no restart, and it takes one. `how_to`: with what, if it is made by hand."""
    how = "Auto or Restart" if application.restarts_itself else "Restart, which spends one of its restart attempts"
    by_hand = " ".join(filter(None, ("restart the application when it suits", how_to)))
    text = f"{why}, which takes a restart, and updateStrategy is {strategy}: {by_hand}, or set updateStrategy: {how}"
    return condition("RolledOut", False, "RestartRequired", text)


def not_taken(before: Rollout, application: Application, why: str, now: datetime) -> tuple[Rollout, Condition]:
    """The API server did not take the patch: a field belongs to somebody else, or the application's CRD refuses it."""
    tried = {"generation": application.generation, "submission": application.submission}
    update = {"phase": "Failed", "at": stamp(now), "problem": why[:1024], **tried}
    failed = before.model_copy(update=update)
    return failed, given_up(failed)


def given_up(failed: Rollout) -> Condition:
    """Nothing more is done for this revision by itself."""
    if failed.problem:
        taken = "conflict" in failed.problem
        how = "Take the field out of what that manager applies" if taken else "Give the operator what it lacks"
        text = (
            f"the patch for {failed.token} is not taken: {failed.problem}. {how}, or use updateStrategy: Reload; any"
            " change of the application or of the subscription's spec tries again"
        )
        return condition("RolledOut", False, "FieldTaken" if taken else "PatchRefused", text)
    if failed.reverted >= REVERSIONS:
        text = (
            f"the patch for {failed.token} was taken back {failed.reverted} times: let your GitOps tool ignore the"
            " operator's keys in spec.driver.annotations and spec.sparkConf of the SparkApplication (docs/operator.md"
            " has them under GitOps). Then change the subscription's spec or a stream; or set updateStrategy: Reload"
        )
        return condition("RolledOut", False, "RevertedByOthers", text)
    text = (
        f"{failed.attempts} patches for {failed.token} brought no new driver: look at the spark-operator and at the"
        " application's status; any change of the subscription's spec or of its streams tries again"
    )
    return condition("RolledOut", False, "Stalled", text)
