"""The stand-in for Argo CD prunes and finds drift as Argo CD does, and reads commits of a real repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.gitops import Repository, differences, to_prune


def named(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}


def test_labelled_objects_that_git_dropped_are_pruned() -> None:
    labelled = [named("ConfigMap", "kept"), named("KafkaStream", "kept"), named("ConfigMap", "dropped")]

    assert to_prune([named("ConfigMap", "kept"), named("KafkaStream", "kept")], labelled) == [("ConfigMap", "dropped")]


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


def test_a_commit_is_the_whole_state(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "git")
    repository.commit("First", {"a.yaml": "kind: A\n---\nkind: B\n", "b.yaml": "kind: C\n"})
    repository.commit("Second", {"a.yaml": "kind: A\n"})

    assert [each["kind"] for each in repository.manifests()] == ["A"]
    assert repository.subjects() == ["First", "Second"]
