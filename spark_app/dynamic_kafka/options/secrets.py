"""The syntax of references to secrets, `${file:/path:key}`, `${dir:/path:key}`, `${env:NAME}`, and who must
use them.

Only the syntax: what a reference stands for is looked up by `kafka.secrets`, where a client is made. Pure.
The form is that of Kafka's config providers (KIP-297): the path ends at the first colon, the key at the
brace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError

REFERENCE_FORMS = "${file:/path:key}, ${dir:/path:key} or ${env:NAME}"

_REFERENCE = re.compile(r"\$\{(file|dir):(/[^}:]*):([^}]+)\}|\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")

# Kafka's own names that hold secrets, beside every name that says so itself.
_SECRET_KEYS = frozenset(("ssl.key.pem", "ssl_key", "ssl.keystore.key", "sasl.oauthbearer.assertion.private.key.pem"))
_SECRET_NAME = re.compile(r"password|passphrase|secret")
_SECRET_NAME_OF_OTHERS = re.compile(r"token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key")
_CREDENTIALS_IN_URL = re.compile(r"://[^/\s@:]*:[^/\s@]+@")
# As pyarrow takes it for Azure (`client_secret`, or a shared access signature), and signed URLs have it.
_SECRET_IN_QUERY = re.compile(
    r"://[^\s?]*\?(?:[^\s#]*&)?"
    r"(?:sig|[^\s&=#]*(?:password|passphrase|secret|signature|token|access[-_.]?key|account[-_.]?key)[^\s&=#]*)"
    r"=(?!\$\{)[^\s&#]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reference:
    """One reference. `path` is None for `env`, whose `key` is the variable's name."""

    provider: str
    path: str | None
    key: str
    text: str


def split_references(value: str) -> list[str | Reference]:
    """A value's literal pieces and references, in order. A `${` that is no reference stays in a piece."""
    pieces: list[str | Reference] = []
    at = 0
    for found in _REFERENCE.finditer(value):
        if found.start() > at:
            pieces.append(value[at : found.start()])
        provider, path, key, variable = found.groups()
        pieces.append(Reference(provider or "env", path, key or variable, found.group()))
        at = found.end()
    if at < len(value):
        pieces.append(value[at:])
    return pieces


def is_malformed(value: str) -> bool:
    """True if a value has a `${` that is none of the known references."""
    return any(isinstance(piece, str) and "${" in piece for piece in split_references(value))


def is_reference_only(value: str) -> bool:
    """True if a value consists of references and nothing else, so that it gives nothing away."""
    pieces = split_references(value)
    return bool(pieces) and not any(isinstance(piece, str) and piece.strip() for piece in pieces)


def has_reference(value: str) -> bool:
    """True if some part of a value is a reference."""
    return any(isinstance(piece, Reference) for piece in split_references(value))


def is_secret_key(key: str) -> bool:
    """True if a client property's value is a secret by its name."""
    return key in _SECRET_KEYS or _SECRET_NAME.search(key) is not None


def check_no_literal_secret(key: str, value: str, *, shown_as: str, foreign: bool = False) -> None:
    """Refuse a literal secret in an option: Spark writes options into plans and event logs.

    Args:
        key: the property in lower case, without prefix.
        shown_as: the key as the user wrote it, for the message.
        foreign: the option of a user's own class, whose names nobody here knows: more names count as secret.

    Raises:
        OptionError: names the key and the reference forms, never the value.
    """
    secret = is_secret_key(key) or (foreign and _SECRET_NAME_OF_OTHERS.search(key) is not None)
    if secret and value and not is_reference_only(value):
        raise literal_secret(shown_as)
    check_no_credentials(value, f"option '{shown_as}'")


def check_no_credentials(uri: str, what: str) -> None:
    """Refuse a URI with a password or another secret in it: paths stand in plans, event logs, events and messages.

    Raises:
        OptionError: says `what` it is, never the URI.
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
    """The refusal of a literal secret, without its value."""
    return OptionError(
        f"option '{shown_as}' holds a literal secret, which Spark would write into plans and event logs;"
        f" put it into a mounted file or a variable and write {REFERENCE_FORMS}"
    )


def check_references(properties: Mapping[str, str], *, prefix: str = "kafka.") -> None:
    """Refuse values with a `${` that is no known reference; they would reach a client as they are.

    Raises:
        OptionError: names the option, not the value, which may hold a secret.
    """
    for key, value in properties.items():
        if is_malformed(value):
            raise OptionError(
                f"option '{prefix}{key}' has a ${{…}} that is not a reference; the known forms are"
                f" {REFERENCE_FORMS}, with an absolute path"
            )
