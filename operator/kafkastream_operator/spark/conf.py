"""What the SparkApplications of both operators have alike: keys of `sparkConf`, and how they are applied. Pure.

`sparkConf` is a map: its keys merge with those of its user, and no tool reports a change of somebody's list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dynamic_kafka.metadata.kubernetes_names import GROUP, REVISION_ENVIRONMENT, SECRETS_PATH
from kafkastream_operator.core.application import Patch

ATTEMPT_ANNOTATION = f"{GROUP}/attempt"
"""On the driver: counts the patches for one revision, so that one that was lost can be made again."""
ROLES = ("driver", "executor")
_SECRETS = "spark.kubernetes.{}.secrets.{}"


def written(token: str, secrets: Iterable[str]) -> dict[str, str]:
    """The keys for a revision: what the driver waits for, and the Secrets that it needs."""
    conf = {f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}": token}
    for secret in sorted(secrets):
        for role in ROLES:
            conf[_SECRETS.format(role, secret)] = f"{SECRETS_PATH}/{secret}"
    return conf


def meant_for(found: Mapping[str, Any], patch: Patch, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What to apply, to exactly the application that was looked at.

    Without the UID, applying to one that was deleted meanwhile would be the creation of a new one.
    """
    meta = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": patch.expected,
        },
        "spec": dict(spec),
    }


def secrets_for(role: str, conf: Mapping[str, Any]) -> dict[str, str]:
    """{Secret: where Spark mounts it} by the keys, whoever wrote them."""
    prefix = _SECRETS.format(role, "")
    return {key.removeprefix(prefix): path for key, path in conf.items() if key.startswith(prefix)}


def in_place(found: Mapping[str, str]) -> frozenset[str]:
    """The Secrets that are mounted where they are looked for."""
    return frozenset(name for name, path in found.items() if path == f"{SECRETS_PATH}/{name}")


def number(value: object) -> int:
    """Of an annotation's text, or of a status; 0 if it is none."""
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else 0
