"""The option `columns`: which columns the rows have, and what is refused with the nearest known name."""

from __future__ import annotations

import pytest

from dynamic_kafka.options.columns import COLUMNS
from tests.unit.options.parsing import FROM_FILE, STATE, parse, refusal

WITHOUT_HEADERS = tuple(name for name in COLUMNS if name != "headers")


def test_without_the_option_rows_have_all_columns() -> None:
    assert parse(FROM_FILE).columns == WITHOUT_HEADERS
    assert parse(FROM_FILE, {"includeHeaders": "true"}).columns == COLUMNS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("value,timestamp", ("value", "timestamp")),
        (" timestamp , value ", ("timestamp", "value")),
        ("kafka_stream", ("kafka_stream",)),
        (",".join(reversed(COLUMNS)), COLUMNS[::-1]),
    ],
)
def test_the_named_columns_are_chosen_in_their_order(text: str, names: tuple[str, ...]) -> None:
    for mode in ("streaming", "batch"):
        options = parse(FROM_FILE, {"columns": text}, mode=mode)
        assert (options.columns, options.warnings) == (names, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("valeu", "option 'columns' names 'valeu', which is no column of the source; did you mean 'value'?"),
        ("key,timestamptype", "names 'timestamptype', which is no column of the source; did you mean 'timestampType'?"),
        ("cluster", "did you mean 'kafka_cluster'?"),
        ("value,kafka_late", "names 'kafka_late', which is there only with watermarkMode=periodic"),
        ("header", "did you mean 'headers'?"),
        ("value.id", "names 'value.id', which is no column of the source; did you mean 'value'?"),
        ("size", f"names 'size', which is no column of the source; the columns are {', '.join(COLUMNS)}"),
        ("*", "names '*', which is no column of the source; the columns are key, value, "),
        ('["key", "value"]', "option 'columns' is a list; write the names as one text with ',' between them"),
        ("key,value,key", "option 'columns' names 'key' twice; name it once"),
        ("key,,value", "is 'key,,value', which has an empty name; put one ',' between two names"),
        ("key,", "is 'key,', which has an empty name"),
        (",", "is ',', which has an empty name"),
        ("  ", "option 'columns' is empty"),
    ],
)
def test_a_wrong_list_is_refused_with_the_remedy(text: str, message: str) -> None:
    assert message in refusal(FROM_FILE, {"columns": text})


def test_a_misspelt_option_is_refused_with_its_name() -> None:
    assert "did you mean 'columns'?" in refusal(FROM_FILE, {"colums": "value"})


def test_naming_headers_includes_them() -> None:
    options = parse(FROM_FILE, {"columns": "headers,key"})
    assert options.include_headers and options.columns == ("headers", "key")
    assert parse(FROM_FILE, {"columns": "headers", "includeHeaders": "true"}).warnings == ()


def test_headers_cannot_be_named_and_refused_at_once() -> None:
    message = refusal(FROM_FILE, {"columns": "headers", "includeHeaders": "false"})
    assert "option 'columns' names 'headers'" in message
    assert "option 'includeHeaders' is false" in message


def test_headers_that_no_one_gets_are_a_warning() -> None:
    given = FROM_FILE | {"columns": "value", "includeHeaders": "true"}
    assert parse(given).warnings == (
        "option 'includeHeaders' has no effect, since option 'columns' does not name headers",
    )
    # A record evaluator for batches of rows still gets them.
    assert parse(given, STATE, {"recordEvaluator": "m:C"}).warnings == ()
