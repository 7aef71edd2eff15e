"""Record evaluators and deserialisers: the user's own code that decides where a split ends (FLIP-208).

`Evaluation` names them; it travels with the source's readers. Executors load them once per Python process, and the
driver loads them at the start, so that a wrong name does not wait for the first batch. `record_evaluation` applies them
to a range.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.options import NamedOptions, SourceOptions
from dynamic_kafka.planning.splits import Split
from dynamic_kafka.user_code import error_text, import_object, is_import_path
from dynamic_kafka.wording import did_you_mean, first_few

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]

_EVALUATOR, _DESERIALIZER = "recordEvaluator", "recordDeserializer"
_BOOLEANS = ("bool", "bool_")
"""The names of Python's and NumPy's boolean types. Anything else, such as None, would silently never end a split."""
_METHODS = {_EVALUATOR: ("is_end_of_stream", "end_of_stream_mask"), _DESERIALIZER: ("deserialize",)}


@dataclass(frozen=True, slots=True)
class Record:
    """One record as Kafka has it: what a record evaluator gets without a deserialiser, and what a deserialiser gets.

    Attributes:
        timestamp: milliseconds since the epoch; -1 if the record has none.
        cluster: the user's id of the cluster.
        stream: the id of the stream.
        headers: (key, value) of each header, in their order.
    """

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    cluster: str
    stream: str
    headers: Headers = ()


class RecordEvaluator:
    """A base class for record evaluators: `is_end_of_stream` ends the split of a record.

    A derived class with the method `end_of_stream_mask(batch)` decides about many records at once instead: it gets
    rows of one split as a `pyarrow.RecordBatch` with the source's columns, and returns one boolean for each.

    An evaluator sees records of many splits, in any order of the splits. It keeps no state, and gives one answer for one
    record: Spark may read a record several times.

    Args:
        options: all options of the source, without regard to letter case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def is_end_of_stream(self, record: Any) -> bool:
        """Return whether the split ends at this record, which is not read any more.

        Args:
            record: what `recordDeserializer` returns, None for a record without a value; a `Record` without it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither is_end_of_stream nor end_of_stream_mask")


@dataclass(frozen=True)
class Evaluation:
    """The evaluator and the deserialiser of a source, by name.

    Attributes:
        function: the registered evaluator of this name, pickled by value; None for `module:Name`.
    """

    evaluator: str
    function: bytes | None = field(repr=False)
    deserializer: str | None
    options: NamedOptions = field(repr=False)

    @classmethod
    def of(cls, options: SourceOptions, registered: Mapping[str, bytes]) -> Evaluation | None:
        """Return what the options name, None without an evaluator.

        Args:
            registered: the pickled evaluators that `register` was given.

        Raises:
            OptionError: there is no such evaluator or deserialiser, or it cannot be made.
        """
        name = options.record_evaluator
        if name is None:
            return None
        if not is_import_path(name) and name not in registered:
            known = f"; it was given {first_few(registered)}" if registered else ""
            raise OptionError(
                f"recordEvaluator {name!r} is no `module:Name`, and register(spark, evaluators=…) was given no such"
                f" name{known}{did_you_mean(name, registered)}"
            )
        found = cls(name, registered.get(name), options.record_deserializer, options.raw)
        found.load()
        return found

    def load(self) -> Evaluator:
        """Return the evaluator, the same one throughout a process.

        Raises:
            OptionError: it cannot be imported or made.
        """
        return _load(self.evaluator, self.function, self.deserializer, tuple(sorted(self.options.items())))


@dataclass(frozen=True)
class Evaluator:
    """A loaded evaluator.

    Attributes:
        name, deserializer_name: their names, for errors.
        is_end: answers for one record; None if `mask` answers for a batch.
        mask: answers for a batch of rows.
        deserialize: makes of a record what `is_end` gets.
    """

    name: str
    deserializer_name: str
    is_end: Callable[[Any], Any] | None
    mask: Callable[[pa.RecordBatch], Any] | None
    deserialize: Callable[[Record], Any] | None

    def first_end(self, messages: Sequence[Message], batch: pa.RecordBatch, split: Split, stream: str) -> int | None:
        """Return the index of the first record that ends the split, None if there is none.

        Args:
            messages: records of the split, in their order.
            batch: the same as rows.

        Raises:
            RecordEvaluationError: the evaluator or the deserialiser fails.
        """
        if self.mask is not None:
            return self._first_of_mask(batch, split)
        return next((at for at, each in enumerate(messages) if self._ends(each, split, stream)), None)

    def _first_of_mask(self, batch: pa.RecordBatch, split: Split) -> int | None:
        offsets = batch.column("offset")
        where = f"the records {offsets[0]} to {offsets[-1]} of {split}"
        assert self.mask is not None
        try:
            answer = self.mask(batch)
            if not isinstance(answer, (pa.Array, pa.ChunkedArray)):
                answer = pa.array(answer)
            if not pa.types.is_boolean(answer.type) or len(answer) != len(batch):
                raise TypeError(f"its mask has {len(answer)} values of type {answer.type}, not {len(batch)} booleans")
        except Exception as error:
            raise self._failure(_EVALUATOR, self.name, where, error) from None
        first: int = pc.index(answer, True).as_py()
        return first if first >= 0 else None

    def _ends(self, message: Message, split: Split, stream: str) -> bool:
        where = f"the record at offset {message.offset()} of {split}"
        seen: Any = None
        if self.deserialize is None:
            seen = _record(message, split, stream)
        elif message.value() is not None:
            try:
                seen = self.deserialize(_record(message, split, stream))
            except Exception as error:
                raise self._failure(_DESERIALIZER, self.deserializer_name, where, error) from None
        assert self.is_end is not None
        try:
            answer = self.is_end(seen)
            if type(answer).__name__ not in _BOOLEANS:
                raise TypeError(f"it returns {type(answer).__name__}, not True or False")
        except Exception as error:
            raise self._failure(_EVALUATOR, self.name, where, error) from None
        return bool(answer)

    def _failure(self, what: str, name: str, where: str, error: Exception) -> RecordEvaluationError:
        todo = (
            "let it return a value for such a record, which the evaluator then gets"
            if what == _DESERIALIZER
            else "correct it"
        )
        return RecordEvaluationError(
            f"{what} {name} fails for {where}: {error_text(error)}. Nothing of this range is delivered: {todo}, and start"
            " again"
        )


def pickled(evaluators: Mapping[str, object]) -> dict[str, bytes]:
    """Return evaluators as they travel with the source: with their code, where it is not in an installed module.

    Raises:
        OptionError: one of them is no evaluator, or cannot be pickled.
    """
    from pyspark import cloudpickle

    made = {}
    for name, evaluator in evaluators.items():
        _check_kind(evaluator, _EVALUATOR, name)
        try:
            made[name] = cloudpickle.dumps(evaluator)
        except Exception as error:
            raise OptionError(
                f"evaluators: {name!r} cannot be sent to executors: {error_text(error)}; let it refer to nothing that"
                " belongs to this process, such as a session or an open file"
            ) from None
    return made


@functools.lru_cache(maxsize=16)
def _load(
    evaluator: str, function: bytes | None, deserializer: str | None, options: tuple[tuple[str, str], ...]
) -> Evaluator:
    given = NamedOptions(dict(options))
    found = _made(evaluator, pickle.loads(function) if function is not None else None, given, _EVALUATOR)
    mask = getattr(found, "end_of_stream_mask", None)
    is_end = None if mask is not None else getattr(found, "is_end_of_stream", found)
    deserialize = None
    if deserializer is not None:
        if mask is not None:
            raise OptionError(
                f"recordEvaluator {evaluator} decides about batches of rows, which recordDeserializer does not turn"
                " into anything else: take 'recordDeserializer' out, or define is_end_of_stream instead of"
                " end_of_stream_mask"
            )
        made = _made(deserializer, None, given, _DESERIALIZER)
        deserialize = getattr(made, "deserialize", made)
    return Evaluator(evaluator, deserializer or "", is_end, mask, deserialize)


def _made(name: str, found: object, options: NamedOptions, what: str) -> Any:
    """Return a function as it is, and an object of a class."""
    found = found if found is not None else import_object(name)
    _check_kind(found, what, name)
    if not isinstance(found, type):
        return found
    try:
        return found(options)
    except Exception as error:
        text = "it is called with the options as its one argument, a mapping"
        raise OptionError(f"{what} {name} cannot be made: {error_text(error)}; {text}") from None


def _check_kind(found: object, what: str, name: str) -> None:
    methods = _METHODS[what]
    if not any(hasattr(found, method) for method in methods) and (isinstance(found, type) or not callable(found)):
        raise OptionError(f"{what} {name} is neither a function nor has it {' or '.join(methods)}")
    inherits = getattr(found, "is_end_of_stream", None) is RecordEvaluator.is_end_of_stream
    if inherits and not hasattr(found, "end_of_stream_mask"):
        raise OptionError(f"{what} {name} does not define {' or '.join(methods)}")


def _record(message: Message, split: Split, stream: str) -> Record:
    kind, stamp = message.timestamp()
    try:
        headers: Headers = tuple(message.headers() or ())  # type: ignore[arg-type]  # a wider stub
    except (SystemError, UnicodeDecodeError) as raised:  # see `columns`
        raise RecordEvaluationError(
            f"the record evaluator cannot get the record at offset {message.offset()} of {split}: the key of one of its"
            " headers is not UTF-8. Define end_of_stream_mask, which sees no headers with includeHeaders=false"
        ) from raised
    offset: int = message.offset()  # type: ignore[assignment]  # None only in messages that are produced
    return Record(
        message.key(),
        message.value(),
        split.topic,
        split.partition,
        offset,
        stamp if kind else -1,
        split.cluster,
        stream,
        headers,
    )
