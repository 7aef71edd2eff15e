"""What a tool works on: a checkpoint folder, or the checkpoint of a sink of an `app.yaml`. Tools only."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from dynamic_kafka.app.config.model import STATE_FOLDER, AppConfig, load_config
from dynamic_kafka.app.query.checkpoints import Checkpoint, newest_in_sink
from dynamic_kafka.app.query.old_checkpoint import find_old_checkpoint
from dynamic_kafka.app.tools.saved_progress import Saved, nothing_saved, read_saved
from dynamic_kafka.driver.state_store import StateLocation
from dynamic_kafka.errors import OptionError, StaleCheckpointError
from dynamic_kafka.options import SourceOptions


@dataclass(frozen=True)
class Target:
    """A query's state at rest, and how to reach its clusters.

    Attributes:
        name: how to speak of it.
        options: the source's options; None when only a folder was given.
        state: the query's `stateLocation`; None when it has none, or it is not known.
        files: the folder of the query's file sink; None when its sink is another, or only a folder was given.
    """

    name: str
    checkpoint: Checkpoint
    saved: Saved
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


def add_target(parser: argparse.ArgumentParser, *, only_app: bool = False) -> None:
    """The arguments that choose a target."""
    what = "the application's file" if only_app else "a query's checkpoint folder, or the application's file"
    parser.add_argument("target", metavar="APP.YAML" if only_app else "CHECKPOINT|APP.YAML", help=what)
    parser.add_argument("--sink", metavar="NAME", help="which sink's query, where app.yaml has several")
    parser.add_argument("--source", metavar="N", help="which source of the query, where several are dynamic-kafka")
    parser.set_defaults(only_app=only_app)
    if not only_app:
        parser.add_argument("--state-location", metavar="URI", help="the query's stateLocation, beside a CHECKPOINT")


def open_target(arguments: argparse.Namespace, *, may_be_new: bool = False) -> Target:
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
    return Target(name, checkpoint, saved, options, state, files)


def app_config(path: str) -> AppConfig | None:
    """The `app.yaml` of that path; None for a folder or a URI."""
    if path.endswith((".yaml", ".yml")) or Path(path).is_file():
        return load_config(path)
    return None
