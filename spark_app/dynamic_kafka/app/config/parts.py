"""The types of fields that the parts of `app.yaml` share, and their base class. Driver and tools; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import parse_duration_ms
from dynamic_kafka.user_code import is_import_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


def _text(value: Any) -> Any:
    """Return an option's value as Spark's text. A mapping or list becomes JSON, for example `startingOffsets`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return str(value) if isinstance(value, (int, float)) else value


def _name(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.match(value):
        raise ValueError("a name has 1 to 100 letters, digits, `.`, `_` and `-`, and begins with a letter or digit")
    return value


def _callable(value: Any) -> Any:
    if isinstance(value, str) and not is_import_path(value):
        raise ValueError("must be written `package.module:function`")
    return value


def _milliseconds(value: Any) -> Any:
    try:
        return parse_duration_ms(value if isinstance(value, str) else json.dumps(value), where="the duration")
    except OptionError as error:
        # The report already begins with the field's name.
        raise ValueError(str(error).removeprefix("the duration ")) from None


def _list_of_names(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"must be a list, even of one item: write `[{value}]`")
    return value


def mapping_like(form: str) -> Callable[[Any], Any]:
    """Return a validator that refuses a plain value where a mapping is needed; the error shows the example `form`."""

    def check(value: Any) -> Any:
        if isinstance(value, (str, int, float)):
            raise ValueError(f"must be a mapping; write for example `{form}`")
        return value

    return check


Names = Annotated[list[str], BeforeValidator(_list_of_names)]
Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str, BeforeValidator(_name)]
FunctionPath = Annotated[str, BeforeValidator(_callable)]
Duration = Annotated[int, BeforeValidator(_milliseconds)]


class Part(BaseModel):
    """A part of `app.yaml`: strict, and with the field names of the file."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
    )
