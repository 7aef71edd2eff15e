"""A user's record evaluator and deserialiser: how they are named and sent, what they get, and what their errors say."""

from __future__ import annotations

import importlib
import pickle
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from dynamic_kafka.errors import OptionError, RecordEvaluationError
from dynamic_kafka.executor.evaluating.evaluation import Evaluation, pickled, pickled_from_folder
from dynamic_kafka.executor.evaluating.evaluators import RecordEvaluator
from dynamic_kafka.executor.reading.columns import arrow_schema
from dynamic_kafka.executor.reading.message_connection import MessageRows
from dynamic_kafka.executor.reading.rows import Record
from dynamic_kafka.options import parse_options
from dynamic_kafka.options.columns import all_columns
from dynamic_kafka.planning.splits import Split
from tests.support.places import ROOT

OPTIONS = {"streamIds": "s", "metadataPath": "/streams.yaml", "stateLocation": "/state"}
SPLIT = Split("east", "orders", 3)
SCHEMA = arrow_schema(all_columns(include_headers=False))
HERE = "tests.unit.executor.test_evaluators"


class Message:
    """A record as the Kafka client has it."""

    def __init__(
        self,
        offset: int,
        value: bytes | None,
        *,
        key: bytes | None = b"k",
        headers: Any = None,
        stamp: tuple[int, int] = (1, 5),
    ) -> None:
        self._offset, self._value, self._key, self._headers, self._stamp = offset, value, key, headers, stamp

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._stamp

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


def first(
    evaluator: object,
    *values: bytes | None,
    deserializer: str | None = None,
    options: Mapping[str, str] | None = None,
    **more: Any,
) -> int | None:
    """Return the index at which an evaluator ends a split with these values, from offset 40 on."""
    given = {"recordEvaluator": "mine"} | ({"recordDeserializer": deserializer} if deserializer else {})
    parsed = parse_options(OPTIONS | given | dict(options or {}), mode="streaming")
    evaluation = pickle.loads(pickle.dumps(Evaluation.of(parsed, pickled({"mine": evaluator}))))
    messages: Any = [Message(40 + at, value, **more) for at, value in enumerate(values)]
    rows = MessageRows(messages, SPLIT, "shop")
    index: int | None = evaluation.load().first_end(rows, rows.batch(SCHEMA), SPLIT)
    return index


# -- what an evaluator may be ------------------------------------------------------------------------------------------


def is_end(record: Record) -> bool:
    return record.value == b"end"


class Ends(RecordEvaluator):
    def is_end_of_stream(self, record: Any) -> bool:
        return bool(record.value == b"end")


class Mask(RecordEvaluator):
    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        return [value == b"end" for value in batch.column("value").to_pylist()]


class ArrowMask:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.word = options.get("recordEvaluator.word", "end")

    def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
        return pc.equal(batch.column("value"), self.word.encode())


class bool_(int):
    """A boolean of NumPy, by its name."""


ONE_OF_EACH = [is_end, Ends, Ends({}), Mask, ArrowMask, lambda record: bool_(record.value == b"end")]


@pytest.mark.parametrize("evaluator", ONE_OF_EACH, ids=["function", "class", "object", "list", "Arrow", "NumPy"])
def test_every_form_ends_a_split_at_its_first_match(evaluator: object) -> None:
    assert first(evaluator, b"a", b"end", b"end", b"b") == 1
    assert first(evaluator, b"end") == 0
    assert first(evaluator, b"a", None) is None


def test_each_rule_of_the_page_ends_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "reading.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```python\n(import json\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (options,) = (yaml.safe_load(code)["options"] for code in re.findall(r"```yaml\n(options:.*?)```", page, re.DOTALL))
    (tmp_path / "rules_of_the_page.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    rules = importlib.import_module("rules_of_the_page")
    for name in ("is_end_of_day", "FastEndOfDay"):
        assert first(getattr(rules, name), b"a", None, b"end of day", b"b") == 2
    marked = getattr(rules, options.pop("recordEvaluator").partition(":")[2])
    assert first(marked, b"a", None, b"end of day", options=options) == 2
    orders = [b'{"id": 7}', None, b'{"id": -1}']
    assert first(rules.EndsWithOrder, *orders, deserializer="rules_of_the_page:read_order") == 2


def test_a_null_in_a_mask_ends_nothing() -> None:
    class Nulls(RecordEvaluator):
        def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
            return pa.array([None, False, True])

    assert first(Nulls, b"a", b"b", b"c") == 2


def test_an_evaluator_gets_the_record_as_kafka_has_it() -> None:
    seen = []

    class Keeps(RecordEvaluator):
        def is_end_of_stream(self, record: Any) -> bool:
            raise RuntimeError(repr(record))

    with pytest.raises(RecordEvaluationError) as failed:
        first(Keeps, b"v", headers=[("h", b"1"), ("h", None)])
    seen.append(str(failed.value))
    assert (
        "Record(key=b'k', value=b'v', topic='orders', partition=3, offset=40, timestamp=5, cluster='east',"
        " stream='shop', headers=(('h', b'1'), ('h', None)))"
    ) in seen[0]


def test_a_record_without_a_timestamp_has_minus_one() -> None:
    assert first(lambda record: record.timestamp == -1, b"v", stamp=(0, 7)) == 0


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Record(b"", b"", "t", 0, 0, 0, "c", "s").value = b"x"  # type: ignore[misc]


# -- deserialisers -----------------------------------------------------------------------------------------------------


def length(record: Record) -> int:
    assert record.value is not None
    return len(record.value)


class Words:
    def __init__(self, options: Mapping[str, str]) -> None:
        pass

    def deserialize(self, record: Record) -> list[str]:
        return (record.value or b"").decode().split()


def test_the_evaluator_gets_what_the_deserialiser_returns() -> None:
    assert first(lambda seen: seen == 3, b"a", b"abc", deserializer=f"{HERE}:length") == 1
    assert first(lambda seen: "end" in seen, b"a", b"the end", deserializer=f"{HERE}:Words") == 1


def test_a_null_value_reaches_the_evaluator_as_null() -> None:
    assert first(lambda seen: seen is None, b"a", None, deserializer=f"{HERE}:length") == 1


def test_rows_are_not_deserialised() -> None:
    with pytest.raises(OptionError, match="end_of_stream_mask takes no recordDeserializer"):
        first(Mask, b"a", deserializer=f"{HERE}:length")


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_failing_evaluator_is_shown_with_its_record() -> None:
    def fails(record: Record) -> bool:
        raise ValueError("cannot ask https://shop:s3cret@rules/?token=abc")

    with pytest.raises(RecordEvaluationError) as failed:
        first(fails, b"a", b"b")
    text = str(failed.value)
    assert text.startswith(
        "recordEvaluator mine fails for the record at offset 40 of east/orders[3]: ValueError: cannot"
    )
    assert text.endswith("The batch is not committed: correct it, and start again")
    assert "s3cret" not in text and "abc" not in text


def test_a_failing_deserialiser_is_shown_with_its_record() -> None:
    with pytest.raises(RecordEvaluationError) as failed:
        first(lambda seen: False, b"ok", b"\xff", deserializer=f"{HERE}:Words")
    text = str(failed.value)
    assert text.startswith(
        f"recordDeserializer {HERE}:Words fails for the record at offset 41 of east/orders[3]: Unicode"
    )
    assert text.endswith("which the evaluator then gets, or set mode=deadletter, and start again")


@pytest.mark.parametrize("answer", [None, 1, "no"])
def test_an_answer_that_is_no_boolean_is_an_error(answer: object) -> None:
    # A function without `return` would never end a split
    with pytest.raises(RecordEvaluationError, match=rf"it returns {type(answer).__name__}, not True or False"):
        first(lambda record: answer, b"a")


@pytest.mark.parametrize("mask", [[True], [1, 0], None, "ab"])
def test_a_mask_of_another_form_is_an_error(mask: object) -> None:
    class Odd(RecordEvaluator):
        def end_of_stream_mask(self, batch: pa.RecordBatch) -> Any:
            return mask

    with pytest.raises(RecordEvaluationError, match=r"fails .*\b40 to 41 of east/orders\[3\]: "):
        first(Odd, b"a", b"b")


def test_unreadable_header_keys_are_explained() -> None:
    with pytest.raises(RecordEvaluationError, match=r"offset 40 .*east/orders\[3\].*header key"):
        first(is_end, b"a", headers=SystemError("no result"))


# -- names and loading -------------------------------------------------------------------------------------------------


def named(name: str, **options: str) -> Evaluation | None:
    return Evaluation.of(parse_options(OPTIONS | {"recordEvaluator": name} | options, mode="streaming"), {})


def test_a_module_is_imported_at_the_start() -> None:
    evaluation = named(f"{HERE}:Mask")
    assert evaluation is not None and evaluation.load() is evaluation.load()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no.such.module:f", "cannot be imported: ModuleNotFoundError"),
        (f"{HERE}:absent", "has no 'absent'"),
        (f"{HERE}:HERE", "is neither a function nor has it is_end_of_stream or end_of_stream_mask"),
        (f"{HERE}:Words", "is neither a function nor has it is_end_of_stream or end_of_stream_mask"),
        (f"{HERE}:Nothing", "does not define is_end_of_stream or end_of_stream_mask"),
        (f"{HERE}:MoreThanOptions", "cannot be made: TypeError: "),
        (
            f"{HERE}:two_arguments",
            "two_arguments is called with a record as its one argument: missing a required argument",
        ),
        (f"{HERE}:NoArgument", "NoArgument is called with a record as its one argument: too many positional arguments"),
        (
            f"{HERE}:NoBatch",
            "NoBatch is called with a batch of rows as its one argument: too many positional arguments",
        ),
        ("day_end", r"'day_end' is no `module:Name`, and .* was given no such name; write `MODULE:day_end`"),
    ],
)
def test_a_wrong_name_fails_at_the_start(name: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        named(name)


class Nothing(RecordEvaluator):
    pass


def test_a_class_without_an_argument_is_made_without_options() -> None:
    evaluation = named(f"{HERE}:NoOptions")
    assert evaluation is not None and evaluation.load().is_end is not None


class NoOptions:
    def is_end_of_stream(self, record: Any) -> bool:
        return True


class MoreThanOptions:
    def __init__(self, options: Any, more: Any) -> None:
        pass

    def is_end_of_stream(self, record: Any) -> bool:
        return True


def two_arguments(record: Any, options: Any) -> bool:
    return True


class NoArgument(RecordEvaluator):
    def is_end_of_stream(self) -> bool:  # type: ignore[override]
        return True


class NoBatch(RecordEvaluator):
    def end_of_stream_mask(self) -> list[bool]:
        return []


def test_a_deserialiser_takes_one_argument() -> None:
    with pytest.raises(OptionError, match=r"recordDeserializer .*:two_arguments .*called .*record"):
        named(f"{HERE}:is_end", recordDeserializer=f"{HERE}:two_arguments")


def test_a_misspelt_registered_name_names_the_nearest() -> None:
    options = parse_options(OPTIONS | {"recordEvaluator": "endofday"}, mode="streaming")
    with pytest.raises(OptionError, match=r"given end_of_day; .*mean 'end_of_day'"):
        Evaluation.of(options, pickled({"end_of_day": is_end}))


def test_a_class_gets_its_own_options() -> None:
    evaluation = named(f"{HERE}:ArrowMask", **{"recordEvaluator.word": "stop"})
    messages: Any = [Message(0, b"end"), Message(1, b"stop")]
    assert evaluation is not None
    rows = MessageRows(messages, SPLIT, "shop")
    assert evaluation.load().first_end(rows, rows.batch(SCHEMA), SPLIT) == 1


@pytest.mark.parametrize(("name", "evaluator"), [("a name", is_end), ("x", 5), ("x", Nothing), ("m:f", is_end)])
def test_what_is_no_evaluator_is_not_registered(name: str, evaluator: object) -> None:
    with pytest.raises(OptionError):
        pickled({name: evaluator})


def test_what_cannot_be_pickled_is_explained() -> None:
    lock = threading.Lock()
    with pytest.raises(OptionError, match=r"'x' .*executors: TypeError: .*pickle"):
        pickled({"x": lambda record: lock is None})


def test_a_module_beside_the_application_travels_with_its_code(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_rules.py").write_text("def is_end(record):\n    return record.offset == LAST\n\nLAST = 41\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = parse_options(OPTIONS | {"recordEvaluator": "shop_rules:is_end"}, mode="streaming")
    assert pickled_from_folder(options, "/elsewhere") == {}
    shipped = pickled_from_folder(options, str(tmp_path))
    evaluation = Evaluation.of(options, shipped)

    # An executor does not have the folder
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "shop_rules")
    messages: Any = [Message(40, b""), Message(41, b"")]
    rows = MessageRows(messages, SPLIT, "shop")
    assert evaluation is not None
    loaded = pickle.loads(pickle.dumps(evaluation)).load()
    assert loaded.first_end(rows, rows.batch(SCHEMA), SPLIT) == 1
