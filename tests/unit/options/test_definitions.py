"""The declarations of options: each name once, and fields whose types fit."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

from dynamic_kafka.options import OPTIONS, SourceOptions
from dynamic_kafka.options.index import BY_KEY
from dynamic_kafka.options.option import direct_options

TYPES = {"text": str, "duration": int, "count": int, "boolean": bool}


def test_no_name_stands_for_two_options() -> None:
    names = [key.lower() for option in OPTIONS.values() for key in (option.name, *option.aliases)]
    assert len(names) == len(set(names)) == len(BY_KEY)


def test_an_option_fills_each_field_that_is_not_derived() -> None:
    without_option = {field.name for field in fields(SourceOptions) if not field.metadata}
    assert without_option == {"mode", "single", "kafka_properties", "warnings", "raw"}


def test_a_field_has_the_type_of_its_option() -> None:
    hints = get_type_hints(SourceOptions)
    for name, option in direct_options(SourceOptions).items():
        allowed = (hints[name], *get_args(hints[name]))
        words = {word for hint in allowed for word in get_args(hint) or (hint,) if isinstance(word, str)}
        assert words == set(option.words) if option.kind == "word" else TYPES[option.kind] in allowed
