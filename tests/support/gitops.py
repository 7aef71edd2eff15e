"""GitOps for tests: a Git repository of manifests, and a stand-in for Argo CD that brings its commits to a cluster.

Argo CD applies on the server's side under a field manager of its own, and labels what it applies. It deletes labelled
objects that are in no manifest any more. It reports drift where a dry run of the same apply would change an object.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube import KubeCluster
from tests.support.kube.api import Json
from tests.support.places import ROOT

EXAMPLE = ROOT / "examples" / "gitops"
PATCHES = sorted((EXAMPLE / "migration").glob("*.patch"))
"""The commits of the example's migration, in their order."""

MANAGER = "argocd-controller"
LABEL = "app.kubernetes.io/instance"
# The kinds that are searched for objects to prune: those of the repositories.
_KINDS = (
    "configmaps",
    "deployments.apps",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "kafkastreams.kafkastream.dev",
    "kafkastreamsubscriptions.kafkastream.dev",
    "sparkapplications.sparkoperator.k8s.io",
)
# The API server and controllers write these.
_NOT_DESIRED = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})


class Repository:
    """A Git repository on disk.

    Attributes:
        folder: its work tree.
    """

    def __init__(self, folder: Path) -> None:
        """Make a repository of a folder, which is made if it is not there. Commits nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main", ".")

    def git(self, *arguments: str, stdin: str | None = None) -> str:
        """Run git without the user's own configuration, and return its output. Raises `AssertionError`."""
        names = {
            f"GIT_{role}_{what}": f"platform@{role}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        outside = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        command = ["git", "-C", str(self.folder), *arguments]
        done = subprocess.run(
            command, env=outside | alone | names, input=stdin or "", text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def commit(self, subject: str, files: Mapping[str, str] | None = None) -> None:
        """Commit everything in the folder.

        Args:
            files: {name: content} of all manifests; others are deleted before. By default the folder stays as it is.
        """
        if files is not None:
            for path in self.folder.glob("*.yaml"):
                path.unlink()
            for name, content in files.items():
                (self.folder / name).write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def manifests(self) -> list[Json]:
        """Return the objects in the files of the newest commit."""
        names = self.git("ls-tree", "--name-only", "HEAD").split()
        texts = [self.git("show", f"HEAD:{name}") for name in sorted(names)]
        return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]

    def subjects(self) -> list[str]:
        """Return the subjects of all commits, the oldest first."""
        return self.git("log", "--reverse", "--format=%s").splitlines()


class ExampleRepository(Repository):
    """A copy of `examples/gitops/repository`, whose only commit is the state before the migration.

    Attributes:
        overlay: the folder that a GitOps tool applies.
    """

    def __init__(self, folder: Path, replacements: Mapping[str, str] | None = None) -> None:
        """Copy the example into a new folder.

        Args:
            replacements: {text: text in its place}, in all files and patches, as a user adapts the example.
        """
        self._replacements = dict(replacements or {})
        self.overlay = folder / "production"
        shutil.copytree(EXAMPLE / "repository", folder)
        for file in folder.rglob("*.yaml"):
            file.write_text(self._adapted(file))
        super().__init__(folder)
        self.commit("Read orders from east")

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


class Tool:
    """A stand-in for Argo CD, for one application and one namespace.

    Attributes:
        build: returns the objects as they should be, such as `Repository.manifests`.
    """

    def __init__(
        self, cluster: KubeCluster, namespace: str, build: Callable[[], list[Json]], name: str = "orders"
    ) -> None:
        """Name the application of the tool, by which the tool recognises its objects. Applies nothing."""
        self._cluster, self._namespace, self.build, self._name = cluster, namespace, build, name

    def sync(self) -> float:
        """Apply and prune; return the time at which kubectl was called. Raises `KubeError`."""
        desired = self._desired()
        began = time.time()
        self._apply(desired)
        unwanted = self._unwanted(desired)
        if unwanted:
            self._kubectl("delete", "--wait=false", "--filename=-", stdin=yaml.safe_dump_all(unwanted))
        return began

    def drift(self) -> list[str]:
        """Return the fields that another sync would change; empty if the cluster is as Git says."""
        desired = self._desired()
        stdin = yaml.safe_dump_all(desired)
        live = self._kubectl("get", "--ignore-not-found", "--output=json", "--filename=-", stdin=stdin)
        by_name = {_named(resource): resource for resource in _items(live)}
        predicted = _items(self._apply(desired, "--dry-run=server", "--output=json"))
        changes = [
            f"{result['kind']} {result['metadata']['name']}: {path}"
            for result in predicted
            for path in (differences(by_name[_named(result)], result) if _named(result) in by_name else ["is missing"])
        ]
        return [*changes, *(f"{kind} {name}: is to be pruned" for kind, name in map(_named, self._unwanted(desired)))]

    def _apply(self, desired: Sequence[Json], *options: str) -> str:
        manager = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "--filename=-")
        return self._kubectl("apply", *manager, *options, stdin=yaml.safe_dump_all(desired))

    def _desired(self) -> list[Json]:
        desired = self.build()
        for manifest in desired:
            manifest["metadata"].setdefault("labels", {})[LABEL] = self._name
            manifest["metadata"]["namespace"] = self._namespace
        return desired

    def _unwanted(self, desired: Sequence[Json]) -> list[Json]:
        labelled = self._kubectl("get", ",".join(_KINDS), f"--selector={LABEL}={self._name}", "--output=json")
        return to_prune(desired, _items(labelled))

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("--namespace", self._namespace, *arguments, stdin=stdin)


def kustomized(cluster: KubeCluster, folder: Path) -> list[Json]:
    """Return the objects that `kubectl kustomize` builds of a folder."""
    return [manifest for manifest in yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))) if manifest]


def to_prune(desired: Sequence[Json], labelled: Sequence[Json]) -> list[Json]:
    """Return the labelled objects that no manifest names, by what identifies them."""
    wanted = {_named(manifest) for manifest in desired}
    return [
        {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "metadata": {"name": resource["metadata"]["name"], "namespace": resource["metadata"]["namespace"]},
        }
        for resource in labelled
        if _named(resource) not in wanted
    ]


def differences(live: Json, predicted: Json) -> list[str]:
    """Return the paths at which an object differs from the result of a dry run; the status does not count."""
    without = [{key: value for key, value in state.items() if key != "status"} for state in (live, predicted)]
    return list(_different(without[0], without[1], ""))


def _different(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other} - (_NOT_DESIRED if path == ".metadata" else frozenset())):
            yield from _different(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other:
        yield path


def _named(resource: Json) -> tuple[str, str]:
    return resource["kind"], resource["metadata"]["name"]


def _items(text: str) -> list[Json]:
    """Return the objects that kubectl prints as JSON: none, one, or a list."""
    if not text.strip():
        return []
    parsed: Json = json.loads(text)
    return list(parsed["items"]) if parsed["kind"] == "List" else [parsed]
