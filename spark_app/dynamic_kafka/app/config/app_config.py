"""A checked `app.yaml`, and its consequences for each sink. Driver and tools; pure.

The fields are in `schema.py`, `loading.py` reads and checks the file. Here are a sink's checkpoint, its consumer group
and the options of its source. References to secrets stay as they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dynamic_kafka.app.config.schema import AppFile, Sink, Transformation
from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import SourceOptions, parse_options

STATE_FOLDER = "dynamic-kafka"
"""Within a sink's checkpoint: the source's `stateLocation`. Spark leaves folders that it does not know alone."""
_COMMIT_KEYS = ("commitoffsets", "commit.offsets.on.checkpoint")
_GROUP_KEYS = ("kafka.group.id", "properties.group.id")


@dataclass(frozen=True)
class AppConfig:
    """A checked `app.yaml`.

    Attributes:
        file: its content.
        source: its path, for messages.
        checkpoint: the base folder of all checkpoints, without a slash at its end.
        lines: {key in lower case: line in the file} of the options.
    """

    file: AppFile
    source: str
    checkpoint: str
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The application's name."""
        return self.file.name

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """The sinks in the order of the file."""
        return tuple(self.file.sinks)

    def sink(self, name: str | None = None) -> Sink:
        """The sink of that name, or the only one.

        Raises:
            OptionError: there is none, or there are several and no name was given.
        """
        known = ", ".join(sink.name for sink in self.sinks)
        found = [sink for sink in self.sinks if name in (None, sink.name)]
        if len(found) != 1:
            wrong = f"no sink {name!r}" if name is not None else "it has several sinks"
            raise OptionError(f"{self.source}: {wrong}; choose with --sink: {known}")
        return found[0]

    def transformation_of(self, sink: Sink) -> Transformation | None:
        """What happens to the stream before a sink gets it."""
        return sink.transformation or self.file.transformation

    def checkpoint_of(self, sink: Sink) -> str:
        """The checkpoint of a sink's query: `<checkpoint>/<sink name>`."""
        return f"{self.checkpoint}/{sink.name}"

    def where_is(self, client_property: str) -> str:
        """How to speak of the place of a client property in the file."""
        for prefix in ("kafka.", "properties."):
            if prefix + client_property in self.lines:
                return f"{self.source}:{self.lines[prefix + client_property]}: options.{prefix}{client_property}"
        return f"{self.source}: options"

    def source_options(self, sink: Sink) -> dict[str, str]:
        """The options of a sink's source as the user means them: his own, and what the file says elsewhere."""
        return _source_options(self.file, self.checkpoint_of(sink), sink)

    def parsed_options(self, sink: Sink) -> SourceOptions:
        """The same, checked and resolved."""
        return parse_options(self.source_options(sink), mode="streaming")

    def reader_options(self, sink: Sink) -> dict[str, str]:
        """What Spark gets: the same, but for commits, which the application makes itself (the last one too)."""
        options = {k: v for k, v in self.source_options(sink).items() if k.lower() not in _COMMIT_KEYS}
        options["commitOffsets"] = "false"
        if self.parsed_options(sink).commit_offsets:
            options["applicationCommits"] = "true"
        return options


def _source_options(file: AppFile, checkpoint: str, sink: Sink) -> dict[str, str]:
    options = dict(file.options)
    keys = {key.lower() for key in options}
    if file.metadata is not None:
        options["metadataPath"] = file.metadata
    if file.streams is not None and file.streams.ids is not None:
        options["streamIds"] = ";".join(file.streams.ids)
    if file.streams is not None and file.streams.pattern is not None:
        options["streamPattern"] = file.streams.pattern
    if "statelocation" not in keys:
        options["stateLocation"] = f"{checkpoint}/{STATE_FOLDER}"
    if sink.group_id is not None:
        options = {key: value for key, value in options.items() if key.lower() not in _GROUP_KEYS}
        options["kafka.group.id"] = sink.group_id
    return options


def describe(config: AppConfig) -> Mapping[str, Any]:
    """What the application is about to do, for its first log line. Names only: no option's value is shown."""
    return {
        "application": config.name,
        "sinks": [sink.name for sink in config.sinks],
        "checkpoint": config.checkpoint,
        "options": sorted(config.file.options),
    }
