"""Argo CD's and Flux's judgement of an object, for tests.

Argo CD and Flux themselves do not run. Lua 5.1 runs the health scripts, with the libraries that Argo CD gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml
from lupa.lua51 import LuaRuntime

from dynamic_kafka.contract.kubernetes_names import GROUP
from tests.support.gitops import EXAMPLE

HEALTH_FILE = EXAMPLE / "argocd" / "health.yaml"
HEALTHS = frozenset({"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"})
"""The statuses that Argo CD takes; it makes `Unknown` of any other one."""

# Argo CD gives a script these libraries only: no `string`, `math` or `io`, and no methods of texts.
_LIKE_ARGO_CD = """
for _, name in ipairs({"string", "math", "io", "debug", "coroutine", "python"}) do _G[name] = nil end
"""


class Health(NamedTuple):
    """The result of a health script."""

    status: str
    message: str


def health(resource: Mapping[str, Any]) -> Health:
    """Return Argo CD's health of a KafkaStream or KafkaStreamSubscription.

    Raises:
        LuaError: the script fails.
    """
    scripts = yaml.safe_load(HEALTH_FILE.read_text(encoding="utf-8"))["data"]
    lua = LuaRuntime(register_eval=False)
    lua.execute('getmetatable("").__index = nil')
    lua.execute(_LIKE_ARGO_CD)
    lua.globals().obj = lua.table_from(_without_nulls(resource), recursive=True)
    result = lua.execute(scripts[f"resource.customizations.health.{GROUP}_{resource['kind']}"])
    assert result["status"] in HEALTHS, result["status"]
    return Health(result["status"], result["message"])


def kstatus(resource: Mapping[str, Any]) -> str:
    """Return the status that kstatus computes of a custom resource, and by which Flux judges it."""
    if "deletionTimestamp" in resource["metadata"]:
        return "Terminating"
    status = resource.get("status") or {}
    if status.get("observedGeneration", resource["metadata"]["generation"]) != resource["metadata"]["generation"]:
        return "InProgress"
    conditions = status.get("conditions", ())
    for condition in conditions:  # the first of the two in the list counts
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "True")
    return "Current" if ready == "True" else "InProgress"


def _without_nulls(value: Any) -> Any:
    """Return the value without null fields: Lua's tables hold none."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(field) for key, field in value.items() if field is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(entry) for entry in value]
    return value
