"""The JSON decoder alone: no bytes stop it, its fast and its exact way agree, and no answer depends on neighbours.

Its equality with Spark's `from_json` is shown by `integration/source/test_json_parity.py`.
"""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from dynamic_kafka.executor.decoding import json_decoder
from dynamic_kafka.executor.decoding.json_decoder import JsonDecoder
from dynamic_kafka.options.value_schema import parse_value_schema
from tests.integration.source.test_json_parity import DIFFERENCES, READ_LATER
from tests.support.json_corpus import SCHEMA, corpus, mutants
from tests.support.places import ROOT


def decoder(schema: str = SCHEMA) -> JsonDecoder:
    return JsonDecoder(StructType.fromJson(parse_value_schema(schema, "schema")), UTC)


def exact() -> JsonDecoder:
    made = decoder()
    made._fast = json_decoder._refuse
    return made


DECODER, EXACT = decoder(), exact()


def answers(made: JsonDecoder, records: list[bytes]) -> list[tuple[str, bool]]:
    """Return the answers as text: with NaN, and with years that Python does not have."""
    values, malformed = made.decode(pa.array(records, pa.binary()))
    values.validate(full=True)
    return [(str(value), bad) for value, bad in zip(values, malformed.to_pylist(), strict=True)]


def shown(made: JsonDecoder, records: list[bytes]) -> list[Any]:
    """Return the answers of records whose text Arrow can show."""
    values = []
    for record in records:
        try:
            values.append(answers(made, [record])[0])
        except (ValueError, OverflowError):  # a year out of Python's range
            values.append(None)
    return values


def test_the_fast_way_gives_the_exact_answers() -> None:
    records = corpus()[::15] + mutants(500, 11)
    wrong = [
        (record, fast, slow)
        for record, fast, slow in zip(records, shown(DECODER, records), shown(EXACT, records), strict=True)
        if fast != slow and not any(record.count(name) > 1 for name in READ_LATER)
    ]
    assert not wrong, f"{len(wrong)}, such as {wrong[:5]}"


def test_no_answer_depends_on_the_neighbours() -> None:
    records = [mutant for mutant in mutants(1200, 12) if b"ts" in mutant or b"c" in mutant]
    _, alone = zip(*(DECODER.decode(pa.array([record], pa.binary())) for record in records), strict=True)
    _, together = DECODER.decode(pa.array(records * 2, pa.binary()))
    assert [answer[0].as_py() for answer in alone] * 2 == together.to_pylist()


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))))
)
def test_no_bytes_stop_it(records: list[bytes]) -> None:
    values, malformed = DECODER.decode(pa.array(records, pa.binary()))
    values.validate(full=True)
    assert len(values) == len(malformed) == len(records) and not malformed.null_count
    for record, bad in zip(records, malformed.to_pylist(), strict=True):
        assert bool(DECODER.cause(record)) == bad


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xsyik"), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from(["i", "l", "d", "f", "s", "st", "ar", "ars", "m", "ms", "a b", "u"]), JSON))
def test_any_json_gets_its_exact_answer(value: dict[str, Any]) -> None:
    record = json.dumps(value).encode()
    assert answers(DECODER, [record]) == answers(EXACT, [record])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "record",
    [
        b'{"u":' + b"[" * 1_000_000,
        b'{"s":' + b"[" * 300_000 + b"]" * 300_000 + b"}",
        b'{"ar":[' + b"1," * 300_000 + b'"x"]}',
        b'{"s":"' + b"\\n" * 300_000 + b"\\x",
        b'{"d":' + b"9" * 1_000_000 + b"}",
        b'{"i":' + b"9" * 1_000_000 + b"}",
        b'{"c":' + b"9" * 1_000_000 + b"e999999999}",
        b'{"x":"' + b"aGk=" * 200_000 + b'%"}',
        b'{"ts":"2026-11-01T10:00:00.' + b"1" * 1_000_000 + b'"}',
        b'{"m":{' + b",".join(b'"%d":1' % n for n in range(60_000)) + b',"x":"y"}}',
        b" " * 1_000_000 + b"x",
        b"\xff" * 1_000_000,
    ],
    ids=lambda record: record[:9].decode("latin-1"),
)
def test_the_cost_of_hostile_input_is_linear(record: bytes) -> None:
    values, malformed = DECODER.decode(pa.array([record, b'{"i":1}'], pa.binary()))
    assert values[1]["i"].as_py() == 1 and malformed[1].as_py() is False


@pytest.mark.parametrize("text", ["9999999-12-31", "5881580-07-12", "-5877641-06-22", "-9999999-01-01"])
def test_a_date_outside_of_32_bits_of_days_is_malformed(text: str) -> None:
    values, malformed = decoder("d DATE, m MAP<STRING, DATE>").decode(
        pa.array([f'{{"d":"{text}"}}'.encode(), f'{{"m":{{"a":"{text}"}}}}'.encode()], pa.binary())
    )
    assert malformed.to_pylist() == [True, True]
    assert values[0].as_py() == {"d": None, "m": None}


def test_a_name_that_the_fast_way_cannot_have() -> None:
    made = decoder('`a"b` INT, `c\\d` STRING')
    values, malformed = made.decode(pa.array([b'{"a\\"b":1,"c\\\\d":"x"}', b"{"], pa.binary()))
    assert values.to_pylist() == [{'a"b': 1, "c\\d": "x"}, {'a"b': None, "c\\d": None}]
    assert malformed.to_pylist() == [False, True]


def test_a_cause_quotes_nothing_of_the_value() -> None:
    assert DECODER.cause(b'{"i":"s3cret"}') == "`i` is no int"
    assert "s3cret" not in DECODER.cause(b'{"i":1 s3cret}')


def test_the_page_has_each_difference() -> None:
    page = (ROOT / "docs" / "how-to" / "typed-values.md").read_text(encoding="utf-8")
    assert {row for row, *_ in DIFFERENCES} <= {line.split("|")[1].strip() for line in page.splitlines() if "|" in line}
