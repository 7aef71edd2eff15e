"""Argo CD's and Flux's judgement of an object, and the Git repository of `examples/gitops`, for tests.

Argo CD and Flux themselves do not run. Lua 5.1 runs the health scripts, with the libraries that Argo CD gives them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from lupa.lua51 import LuaRuntime

from dynamic_kafka.metadata.kubernetes_names import GROUP
from tests.support.places import ROOT

EXAMPLE = ROOT / "examples" / "gitops"
HEALTH_FILE = EXAMPLE / "argocd" / "health.yaml"
PATCHES = sorted((EXAMPLE / "migration").glob("*.patch"))
"""The commits of the migration, in their order."""
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


def health(found: Mapping[str, Any]) -> Health:
    """Return Argo CD's health of a KafkaStream or KafkaStreamSubscription.

    Raises:
        LuaError: the script fails.
    """
    scripts = yaml.safe_load(HEALTH_FILE.read_text(encoding="utf-8"))["data"]
    lua = LuaRuntime(register_eval=False)
    lua.execute('getmetatable("").__index = nil')
    lua.execute(_LIKE_ARGO_CD)
    lua.globals().obj = lua.table_from(_without_nulls(found), recursive=True)
    result = lua.execute(scripts[f"resource.customizations.health.{GROUP}_{found['kind']}"])
    assert result["status"] in HEALTHS, result["status"]
    return Health(result["status"], result["message"])


def kstatus(found: Mapping[str, Any]) -> str:
    """Return the status that kstatus computes of a custom resource, and by which Flux judges it."""
    if "deletionTimestamp" in found["metadata"]:
        return "Terminating"
    status = found.get("status") or {}
    if status.get("observedGeneration", found["metadata"]["generation"]) != found["metadata"]["generation"]:
        return "InProgress"
    conditions = status.get("conditions", ())
    for each in conditions:  # the first of the two in the list counts
        if each["status"] == "True" and each["type"] in ("Reconciling", "Stalled"):
            return "InProgress" if each["type"] == "Reconciling" else "Failed"
    ready = next((each["status"] for each in conditions if each["type"] == "Ready"), "True")
    return "Current" if ready == "True" else "InProgress"


def _without_nulls(value: Any) -> Any:
    """Return the value without null fields: Lua's tables hold none."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(each) for each in value]
    return value


class Repository:
    """A copy of the example as a Git repository, whose only commit is the state before the migration.

    Attributes:
        overlay: the folder that a GitOps tool applies.
    """

    def __init__(self, folder: Path, replacements: Mapping[str, str] | None = None) -> None:
        """Copy the example into a new folder.

        Args:
            replacements: {text: text in its place}, in all files and patches, as a user adapts the example.
        """
        self._folder, self._replacements = folder, dict(replacements or {})
        self.overlay = folder / "production"
        shutil.copytree(EXAMPLE / "repository", folder)
        for file in folder.rglob("*.yaml"):
            file.write_text(self._adapted(file))
        self.git("init", "--quiet", "--initial-branch=main", ".")
        self.commit("Read orders from east")

    def git(self, *arguments: str, stdin: str | None = None) -> str:
        """Run git without the user's own configuration, and return its output. Raises CalledProcessError."""
        names = {
            f"GIT_{role}_{what}": f"orders@{role}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        outside = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        command = ["git", "-C", str(self._folder), *arguments]
        done = subprocess.run(
            command, env=outside | alone | names, input=stdin, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def commit(self, subject: str) -> None:
        """Commit everything in the folder."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def take(self, patch: Path) -> None:
        """Make the commit that a patch describes."""
        self.git("am", "--quiet", stdin=self._adapted(patch))

    def tree(self) -> str:
        """Return the id of the content of the newest commit."""
        return self.git("rev-parse", "HEAD^{tree}")

    def _adapted(self, file: Path) -> str:
        text = file.read_text(encoding="utf-8")
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        return text
