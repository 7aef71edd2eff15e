"""A query at rest: its checkpoint, its progress and how to reach its clusters. Tools only; reads, never writes.

`add_query_arguments` adds the arguments that choose a query, and `open_query` opens it: a checkpoint folder, or the
checkpoint of a sink of an `app.yaml`. A query may join several sources; ours are found by their offset documents.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dynamic_kafka.app.config.app_config import STATE_FOLDER, AppConfig
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.query.checkpoints import (
    Batches,
    Checkpoint,
    Logged,
    find_old_checkpoint,
    newest_in_sink,
    our_document,
)
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import OffsetDocumentError, OptionError, StaleCheckpointError
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.planning.amendments import Amendment, Amendments
from dynamic_kafka.planning.codec import decode, fingerprint
from dynamic_kafka.planning.plan import ranges_between
from dynamic_kafka.planning.progress import OffsetDocument
from dynamic_kafka.planning.splits import SplitRange


@dataclass(frozen=True)
class SavedProgress:
    """What a checkpoint says of one of our sources.

    Attributes:
        batches: Spark's own numbers.
        source: the source's place among those of the query.
        start: the document before the pending batch; without one the latest that was committed.
        end: the end of the pending batch; None when no batch is pending, or it reads nothing from this source.
    """

    batches: Batches
    source: str
    start: OffsetDocument
    end: OffsetDocument | None

    @property
    def latest(self) -> OffsetDocument:
        """What the next plan goes on from."""
        return self.end or self.start

    @property
    def key(self) -> tuple[str, str]:
        """The two documents of the pending batch, as amendments name it."""
        assert self.end is not None
        return fingerprint(self.start), fingerprint(self.end)

    def ranges(self) -> list[SplitRange]:
        """What the pending batch was planned to read."""
        return ranges_between(self.start, self.end) if self.end is not None else []

    def remaining(self, amendments: Iterable[Amendment]) -> list[SplitRange]:
        """What is still to be read of it."""
        return Amendments(amendments).remaining(self.ranges(), self.key) if self.end is not None else []


@dataclass(frozen=True)
class SavedQuery:
    """A query's state at rest, and how to reach its clusters.

    Attributes:
        name: how to speak of it.
        options: the source's options; None when only a folder was given.
        state: the query's `stateLocation`; None when it has none, or it is not known.
        files: the folder of the query's file sink; None when its sink is another, or only a folder was given.
    """

    name: str
    checkpoint: Checkpoint
    saved: SavedProgress
    options: SourceOptions | None
    state: StateLocation | None
    files: str | None = None

    @property
    def query(self) -> str:
        """The query's id, which its folder in the state location is named after."""
        return self.saved.latest.query

    def old_checkpoint(self) -> StaleCheckpointError | None:
        """Why `run` would refuse the checkpoint for what its file sink has; None if it would not."""
        if self.files is None or (self.options is not None and self.options.allow_old_checkpoint):
            return None
        try:
            return find_old_checkpoint(self.checkpoint, self.files)
        except OptionError:
            return None  # Spark reaches more file systems than pyarrow does: `run` only warns

    def has_pending(self) -> bool:
        """Whether the file sink has the pending batch: then a restart commits it, and reads nothing of it again."""
        pending = self.saved.batches.pending
        if self.files is None or pending is None:
            return False
        try:
            newest = newest_in_sink(self.files)
        except OptionError:
            return False
        return newest is not None and newest >= pending

    def writable_state(self) -> StateLocation:
        """The state location, to write to.

        Raises:
            OptionError: there is none that the query would look at.
        """
        if self.state is None:
            raise OptionError(
                f"{self.name}: which stateLocation the query uses is not known: give app.yaml instead of the"
                " checkpoint, or name it with --state-location. A query without one obeys neither `accept` nor"
                " `abandon`: set the option first"
            )
        if not self.query:
            raise OptionError(f"{self.name}: the checkpoint was written by version 1 and names no query: run it once")
        return self.state


def add_query_arguments(parser: argparse.ArgumentParser, *, only_app: bool = False) -> None:
    """The arguments that choose a target."""
    what = "the application's file" if only_app else "a query's checkpoint folder, or the application's file"
    parser.add_argument("target", metavar="APP.YAML" if only_app else "CHECKPOINT|APP.YAML", help=what)
    parser.add_argument("--sink", metavar="NAME", help="which sink's query, where app.yaml has several")
    parser.add_argument("--source", metavar="N", help="which source of the query, where several are dynamic-kafka")
    parser.set_defaults(only_app=only_app)
    if not only_app:
        parser.add_argument("--state-location", metavar="URI", help="the query's stateLocation, beside a CHECKPOINT")


def open_query(arguments: argparse.Namespace, *, may_be_new: bool = False) -> SavedQuery:
    """Open what the arguments name.

    Args:
        may_be_new: a query of an app.yaml that has planned nothing yet is fine.

    Raises:
        OptionError: it is neither a checkpoint nor an app.yaml, or leaves open which query is meant.
        OffsetDocumentError: what is saved does not parse.
    """
    config = app_config(arguments.target)
    if config is None:
        checkpoint = Checkpoint(arguments.target)
        if arguments.only_app:
            what = "is a checkpoint" if checkpoint.has("offsets") else "is no file"
            raise OptionError(
                f"{arguments.target} {what}; {arguments.command} needs the app.yaml, since it asks metadata and"
                " clusters (inspect takes a checkpoint)"
            )
        uri = arguments.state_location
        if uri is None and checkpoint.has(STATE_FOLDER):
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
        raise OptionError(f"{name}: its query has planned nothing yet, {checkpoint.uri} has no batch: run it first")
    saved = nothing_saved() if new else read_saved(checkpoint, arguments.source)
    return SavedQuery(name, checkpoint, saved, options, state, files)


def app_config(path: str) -> AppConfig | None:
    """The `app.yaml` of that path; None for a folder or a URI."""
    if path.endswith((".yaml", ".yml")) or Path(path).is_file():
        return load_config(path)
    return None


def read_saved(checkpoint: Checkpoint, source: str | None = None) -> SavedProgress:
    """Read our progress.

    Args:
        source: the source's place among those of the query; only needed where several are ours.

    Raises:
        OptionError: there is none of ours in it, or several and none was chosen.
        OffsetDocumentError: a document is damaged or newer than this version.
    """
    batches = checkpoint.batches()
    if batches.planned is None and (found := checkpoint.looks_like()):
        raise OptionError(f"{checkpoint.uri} {found}; a query's own checkpoint or an app.yaml is needed")
    if batches.planned is None:
        raise OptionError(
            f"{checkpoint.uri} holds no batch of a Spark query (no file in `offsets`): give the query's own checkpoint,"
            " once it has planned something"
        )
    logged = checkpoint.offsets(batches.planned)
    chosen = _ours(logged, source, checkpoint)
    latest = decode(chosen.text or "{}")
    if batches.pending is None:
        return SavedProgress(batches, chosen.name, latest, None)
    start, before = OffsetDocument(), None
    if batches.planned > 0:
        before = next(item for item in checkpoint.offsets(batches.planned - 1) if item.name == chosen.name).text
        start = decode(before) if before is not None else start
    # A batch that another source brought about, or a watermark, reads nothing from this one.
    return SavedProgress(batches, chosen.name, start, None if before == chosen.text else latest)


def nothing_saved() -> SavedProgress:
    """The progress of a query that has not begun."""
    return SavedProgress(Batches(None, None), "0", OffsetDocument(), None)


def _ours(logged: tuple[Logged, ...], source: str | None, checkpoint: Checkpoint) -> Logged:
    ours = [item for item in logged if item.text is not None and our_document(item.text) is not None]
    if not ours and len(logged) == 1 and logged[0].text is not None:
        decode(logged[0].text)  # says what is wrong with the only one there is
    found = [item for item in ours if source in (None, item.name)]
    if len(found) == 1:
        return found[0]
    if not ours:
        raise OffsetDocumentError(f"{checkpoint.uri}: none of the query's sources is dynamic-kafka")
    places = ", ".join(item.name for item in ours)
    raise OptionError(f"{checkpoint.uri}: choose one of the query's sources with --source; ours are {places}")
