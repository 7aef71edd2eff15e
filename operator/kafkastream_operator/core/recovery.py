"""The state of a subscription from wherever it survived: ConfigMap, status, driver's report, pod. Pure.

Any of them can be lost, edited or restored from a backup. `core.decide` and `core.next_document` use these functions to
find the last document, the last roll-out, and a revision that nobody has used yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core.document import Document, make_document, misfit
from kafkastream_operator.core.drain_evidence import has_applied, own_report
from kafkastream_operator.core.render import renames
from kafkastream_operator.core.secret_bindings import secret_problem
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.subscription import Rendered, Rollout

MAX_BELIEVED_COUNTER = 10**12
"""The largest counter that the operator accepts from others.

A counter near the largest that can be parsed would leave no number for the next revision.
"""


def is_older_than_status(view: View, document: Document | None) -> bool:
    """Return whether somebody has restored an earlier document, as from a backup, so that newer drains are missing.

    The operator writes the status after the document. So a document never falls behind by itself.
    """
    rendered = view.status.rendered
    return document is not None and rendered is not None and document.revision.is_older_than(revision_of(rendered))


def is_behind_its_driver(view: View, document: Document) -> bool:
    """Return whether the driver uses a later revision than the document, as after a restore of etcd.

    The driver ignores such a document until it gets a higher number. And the driver's report may be the only place that
    still names what it reads.
    """
    report = own_report(view.driver, view.uid)
    if report is None or report.applied is None or report.hash == document.hash:
        return False
    return document.revision.is_older_than(report.applied) and _is_believed(report.applied)


def document_in_status(view: View) -> Document | None:
    """Return the document as the status has it; None if the status has no copy."""
    rendered = view.status.rendered
    if rendered is None or not view.status.kept:
        return None
    return Document(revision_of(rendered), view.status.kept)


def document_in_report(view: View) -> Document | None:
    """Return the document that the driver uses, for when ConfigMap and status are lost; None if it cannot be used.

    Only the driver's own report counts, and only if its hash shows that the document is as it was rendered. Each
    cluster must still be allowed its Secret, because held streams are served again as they stand there.
    """
    report = own_report(view.driver, view.uid)
    if report is None or report.applied is None or report.streams is None:
        return None
    clusters = [cluster for stream_content in report.streams.values() for cluster in stream_content["clusters"].items()]
    if any(secret_problem(name, content, view.spec.secrets) for name, content in clusters) or misfit(report.streams):
        return None
    document = make_document(report.applied, report.streams, {}, view.uid)
    return document if document.hash == report.hash else None


def last_rollout(view: View) -> Rollout | None:
    """Return the last roll-out for when the status is lost; None if this is the very first document."""
    driver = view.driver
    started = Revision.parse(driver.token) if driver is not None else None
    if started is None and view.application is not None and (driver is None or not driver.running):
        # The next driver starts with this revision. A running driver may be from before the last patch.
        started = Revision.parse(view.application.token)
    if started is not None:
        return Rollout(token=started.token, method="Restart", phase="Confirmed", at=stamp(view.now))
    if driver is not None and driver.report is not None and driver.report.applied is not None:
        return Rollout(token=driver.report.applied.token, method="Reload", phase="Confirmed", at=stamp(view.now))
    document = view.config_map.document if view.config_map is not None else None
    if document is None:
        return None
    # Every driver begins with the first document. Whether a later one has reached the driver cannot be known any more.
    known = document.revision if document.revision.counter == 1 else replace(document.revision, counter=0)
    return Rollout(token=known.token, method="Adopt", phase="Confirmed", at=stamp(view.now))


def unconfirmed_renames(view: View, document: Document | None) -> Mapping[str, str]:
    """Return {new id: old id} of the document's renames that no driver has reported to have."""
    if document is None or has_applied(document.revision, subscription=view.uid, driver=view.driver):
        return {}
    return {new: old for old, new in renames(document.streams).items()}


def next_revision(view: View, previous: Document | None) -> Revision:
    """Return a revision, without a hash, that is later than every one that anybody has seen."""
    seen = _revisions_seen(view, previous)
    lineage = (seen[0].lineage if seen else None) or view.fresh_lineage
    return Revision(lineage=lineage, counter=1 + max((revision.counter or 0 for revision in seen), default=0))


def revision_of(rendered: Rendered) -> Revision:
    """Return the revision that the status has as rendered."""
    return Revision(rendered.hash, rendered.counter, rendered.lineage)


def _revisions_seen(view: View, previous: Document | None) -> list[Revision]:
    """Return the operator's own revisions first, then the ones of others that can be true."""
    rendered, rollout = view.status.rendered, view.status.rollout
    driver = view.driver if view.driver is not None and view.driver.owned else None
    report = driver.report if driver is not None and driver.report is not None else None
    own = [
        previous.revision if previous is not None else None,
        revision_of(rendered) if rendered is not None else None,
    ]
    of_others = [
        Revision.parse(rollout.token) if rollout is not None else None,
        Revision.parse(view.application.token) if view.application is not None else None,
        Revision.parse(driver.token) if driver is not None else None,
        report.applied if driver is not None and report is not None and report.pod == driver.uid else None,
    ]
    believed = [revision for revision in of_others if revision is not None and _is_believed(revision)]
    return [*(revision for revision in own if revision is not None), *believed]


def _is_believed(revision: Revision) -> bool:
    return (revision.counter or 0) <= MAX_BELIEVED_COUNTER
