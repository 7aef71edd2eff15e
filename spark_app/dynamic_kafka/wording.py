"""Phrases that many messages share: a list cut to its first items, a count, the nearest known name, a command to copy.

It also masks the secrets in a text that somebody else has written. Pure; the source, the application and the operator
use it.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime

_LOG_IN_OF_URL = re.compile(r"(?<=://)[^/\s]+@")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL)
# The bounds on lengths keep the search linear in the length of the text.
_KEY = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|authorization|signature|\b(?:sig|auth)(?![a-z])"
    r"|jaas[-_.]?config|(?:api|access|account|private)[-_.]?key|(?:keystore[-_.]|ssl_)key|key[-_.]pem)"
    r"(?![\w$.]{0,128}(?:Exception|Error)\s*:)[\w.-]{0,128}"
)
"""A name that looks secret. The class of an error, such as `NoCredentialsException`, is none."""
_NAMED_SECRET = re.compile(
    rf"((?:{_KEY}[\"'\\]*\s*(?:[-=]>|[=:])|(?<![\w-])--(?=\w)[\w.-]{{0,128}}?{_KEY}[\"',\s]*[,\s]|\bbearer\s)\s*)"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?:basic|bearer)\s+\S+|[^\s,;&)}\]]+)",
    re.IGNORECASE | re.DOTALL,
)
"""A secret after its name: `key=value`, `key: value`, `key -> value` or `--key value`, quoted or not."""
MASK = "***"


def without_secrets(text: str) -> str:
    """Return a text with `MASK` for each value whose name looks secret, each log-in of a URL, and each PEM block.

    An unquoted value ends at a space or a delimiter. If it contains one itself, the rest of it stays.

    >>> without_secrets("401 of https://bob:pw@registry --conf sasl.password=pw")
    '401 of https://***@registry --conf sasl.password=***'
    """
    without_blocks = _PEM.sub(MASK, _LOG_IN_OF_URL.sub(f"{MASK}@", text))
    return _NAMED_SECRET.sub(lambda match: match[1] + MASK, without_blocks)


def utc(at_ms: int) -> str:
    """Return a time, in milliseconds since the epoch, in full seconds.

    >>> utc(1_700_000_000_500)
    '2023-11-14 22:13:20Z'
    """
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def first_few(items: Iterable[object], limit: int = 10, *, separator: str = ", ") -> str:
    """Return the first `limit` items as text, followed by "and N more" when there are more.

    >>> first_few(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    texts = [str(item) for item in items]
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def counted(count: int, noun: str, *, are: bool = False) -> str:
    """Return a number with its noun, which takes an "s" unless the number is one.

    Args:
        are: append "are", or "is" after one.

    >>> counted(2000, "stream"), counted(1, "record", are=True)
    ('2000 streams', '1 record is')
    """
    text, verb = (f"{count} {noun}", "is") if count == 1 else (f"{count} {noun}s", "are")
    return f"{text} {verb}" if are else text


def tool_command(tool: str, argument: str = "", *, flag: str = "") -> str:
    """Return a command of the application's tools, in backticks, as a user copies it into a shell.

    Names come from metadata and from brokers, and may hold any character. The shell and the tool take each of them as
    one plain argument, even one like a flag.

    Args:
        argument: the value of the flag, or the tool's own argument.

    >>> tool_command("accept", "a;b=Qx", flag="--identity")
    "`python -m dynamic_kafka.app accept app.yaml --identity 'a;b=Qx'`"
    >>> tool_command("abandon", "-a")
    '`python -m dynamic_kafka.app abandon app.yaml -- -a`'
    """
    words = ["python", "-m", "dynamic_kafka.app", tool, "app.yaml", flag, argument]
    if argument.startswith("-"):
        words[-2:] = [f"{flag}={argument}"] if flag else ["--", argument]
    return f"`{shlex.join(filter(None, words))}`"


def nearest_names(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names most like `name`, best first. Letter case and the kind of separator do not count."""

    def plain(text: str) -> str:
        return re.sub(r"[._\s-]", "", text).lower()

    by_plain = {plain(candidate): candidate for candidate in sorted(known)}
    return [by_plain[match] for match in difflib.get_close_matches(plain(name), by_plain, n=count, cutoff=cutoff)]


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, or None when none is alike enough."""
    return next(iter(nearest_names(name, known, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" for the nearest known name, or an empty text."""
    nearest_name = nearest(name, known)
    return f"; did you mean {nearest_name!r}?" if nearest_name is not None else ""
