"""The record evaluator of a source: its name, its way to executors, and its loading.

`Evaluation` travels with the source's readers. The driver loads the evaluator at the start, so that a wrong name does
not wait for the first batch. Executors load it once per Python process.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dynamic_kafka.errors import OptionError
from dynamic_kafka.executor.decoding.typed_rows import ValueFormat
from dynamic_kafka.executor.evaluating.evaluators import DESERIALIZER, EVALUATOR, Evaluator, RecordEvaluator
from dynamic_kafka.executor.evaluating.event_times import ASSIGNER, EventTimes, TimestampAssigner
from dynamic_kafka.options import NamedOptions, SourceOptions
from dynamic_kafka.options.checks import check_evaluator_name
from dynamic_kafka.user_code import error_text, import_object, is_import_path, made_of
from dynamic_kafka.wording import did_you_mean, first_few

_METHODS = {
    EVALUATOR: ("is_end_of_stream", "end_of_stream_mask"),
    DESERIALIZER: ("deserialize",),
    ASSIGNER: ("extract_timestamps",),
}


class UserCode(NamedTuple):
    """A class or function of the user's: its `module:Name` or registered name, and its pickle if it has one."""

    name: str
    pickled: bytes | None


@dataclass(frozen=True)
class Evaluation:
    """The evaluator, the deserialiser and the timestamp assigner of a source, and the format of its values."""

    evaluator: UserCode | None
    deserializer: UserCode | None
    options: NamedOptions = field(repr=False)
    values: ValueFormat | None = None
    assigner: UserCode | None = None

    @classmethod
    def of(cls, options: SourceOptions, registered: Mapping[str, bytes]) -> Evaluation | None:
        """Return what the options name; None if rows are only read.

        A deserialiser alone counts if it may refuse records.

        Args:
            registered: pickles by name (`pickled`).

        Raises:
            OptionError: there is no such evaluator or deserialiser, or it cannot be made.
        """
        name, deserializer = options.record_evaluator, options.record_deserializer
        values, times = ValueFormat.of(options), options.timestamp_assigner
        if name is None and options.dead_letters is None and values is None and times is None:
            return None
        if name is not None and not is_import_path(name) and name not in registered:
            known = f"; it was given {first_few(registered)}" if registered else f"; write `MODULE:{name}`"
            meant = did_you_mean(name, registered)
            raise OptionError(
                f"recordEvaluator {name!r} is no `module:Name`, and register() was given no such name{known}{meant}"
            )
        made = UserCode(deserializer, registered.get(deserializer)) if deserializer is not None else None
        evaluator = UserCode(name, registered.get(name)) if name is not None else None
        assigner = UserCode(times, registered.get(times)) if times is not None else None
        evaluation = cls(evaluator, made, options.raw, values, assigner)
        evaluation.load()
        return evaluation

    @property
    def looks_at_rows(self) -> bool:
        """Whether rows are changed, wherever the range ends."""
        return self.values is not None or self.assigner is not None

    def load(self) -> Evaluator:
        """Return the evaluator, the same one throughout a process.

        Raises:
            OptionError: it cannot be imported or made.
        """
        options = tuple(sorted(self.options.items()))
        return _load(self.evaluator, self.deserializer, self.values, self.assigner, options)


def pickled(evaluators: Mapping[str, object]) -> dict[str, bytes]:
    """Return evaluators as they travel with the source: with their code, unless a module has it.

    Raises:
        OptionError: one of them is no evaluator, or cannot be pickled.
    """
    for name, evaluator in evaluators.items():
        check_evaluator_name(name)
        _check_kind(evaluator, EVALUATOR, name)
    return {name: _pickled(name, evaluator) for name, evaluator in evaluators.items()}


def pickled_from_folder(options: SourceOptions, folder: str) -> dict[str, bytes]:
    """Return the user's code that the options name, if its modules are files of this folder.

    Executors do not have the folder, so the code of these modules travels with the source. `folder` is searched.

    Raises:
        OptionError: one cannot be imported, is none, or cannot be pickled.
    """
    from pyspark import cloudpickle

    pickles = {}
    named = {
        EVALUATOR: options.record_evaluator,
        DESERIALIZER: options.record_deserializer,
        ASSIGNER: options.timestamp_assigner,
    }
    for what, name in named.items():
        if name is None or not is_import_path(name):
            continue
        made = import_object(name)
        _check_kind(made, what, name)
        module = sys.modules[name.partition(":")[0]]
        if Path(getattr(module, "__file__", None) or "/").parent == Path(folder):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            pickles[name] = _pickled(name, made)
    return pickles


def _pickled(name: str, user_object: object) -> bytes:
    from pyspark import cloudpickle

    try:
        return bytes(cloudpickle.dumps(user_object))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise OptionError(
            f"{name!r} cannot be sent to executors: {error_text(error)}; let it refer to no session or open file"
        ) from None


@functools.lru_cache(maxsize=16)
def _load(
    evaluator: UserCode | None,
    deserializer: UserCode | None,
    values: ValueFormat | None,
    assigner: UserCode | None,
    options: tuple[tuple[str, str], ...],
) -> Evaluator:
    given = NamedOptions(dict(options))
    times = _event_times(assigner, given) if assigner is not None else None
    user_evaluator = _made(evaluator, given, EVALUATOR) if evaluator is not None else None
    name = evaluator.name if evaluator is not None else ""
    mask = getattr(user_evaluator, "end_of_stream_mask", None)
    is_end = None if mask is not None else getattr(user_evaluator, "is_end_of_stream", user_evaluator)
    _check_argument(is_end if mask is None else mask, EVALUATOR, name)
    if deserializer is None:
        return Evaluator(name, "", is_end, mask, None, values.load() if values is not None else None, times)
    if mask is not None:
        raise OptionError(
            f"recordEvaluator {name} with end_of_stream_mask takes no recordDeserializer: define is_end_of_stream"
        )
    made = _made(deserializer, given, DESERIALIZER)
    deserialize = getattr(made, "deserialize", made)
    _check_argument(deserialize, DESERIALIZER, deserializer.name)
    return Evaluator(name, deserializer.name, is_end, None, deserialize, times=times)


def _event_times(assigner: UserCode, options: NamedOptions) -> EventTimes:
    if not is_import_path(assigner.name):
        return EventTimes.of_field(assigner.name)
    made = _made(assigner, options, ASSIGNER)
    extract = getattr(made, "extract_timestamps", made)
    _check_argument(extract, ASSIGNER, assigner.name)
    return EventTimes(assigner.name, extract)


def _made(code: UserCode, options: NamedOptions, what: str) -> Any:
    """Return a function as it is, and an object of a class."""
    name = code.name
    loaded = import_object(name) if code.pickled is None else pickle.loads(code.pickled)
    _check_kind(loaded, what, name)
    if not isinstance(loaded, type):
        return loaded
    try:
        return made_of(loaded, options)
    except Exception as error:
        text = "it is called with the options as its one argument, a mapping"
        raise OptionError(f"{what} {name} cannot be made: {error_text(error)}; {text}") from None


def _check_argument(call: Any, what: str, name: str) -> None:
    """Check that a user's code takes one argument. Otherwise the first record would fail, hours later."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return  # None, or code in C without a signature
    try:
        signature.bind(None)
    except TypeError as error:
        gets_batch = what == ASSIGNER or getattr(call, "__name__", "") == "end_of_stream_mask"
        argument = "a batch of rows" if gets_batch else "a record"
        raise OptionError(f"{what} {name} is called with {argument} as its one argument: {error}") from None


def _check_kind(loaded: object, what: str, name: str) -> None:
    methods = _METHODS[what]
    if not any(hasattr(loaded, method) for method in methods) and (isinstance(loaded, type) or not callable(loaded)):
        raise OptionError(f"{what} {name} is neither a function nor has it {' or '.join(methods)}")
    inherits = getattr(loaded, "is_end_of_stream", None) is RecordEvaluator.is_end_of_stream
    inherits_times = getattr(loaded, "extract_timestamps", None) is TimestampAssigner.extract_timestamps
    if inherits_times or (inherits and not hasattr(loaded, "end_of_stream_mask")):
        raise OptionError(f"{what} {name} does not define {' or '.join(methods)}")
