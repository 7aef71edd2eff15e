"""Checks of the Kafka client properties that a document from outside sets.

Pure; runs on driver and executors and in the operator. `client_properties` has the table of what a document may set and
why. Credentials never stand in a document: they are files of the cluster's secret folder, named as the property
(`SECRET_FILE_KEYS`). The application's own `kafka.*` options are not bound by this list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dynamic_kafka.metadata.client_properties import BY_NAME, MAIN_NAMES, PREFIX_REASONS
from dynamic_kafka.metadata.property_model import ValueRule
from dynamic_kafka.wording import nearest_names

ALLOWED_KEYS = frozenset(name for name, known in BY_NAME.items() if known.set_by == "metadata")
"""Everything that a document may set under `properties`."""

LOCATION_KEYS = frozenset(name for name, known in BY_NAME.items() if known.is_path)
"""Paths: in a document the bare name of a file in the cluster's secret folder."""

CREDENTIAL_KEYS = frozenset(name for name, known in BY_NAME.items() if known.set_by == "secret folder")
"""Secret values: files of the secret folder, never text in a document."""

SECRET_FILE_KEYS = ALLOWED_KEYS | CREDENTIAL_KEYS
"""File names of a secret folder that are properties. Other files may lie there if a `*.location` names them."""


def check_properties(properties: Mapping[str, str], *, where: str, secret_folder: str | None = None) -> list[str]:
    """Return every reason to refuse a cluster's properties in a document, each as `where.key: problem; remedy`.

    Values that may be secret are never shown.
    """
    checked = ((key, property_problem(key, value, secret_folder=secret_folder)) for key, value in properties.items())
    return [f"{where}.{key}: {problem}" for key, problem in checked if problem]


def property_problem(key: str, value: str, *, secret_folder: str | None) -> str | None:
    """Return why one property of a document is refused, with a remedy, or None."""
    if key in CREDENTIAL_KEYS:
        return "a credential cannot stand in metadata; put it into a file of this name in the `secretFolder`"
    if key not in ALLOWED_KEYS:
        return _refusal(key)
    if "${" in value:
        return "references such as ${file:…} are for the application's own options; use `secretFolder`"
    if key in LOCATION_KEYS and secret_folder is None:
        return "names a file of the secret folder, but the cluster has no `secretFolder`"
    return _value_problem(key, value)


def secret_file_problem(key: str, value: str) -> str | None:
    """Return why the file `key` of a secret folder is refused as a property, or None. Never show its content."""
    if key not in SECRET_FILE_KEYS:
        return _refusal(key)
    if key in CREDENTIAL_KEYS:
        return None if value else "is empty"
    return "does not hold a value that this property takes" if _value_problem(key, value) else None


def rule_of(key: str) -> ValueRule:
    """Return the rule for the values of a property; any text for one that documents may not set."""
    return BY_NAME[key].values if key in ALLOWED_KEYS else ValueRule()


def is_plain_name(name: str) -> bool:
    """Return whether `name` stays inside its folder as part of a path: no slash, `.`, `..` or control character."""
    return bool(re.fullmatch(r"[^/\\\x00-\x1f\x7f]{1,253}", name)) and name.strip(".") != ""


def _value_problem(key: str, value: str) -> str | None:
    if key in LOCATION_KEYS:
        if is_plain_name(value):
            return None
        return "must be the bare name of a file in the cluster's secret folder, without any `/`"
    if "\x00" in value or not value:
        return "has no value; leave the property out"
    if key.endswith(".pem") and "PRIVATE KEY" in value:
        return "holds a private key; put that into the file `ssl.key.pem` of the cluster's secret folder"
    return rule_of(key).problem(value)


def _refusal(key: str) -> str:
    reason = BY_NAME[key].reason if key in BY_NAME else ""
    reason = reason or next((why for prefix, why in PREFIX_REASONS.items() if key.startswith(prefix)), "")
    if not reason and key.endswith("_cb"):
        reason = "it is a callback, not a setting"
    if reason:
        return f"not allowed in metadata: {reason}"
    close = nearest_names(MAIN_NAMES.get(key, key), SECRET_FILE_KEYS)
    hint = f"did you mean {close[0]!r}?" if close else "see the documentation of metadata properties"
    return f"not among the properties that metadata may set; {hint}"
