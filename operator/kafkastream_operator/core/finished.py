"""A query that has ended by itself, and reads nothing more. Pure; `core.decide` and conditions call it.

Its driver reports that before it exits, and leaves it as the termination message of its container. So an operator that
was away at the end finds it later. Spark's operator may delete the pod with both, so the subscription's status keeps
what counts.
"""

from __future__ import annotations

from kafkastream_operator.core.application import ALIVE, Application
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import Finished


def last_finish(view: View) -> Finished | None:
    """Return the end of the application's queries; None if they have not ended, or a driver reads again since.

    A re-run of finished queries reports their end again; the time stays that of the first one. Until a new driver
    reports, it is not known whether it has another checkpoint. While the application does not run, another pod may have
    its driver's name, and each job that may report can annotate the driver's, so that no report counts. The message of
    a container that has ended is the kubelet's.
    """
    known, application, driver = view.status.finished, view.application, view.driver
    report = own_report(driver, view.uid)
    if driver is None or application is None:
        return known
    if application.life == "Running" and report is not None:
        if not report.finished:
            return None
        at, revision = stamp(view.now), report.applied.token if report.applied is not None else ""
    elif application.life == "Completed" and driver.finished_at and not _is_of(known, application):
        at, revision = driver.finished_at[:64], ""
    else:
        return known
    return Finished(
        at=known.at if known is not None else at,
        revision=revision,
        driver=driver.uid[:64],
        submission=application.submission[:128],
    )


def reads_no_more(view: View) -> bool:
    """Return whether nothing of the application reads any topic: its queries have ended, and no other run has begun."""
    finish, report, application = last_finish(view), own_report(view.driver, view.uid), view.application
    if finish is None or application is None:
        return finish is not None
    if application.life == "Running":
        return report is not None and report.finished
    return application.life not in ALIVE and _is_of(finish, application)


def _is_of(finish: Finished | None, application: Application) -> bool:
    return finish is not None and finish.submission == application.submission
