"""Java's JAAS texts (`sasl.jaas.config`), translated into librdkafka's properties for the same log-in. Pure.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice"
    password="${file:/run/s:pw}";

Messages never hold a value from the text, because any value may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dynamic_kafka.errors import OptionError
from dynamic_kafka.wording import did_you_mean

_TOKEN = re.compile(r"""\s*([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|((?:\$\{[^}]*\}|[^\s;"'])+))""")
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
_END = re.compile(r"\s*;\s*")

_PLAIN = "PlainLoginModule"
_SCRAM = "ScramLoginModule"
_OAUTH = "OAuthBearerLoginModule"
_EXTENSION = "extension_"
_ENTRIES = {
    _PLAIN: ("username", "password"),
    _SCRAM: ("username", "password"),
    _OAUTH: ("clientId", "clientSecret", "scope"),
}
"""The entries of each log-in module that are translated."""
SECRET_ENTRIES = frozenset(("password", "clientSecret"))
"""Entries of a JAAS text whose values are secrets."""


@dataclass(frozen=True)
class Jaas:
    """A parsed JAAS text: the class of the log-in module, without its package, and the entries."""

    module: str
    entries: Mapping[str, str]


def parse_jaas(text: str, *, where: str) -> Jaas:
    """Parse a JAAS text.

    Raises:
        OptionError: the text is not one entry of the form `module required key="value" …;`.
    """
    head = _HEAD.match(text)
    at = head.end() if head else 0
    entries: dict[str, str] = {}
    while (token := _TOKEN.match(text, at)) is not None:
        double, single, bare = token.group(2), token.group(3), token.group(4)
        quoted = double if double is not None else single
        entries[token.group(1)] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = token.end()
    if head is None or not _END.fullmatch(text, at):
        raise OptionError(
            f"{where}: the JAAS text does not parse (its content is not shown); write one entry like"
            ' org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'
            " or set kafka.sasl.username and kafka.sasl.password"
        )
    return Jaas(head.group(1).rsplit(".", 1)[-1], entries)


def log_in_properties(jaas: Jaas, mechanism: str | None, *, where: str) -> dict[str, str]:
    """Return librdkafka's properties for the same log-in.

    Args:
        mechanism: the value of `sasl.mechanism`, None if unset.

    Raises:
        OptionError: librdkafka has no equivalent of the module, or the module contradicts the mechanism.
    """
    _refuse_unknown(jaas, where)
    if jaas.module in (_PLAIN, _SCRAM):
        fitting = ("PLAIN",) if jaas.module == _PLAIN else ("SCRAM-SHA-256", "SCRAM-SHA-512")
        # A mechanism that is an unresolved reference cannot be compared; the client checks it.
        if mechanism is None and jaas.module == _SCRAM:
            raise OptionError(f"{where}: ScramLoginModule needs kafka.sasl.mechanism, {' or '.join(fitting)}")
        if mechanism is not None and "${" not in mechanism and mechanism.upper() not in fitting:
            raise OptionError(
                f"{where}: {jaas.module} does not fit sasl.mechanism={mechanism}; set {' or '.join(fitting)}"
            )
        return {
            "sasl.mechanism": mechanism or "PLAIN",
            "sasl.username": _entry(jaas, "username", where),
            "sasl.password": _entry(jaas, "password", where),
        }
    if jaas.module == _OAUTH and "clientId" in jaas.entries:
        scope, extensions = jaas.entries.get("scope"), _extensions(jaas, where)
        return {
            "sasl.mechanism": mechanism or "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": _entry(jaas, "clientId", where),
            "sasl.oauthbearer.client.secret": _entry(jaas, "clientSecret", where),
            **({"sasl.oauthbearer.scope": scope} if scope is not None else {}),
            **({"sasl.oauthbearer.extensions": extensions} if extensions else {}),
        }
    raise OptionError(
        f"{where}: the log-in module {jaas.module} is Java's and has no equivalent here. PLAIN, SCRAM and"
        " OAUTHBEARER with a client secret are supported: set kafka.sasl.mechanism and librdkafka's kafka.sasl.*"
        " properties"
    )


def _refuse_unknown(jaas: Jaas, where: str) -> None:
    known = _ENTRIES.get(jaas.module)
    if known is None:
        return
    for key in jaas.entries:
        if key not in known and not (jaas.module == _OAUTH and key.startswith(_EXTENSION)):
            raise OptionError(
                f"{where}: the entry {key} of {jaas.module} has no equivalent here, and the log-in would go without it"
                f"{did_you_mean(key, known)}; take it out, or set librdkafka's kafka.sasl.* properties"
            )


def _extensions(jaas: Jaas, where: str) -> str:
    """Return the SASL extensions in librdkafka's form, `name=value,…`; empty without any."""
    extensions = {
        key.removeprefix(_EXTENSION): text for key, text in jaas.entries.items() if key.startswith(_EXTENSION)
    }
    for name, text in extensions.items():
        if "," in text or not name.isalpha():
            raise OptionError(f"{where}: {_EXTENSION}{name}: an extension has a name of letters, and no comma")
    return ",".join(f"{name}={text}" for name, text in extensions.items())


def _entry(jaas: Jaas, key: str, where: str) -> str:
    value = jaas.entries.get(key)
    if value is None:
        raise OptionError(f"{where}: the JAAS text of {jaas.module} has no {key}")
    return value
