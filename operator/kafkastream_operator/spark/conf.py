"""The keys of `sparkConf` that the operator reads and patches, for both kinds of SparkApplication. Pure.

The operator patches keys of maps only. They merge with the user's keys, and GitOps tools do not report them as drift,
as they would a change of a user's list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dynamic_kafka.contract.kubernetes_names import GROUP, REVISION_ENVIRONMENT, SECRETS_PATH
from kafkastream_operator.core.application import Patch

ATTEMPT_ANNOTATION = f"{GROUP}/attempt"
"""Annotation of the driver: the number of the patch for one revision. A lost patch is repeated with the next number."""
ROLES = ("driver", "executor")
_SECRETS = "spark.kubernetes.{}.secrets.{}"


def revision_conf(token: str, secrets: Iterable[str]) -> dict[str, str]:
    """Return the keys for a revision: the revision that the driver waits for, and the Secrets to mount."""
    conf = {f"spark.kubernetes.driverEnv.{REVISION_ENVIRONMENT}": token}
    for secret in sorted(secrets):
        for role in ROLES:
            conf[_SECRETS.format(role, secret)] = f"{SECRETS_PATH}/{secret}"
    return conf


def apply_body(manifest: Mapping[str, Any], patch: Patch, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a server-side apply, for exactly the application that the plan was made for.

    Without the UID, the apply would create a new application if this one was deleted meanwhile.
    """
    meta = manifest["metadata"]
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "resourceVersion": patch.expected,
        },
        "spec": dict(spec),
    }


def secrets_for(role: str, conf: Mapping[str, Any]) -> dict[str, str]:
    """Return {Secret: mount path} of the keys for a role, whoever wrote them."""
    prefix = _SECRETS.format(role, "")
    return {key.removeprefix(prefix): path for key, path in conf.items() if key.startswith(prefix)}


def correctly_mounted(mounts: Mapping[str, str]) -> frozenset[str]:
    """Return the Secrets that are mounted at the path at which the source expects them."""
    return frozenset(name for name, path in mounts.items() if path == f"{SECRETS_PATH}/{name}")


def as_int(value: object) -> int:
    """Convert a value of an annotation or a status; 0 if it is not a number."""
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, str) and value.isdecimal() else 0
