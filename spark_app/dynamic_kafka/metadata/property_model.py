"""One Kafka client property: its names, its values, and who may set it. Pure; `client_properties` has the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class ValueRule:
    """The values of a property: a whole number in a range, one of some words, or any text."""

    low: int = 0
    high: int = -1
    words: tuple[str, ...] = ()

    def problem(self, value: str) -> str | None:
        """Return what is wrong with `value`, or None. The text shows the value: no property with a rule is secret."""
        if self.words:
            if value.lower() in self.words:
                return None
            return f"{value[:40]!r} is not one of {', '.join(self.words)}"
        if self.low <= self.high:
            if re.fullmatch(r"-?[0-9]{1,10}", value) and self.low <= int(value) <= self.high:
                return None
            return f"{value[:40]!r} is not a whole number from {self.low} to {self.high}"
        return None


@dataclass(frozen=True, kw_only=True)
class ClientProperty:
    """One property.

    Attributes:
        name: librdkafka's name. Java's, if `java_only`.
        set_by: `metadata`: documents and options. `secret folder`: a file there, and options by reference. `options`:
            the application's options only. `nobody`: refused everywhere.
        values: the values that a document may give.
        is_path: a path, in metadata the bare name of a file in the secret folder.
        consumer_only: other clients warn about it.
        second_names: librdkafka's other names of it, with the same rights.
        java_name: its name in Java's client, if another.
        java_lowest: the lowest number of Java's client, if `values` is narrower.
        reason: why a document, or anybody, may not set it, and what to do instead.
        without_effect: options accept it and drop it, with a warning that gives the reason.
        java_only: librdkafka does not have it.
        unlisted: librdkafka has it, but no message suggests it.
        loads_java: its value is a Java class.
    """

    name: str = field(kw_only=False)
    set_by: Literal["metadata", "secret folder", "options", "nobody"] = "metadata"
    values: ValueRule = ValueRule()
    is_path: bool = False
    consumer_only: bool = False
    second_names: tuple[str, ...] = ()
    java_name: str | None = None
    java_lowest: int | None = None
    reason: str = ""
    without_effect: bool = False
    java_only: bool = False
    unlisted: bool = False
    loads_java: bool = False
