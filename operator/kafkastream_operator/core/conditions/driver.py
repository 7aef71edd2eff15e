"""Whether a driver is attached to the operator: it mounts the document and the Secrets, and it reports. Pure."""

from __future__ import annotations

from datetime import timedelta

from dynamic_kafka.metadata.kubernetes_names import MOUNT_PATH, REPORT_ANNOTATION, config_map_name
from kafkastream_operator.core.conditions.rollout import mounting
from kafkastream_operator.core.document import MIN_READER
from kafkastream_operator.core.drain_evidence import Driver, time_left_to_report
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition, condition

ROLE = "kafkastream-reporter"
"""As examples/operator/rbac-driver.yaml calls it."""


def mounted(view: View, secrets: frozenset[str]) -> Condition:
    """Whether the driver has the document, and the application the Secrets that it needs."""
    unmounted = sorted(secrets - view.application.mounts) if view.application is not None else []
    if unmounted:
        by_restart = "the next restart by the operator does, or " if view.spec.update_strategy != "Reload" else ""
        text = (
            f"the application does not mount the Secrets {', '.join(unmounted)} for driver and executors:"
            f" {by_restart}add {mounting(unmounted)}"
        )
        return condition("Mounted", False, "SecretsNotMounted", text)
    name = config_map_name(view.spec.application_ref.name)
    how = f"mount ConfigMap {name} as the folder {MOUNT_PATH}; `python -m dynamic_kafka.app manifest` prints the lines"
    driver = _running(view)
    if driver is not None and driver.mounted is not None:
        if driver.mounted:
            return condition("Mounted", True, "Mounted")
        what = driver.mount_fault or "does not have the document"
        return condition("Mounted", False, "NotMounted", f"driver {driver.name} {what}: {how}")
    if view.application is not None and view.application.document is False:
        return condition("Mounted", False, "NotMounted", f"the application's spec does not have the document: {how}")
    return condition("Mounted", None, "NoDriver", "no driver runs")


def reporting(view: View) -> Condition:
    """Whether the driver reports; if not, what to run so that it may."""
    driver = _running(view)
    if driver is None:
        return condition("Reporting", None, "NoDriver", "no driver runs")
    if driver.unreadable:
        text = (
            f"the annotation {REPORT_ANNOTATION} of driver {driver.name} cannot be read, so drains cannot end: use an"
            " image of this operator's version or of the one before, and see that nothing else writes the annotation"
        )
        return condition("Reporting", False, "ReportUnreadable", text)
    if driver.report is None:
        if time_to_report(view) is not None:
            text = f"driver {driver.name} has started and may take a while to report for the first time"
            return condition("Reporting", None, "AwaitsReport", text)
        return condition("Reporting", False, "NoReport", _no_report(driver))
    if driver.report.reader < MIN_READER:
        text = f"the image of {driver.name} reads contract {driver.report.reader}, {MIN_READER} is needed: update it"
        return condition("Reporting", False, "ImageTooOld", text)
    return condition("Reporting", True, "Reporting")


def time_to_report(view: View) -> timedelta | None:
    """How much longer the driver may take to report at all; None: it has, or its time is over.

    What has been called silent stays so until it reports: an operator that starts anew knows no better.
    """
    driver = _running(view)
    if driver is None or driver.unreadable:
        return None
    if any((each.type, each.reason) == ("Reporting", "NoReport") for each in view.status.conditions):
        return None
    return time_left_to_report(driver, view.timing.confirm_live)


def _running(view: View) -> Driver | None:
    """The driver that runs. Of a pod that only looks like it nothing is said, least of all what to allow it."""
    driver = view.driver
    return driver if driver is not None and driver.running and driver.owned else None


def _no_report(driver: Driver) -> str:
    where, account = driver.namespace, driver.account
    return (
        f"driver {driver.name} has not reported: drains cannot end, and changes are not live. Its ServiceAccount"
        f" {account} needs the right to get and patch pods in namespace {where}:"
        f" `kubectl create role {ROLE} -n {where} --verb=get,patch --resource=pods`;"
        f" `kubectl create rolebinding {ROLE}-{account} -n {where} --role={ROLE} --serviceaccount={where}:{account}`."
        f" If it has that (`kubectl auth can-i patch pods -n {where} --as system:serviceaccount:{where}:{account}`"
        " says yes), the image does not report, or cannot reach the API server: run the bundled application"
        " (`python -m dynamic_kafka.app`), whose log says why no report gets through"
    )
