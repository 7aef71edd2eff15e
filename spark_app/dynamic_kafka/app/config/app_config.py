"""A checked `app.yaml`, and the checkpoint, consumer group and source options of each sink. Driver and tools; pure.

`schema.py` has the fields, and `loading.py` reads and checks the file. References to secrets stay unresolved here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynamic_kafka.app.config.schema import AppFile, Sink, Transformation
from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import SourceOptions, parse_options

STATE_FOLDER = "dynamic-kafka"
"""The folder of the source's `stateLocation` within a sink's checkpoint. Spark ignores folders that are not its own."""
_COMMIT_KEYS = ("commitoffsets", "commit.offsets.on.checkpoint")
_GROUP_KEYS = ("kafka.group.id", "properties.group.id")


@dataclass(frozen=True)
class AppConfig:
    """A checked `app.yaml`.

    Attributes:
        source: its path, for messages.
        checkpoint: the base folder of all checkpoints, without a slash at its end.
        lines: the line of each option in the file, by the option's key in lower case.
        warnings: one sentence for the log for each duration of the file that lacks a unit and may mean seconds, and
            for each setting about internal topics without effect.
    """

    file: AppFile
    source: str
    checkpoint: str
    lines: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sinks, in the order of the file."""
        return tuple(self.file.sinks)

    def sink(self, name: str | None = None) -> Sink:
        """Return the sink of this name, or the only sink.

        Raises:
            OptionError: there is no such sink, or there are several and no name was given.
        """
        known = ", ".join(sink.name for sink in self.sinks)
        matching = [sink for sink in self.sinks if name in (None, sink.name)]
        if len(matching) != 1:
            wrong = f"no sink {name!r}" if name is not None else "it has several sinks"
            raise OptionError(f"{self.source}: {wrong}; choose with --sink: {known}")
        return matching[0]

    def transformation_of(self, sink: Sink) -> Transformation | None:
        """Return the transformation between the source and a sink."""
        return sink.transformation or self.file.transformation

    def checkpoint_of(self, sink: Sink) -> str:
        """Return the checkpoint of a sink's query: `<checkpoint>/<sink name>`."""
        return f"{self.checkpoint}/{sink.name}"

    @property
    def state_location(self) -> str:
        """Return the folder of the application's own state: the option `stateLocation`, or one beside its checkpoints.

        Its sinks have theirs in the same option, or within their checkpoints.
        """
        given = (value for key, value in self.file.options.items() if key.lower() == "statelocation")
        return next(given, f"{self.checkpoint}/{STATE_FOLDER}")

    def where_is(self, client_property: str) -> str:
        """Return the place of a client property in the file, for messages."""
        for prefix in ("kafka.", "properties."):
            if prefix + client_property in self.lines:
                return f"{self.source}:{self.lines[prefix + client_property]}: options.{prefix}{client_property}"
        return f"{self.source}: options"

    def source_options(self, sink: Sink, *, home_id: str | None = None) -> dict[str, str]:
        """Return the options of a sink's source: those under `options`, and those that follow from other fields.

        Args:
            home_id: the `cluster.id` of the home of the internal topics, once it is known.
        """
        file, options = self.file, dict(self.file.options)
        has_state = any(key.lower() == "statelocation" for key in options)
        if file.metadata is not None:
            options["metadataPath"] = file.metadata
        if file.streams is not None and file.streams.ids is not None:
            options["streamIds"] = ";".join(file.streams.ids)
        if file.streams is not None and file.streams.pattern is not None:
            options["streamPattern"] = file.streams.pattern
        if not has_state:
            options["stateLocation"] = f"{self.checkpoint_of(sink)}/{STATE_FOLDER}"
        if file.internal_topics is not None:
            options |= file.internal_topics.source_options(home_id, writes_letters=file.writes_dead_letters)
        if sink.group_id is not None:
            options = {key: value for key, value in options.items() if key.lower() not in _GROUP_KEYS}
            options["kafka.group.id"] = sink.group_id
        return options

    def parsed_options(self, sink: Sink) -> SourceOptions:
        """Return the options of a sink's source, parsed. Raises OptionError if one is wrong."""
        return parse_options(self.source_options(sink), mode="streaming")

    @property
    def shared_options(self) -> SourceOptions:
        """The parsed options of the first sink. Those of the others differ in checkpoint and group only."""
        return self.parsed_options(self.sinks[0])

    def reader_options(self, sink: Sink, *, home_id: str | None = None) -> dict[str, str]:
        """Return the options that Spark gets: without commits, which the application makes itself (also the last)."""
        options = {k: v for k, v in self.source_options(sink, home_id=home_id).items() if k.lower() not in _COMMIT_KEYS}
        options["commitOffsets"] = "false"
        if self.parsed_options(sink).commit_offsets:
            options["applicationCommits"] = "true"
        return options
