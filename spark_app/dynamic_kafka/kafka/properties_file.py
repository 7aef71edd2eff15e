"""The parser of Java's properties files for `${file:/path:key}` (Kafka's FileConfigProvider, java.util.Properties).

Pure; `kafka.secrets` uses it. Error messages never hold a line of the file, because the file holds secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEY = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of a properties file. The last value of a repeated key wins, as in Java.

    A line that ends in an odd number of backslashes continues in the next one. `#` and `!` begin comments. A key ends
    at the first `=`, `:` or blank without a backslash before it.
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
    def character(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROL.get(code, code)

    return _ESCAPE.sub(character, text)
