"""The reader of YAML: text to plain values with their lines (`located.py`). Driver, tools and operator; pure.

`read_yaml` is the only entry, and turns libyaml's errors into ours. `_Reader` builds the values: `_take` gets
libyaml's events one by one, and `_add` puts a value into the innermost open list or mapping (`_Open`). `_plain` turns
an unquoted scalar into a number, a boolean or a string. The reader uses no recursion: libyaml's own composer crashes
the process on deep nesting, and takes six times as long. `document.MAX_DOCUMENT_BYTES` limits the size.

The YAML dialect of this project's files:

- A text holds one document.
- Scalars follow YAML 1.2: `yes`, `off`, `12:30` and `007` are strings, so no topic or client id changes its spelling.
- Keys are strings, as written (`0:` and `"0":` are the same key). A key that occurs twice is an error.
- Aliases work, and so do the merge keys of YAML 1.1 (`<<: *defaults`): a mapping's own keys win.
- Tags such as `!!python/object` are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

import yaml

from dynamic_kafka.metadata.yaml.located import Located, Path, Problem

MAX_DEPTH = 32
"""Levels of nesting. The deepest document of this project has eight."""

MAX_VALUES = 5_000_000
"""Values after aliases are expanded. A few lines of nested aliases could otherwise stand for billions."""

_MERGE = "<<"
_STRING_TAG = "tag:yaml.org,2002:str"
_TAG = "a tag (!…) is not allowed; write a plain value, and one that begins with ! in quotes"


def read_yaml(text: str, source: str) -> Located:
    """Return `text` read as YAML, with lines.

    Raises:
        MetadataInvalidError: the text is not YAML, or is empty, nested too deeply, or several documents.
    """
    try:
        return _Reader(text).read()
    except yaml.MarkedYAMLError as error:
        # libyaml notices an unclosed quote or bracket at the end of the text; the user must look where it opens.
        cut_off = error.problem is not None and "end of stream" in error.problem
        mark = (cut_off and error.context_mark) or error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = ", ".join(part for part in (error.context, error.problem) if part)
        if error.context_mark and error.context_mark.line + 1 != line:
            what += f" (it begins on line {error.context_mark.line + 1})"
        hint = "check indentation and quotes around this line, or whether the file was cut off"
        raise Located(None).report([Problem((), f"not valid YAML: {what}; {hint}", line)], source) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Located(None).report([Problem((), f"not valid YAML: {error.reason}", line)], source) from None
    except UnicodeError:
        problem = Problem((), "holds characters that are no text; save the file as UTF-8", 1)
        raise Located(None).report([problem], source) from None
    except _RefusedError as refused:
        raise Located(None).report([refused.problem], source) from None


class _RefusedError(Exception):
    """The end of reading for a reason that is not YAML's own, such as a tag."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.problem = Problem((), text, line)


@dataclass
class _Open:
    """A list or mapping whose end has not been read yet."""

    value: Any
    lines: Any
    anchor: str | None
    size: int = 1
    key: str | None = None
    key_line: int = 0
    merged: Any = None
    """The value of its merge key `<<`: a mapping, or a list of mappings."""
    merge_line: int = 0
    is_merge: bool = False
    """Whether the present key is a merge key."""

    @property
    def awaits_key(self) -> bool:
        """Whether it is a mapping whose next value is a key."""
        return self.key is None and isinstance(self.value, dict)


class _Reader:
    """The builder of values from libyaml's events, with its own stack instead of recursion."""

    def __init__(self, text: str) -> None:
        self._parser = yaml.CSafeLoader(text)
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._found = Located(None)
        self._documents = 0

    def read(self) -> Located:
        try:
            while True:
                event = self._parser.get_event()
                if isinstance(event, yaml.StreamEndEvent):
                    break
                self._take(event)
        finally:
            self._parser.dispose()
        if not self._documents:
            raise _RefusedError("the document is empty; for no streams write an empty list `[]`", 1)
        return self._found

    def _take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open(_Open({}, {}, event.anchor), event, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open(_Open([], [], event.anchor), event, line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor, line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise _RefusedError(
                    "a second YAML document starts here; keep one per file, and remove this `---`", line
                )
            # `_add` replaces it by the line of the first value.
            self._found.first_line = line

    def _scalar(self, event: Any, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and top.awaits_key:
            self._key(top, event, line)
            return
        if event.tag not in (None, "!", _STRING_TAG):
            raise _RefusedError(_TAG, line)
        value = _plain(event.value) if event.implicit[0] and event.tag is None else event.value
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1, line)

    def _key(self, top: _Open, event: Any, line: int) -> None:
        key = str(event.value)
        top.is_merge = key == _MERGE and event.implicit[0] and event.tag is None
        if key in top.value or (top.is_merge and top.merged is not None):
            first = f", first on line {top.lines[key]}" if key in top.lines else ""
            self._found.problems.append(Problem((*self._path(), key), f"duplicate key{first}; keep one of them", line))
        top.key, top.key_line = key, line

    def _open(self, opened: _Open, event: Any, line: int) -> None:
        if event.tag not in (None, "!"):
            raise _RefusedError(_TAG, line)
        if len(self._stack) >= MAX_DEPTH:
            raise _RefusedError(f"nested more than {MAX_DEPTH} levels deep", line)
        top = self._stack[-1] if self._stack else None
        if top is not None and top.awaits_key:
            raise _RefusedError("a list or mapping cannot be a key; write the key as a string", line)
        if opened.anchor:
            self._anchors.pop(opened.anchor, None)
        self._add(opened.value, 0, line)
        self._found.lines[id(opened.value)] = opened.lines
        self._stack.append(opened)

    def _close(self) -> None:
        closed = self._stack.pop()
        if closed.merged is not None:
            self._merge(closed)
        if self._stack:
            self._stack[-1].size += closed.size
        if closed.anchor:
            self._anchors[closed.anchor] = (closed.value, closed.size)

    def _merge(self, closed: _Open) -> None:
        """Add the keys of the mappings that a merge key names: its own keys win, then those of the first mapping."""
        merged = closed.merged if isinstance(closed.merged, list) else [closed.merged]
        for mapping in merged:
            if not isinstance(mapping, dict):
                raise _RefusedError(f"the value of {_MERGE} is a mapping, or a list of mappings", closed.merge_line)
            for key, value in mapping.items():
                if key not in closed.value:
                    closed.value[key] = value
                    closed.lines[key] = self._found.lines[id(mapping)][key]

    def _alias(self, anchor: str | None, line: int) -> None:
        if anchor is None or anchor not in self._anchors:
            raise _RefusedError(
                "an alias (*…) names nothing that was defined before it; a value that begins with * needs quotes", line
            )
        top = self._stack[-1]
        if top.awaits_key:
            raise _RefusedError("an alias cannot be a key; write the key as a string", line)
        self._add(*self._anchors[anchor], line)

    def _add(self, value: Any, size: int, line: int) -> None:
        if not self._stack:
            self._found.value, self._found.first_line = value, line
            return
        top = self._stack[-1]
        top.size += size
        if top.size > MAX_VALUES:
            raise _RefusedError(f"more than {MAX_VALUES} values, aliases counted as often as they are used", line)
        if isinstance(top.value, list):
            top.value.append(value)
            top.lines.append(line)
        elif top.is_merge:
            top.merged, top.merge_line = value if value is not None else "", line
            top.key, top.is_merge = None, False
        else:
            key = cast(str, top.key)
            # The first value of a duplicate key stays, so that its problems have the first line.
            if key not in top.value:
                top.value[key] = value
                top.lines[key] = top.key_line
            top.key = None

    def _path(self) -> Path:
        steps: list[str | int] = []
        for opened in self._stack[:-1]:
            steps.append(
                len(opened.value) - 1 if isinstance(opened.value, list) else next(reversed(opened.value), _MERGE)
            )
        return tuple(steps)


_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\Z")
# Writers of YAML 1.1 put quotes around texts that are numbers there. So a number here must be a number there too.
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\.[0-9]{1,18}([eE][-+][0-9]{1,3})?\Z")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


def _plain(text: str) -> Any:
    """Return an unquoted scalar, by the core schema of YAML 1.2 without octal, hexadecimal and infinities."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+0123456789":
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text):
            return float(text)
    return text
