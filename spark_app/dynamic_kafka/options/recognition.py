"""The options as given: which option each key means, and how the text of an option becomes a value.

Keys match without regard to case, and an alias counts as the option that it stands for. An unknown key is refused with
the nearest known one. Client properties (`kafka.*`, `properties.*`) and options of users' own classes are kept apart,
so that an option of the source never reaches a client. Pure; only the parser uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.durations import parse_duration_ms
from dynamic_kafka.options.index import BY_KEY, OPTIONS, REFUSED_OPTIONS
from dynamic_kafka.options.option import Option
from dynamic_kafka.options.secrets import check_no_literal_secret
from dynamic_kafka.wording import nearest

CLASS_PREFIXES = (
    "metadataservice.",
    "streamsubscriber.",
    "recordevaluator.",
    "recorddeserializer.",
    "timestampassigner.",
)
"""Prefixes of the options of users' own classes, which get them in `raw`: `metadataservice.url` and the like."""

_CLIENT_PREFIXES = ("kafka.", "properties.")
_NEGATIVE = re.compile(r"\s*-\d+\s*", re.ASCII)


@dataclass(frozen=True)
class _Entry:
    key: str
    value: str


@dataclass(frozen=True)
class GivenOptions:
    """The options of one query under their documented names.

    Attributes:
        kafka: client properties without prefix, names in lower case, values unchanged.
        class_options: the keys of options of users' own classes, as written.
    """

    _entries: Mapping[str, _Entry] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)
    class_options: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether an option was given, under its name or an alias."""
        return name in self._entries

    def options(self) -> Iterator[Option]:
        return (OPTIONS[name] for name in self._entries)

    def text(self, name: str) -> str | None:
        """Return the text of an option, without blanks around it, or its default. Empty text is refused."""
        entry = self._entries.get(name)
        if entry is None:
            return OPTIONS[name].default
        if not entry.value.strip():
            raise OptionError(f"{_where(entry.key)} is empty; give it a value or leave it out")
        return entry.value.strip()

    def given_text(self, name: str) -> str:
        """Return the text of an option that was given."""
        text = self.text(name)
        assert text is not None, f"{name} is absent"
        return text

    def value(self, option: Option) -> Any:
        """Return the value of an option, or None for an absent one without a default.

        Returns:
            By kind: the text, whole milliseconds, a whole number, a boolean, or one of the words in lower case.

        Raises:
            OptionError: the text is not of this kind, or is out of bounds.
        """
        text = self.text(option.name)
        if text is None:
            return None
        where = self.where(option.name)
        if option.check is not None:
            option.check(text, where)
        if option.kind == "duration":
            return _duration_ms(option, text, where)
        if option.kind == "count":
            return _count(option, text, where)
        if option.kind == "boolean":
            return _word(("true", "false"), text, where) == "true"
        return _word(option.words, text, where) if option.kind == "word" else text

    def where(self, name: str) -> str:
        """Return the phrase that names an option in a message: the key that the user wrote, and the documented name."""
        entry = self._entries.get(name)
        return _where(entry.key if entry else name)


def _duration_ms(option: Option, text: str, where: str) -> int:
    duration = parse_duration_ms(text, where=where)
    if duration < option.minimum:
        raise OptionError(f"{where} is '{text}'; it must be longer than 0")
    return duration


def _count(option: Option, text: str, where: str) -> int:
    low, high = option.minimum, option.maximum
    number = int(text) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else None
    if number is None or not low <= number <= high:
        raise OptionError(f"{where} is '{text}'; it must be a whole number from {low} to {high}")
    return number


def _word(words: tuple[str, ...], text: str, where: str) -> str:
    if text.lower() not in words:
        raise OptionError(f"{where} is '{text}'; it must be {' or '.join(words)}")
    return text.lower()


def recognise(options: Mapping[str, str]) -> GivenOptions:
    """Sort the given keys into options of the source, client properties and options of users' own classes.

    Raises:
        OptionError: an unknown key, an option that is refused by name, one option under two names with different
            values, an option of the source behind `kafka.`, a literal secret.
    """
    entries: dict[str, _Entry] = {}
    kafka: dict[str, _Entry] = {}
    class_options: list[str] = []
    for key, value in options.items():
        lower = key.lower()
        option = BY_KEY.get(lower) or _flink_option(lower)
        if option is not None:
            check_no_literal_secret("", value, shown_as=key)
            _put(entries, option.name, _Entry(key, _flink_value(option, lower, value)), option)
        elif lower.startswith(_CLIENT_PREFIXES):
            name = lower.split(".", 1)[1]
            _check_client_key(key, name)
            _put(kafka, name, _Entry(key, value), None)
        elif lower.startswith(CLASS_PREFIXES):
            check_no_literal_secret(lower.split(".", 1)[1], value, shown_as=key, foreign=True)
            class_options.append(key)
        else:
            raise OptionError(f"unknown option '{key}'{_suggestion(lower)}")
    for option in REFUSED_OPTIONS:
        if option.name in entries:
            raise OptionError(f"option '{entries[option.name].key}': {option.description}, and take this option out")
    return GivenOptions(entries, {name: entry.value for name, entry in kafka.items()}, tuple(class_options))


def _flink_option(lower: str) -> Option | None:
    # Flink's Kafka source reads its own settings from the client properties, so its users write them there.
    return BY_KEY.get(lower.removeprefix("properties.")) if lower.startswith("properties.") else None


def _flink_value(option: Option, lower: str, value: str) -> str:
    off = option.negative_alias_is_zero and lower != option.name.lower() and _NEGATIVE.fullmatch(value)
    return "0" if off else value


def _put(into: dict[str, _Entry], name: str, entry: _Entry, option: Option | None) -> None:
    other = into.get(name)
    if other is None:
        into[name] = entry
    elif _comparable(other.value, option) != _comparable(entry.value, option):
        # The message omits the values: those of client properties may be secret.
        raise OptionError(
            f"options '{other.key}' and '{entry.key}' mean the same and have different values; keep one of them"
        )


def _comparable(value: str, option: Option | None) -> object:
    if option is None:
        return value
    if option.kind == "duration":
        try:
            return parse_duration_ms(value, where="")
        except OptionError:
            return value
    return value.strip().lower() if option.kind in ("word", "boolean") else value.strip()


def _check_client_key(key: str, name: str) -> None:
    if not name:
        raise OptionError(f"option '{key}' names no client property; write kafka.<property>")
    own = BY_KEY.get(name)
    if own is not None:
        raise OptionError(
            f"option '{key}': '{own.name}' is an option of the source, not of a Kafka client; write '{own.name}'"
        )


def _suggestion(lower: str) -> str:
    near = nearest(lower, [key for key, option in BY_KEY.items() if option not in REFUSED_OPTIONS])
    if near is not None:
        option = BY_KEY[near]
        name = next(key for key in (option.name, *option.aliases) if key.lower() == near)
        return f"; did you mean '{name}'?"
    return "; options of the Kafka client begin with 'kafka.', all others are in docs/reference/options.md"


def _where(key: str) -> str:
    option = BY_KEY.get(key.lower()) or _flink_option(key.lower())
    if option is None or option.name.lower() == key.lower():
        return f"option '{option.name if option else key}'"
    return f"option '{key}' ({option.name})"
