"""A query that has ended by itself, and reads nothing more. Pure; `core.decide` and conditions call it.

Its driver reports that before it exits, and no report follows. Spark's operator may delete the pod with the report, so
the subscription's status keeps what counts of it.
"""

from __future__ import annotations

from kafkastream_operator.core.application import ALIVE
from kafkastream_operator.core.drain_evidence import own_report
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import Finished


def last_finish(view: View) -> Finished | None:
    """Return the end of the application's queries; None if they have not ended, or a driver reads again since.

    A re-run of finished queries reports their end again; the time stays that of the first report. Until a new driver
    reports, it is not known whether it has another checkpoint. While the application does not run, another pod may have
    its driver's name, so that no report counts.
    """
    report, known, application = own_report(view.driver, view.uid), view.status.finished, view.application
    if report is None or view.driver is None or application is None or application.life != "Running":
        return known
    if not report.finished:
        return None
    return Finished(
        at=known.at if known is not None else stamp(view.now),
        revision=report.applied.token if report.applied is not None else "",
        driver=view.driver.uid[:64],
        submission=application.submission[:128],
    )


def reads_no_more(view: View) -> bool:
    """Return whether nothing of the application reads any topic: its queries have ended, and no other run has begun."""
    found, report, application = last_finish(view), own_report(view.driver, view.uid), view.application
    if found is None or application is None:
        return found is not None
    if application.life == "Running":
        return report is not None and report.finished
    return application.life not in ALIVE and application.submission == found.submission
