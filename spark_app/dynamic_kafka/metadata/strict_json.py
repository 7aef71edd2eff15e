"""Strict JSON: a key that occurs twice is an error, and so are NaN and infinities. Driver, tools and operator; pure.

`document.py` first reads a document with `read_json`: programs write documents as JSON, which is much faster to read
than YAML. JSON is YAML, so `yaml/reader.py` finds the lines of its errors. The options read JSON with `load_json`.
"""

from __future__ import annotations

import json
from typing import Any

from dynamic_kafka.metadata.yaml.located import Located


class DuplicateKeyError(ValueError):
    """A key that occurs twice in one JSON object."""


def read_json(text: str) -> Located | None:
    """Return `text` read as JSON, without lines; None if it is not JSON or has a duplicate key.

    `read_yaml` then finds the mistake with its line.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return Located(load_json(text))
    except ValueError:
        return None


def load_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DuplicateKeyError: a key occurs twice in an object. Most parsers silently take the last.
        ValueError: the text is not JSON, or holds NaN or an infinity, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise DuplicateKeyError(f"'{key}' is there twice")
        made[key] = value
    return made


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
