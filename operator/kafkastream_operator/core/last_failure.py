"""The last failure of an application, and how often it has failed in a row. Pure; `core.decide` and conditions call it.

If a driver has lived for a minute, Kubeflow's operator tries again at once: the application's status shows the failure
for less than a second. So the subscription's status keeps it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dynamic_kafka.contract.exit_codes import METADATA_MAY_CAUSE
from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.application import FAILED
from kafkastream_operator.core.drain_evidence import own_report, time_left_to_report
from kafkastream_operator.core.failure import Failure
from kafkastream_operator.core.timestamps import parse, stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import LastFailure

STEADY = timedelta(minutes=10)
"""A driver that runs this long after the last failure ends the row, as a kubelet's back-off ends. A driver may report,
and fail half a minute later."""


def last_failure(view: View) -> LastFailure | None:
    """Return the last failure with its count; None if none was ever seen.

    Each failure is counted once, whether the driver's pod or the application's status shows it first. A pod that fails
    after its deletion is none, and neither is the end of Apache's driver in a restart by the operator.
    """
    failure, failed, application = view.status.failure, view.failed_driver, view.application
    if failed is not None and (failure is None or failed.uid != failure.driver):
        if failure is None or failed.submission != failure.submission:
            failure = _next(failure, view, failed.failure, failed.submission, failed.uid)
        else:  # the application's status was faster, and names the cause less exactly
            exact = {"cause": failed.failure.cause, "exit_code": failed.failure.code} if failed.failure.cause else {}
            failure = failure.model_copy(update={**exact, "driver": failed.uid})
    has_failed_now = application is not None and application.life in FAILED and not _is_restarted(view)
    if (
        application is not None
        and has_failed_now
        and (failure is None or application.failed_submission != failure.submission)
    ):
        driver = failure.driver if failure is not None else ""
        failure = _next(failure, view, application.failure, application.failed_submission, driver)
    if failure is not None and failure.count and is_steady(view) and view.now >= parse(failure.at) + STEADY:
        failure = failure.model_copy(update={"count": 0})
    return failure


def is_new(view: View) -> bool:
    """Return whether the status does not have the last failure yet."""
    failure, known = last_failure(view), view.status.failure
    return failure is not None and failure.count > (known.count if known is not None else 0)


def has_another_document(view: View, revision: Revision) -> bool:
    """Return whether the application has failed by what metadata may cause, and not with this revision."""
    failure, application = last_failure(view), view.application
    if failure is None or application is None:
        return False
    caused = failure.submission == application.failed_submission and failure.exit_code in METADATA_MAY_CAUSE
    return caused and failure.revision not in ("", revision.token)


def failure_text(view: View) -> str:
    """Return the last failure with its count, for a message; "" if no failure counts any more."""
    last = last_failure(view)
    if last is None or not last.count:
        return ""
    return f"The application {has_failed(last.count)}, last at {last.at[:19]}Z: {last.cause or 'no cause is named'}"


def has_failed(count: int) -> str:
    """Return the words for so many failures in a row."""
    return "has failed" if count == 1 else f"has failed {count} times in a row"


def is_steady(view: View) -> bool:
    """Return whether a driver runs that has reported, or that is taken for one that never does."""
    driver = view.driver
    if driver is None or not (driver.running and driver.owned):
        return False
    silent = time_left_to_report(driver, view.timing.confirm_live) is None
    return own_report(driver, view.uid) is not None or (driver.report is None and silent)


def row_ends_at(view: View) -> datetime | None:
    """Return when the driver will have run for long enough to end the row; None if no row can end."""
    failure = last_failure(view)
    return parse(failure.at) + STEADY if failure is not None and failure.count and is_steady(view) else None


def _next(before: LastFailure | None, view: View, failure: Failure, submission: str, driver: str) -> LastFailure:
    rendered, now = view.status.rendered, view.now
    count = before.count + 1 if before is not None else 1
    since = before.since or before.at if before is not None and before.count else stamp(now)
    names = {"submission": submission[:128], "driver": driver[:64]}
    # This look may write another document; the status follows it, so it still names the one before.
    names["revision"] = rendered.token if rendered is not None else ""
    return LastFailure(
        cause=failure.cause[:1024], exit_code=failure.code, count=count, at=stamp(now), since=since, **names
    )


def _is_restarted(view: View) -> bool:
    """Return whether the operator has ended the driver itself, which counts as a failure of Apache's application."""
    rollout = view.status.rollout
    if rollout is None or view.application is None or (rollout.method, rollout.phase) != ("Restart", "Patched"):
        return False
    return rollout.submission == view.application.failed_submission != ""
