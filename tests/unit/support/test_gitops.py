"""The stand-in for Argo CD prunes and finds drift as Argo CD does, and reads commits of a real repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.gitops import LABEL, Repository, Tool, differences, to_prune
from tests.support.kube import KubeCluster


def named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}}


class FakeCluster(KubeCluster):
    """A cluster whose kubectl prints this; `stdin` has the input of each command by its verb."""

    def __init__(self, *live: dict[str, Any], labelled: Sequence[dict[str, Any]] = ()) -> None:
        self._live, self._labelled = live, labelled
        self.stdin: dict[str, str] = {}

    def kubectl(self, *arguments: str, config: Path | None = None, stdin: str | None = None) -> str:
        verb = arguments[2]
        self.stdin[verb] = stdin or ""
        items = self._labelled if stdin is None else self._live
        if verb == "apply":
            items = list(yaml.safe_load_all(self.stdin["apply"]))
        return json.dumps(items[0] if len(items) == 1 else {"kind": "List", "items": list(items)})


def applied(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the tool applies it."""
    return {**manifest, "metadata": {**manifest["metadata"], "labels": {LABEL: "orders"}}}


def test_labelled_objects_that_git_dropped_are_pruned() -> None:
    kept, dropped = [named("ConfigMap", "kept"), named("KafkaStream", "kept")], named("ConfigMap", "dropped")
    live = {**dropped, "metadata": {**dropped["metadata"], "uid": "1"}, "data": {}}

    assert to_prune(kept, [*kept, live]) == [dropped]


def test_a_field_that_another_writer_took_is_drift() -> None:
    live = {"spec": {"driver": {"annotations": {"a": "1"}, "memory": "2g"}}}
    predicted = {"spec": {"driver": {"annotations": {"a": "1"}, "memory": "1g"}}}

    assert differences(live, predicted) == [".spec.driver.memory"]


def test_a_field_that_is_taken_away_is_drift() -> None:
    assert differences({"data": {}}, {"data": {"app.yaml": "x"}}) == [".data.app.yaml"]


def test_status_and_bookkeeping_are_no_drift() -> None:
    live = {"metadata": {"name": "a", "resourceVersion": "1", "managedFields": [1]}, "status": {"phase": "old"}}
    predicted = {"metadata": {"name": "a", "resourceVersion": "2", "managedFields": [2]}, "status": {"phase": "new"}}

    assert differences(live, predicted) == []


def test_a_label_is_compared_although_bookkeeping_is_not() -> None:
    live = {"metadata": {"labels": {"generation": "1"}}}
    predicted = {"metadata": {"labels": {"generation": "2"}}}

    assert differences(live, predicted) == [".metadata.labels.generation"]


def test_drift_is_what_another_sync_would_change() -> None:
    there, old = named("ConfigMap", "there"), named("KafkaStream", "old")
    edited = {**applied(there), "data": {"by": "hand"}}
    cluster = FakeCluster(edited, labelled=[edited, applied(old)])
    tool = Tool(cluster, "shop", lambda: [named("ConfigMap", "there"), named("ConfigMap", "new")])

    assert tool.drift() == [
        "ConfigMap there: .data",
        "ConfigMap new: is missing",
        "KafkaStream old: is to be pruned",
    ]


def test_a_sync_applies_labelled_objects_and_prunes() -> None:
    kept, dropped = named("ConfigMap", "kept"), named("ConfigMap", "dropped")
    cluster = FakeCluster(labelled=[applied(kept), applied(dropped)])

    Tool(cluster, "shop", lambda: [named("ConfigMap", "kept")]).sync()

    assert list(yaml.safe_load_all(cluster.stdin["apply"])) == [applied(kept)]
    assert list(yaml.safe_load_all(cluster.stdin["delete"])) == [dropped]


def test_a_sync_without_dropped_objects_deletes_none() -> None:
    kept = named("ConfigMap", "kept")
    cluster = FakeCluster(labelled=[applied(kept)])

    Tool(cluster, "shop", lambda: [named("ConfigMap", "kept")]).sync()

    assert "delete" not in cluster.stdin


def test_a_commit_is_the_whole_state(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "git")
    repository.commit("First", {"a.yaml": "kind: A\n---\nkind: B\n", "b.yaml": "kind: C\n"})
    repository.commit("Second", {"a.yaml": "kind: A\n"})

    assert [manifest["kind"] for manifest in repository.manifests()] == ["A"]
    assert repository.subjects() == ["First", "Second"]
