"""Options as given, sorted out: which option each key means, and its text read as what the option holds.

Keys are matched without regard to case, aliases count as the name they stand for, unknown keys are refused
naming the nearest known one. Client properties (`kafka.*`, `properties.*`) and options of users' own classes
are set apart, so that an option of the source can never reach a client. Pure; used by the parser only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options.definitions import BY_KEY, OPTIONS, Option
from dynamic_kafka.options.durations import parse_duration_ms
from dynamic_kafka.options.secrets import check_no_literal_secret

CLASS_PREFIXES = ("metadataservice.", "streamsubscriber.")
"""Options of users' own classes, handed on in `raw`, keys in lower case: `metadataservice.url` and the like."""

_CLIENT_PREFIXES = ("kafka.", "properties.")
_T = TypeVar("_T")
_NEGATIVE = re.compile(r"\s*-\d+\s*", re.ASCII)


@dataclass(frozen=True)
class _Entry:
    key: str
    value: str


@dataclass(frozen=True)
class Given:
    """The options of one query under their documented names.

    Attributes:
        kafka: client properties without prefix, names in lower case, values untouched.
        class_options: keys that go to users' own classes, as written.
    """

    _entries: Mapping[str, _Entry] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)
    class_options: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether an option was given, under its name or an alias."""
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        """The documented names of the options given."""
        return tuple(self._entries)

    def text(self, name: str) -> str | None:
        """The text of an option, without blanks around it, or its default. Empty text is refused."""
        entry = self._entries.get(name)
        if entry is None:
            return OPTIONS[name].default
        if not entry.value.strip():
            raise OptionError(f"{_where(entry.key)} is empty; give it a value or leave it out")
        return entry.value.strip()

    def required_text(self, name: str) -> str:
        """The text of an option that has a default."""
        return _present(name, self.text(name))

    def boolean(self, name: str) -> bool:
        """A boolean that has a default."""
        return _present(name, self.optional_boolean(name))

    def optional_boolean(self, name: str) -> bool | None:
        """`true` or `false`, nothing else, or None."""
        word = self._word(name, ("true", "false"))
        return None if word is None else word == "true"

    def word(self, name: str) -> str:
        """One of the words of an option that has a default."""
        return _present(name, self.optional_word(name))

    def optional_word(self, name: str) -> str | None:
        """One of the words of an option, or None."""
        return self._word(name, OPTIONS[name].words)

    def duration_ms(self, name: str) -> int:
        """A duration that has a default, in milliseconds."""
        return _present(name, self.optional_duration_ms(name))

    def optional_duration_ms(self, name: str) -> int | None:
        """A duration in milliseconds, or None."""
        text = self.text(name)
        if text is None:
            return None
        duration = parse_duration_ms(text, where=self.where(name))
        if duration < OPTIONS[name].minimum:
            raise OptionError(f"{self.where(name)} is '{text}'; it must be longer than 0")
        return duration

    def count(self, name: str) -> int:
        """A whole number that has a default."""
        return _present(name, self.optional_count(name))

    def optional_count(self, name: str) -> int | None:
        """A whole number within the bounds of its option, or None."""
        text = self.text(name)
        if text is None:
            return None
        low, high = OPTIONS[name].minimum, OPTIONS[name].maximum
        number = int(text) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else None
        if number is None or not low <= number <= high:
            raise OptionError(f"{self.where(name)} is '{text}'; it must be a whole number from {low} to {high}")
        return number

    def where(self, name: str) -> str:
        """How to speak of an option in a message: under the key the user wrote, and its documented name."""
        entry = self._entries.get(name)
        return _where(entry.key if entry else name)

    def _word(self, name: str, words: tuple[str, ...]) -> str | None:
        text = self.text(name)
        if text is None:
            return None
        if text.lower() not in words:
            raise OptionError(f"{self.where(name)} is '{text}'; it must be {' or '.join(words)}")
        return text.lower()


def sort_out(options: Mapping[str, str]) -> Given:
    """Sort options by what they mean.

    Raises:
        OptionError: an unknown key, an option of a later version, one option under two names with different
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
            raise OptionError(f"unknown option '{key}'{_nearest(lower)}")
    later = [entry.key for name, entry in entries.items() if OPTIONS[name].status == "later"]
    if later:
        raise OptionError(f"option '{later[0]}' is known but not in this version; take it out")
    return Given(entries, {name: entry.value for name, entry in kafka.items()}, tuple(class_options))


def _flink_option(lower: str) -> Option | None:
    # Flink's Kafka source takes its own settings out of the client properties, so its users write them there.
    return BY_KEY.get(lower.removeprefix("properties.")) if lower.startswith("properties.") else None


def _flink_value(option: Option, lower: str, value: str) -> str:
    off = option.negative_alias_is_zero and lower != option.name.lower() and _NEGATIVE.fullmatch(value)
    return "0" if off else value


def _put(into: dict[str, _Entry], name: str, entry: _Entry, option: Option | None) -> None:
    other = into.get(name)
    if other is None:
        into[name] = entry
    elif _comparable(other.value, option) != _comparable(entry.value, option):
        # The values stay out of the message: those of client properties may be secret.
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


def _nearest(lower: str) -> str:
    near = difflib.get_close_matches(lower, BY_KEY, n=1, cutoff=0.6)
    if near:
        option = BY_KEY[near[0]]
        name = next(key for key in (option.name, *option.aliases) if key.lower() == near[0])
        return f"; did you mean '{name}'?"
    return "; options of the Kafka client begin with 'kafka.', all others are in docs/options.md"


def _where(key: str) -> str:
    option = BY_KEY.get(key.lower()) or _flink_option(key.lower())
    if option is None or option.name.lower() == key.lower():
        return f"option '{option.name if option else key}'"
    return f"option '{key}' ({option.name})"


def _present(name: str, value: _T | None) -> _T:
    if value is None:
        raise AssertionError(f"the registry has no default for {name}")
    return value
