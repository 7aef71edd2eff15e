"""The options about typed values: what goes together, and what is refused with the nearest known name."""

from __future__ import annotations

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import SourceOptions, parse_options
from dynamic_kafka.options.value_schema import parse_value_schema

BASE = {"streamIds": "s", "metadataPath": "/streams.yaml"}
JSON = {"value.format": "json", "value.schema": "id INT"}


def parsed(**more: str) -> SourceOptions:
    return parse_options(BASE | more, mode="streaming")


def test_values_stay_bytes_by_default() -> None:
    options = parsed()
    assert (options.value_format, options.value_schema, options.refused_records) == (None, None, "failfast")


def test_the_options_are_those_of_spark() -> None:
    options = parsed(**JSON, mode="PERMISSIVE", columnNameOfCorruptRecord="bad", timeZone="Europe/Berlin")
    assert (options.value_format, options.refused_records) == ("json", "permissive")
    assert (options.corrupt_column, options.time_zone) == ("bad", "Europe/Berlin")
    assert parsed(**JSON).refused_records == "failfast"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value.format": "json"}, "needs 'value.schema'"),
        ({"value.schema": "id INT"}, "'value.schema' needs 'value.format'"),
        (JSON | {"value.format": "jsn"}, "it must be json"),
        (JSON | {"value.fromat": "json"}, "did you mean 'value.format'"),
        (JSON | {"mode": "dropmalfromed"}, "it must be failfast or permissive or dropmalformed or deadletter"),
        ({"mode": "permissive"}, "mode=permissive needs 'value.format'"),
        ({"mode": "dropmalformed"}, "mode=dropmalformed needs 'value.format'"),
        (JSON | {"recordDeserializer": "m:f", "recordEvaluator": "m:g"}, "does not go with 'value.format'"),
        (JSON | {"mode": "deadletter"}, "needs a dead-letter topic"),
        ({"mode": "deadletter"}, "or 'value.format'"),
        (JSON | {"timeZone": "Europe/Berlim"}, "did you mean 'Europe/Berlin'"),
        (JSON | {"value.schema": "id INT, _corrupt_record INT"}, "must be of type STRING"),
        (JSON | {"value.schema": "_corrupt_record STRING"}, "not the only field"),
    ],
)
def test_a_mistake_is_refused_with_the_remedy(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("|", "\\|")):
        parsed(**given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id BIGNT", "'bignt' is no type that a value can have; did you mean 'bigint'?"),
        ("id INTERVAL", "'interval' is no type"),
        ("id", "its end stands where a type is expected"),
        ("id INT,", "its end stands where the name of a field is expected"),
        ("id INT name STRING", "'name STRING' is not understood"),
        ("id ARRAY<INT", "its end stands where '>' is expected"),
        ("id MAP<INT, INT>", "the keys of a map must be of type STRING"),
        ("id INT, id STRING", "the field 'id' is there twice"),
        ("id DECIMAL(39)", "a precision outside 1 to 38"),
        ("id INT ; x", "'; x' is not understood"),
        ("a " + "ARRAY<" * 60, "nested deeper than 50 levels"),
        ('{"type": "struct"}', 'the JSON must be {"type": "struct", "fields": [...]}'),
        ('{"type": "struct", "fields": []}', "a struct has no field"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "each field needs a `name` and a `type`"),
        ('{"type": "struct", "fields": [{"name": "a", "type": "lnog"}]}', "did you mean 'long'?"),
        ('{"type": "struct", "fields": [{"name": "a", "type": {"type": "array"}}]}', "None is no type"),
        ('{"type": ', "it is no JSON"),
    ],
)
def test_a_wrong_schema_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_value_schema(text, "option 'value.schema'")
    assert message in str(refused.value)
    assert str(refused.value).startswith("option 'value.schema' is no schema: ")


def test_options_without_effect_get_a_warning() -> None:
    assert parsed(timeZone="UTC").warnings == ("option 'timeZone' has no effect without 'value.format'",)
