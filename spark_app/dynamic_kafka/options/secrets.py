"""References to secrets in options (`${file:/path:key}`, `${dir:/path:key}`, `${env:NAME}`), and literal secrets.

Pure; runs on the driver when options are parsed. This module owns the syntax only: `kafka.secrets` resolves a reference
where a client is made. The form is that of Kafka's config providers (KIP-297): the path ends at the first colon, the
key at the brace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.wording import nearest

REFERENCE_FORMS = "${file:/path:key}, ${dir:/path:key} or ${env:NAME}"

_REFERENCE = re.compile(r"\$\{(file|dir):(/[^}:]*):([^}]+)\}|\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_LIKE_A_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_KIND = re.compile(r"\$\{(\w+):")

# Kafka's names of secrets that `_SECRET_NAME` does not match.
_SECRET_KEYS = frozenset(("ssl.key.pem", "ssl_key", "ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.pem"))
_SECRET_NAME = re.compile(r"password|passphrase|secret")
_FOREIGN_SECRET_NAME = re.compile(r"token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key")
_CREDENTIALS_IN_URL = re.compile(r"://[^/\s@:]*:[^/\s@]+@")
# pyarrow's URIs for Azure hold such secrets (`client_secret`, a shared access signature), and so do signed URLs.
_SECRET_IN_QUERY = re.compile(
    r"://[^\s?]*\?(?:[^\s#]*&)?"
    r"(?:sig|[^\s&=#]*(?:password|passphrase|secret|signature|token|access[-_.]?key|account[-_.]?key)[^\s&=#]*)"
    r"=(?!\$\{)[^\s&#]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reference:
    """One reference. For `env`, `path` is None and `key` is the name of the variable."""

    provider: str
    path: str | None
    key: str
    text: str


def split_references(value: str) -> list[str | Reference]:
    """Return the literal pieces and the references of a value, in order. A malformed `${` stays in a piece."""
    pieces: list[str | Reference] = []
    at = 0
    for match in _REFERENCE.finditer(value):
        if match.start() > at:
            pieces.append(value[at : match.start()])
        provider, path, key, variable = match.groups()
        pieces.append(Reference(provider or "env", path, key or variable, match.group()))
        at = match.end()
    if at < len(value):
        pieces.append(value[at:])
    return pieces


def is_malformed(value: str) -> bool:
    """Return whether a value has a `${` that is not a reference."""
    return any(isinstance(piece, str) and "${" in piece for piece in split_references(value))


def is_reference_only(value: str) -> bool:
    """Return whether a value consists of references only, so that it reveals nothing."""
    pieces = split_references(value)
    return bool(pieces) and not any(isinstance(piece, str) and piece.strip() for piece in pieces)


def has_reference(value: str) -> bool:
    """Return whether a part of a value is a reference."""
    return any(isinstance(piece, Reference) for piece in split_references(value))


def is_secret_key(key: str) -> bool:
    """Return whether the name of a client property marks its value as a secret."""
    return key in _SECRET_KEYS or _SECRET_NAME.search(key) is not None


def check_no_literal_secret(key: str, value: str, *, shown_as: str, foreign: bool = False) -> None:
    """Refuse a literal secret in an option: Spark writes options into plans and event logs.

    Args:
        key: the property in lower case, without prefix.
        shown_as: the key as the user wrote it, for the message.
        foreign: whether it is an option of a user's own class. Its names are free, so more of them count as secret.

    Raises:
        OptionError: names the key and the reference forms, never the value. A misspelt reference is named as one.
    """
    secret = is_secret_key(key) or (foreign and _FOREIGN_SECRET_NAME.search(key) is not None)
    if secret and value and not is_reference_only(value):
        raise _wrong_reference(shown_as, value) if _LIKE_A_REFERENCE.fullmatch(value) else literal_secret(shown_as)
    check_no_credentials(value, f"option '{shown_as}'")


def check_no_credentials(uri: str, what: str) -> None:
    """Refuse a URI with a password or another secret in it: plans, event logs, events and messages show URIs.

    Raises:
        OptionError: names the setting as `what` does, never the URI.
    """
    if _CREDENTIALS_IN_URL.search(uri):
        raise OptionError(
            f"{what} has a user and a password in its URL, which Spark would write into plans and event logs;"
            " take them out and give the credentials by other means"
        )
    if _SECRET_IN_QUERY.search(uri):
        raise OptionError(
            f"{what} has a secret in the query of its URL, which Spark would write into plans and event logs;"
            " take it out and give the credentials by other means"
        )


def literal_secret(shown_as: str) -> OptionError:
    """Return the error that refuses a literal secret, without its value."""
    return OptionError(
        f"option '{shown_as}' holds a literal secret, which Spark would write into plans and event logs;"
        f" put it into a mounted file or a variable and write {REFERENCE_FORMS}"
    )


def check_references(properties: Mapping[str, str]) -> None:
    """Refuse values with a malformed reference, which would reach a client unresolved.

    Raises:
        OptionError: names the option, not the value, which may hold a secret.
    """
    for key, value in properties.items():
        if is_malformed(value):
            raise _wrong_reference(f"kafka.{key}", value)


def _wrong_reference(shown_as: str, value: str) -> OptionError:
    """Return the error that refuses a malformed reference. It shows a word of the value only if that is near a kind."""
    kinds = ("file", "dir", "env")
    near = [(word, nearest(word, kinds)) for word in _KIND.findall(value) if word not in kinds]
    hint = "".join(f"; did you mean '{kind}' instead of '{word}'?" for word, kind in near[:1] if kind)
    return OptionError(
        f"option '{shown_as}' has a ${{…}} that is not a reference; the known forms are {REFERENCE_FORMS}, with an"
        f" absolute path{hint}"
    )
