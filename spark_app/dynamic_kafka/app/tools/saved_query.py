"""A query at rest: its checkpoint, its progress and how to reach its clusters. Tools only; reads, never writes.

`add_query_arguments` adds the arguments that choose a query, and `open_query` opens it: a checkpoint folder, or the
checkpoint of a sink of an `app.yaml`. A query may join several sources; ours are found by their offset documents.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dynamic_kafka.app.config.app_config import STATE_FOLDER
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.errors import OffsetDocumentError, OptionError, StaleCheckpointError
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.advance import check_chain, ranges_between
from dynamic_kafka.planning.document.amendments import Amendment, Amendments, check_reported, rewind
from dynamic_kafka.planning.document.codec import decode, fingerprint
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.document.stop_records import StopRecord
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.binding import bound_state
from dynamic_kafka.state.checkpoints import (
    Batches,
    Checkpoint,
    Logged,
    find_old_checkpoint,
    newest_in_sink,
    our_document,
)
from dynamic_kafka.state.store import StateLocation


@dataclass(frozen=True)
class SavedProgress:
    """The progress of one of our sources in a checkpoint.

    Attributes:
        batches: the numbers of Spark's last planned and committed batch.
        source: the source's place among the sources of the query.
        start: the last logged document before the pending batch; if none is pending, the last committed one.
        end: the document of the pending batch; None when no batch is pending, or it reads nothing from this source.
        stop_records: where executors have ended ranges of the last planned batch.
        start_records: the same of the batch that ends with `start`.
        unread: the splits of the last planned batch of which executors have read nothing: their topic is another one.
    """

    batches: Batches
    source: str
    start: OffsetDocument
    end: OffsetDocument | None
    stop_records: tuple[StopRecord, ...] = ()
    start_records: tuple[StopRecord, ...] = ()
    unread: tuple[Split, ...] = ()

    def amended(self, amendments: Iterable[Amendment]) -> Amendments:
        """Return the amendments, with the stop records of the last batch."""
        made = Amendments(amendments).with_stop_records(self.start, self.start_records)
        return made.with_stop_records(self.latest, self.stop_records, self.unread)

    @property
    def latest(self) -> OffsetDocument:
        """The document that the next plan starts from."""
        return self.end or self.start

    @property
    def key(self) -> tuple[str, str]:
        """The fingerprints of the pending batch's two documents, by which amendments name the batch."""
        assert self.end is not None
        return fingerprint(self.start), fingerprint(self.end)

    def ranges(self) -> list[SplitRange]:
        """Return the ranges that the pending batch was planned to read.

        Raises:
            OffsetDocumentError: the batch cannot be repeated, since Spark has not logged the document before it.
        """
        if self.end is None:
            return []
        check_chain(self.start, self.end)
        return ranges_between(self.start, self.end)

    def remaining(self, amendments: Iterable[Amendment]) -> list[SplitRange]:
        """Return the ranges that a replay of the pending batch would still read."""
        return self.amended(amendments).remaining(self.ranges(), self.key) if self.end is not None else []

    def batch_start(self, amendments: Iterable[Amendment]) -> OffsetDocument:
        """Return the progress at the start of the pending batch. All records before it are delivered or left out.

        If documents before the batch are missing, it is the progress after the last logged one, without newer splits.
        """
        applied = self.amended(amendments)
        try:
            return rewind(applied.after(self.latest), self.ranges())
        except OffsetDocumentError:
            return applied.after(self.start)


@dataclass(frozen=True)
class SavedQuery:
    """A query with its checkpoint, saved progress, options and state location.

    Attributes:
        name: the query's name in messages.
        options: the source's options; None when only a checkpoint was given.
        state: its `stateLocation`; None when it has none or it is unknown.
        files: the folder of its file sink; None for other sinks, or when only a checkpoint was given.
    """

    name: str
    checkpoint: Checkpoint
    saved: SavedProgress
    options: SourceOptions | None
    state: StateLocation | None
    files: str | None = None

    @property
    def id(self) -> str:
        """The query's id, which is also the name of its folder in the state location."""
        return self.saved.latest.query

    def refused_start(self) -> str | None:
        """Return why a start would be refused, as far as files show; None if they show no reason."""
        errors: list[OffsetDocumentError] = []
        try:
            if self.options is not None or self.state is not None:
                bound_state(self.state, self.saved.latest)
        except OffsetDocumentError as error:
            errors.append(error)
        try:
            self.saved.ranges()
            # A start with timestampAssigner looks for the ends of ranges without a report.
            finds_ends = self.options is not None and self.options.timestamp_assigner is not None
            if self.id and self.saved.end is None and self.state is not None and not finds_ends:
                applied = self.saved.amended(self.state.amendments(self.id, since=self.saved.latest.number))
                check_reported(applied.after(self.saved.latest), self.state.uri)
        except OffsetDocumentError as error:
            errors.append(error)
        if (old := self.old_checkpoint()) is not None:
            errors.append(old)
        return "; ".join(map(str, errors)) or None

    def old_checkpoint(self) -> StaleCheckpointError | None:
        """Return the error with which `run` would refuse a checkpoint older than its file sink; or None."""
        if self.files is None or (self.options is not None and self.options.allow_old_checkpoint):
            return None
        try:
            return find_old_checkpoint(self.checkpoint, self.files)
        except OptionError:
            return None  # pyarrow cannot reach the folder; Spark may, and `run` only warns

    def sink_has_pending_batch(self) -> bool:
        """Return whether the file sink has the pending batch already. Then a restart commits it without reading.

        Raises:
            OptionError: the sink's folder cannot be opened or read from here. Spark may be able to.
        """
        pending = self.saved.batches.pending
        if self.files is None or pending is None:
            return False
        try:
            newest = newest_in_sink(self.files)
        except OSError as error:
            raise OptionError(f"the sink path {self.files!r} cannot be read: {error}") from error
        return newest is not None and newest >= pending

    def writable_state(self, *, any_state: bool = False) -> StateLocation:
        """Return the state location, to write to.

        Args:
            any_state: whether to accept a location that does not hold the query's state.

        Raises:
            OptionError: it is unknown which one the query reads, or the query has no id yet.
            StateMismatchError: it does not hold the query's state.
        """
        if self.state is None:
            raise OptionError(
                f"{self.name}: the stateLocation is unknown: give app.yaml or --state-location. A query that has none"
                " ignores `accept` and `abandon`: set the option first"
            )
        if not self.id:
            raise OptionError(f"{self.name}: the checkpoint has no offset document yet: run the query once first")
        if not any_state:
            bound_state(self.state, self.saved.latest)
        return self.state


def add_query_arguments(parser: argparse.ArgumentParser, *, only_app: bool = False) -> None:
    """Add the arguments that choose a query."""
    what = "the application's file" if only_app else "a query's checkpoint folder, or the application's file"
    parser.add_argument("query", metavar="APP.YAML" if only_app else "CHECKPOINT|APP.YAML", help=what)
    parser.add_argument("--sink", metavar="NAME", help="the sink whose query is meant, if app.yaml has several")
    parser.add_argument(
        "--source", metavar="N", help="the source that is meant, if several are dynamic-kafka (0: the first)"
    )
    parser.set_defaults(only_app=only_app)
    if not only_app:
        parser.add_argument("--state-location", metavar="URI", help="the query's stateLocation, with a CHECKPOINT")


def open_query(arguments: argparse.Namespace, *, may_be_new: bool = False) -> SavedQuery:
    """Open the query that the arguments choose.

    Args:
        may_be_new: whether to accept a query of an app.yaml that has planned nothing yet.

    Raises:
        OptionError: the argument is neither a checkpoint nor an app.yaml, or does not choose one query.
        OffsetDocumentError: a saved document is damaged or of a newer version.
    """
    given = arguments.query
    config = load_config(given) if given.endswith((".yaml", ".yml")) or Path(given).is_file() else None
    if config is None:
        checkpoint = Checkpoint(given)
        if arguments.only_app:
            what = "is a checkpoint" if checkpoint.has_folder("offsets") else "is not a file"
            raise OptionError(f"{given} {what}; {arguments.command} needs the app.yaml (inspect takes a checkpoint)")
        uri = arguments.state_location
        if uri is None and checkpoint.has_folder(STATE_FOLDER):
            uri = f"{checkpoint.uri}/{STATE_FOLDER}"
        options, name, files = None, checkpoint.uri, None
    else:
        sink = config.sink(arguments.sink)
        checkpoint = Checkpoint(config.checkpoint_of(sink))
        options = config.parsed_options(sink)
        uri, name, files = options.state_location, f"{config.source}, sink {sink.name}", sink.folder
    state = StateLocation(uri) if uri else None
    new = config is not None and checkpoint.planned is None
    if new and not may_be_new:
        raise OptionError(f"{name}: its query has planned no batch yet in {checkpoint.uri}: run it first")
    saved = nothing_saved() if new else read_saved(checkpoint, arguments.source)
    if state is not None:
        last, start = (state.reports_of(document) for document in (saved.latest, saved.start))
        saved = replace(saved, stop_records=tuple(last[1]), start_records=tuple(start[1]), unread=tuple(last[2]))
    elif saved.latest.by_value or saved.start.by_value:
        raise OptionError(
            f"{name}: executors have ended ranges early (timestampAssigner), and only the state location has where:"
            " name it with --state-location"
        )
    return SavedQuery(name, checkpoint, saved, options, state, files)


def read_saved(checkpoint: Checkpoint, source: str | None = None) -> SavedProgress:
    """Read the progress of one of our sources.

    Args:
        source: the source's place among the sources of the query; needed only if several are ours.

    Raises:
        OptionError: the checkpoint has no batch, or several sources of ours and none was chosen.
        OffsetDocumentError: no source is ours, or a document is damaged or of a newer version.
    """
    batches = checkpoint.batches()
    if batches.planned is None and (reason := checkpoint.why_unusable()):
        raise OptionError(f"{checkpoint.uri} {reason}; give a query's own checkpoint or an app.yaml")
    if batches.planned is None:
        raise OptionError(
            f"{checkpoint.uri} holds no batch (no file in `offsets`): give a checkpoint with a planned batch"
        )
    logged = checkpoint.offsets(batches.planned)
    chosen = _ours(logged, source, checkpoint)
    latest = decode(chosen.text or "{}")
    if batches.pending is None:
        return SavedProgress(batches, chosen.name, latest, None)
    start, before = OffsetDocument(), None
    if batches.planned > 0:
        # With its option asyncProgressTrackingEnabled, Spark logs only some batches.
        last = checkpoint.planned_before(batches.planned)
        logged = checkpoint.offsets(batches.planned - 1 if last is None else last)
        before = next(item for item in logged if item.name == chosen.name).text
        start = decode(before) if before is not None else start
    # A batch may be due to another source or to a watermark. It then reads nothing from this source.
    return SavedProgress(batches, chosen.name, start, None if before == chosen.text else latest)


def nothing_saved() -> SavedProgress:
    """Return the progress of a query that has not begun."""
    return SavedProgress(Batches(None, None), "0", OffsetDocument(), None)


def _ours(logged: tuple[Logged, ...], source: str | None, checkpoint: Checkpoint) -> Logged:
    ours = [item for item in logged if item.text is not None and our_document(item.text) is not None]
    if not ours and len(logged) == 1 and logged[0].text is not None:
        decode(logged[0].text)  # raises the reason why the only source is not ours
    chosen = [item for item in ours if source in (None, item.name)]
    if len(chosen) == 1:
        return chosen[0]
    if not ours:
        raise OffsetDocumentError(f"{checkpoint.uri}: none of the query's sources is dynamic-kafka")
    places = ", ".join(item.name for item in ours)
    raise OptionError(f"{checkpoint.uri}: several sources are of dynamic-kafka ({places}): choose one with --source")
