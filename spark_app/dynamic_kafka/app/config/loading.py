"""Read and check `app.yaml`. Driver and tools; reads the one file and nothing else.

`schema.py` checks each field by itself; the checks between fields are here. The options of the source are checked last,
by the source's own parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dynamic_kafka.app.config.app_config import AppConfig
from dynamic_kafka.app.config.schema import AppFile, Sink
from dynamic_kafka.errors import MetadataInvalidError, OptionError
from dynamic_kafka.metadata.validation_errors import explain
from dynamic_kafka.metadata.yaml.located import Located, Problem
from dynamic_kafka.metadata.yaml.reader import read_yaml
from dynamic_kafka.options import SourceOptions
from dynamic_kafka.options.checks import check_watermark_delay
from dynamic_kafka.options.durations import unit_warning
from dynamic_kafka.options.java_client_properties import check_no_literal_secrets
from dynamic_kafka.options.secrets import check_no_credentials
from dynamic_kafka.state.file_systems import canonical_uri


def load_config(path: str | Path) -> AppConfig:
    """Read and check `app.yaml`.

    Raises:
        OptionError: the file has mistakes; the message lists each as `file:line: field: what is wrong`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise OptionError(f"{path} is a folder; give the path of an app.yaml (inspect takes a checkpoint)") from None
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}; give the path of an app.yaml") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    return parse_config(text, source=str(path))


def parse_config(text: str, *, source: str) -> AppConfig:
    """Parse and check the text of an `app.yaml`.

    Raises:
        OptionError: as `load_config`, with `source` as the file's path.
    """
    if not text.strip():
        raise OptionError(f"{source}:1: the file is empty; docs/how-to/application.md describes its fields")
    try:
        located = read_yaml(text, source)
        if _is_metadata(located.value):
            raise OptionError(
                f"{source} looks like a metadata document, not an app.yaml; the app.yaml names it in `metadata`"
            )
        if not isinstance(located.value, dict):
            raise located.report(
                [Problem((), "must be a mapping; docs/how-to/application.md describes its fields")], source
            )
        file = _validated(located, source)
        lines = {key.lower(): located.line_of(("options", key)) for key in file.options}
        notes = (*_without_unit(located.value), *_without_effect(file))
        config = AppConfig(file, source, file.checkpoint.rstrip("/") or "/", lines, notes)
        problems = _cross_check(config)
        if problems:
            raise located.report(problems, source)
    except MetadataInvalidError as error:
        raise OptionError(str(error)) from None
    return config


def _is_metadata(value: Any) -> bool:
    """Return whether this is a metadata document, the other file that users write."""
    if isinstance(value, list):
        return any(isinstance(part, dict) and "streamId" in part for part in value)
    return isinstance(value, dict) and "sinks" not in value and ("contract" in value or "revision" in value)


def _validated(located: Located, source: str) -> AppFile:
    try:
        file = AppFile.model_validate(located.value)
    except ValidationError as error:
        raise located.report([*located.problems, *explain(error, AppFile)], source) from None
    if located.problems:
        raise located.report(located.problems, source)
    return file


def _cross_check(config: AppConfig) -> list[Problem]:
    """Return the mistakes in files whose fields are each valid by themselves."""
    file = config.file
    given = {key.lower(): key for key in file.options}
    problems = [
        Problem(("options", given[key]), f"is already set by the field `{field}`; keep one of them")
        for key, field, value in (
            ("streamids", "streams", file.streams),
            ("stream-ids", "streams", file.streams),
            ("streampattern", "streams", file.streams),
            ("stream-pattern", "streams", file.streams),
            ("metadatapath", "metadata", file.metadata),
            ("deadletters", "internalTopics", file.internal_topics),
            ("internaltopics", "internalTopics", file.internal_topics),
        )
        if key in given and value is not None
    ]
    problems += [
        Problem(("spark", key), "is not a setting of Spark: those begin with `spark.`")
        for key in file.spark
        if not key.startswith("spark.")
    ]
    problems += [
        Problem(("options", given[key]), "is set by the application itself; remove it")
        for key in ("applicationcommits", "applicationqueries", "readreports")
        if key in given
    ]
    problems += _credentials(("checkpoint",), file.checkpoint)
    for index, sink in enumerate(file.sinks):
        if sink.name in [other.name for other in file.sinks[:index]]:
            text = f"another sink is named {sink.name!r} too; give each its own name"
            problems.append(Problem(("sinks", index, "name"), text))
        problems += [*_sink_problems(index, sink), *_shared_folder(index, sink, file.sinks[:index])]
    return problems or _option_problems(config)


def _without_unit(content: dict[str, Any], at: str = "") -> Iterator[str]:
    """Yield a warning for each duration of a valid file that lacks a unit. The options' parser warns of its own."""
    for key, value in content.items():
        if key in ("gracePeriod", "restartBackoff", "interval", "delay"):
            warning = unit_warning(str(value), where=at + key)
            yield from [warning] if warning else []
        elif key in ("trigger", "watermark") and value:
            yield from _without_unit(value, f"{at}{key}.")
        elif key == "sinks":
            for index, sink in enumerate(value):
                yield from _without_unit(sink, f"{key}[{index}].")


def _without_effect(file: AppFile) -> Iterator[str]:
    """Yield a warning for each setting about internal topics that needs another one, which is not there."""
    if file.internal_topics is None:
        if {key.lower() for key in file.options} & {"internaltopicssetup", "internal.topics.setup"}:
            yield "option 'internalTopicsSetup' has no effect without the field `internalTopics`"
    elif file.internal_topics.dead_letters is not None and not file.writes_dead_letters:
        yield "internalTopics.deadLetters has no effect without the option mode=deadletter or lateRows=deadletter"


def _shared_folder(index: int, sink: Sink, others: list[Sink]) -> list[Problem]:
    """Refuse a second file sink in one folder.

    Spark's file sink logs batches there by their numbers. Each of two queries would skip the other's numbers.
    """
    if sink.folder is None:
        return []
    mine = canonical_uri(sink.folder)
    return [
        Problem(
            ("sinks", index, "options"),
            f"writes to the folder of sink {other.name!r}: each would skip and LOSE batches; set another `path`",
        )
        for other in others
        if other.folder is not None and canonical_uri(other.folder) == mine
    ]


def _credentials(at: tuple[str | int, ...], uri: str) -> list[Problem]:
    try:
        check_no_credentials(uri, "it")
    except OptionError as error:
        return [Problem(at, str(error).removeprefix("it "))]
    return []


def _sink_problems(index: int, sink: Sink) -> list[Problem]:
    at = ("sinks", index, "options")
    problems = [
        Problem((*at, key), "is set by the application: `checkpoint` of the file is the base of all checkpoints")
        for key in sink.options
        if key.lower() == "checkpointlocation"
    ]
    for key, value in sink.options.items():
        if key.lower() == "path":
            problems += _credentials((*at, key), value)
    client = {key[6:].lower(): value for key, value in sink.options.items() if key.lower().startswith("kafka.")}
    try:
        check_no_literal_secrets(client)
    except OptionError as error:
        problems.append(Problem(at, str(error)))
    return problems


def _option_problems(config: AppConfig) -> list[Problem]:
    problems: list[Problem] = []
    groups: dict[str, str] = {}
    for index, sink in enumerate(config.sinks):
        try:
            options = config.parsed_options(sink)
        except OptionError as error:
            problem = _option_problem(str(error), config.file)
            if problem not in problems:
                problems.append(problem)
            continue
        problems += [problem for problem in _watermark_problems(config, options) if problem not in problems]
        group = options.group_id
        if group is not None and options.commit_offsets and group in groups:
            first = groups[group]
            problems.append(
                Problem(
                    ("sinks", index, "groupId") if sink.group_id else ("sinks", index),
                    f"sinks {first!r} and {sink.name!r} would commit to the same group {group!r}: give each its own"
                    " `groupId`",
                )
            )
        elif group is not None:
            groups[group] = sink.name
    return problems


def _watermark_problems(config: AppConfig, options: SourceOptions) -> Iterator[Problem]:
    wanted = config.file.watermark
    if wanted is not None:
        try:
            check_watermark_delay(wanted.delay, options.least_delay_ms, "this watermark")
        except OptionError as error:
            yield Problem(("watermark", "delay"), str(error))
        if options.time_column not in options.columns:
            column = options.time_column
            yield Problem(("options", "columns"), f"lacks '{column}', which the watermark needs: add it")
        if wanted.column not in (None, options.time_column):
            yield Problem(
                ("watermark", "column"),
                f"is {wanted.column}, but the times of this source's rows are in {options.time_column}: take it out",
            )


def _option_problem(message: str, file: AppFile) -> Problem:
    """Return a message of the options' parser as a problem at the option's line, without repeating its name."""
    path = _named_in(message, file)
    if file.metadata is None and "metadatapath" not in {key.lower() for key in file.options}:
        message = message.replace("needs 'metadataPath'", "needs `metadata`")
    if len(path) > 1:
        message = message.replace(f"unknown option '{path[1]}'", "unknown option", 1)
        message = message.removeprefix(f"option '{path[1]}' ").removeprefix(f"option '{path[1]}': ")
    return Problem(path, message.removeprefix("options: "))


def _named_in(message: str, file: AppFile) -> tuple[str | int, ...]:
    """Return the path of the first option that a message of the options' parser names."""
    places = {key: _place_of(key.lower(), message.lower()) for key in file.options}
    named = [key for key, place in places.items() if place >= 0]
    if named:
        return ("options", min(named, key=places.__getitem__))
    return ("options",) if file.options else ()


def _place_of(key: str, message: str) -> int:
    """Return the index at which a message names an option, or -1. Client properties may lack their prefix there."""
    whole = message.find(f"'{key}'")
    prefix, _, name = key.partition(".")
    return message.find(f"property '{name}'") if whole < 0 and prefix in ("kafka", "properties") else whole
