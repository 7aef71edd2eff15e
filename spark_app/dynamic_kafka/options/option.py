"""The declaration of one option, and how it is attached to the field of `SourceOptions` that it fills.

Pure. `definitions` declares every option with it. The parser and the generated reference read the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, ParamSpec

Kind = Literal["text", "duration", "count", "boolean", "word"]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_OPTIONS, _DIRECT = "options", "direct"
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True)
class Option:
    """The declaration of one option.

    Attributes:
        name: the documented name. Matching ignores case, because Spark hands keys on in lower case.
        kind: how the parser reads the text; see `recognition.GivenOptions.value`.
        description: one line for users.
        values: the allowed values, for the documentation. Words and booleans need none.
        default: the text that an absent option stands for. None: the field is None, or its value depends on others.
        aliases: other names. The same value under two names is accepted.
        words: the allowed values of kind `word`.
        minimum, maximum: the bounds of a count. A duration has a minimum in milliseconds only.
        check: refuses a text. It gets the text and the phrase that names the option, and raises OptionError.
        streaming_only: the option has no effect in a batch read.
        negative_alias_is_zero: under an alias a negative number means "off", as in Flink.
    """

    name: str
    kind: Kind
    description: str
    values: str = ""
    default: str | None = None
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = LONG_MAX
    check: Callable[[str, str], None] | None = None
    streaming_only: bool = False
    negative_alias_is_zero: bool = False


def _field_of(declare: Callable[_Arguments, Option]) -> Callable[_Arguments, Any]:
    def declared(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        return field(metadata={_OPTIONS: (declare(*args, **kwargs),), _DIRECT: True})

    return declared


option = _field_of(Option)
"""Declare a field that one option fills, without any more code. The arguments are those of `Option`."""


def combined_from(*options: Option) -> Any:
    """Declare a field that code in `parse` fills, from these options together."""
    return field(metadata={_OPTIONS: options})


def declared_options(section: type) -> Iterator[Option]:
    """Yield the options that the fields of a dataclass declare, in order."""
    for declared in fields(section):
        yield from declared.metadata.get(_OPTIONS, ())


def direct_options(section: type) -> dict[str, Option]:
    """Return the option of each field that one option fills: {name of the field: option}."""
    return {
        declared.name: declared.metadata[_OPTIONS][0]
        for declared in fields(section)
        if declared.metadata.get(_DIRECT, False)
    }
