"""The conditions `Mounted`, `Reporting` and `ClusterNeverReached`: the state of the driver. Pure."""

from __future__ import annotations

from datetime import timedelta

from dynamic_kafka.contract.driver_report import StandingClock
from dynamic_kafka.contract.kubernetes_names import (
    MOUNT_PATH,
    REPORT_ANNOTATION,
    REPORTER_ROLE,
    REPORTER_VERBS,
    config_map_name,
)
from dynamic_kafka.wording import first_few, utc
from kafkastream_operator.core.conditions.rollout import mount_keys
from kafkastream_operator.core.document import Document, active
from kafkastream_operator.core.drain_evidence import Driver, has_applied, own_report, time_left_to_report
from kafkastream_operator.core.last_failure import failure_text, is_new
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition

IN_FORCE = frozenset({"InForce", "NeverReached", "ClockStands"})
"""Reasons of `Ready` for which a document is in force."""
_CLOCK_HELP = "docs/how-to/time.md#if-the-stream-stands-still"


def mounted(view: View, secrets: frozenset[str]) -> Condition:
    """Say whether the driver mounts the document, and the application the Secrets that it needs."""
    unmounted = sorted(secrets - view.application.mounts) if view.application is not None else []
    if unmounted:
        restart = "the operator adds them at its next restart, or " if view.spec.update_strategy != "Reload" else ""
        text = (
            f"the application does not mount the Secrets {', '.join(unmounted)} for driver and executors:"
            f" {restart}add {mount_keys(unmounted)}"
        )
        return condition("Mounted", "SecretsNotMounted", text)
    driver = _running(view)
    if driver is not None and driver.mounted is not None:
        if driver.mounted:
            return condition("Mounted", "Mounted")
        name = config_map_name(view.spec.application_ref.name)
        text = (
            f"driver {driver.name} {driver.mount_fault or 'does not mount the document'}: mount ConfigMap {name} as the"
            f" folder {MOUNT_PATH}; examples/kubernetes has the lines"
        )
        return condition("Mounted", "NotMounted", text)
    return condition("Mounted", "NoDriver", "no driver runs")


def reporting(view: View, document: Document) -> Condition:
    """Say whether the driver reports; if not, with the commands that allow it."""
    driver = _running(view)
    if driver is None:
        return condition("Reporting", "NoDriver", "no driver runs")
    if driver.unreadable:
        text = (
            f"the operator cannot read the annotation {REPORT_ANNOTATION} of driver {driver.name}, so drains cannot"
            " end: use an image of this operator's version or of the one before, and make sure that nothing else"
            " writes the annotation"
        )
        return condition("Reporting", "ReportUnreadable", text)
    if driver.report is None:
        if time_to_report(view) is not None:
            return condition("Reporting", "AwaitsReport", _awaits_first_report(view, driver))
        return condition("Reporting", "NoReport", _no_report(driver, view.timing.confirm_live))
    if driver.report.reader < document.min_reader:
        text = (
            f"the image of driver {driver.name} reads documents of contract {driver.report.reader}, and"
            f" {document.min_reader} is needed: update the image"
        )
        return condition("Reporting", "ImageTooOld", text)
    return condition("Reporting", "Reporting")


def never_reached(view: View, document: Document) -> Condition:
    """Say which clusters the driver has never read because they do not answer, with the cause of each.

    Only a report on this document shows that all were reached. Until it comes, an earlier report still counts for the
    clusters that the document has, because a change of other clusters does not make them answer.
    """
    driver = _running(view)
    if driver is None:
        return condition("ClusterNeverReached", "NoDriver", "no driver runs")
    report = own_report(driver, view.uid)
    if report is None:
        reason = "AwaitsReport" if time_to_report(view) is not None else "NoReport"
        text = f"driver {driver.name} has not reported: see Reporting"
        return condition("ClusterNeverReached", reason, text)
    is_covered = has_applied(document.revision, subscription=view.uid, driver=driver)
    missing = f"driver {driver.name} has not reported revision {document.revision.counter} yet"
    named = {cluster for stream in document.streams.values() for cluster in active(stream)["clusters"]}
    unreached = [f"{cluster}: {why}" for cluster, why in sorted(report.never_reached.items()) if cluster in named]
    if unreached:
        text = (
            f"driver {driver.name} reads the other clusters, and has never read"
            f" {first_few(unreached, 5, separator='; ')}. Correct the servers, the log-in or the network, or take the"
            " cluster out of its stream: it is read from its start when it answers"
        )
        text += "" if is_covered else f". This is from its last report: {missing}"
        return condition("ClusterNeverReached", "NeverReached", text)
    if not is_covered:
        return condition("ClusterNeverReached", "AwaitsReport", f"{missing}: see RolledOut")
    if unanswered := sorted(report.unanswered & named):
        text = f"driver {driver.name} waits for the first answer of {first_few(unanswered, 5)}, and reads the others"
        return condition("ClusterNeverReached", "AwaitsAnswer", text)
    return condition("ClusterNeverReached", "AllReached")


def standing_clocks(view: View) -> str:
    """Say which clocks stand although there are unread records, and what each waits for; "" without any."""
    driver = _running(view)
    report = own_report(driver, view.uid) if driver is not None else None
    if driver is None or report is None or not report.standing_clocks:
        return ""
    clocks = first_few([_clock_text(clock) for clock in report.standing_clocks], 5, separator="; ")
    return f"driver {driver.name} has unread records, and {clocks}. See {_CLOCK_HELP}"


def _clock_text(clock: StandingClock) -> str:
    at = "there is no first clock" if clock.clock_ms is None else f"the clock stands at {utc(clock.clock_ms)}"
    holder = f"the announced cluster {first_few(clock.waits_for)}" if clock.waits_for else clock.held_by
    return f"in query {clock.query} {at}" + (f", waiting for {holder}" if holder else "")


def awaited_report(view: View) -> str:
    """Return which report has to come before the document counts as in force; "" if none has to.

    A driver that stays silent is taken for one that does not report. Once `Ready` has been True of a running
    application, it does not become Unknown because another driver takes over, unless the one before has failed.
    """
    ready = next((old_condition for old_condition in view.status.conditions if old_condition.type == "Ready"), None)
    if ready is not None and ready.status == "True" and ready.reason in IN_FORCE and not is_new(view):
        return ""
    driver = _running(view)
    if driver is None:
        return _with_failure("no driver runs yet: the first report of one shows that the document is in force", view)
    if driver.report is None:
        return _awaits_first_report(view, driver) if time_to_report(view) is not None else ""
    report = own_report(driver, view.uid)
    if report is None:
        return f"driver {driver.name} has not reported for this subscription yet: its report is from before"
    if report.applied is None:
        return f"driver {driver.name} reports, and has not planned with the document yet: see its log"
    return ""


def time_to_report(view: View) -> timedelta | None:
    """Return how much longer the driver may take for its first report; None if it has reported or is late.

    A driver that the status calls silent stays so until it reports: an operator that has just started cannot measure
    how long the driver has been running.
    """
    driver = _running(view)
    if driver is None or driver.unreadable:
        return None
    old_reasons = {(old_condition.type, old_condition.reason) for old_condition in view.status.conditions}
    if ("Reporting", "NoReport") in old_reasons:
        return None
    return time_left_to_report(driver, view.timing.confirm_live)


def _running(view: View) -> Driver | None:
    """Return the driver if it runs. A pod that only has its labels must not lead to advice on what to allow it."""
    driver = view.driver
    return driver if driver is not None and driver.running and driver.owned else None


def _awaits_first_report(view: View, driver: Driver) -> str:
    return _with_failure(f"driver {driver.name} has started and may take a while to report for the first time", view)


def _with_failure(text: str, view: View) -> str:
    """Add the last failure to a text about a driver that has not reported."""
    return ". ".join(filter(None, (text, failure_text(view))))


def _no_report(driver: Driver, patience: timedelta) -> str:
    namespace, account = driver.namespace, driver.account
    role = f"`kubectl create role {REPORTER_ROLE} -n {namespace} --verb={','.join(REPORTER_VERBS)} --resource=pods`"
    binding = (
        f"`kubectl create rolebinding {REPORTER_ROLE}-{account} -n {namespace} --role={REPORTER_ROLE}"
        f" --serviceaccount={namespace}:{account}`"
    )
    return (
        f"driver {driver.name} has run for {patience.total_seconds():.0f} s without a report: drains cannot end. It may"
        f" still be starting. If its ServiceAccount {account} lacks the right: {role}; {binding}. See"
        " docs/how-to/runbooks.md#kafkastreamreportinglost"
    )
