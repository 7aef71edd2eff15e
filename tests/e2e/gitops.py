"""A Git repository of manifests, and a tool that brings its commits to the cluster as Argo CD does.

Argo CD applies on the server's side under a field manager of its own, and labels what it applies. It deletes labelled
objects that are in no manifest any more. It reports drift where a dry run of the same apply would change an object.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube import KubeCluster
from tests.support.kube.api import Json

MANAGER = "argocd-controller"
LABEL = "app.kubernetes.io/instance"
# The kinds that are looked for objects to prune: those of the repository.
KINDS = (
    "configmaps",
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
        """Make an empty repository in a new folder."""
        folder.mkdir(parents=True)
        self.folder = folder
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Make these files the whole content, commit them, and return the commit's id."""
        for path in self.folder.glob("*.yaml"):
            path.unlink()
        for name, content in files.items():
            (self.folder / name).write_text(content)
        self._git("add", "--all")
        author = ("-c", "user.name=Platform team", "-c", "user.email=platform@localhost", "-c", "commit.gpgsign=false")
        self._git(*author, "commit", "--quiet", "--message", subject)
        return self._git("rev-parse", "HEAD").strip()

    def manifests(self) -> list[Json]:
        """Return the objects of the newest commit."""
        names = self._git("ls-tree", "--name-only", "HEAD").split()
        texts = [self._git("show", f"HEAD:{name}") for name in sorted(names)]
        return [each for text in texts for each in yaml.safe_load_all(text) if each]

    def subjects(self) -> list[str]:
        """Return the subjects of all commits, the oldest first."""
        return self._git("log", "--reverse", "--format=%s").splitlines()

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )
        return done.stdout


class Sync:
    """Brings the newest commit of a repository to a namespace."""

    def __init__(self, cluster: KubeCluster, namespace: str, repository: Repository, name: str = "shop") -> None:
        """Name the application of the tool, by which it recognises its objects. Applies nothing."""
        self._cluster, self._namespace, self._repository, self._name = cluster, namespace, repository, name

    def sync(self) -> float:
        """Apply and prune; return the time at which kubectl was called."""
        desired = self._desired()
        began = time.time()
        self._kubectl("apply", *self._as_manager(), stdin=yaml.safe_dump_all(desired))
        for kind, name in to_prune(desired, self._labelled()):
            self._kubectl("delete", kind, name, "--wait=false")
        return began

    def drift(self) -> list[str]:
        """Return the fields that another sync would change; empty if the cluster is as Git says."""
        found = []
        for manifest in self._desired():
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            live = json.loads(self._kubectl("get", kind, name, "--output=json", "--show-managed-fields"))
            text = yaml.safe_dump(manifest)
            predicted = json.loads(
                self._kubectl("apply", *self._as_manager(), "--dry-run=server", "--output=json", stdin=text)
            )
            found += [f"{kind} {name}: {path}" for path in differences(live, predicted)]
        return found

    def _desired(self) -> list[Json]:
        desired = self._repository.manifests()
        for manifest in desired:
            manifest["metadata"].setdefault("labels", {})[LABEL] = self._name
            manifest["metadata"]["namespace"] = self._namespace
        return desired

    def _labelled(self) -> list[Json]:
        text = self._kubectl("get", ",".join(KINDS), f"--selector={LABEL}={self._name}", "--output=json")
        items: list[Json] = json.loads(text)["items"]
        return items

    @staticmethod
    def _as_manager() -> Sequence[str]:
        return ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "--filename=-")

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("--namespace", self._namespace, *arguments, stdin=stdin)


def to_prune(desired: Sequence[Json], labelled: Sequence[Json]) -> list[tuple[str, str]]:
    """Return kind and name of the labelled objects that no manifest names."""
    wanted = {(each["kind"], each["metadata"]["name"]) for each in desired}
    found = [(each["kind"], each["metadata"]["name"]) for each in labelled]
    return [each for each in found if each not in wanted]


def differences(live: Json, predicted: Json) -> list[str]:
    """Return the paths at which an object differs from the result of a dry run; the status does not count."""
    without = [{key: value for key, value in each.items() if key != "status"} for each in (live, predicted)]
    return list(_different(without[0], without[1], ""))


def _different(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other} - (_NOT_DESIRED if path == ".metadata" else frozenset())):
            yield from _different(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other:
        yield path
