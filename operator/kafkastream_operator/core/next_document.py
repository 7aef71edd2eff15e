"""The document that a subscription's ConfigMap should have next. Pure; `core.decide` calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dynamic_kafka.metadata.model import Revision
from kafkastream_operator.core import recovery
from kafkastream_operator.core.conditions import subscription as conditions
from kafkastream_operator.core.document import MAX_BYTES, Document, Key, make_document, misfit, pack, size
from kafkastream_operator.core.drain_evidence import missing_evidence, own_report
from kafkastream_operator.core.finished import reads_no_more
from kafkastream_operator.core.release import released_topics, unused
from kafkastream_operator.core.render import PreviousStreams, Rendering, drain_rules, previous_streams, render
from kafkastream_operator.core.resolve import Resolved
from kafkastream_operator.core.rollout.in_force import takes_changes_live
from kafkastream_operator.core.secret_bindings import secret_problem
from kafkastream_operator.core.timestamps import stamp
from kafkastream_operator.core.view import View
from kafkastream_operator.models.conditions import Condition
from kafkastream_operator.models.fields import MAX_CLUSTERS
from kafkastream_operator.models.subscription import MAX_HOME


@dataclass(frozen=True)
class NextDocument:
    """The document that should be there, and how it came about.

    Attributes:
        document: None if there is none yet, and nothing may be rendered.
        written: whether the ConfigMap has to be written.
        rendering: None if nothing was rendered: the document stays as it was.
        conditions: why the rendered document was not taken.
        released: {topic that leaves the document: why}.
        unused_releases: new releases that name nothing that drains.
    """

    document: Document | None
    written: bool
    rendering: Rendering | None
    conditions: tuple[Condition, ...]
    released: Mapping[Key, str] = field(default_factory=dict)
    unused_releases: tuple[str, ...] = ()


def next_document(
    view: View, resolved: Resolved, previous: Document | None, older: Document | None, paused: str
) -> NextDocument:
    """Return the document that should be there.

    Args:
        previous: the document in the ConfigMap; None if it is lost, edited, or older than the status.
        older: that document, if it is older than the status.
        paused: why nothing may change; "" if it may.
    """
    reported = view.driver.report.streams if view.driver is not None and view.driver.report is not None else None
    copies = (view.status.kept or None, reported, older.streams if older is not None else None)
    before = previous_streams(previous, view.status.draining, *copies)
    if previous is None and not before.entries and _must_wait(view, resolved):
        # The driver's pod waits for the first document, and so starts with everything that was asked for.
        return NextDocument(None, False, None, conditions.streams_resolved(resolved, first=True))
    drifted = view.config_map is None or view.config_map.drifted
    if previous is not None and (paused or resolved.problem):
        return NextDocument(previous, drifted, None, ())
    behind = previous is not None and recovery.is_behind_its_driver(view, previous)
    if previous is not None and behind:
        # Somebody has restored an older document: only the report names what the driver has begun to read since.
        both = previous_streams(None, view.status.draining, previous.streams, reported)
        before = replace(both, drain_rules=previous.drain)
    last = _last_document(view, resolved, before)
    if (paused or resolved.problem) and last is not None:
        return NextDocument(last, True, None, ())
    next_revision, finished = recovery.next_revision(view, previous), reads_no_more(view)
    rendered_with = partial(
        render,
        resolved,
        before,
        next_counter=next_revision.counter or 1,
        now=stamp(view.now),
        waits_for=lambda key, counter, quiet_s: (
            missing_evidence(
                key,
                since=replace(next_revision, counter=counter),
                quiet_s=quiet_s,
                subscription=view.uid,
                life=view.application.life if view.application is not None else "Absent",
                driver=view.driver,
            )
            if not finished
            else ""
        ),
        homes=homes(view) if not finished else (),
        secret_problem=lambda cluster, content: secret_problem(cluster, content, view.spec.secrets),
        # Without a status it is not known which releases have counted. Then none counts; the user has to write it anew.
        released=released_topics(view.released if view.status.rendered else (), view.status.released, before.draining),
    )
    rendering = rendered_with(together=_costs_a_restart(view))
    if previous is None or rendering.streams != previous.streams:
        rendering = rendered_with(together=False)  # what is drained leaves with a change that is due anyway
    if previous is not None and rendering.streams == previous.streams:
        revision = replace(next_revision, hash=previous.hash)
        document = Document(revision, previous.streams, rendering.drain, view.uid)
    else:
        document = make_document(next_revision, rendering.streams, rendering.drain, view.uid)
    known_revision = _known_revision(view, document, previous, behind=behind)
    if known_revision is not None:
        document = replace(document, revision=known_revision)
    if previous is not None and document == previous:
        document = previous  # what was computed of it counts
    if known_revision is None and (why := misfit(document.streams)):
        # A running driver would reject it, and a driver that starts would end: neither gets it.
        refused = conditions.streams_conflict(why)
    elif document is not previous and (stored := size(pack(document))) > MAX_BYTES:
        refused = conditions.too_large(stored)
    else:
        without_use = unused(view.released, view.status.released, before.draining) if view.status.rendered else ()
        written = document is not previous or drifted
        return NextDocument(document, written, rendering, (), rendering.released, without_use)
    return NextDocument(previous or last, previous is None or drifted, None, refused)


def _costs_a_restart(view: View) -> bool:
    """Return whether the application is restarted for each change of the document."""
    strategy = view.spec.update_strategy
    return strategy == "Restart" or (strategy == "Auto" and not takes_changes_live(view.driver))


def homes(view: View) -> tuple[str, ...]:
    """Return the clusters that hold internal topics of the application, by the last report of its driver."""
    report = own_report(view.driver, view.uid)
    # A driver that starts has not reported yet, and needs the topics to start.
    if report is None:
        return view.status.homes
    return tuple(sorted(home for home in report.homes if len(home) <= MAX_HOME)[:MAX_CLUSTERS])


def _last_document(view: View, resolved: Resolved, before: PreviousStreams) -> Document | None:
    """Return the last document from the status or the driver's report, with this subscription's UID.

    Neither has the `drain` settings. Those that are still known are put in, for a stream that is deleted later.
    """
    document = recovery.document_in_status(view) or recovery.document_in_report(view)
    if document is None:
        return None
    return make_document(document.revision, document.streams, drain_rules(document.streams, resolved, before), view.uid)


def _known_revision(view: View, document: Document, previous: Document | None, *, behind: bool) -> Revision | None:
    """Return the revision that has this content already; None if the content is new."""
    if previous is not None and document.hash == previous.hash and not behind:
        return previous.revision
    rendered = view.status.rendered
    if previous is None and rendered is not None and document.hash == rendered.hash:
        # The document was lost or edited. Its restored content is no new revision.
        return recovery.revision_of(rendered)
    return None


def _must_wait(view: View, resolved: Resolved) -> bool:
    """Return whether the first document has to wait: without a missing stream, a bounded run would end too early."""
    if resolved.missing or resolved.problem or not resolved.streams:
        return True
    # Under a pattern, a held stream holds up no other stream. But one cluster has to be there to begin with.
    empty = not any(stream_content["clusters"] for stream_content in resolved.streams.values())
    return bool(resolved.held) and (view.spec.streams.ids is not None or empty)
