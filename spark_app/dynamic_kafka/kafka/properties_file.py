"""Java's properties files, as `${file:/path:key}` reads them (Kafka's FileConfigProvider,
java.util.Properties). Pure.

Messages of errors never hold a line of the file: it is where secrets are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a properties file; of a key that is there twice, the last value, as in Java.

    Lines that end in an odd number of backslashes go on in the next one, `#` and `!` begin comments, a key
    ends at the first `=`, `:` or blank that has no backslash before it.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        if key is not None:
            found[_unescape(key.group(1))] = _unescape(line[key.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    joined = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield joined + line
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(meant, text)
