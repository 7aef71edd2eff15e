"""Argo CD's health scripts and kstatus judge every state of our resources, and `examples/gitops` is complete."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from dynamic_kafka.app.config.loading import load_config
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.drain_evidence import TopicReport
from kafkastream_operator.core.rollout.step import Timing
from kafkastream_operator.models.reasons import OF_STREAMS, OF_SUBSCRIPTIONS, Row
from kafkastream_operator.models.stream import KafkaStreamSpec
from kafkastream_operator.models.subscription import SubscriptionSpec
from tests.support.gitops import EXAMPLE, PATCHES, ExampleRepository
from tests.support.gitops_health import health, kstatus
from tests.support.places import ROOT
from tests.unit.operator import recorded_states as states
from tests.unit.operator.recorded_states import STREAMS, SUBSCRIPTIONS
from tests.unit.operator.test_documentation import CODE, calls, words
from tests.unit.operator.world import World, running

PAIRS = {"Healthy": "Current", "Progressing": "InProgress", "Degraded": "Failed", "Suspended": "InProgress"}
"""{Argo CD's health: the status of kstatus that means the same}."""
BASE = EXAMPLE / "repository" / "base"
PAGE = (ROOT / "docs" / "how-to" / "gitops.md").read_text(encoding="utf-8")
SUBJECTS = [re.findall(r"^Subject: (.+)$", patch_file.read_text(), re.MULTILINE)[0] for patch_file in PATCHES]


@functools.cache
def recorded(kind: str, state: str) -> dict[str, Any]:
    """Return the object of a kind in a state."""
    return STREAMS[state][0]() if kind == "KafkaStream" else states.subscription(SUBSCRIPTIONS[state][0]())


EVERY_STATE = [("KafkaStream", stream_state) for stream_state in STREAMS] + [
    ("KafkaStreamSubscription", subscription) for subscription in SUBSCRIPTIONS
]


def condition(manifest: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return next(dict(entry) for entry in manifest["status"]["conditions"] if entry["type"] == kind)


@pytest.mark.parametrize(("kind", "state"), EVERY_STATE)
def test_argo_cd_judges_each_state_as_it_should(kind: str, state: str) -> None:
    table: Mapping[str, tuple[object, str]] = STREAMS if kind == "KafkaStream" else SUBSCRIPTIONS
    manifest = recorded(kind, state)
    assert health(manifest).status == table[state][1]
    assert re.match(r"[A-Z]\w+(: .+)?$", health(manifest).message)


@pytest.mark.parametrize(("kind", "state"), EVERY_STATE)
def test_flux_judges_each_state_as_argo_cd_does(kind: str, state: str) -> None:
    manifest = recorded(kind, state)
    assert kstatus(manifest) == PAIRS[health(manifest).status]


@pytest.mark.parametrize("kind", ["KafkaStream", "KafkaStreamSubscription"])
@pytest.mark.parametrize("status", [None, {"observedGeneration": 0}, {"observedGeneration": 1}, {"conditions": []}])
def test_a_spec_nobody_has_looked_at_is_in_progress(kind: str, status: dict[str, Any] | None) -> None:
    new = {"kind": kind, "metadata": {"name": "orders", "generation": 2}, "status": status}
    assert health(new) == ("Progressing", "the operator has not looked at it yet")
    later = recorded(kind, "at rest")
    behind = {**later, "metadata": {**later["metadata"], "generation": later["metadata"]["generation"] + 1}}
    assert health(behind).status == "Progressing"
    assert kstatus(behind) == "InProgress"


def test_argo_cd_shows_what_a_stream_still_drains() -> None:
    verdict = health(recorded("KafkaStream", "a drain"))
    assert verdict.status == "Healthy"
    assert "east/orders" in verdict.message


def test_argo_cd_shows_the_reason_of_a_degraded_one() -> None:
    for kind, state in EVERY_STATE:
        manifest = recorded(kind, state)
        if health(manifest).status == "Degraded":
            stalled = condition(manifest, "Stalled")
            assert health(manifest).message == f"{stalled['reason']}: {stalled['message']}"


def written(file: Path) -> Iterator[tuple[str, str]]:
    """Yield type and reason of each condition that a module of the operator writes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "condition":
            for kind in words(node.args[0]):
                yield from ((kind, reason) for reason in words(node.args[1]))


def reported(kind: str) -> set[tuple[str, str]]:
    """Return type and reason of each condition in a recorded state."""
    manifests = [recorded(*pair) for pair in EVERY_STATE if pair[0] == kind]
    return {(entry["type"], entry["reason"]) for one in manifests for entry in one["status"]["conditions"]}


def test_every_reason_of_a_stream_is_in_a_recorded_state() -> None:
    assert set(written(CODE / "core" / "stream_status.py")) - reported("KafkaStream") == set()


def test_every_reason_of_a_subscription_is_recorded() -> None:
    files = [module for module in CODE.rglob("*.py") if module.name != "stream_status.py"]
    expected = {pair for file in files for pair in written(file)}
    expected |= {("StreamsResolved", reason) for reason in calls("Held", 1) | calls("Refusal", 0)}
    expected |= {("ApplicationFound", life) for life in get_args(Life) if life != "Absent"}
    assert len(expected) > 50
    assert expected - reported("KafkaStreamSubscription") == set()


@pytest.mark.parametrize(
    ("kind", "table"), [("KafkaStream", OF_STREAMS), ("KafkaStreamSubscription", OF_SUBSCRIPTIONS)]
)
def test_every_row_of_the_table_is_recorded(kind: str, table: Mapping[str, tuple[Row, ...]]) -> None:
    """So that no row is left behind; a condition whose reason has no row cannot be made."""
    pairs = {(name, reason) for name, rows in table.items() for row in rows for reason in row.reasons.split(", ")}
    assert {pair for pair in pairs if pair[1]} - reported(kind) == set()


def test_nothing_that_moves_is_stalled() -> None:
    both = {
        state
        for kind, state in EVERY_STATE
        if all(condition(recorded(kind, state), flag)["status"] == "True" for flag in ("Reconciling", "Stalled"))
    }
    assert both == set()


def judged(world: World) -> set[str]:
    """Return the healths of the subscription and of the stream after each look of the operator, until it rests."""
    healths = set[str]()
    for _ in range(20):
        writes = len(world.writes)
        world.look()
        assert [world.condition(kind)[0] for kind in ("Stalled", "Reconciling")] != ["True", "True"]
        healths |= {health(states.subscription(world)).status, health(states.stream(world)).status}
        if len(world.writes) == writes:
            return healths
    raise AssertionError("the operator never comes to rest")


@pytest.mark.parametrize(
    ("strategy", "secret"), [("Auto", False), ("Auto", True), ("Restart", True), ("Reload", False)]
)
def test_a_migration_is_never_degraded(strategy: str, secret: bool) -> None:
    world = running(updateStrategy=strategy)
    world.timing = Timing()
    west = states.SAFE_WEST if secret else states.WEST
    healths = set[str]()
    for clusters in ((states.EAST, west), (west,)):
        world.later(hours=1).changes(secrets=[states.SECRET] if secret else [])
        patches = world.patches
        world.stream("orders", *clusters)
        healths |= judged(world) | judged(world.later(seconds=3))  # a restart gathers changes first
        if world.patches > patches:
            world.application_is("Starting").driver = None
            healths |= judged(world) | judged(world.driver_starts(reports=False))
        healths |= judged(world.driver_reports())
    healths |= judged(world.driver_reports(east__orders=TopicReport(lag=0, quiet_s=400)))
    assert healths == {"Healthy", "Progressing"}
    assert world.rendered() == {"west/orders": "Active"}


# -- the repository ---------------------------------------------------------------------------------------------------


def objects(folder: str) -> list[dict[str, Any]]:
    """Return the objects in the files of a folder, without what only kustomize reads."""
    texts = [yaml_file.read_text(encoding="utf-8") for yaml_file in sorted((EXAMPLE / folder).glob("*.yaml"))]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if "apiVersion" in manifest]


def part_of(part: Any, whole: Any) -> bool:
    """Return whether a manifest has everything that another one has. Items of a list may stand among others."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(key in whole and part_of(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(part_of(entry, other) for other in whole) for entry in part)
    return bool(part == whole)


def test_the_repository_has_the_lines_of_the_example() -> None:
    text = (ROOT / "examples" / "kubernetes" / "kubeflow.yaml").read_text(encoding="utf-8")
    example = list(yaml.safe_load_all(text))
    namespace = yaml.safe_load((EXAMPLE / "repository" / "production" / "kustomization.yaml").read_text())["namespace"]
    example[0]["spec"] = {"driver": example[0]["spec"]["driver"]}
    for part in example:
        assert part["metadata"].pop("namespace") == namespace  # the overlay adds it
        for subject in part.get("subjects", ()):
            assert subject.pop("namespace") == namespace  # the binding's own one counts where it is absent
        assert any(part_of(part, there) for there in objects("repository/base"))


def test_the_repositorys_app_is_valid_and_mounted() -> None:
    config = load_config(BASE / "app.yaml")
    (application,) = [manifest for manifest in objects("repository/base") if manifest["kind"] == "SparkApplication"]
    (generated,) = yaml.safe_load((BASE / "kustomization.yaml").read_text())["configMapGenerator"]
    mounted = {mount["name"]: mount["path"] for mount in application["spec"]["driver"]["configMaps"]}
    assert config.name == application["metadata"]["name"]
    assert application["spec"]["arguments"] == ["run", f"{mounted[generated['name']]}/{generated['files'][0]}"]


def test_the_repositorys_stream_and_subscription_fit() -> None:
    (stream,) = [manifest for manifest in objects("repository/production") if manifest["kind"] == "KafkaStream"]
    (reader,) = [manifest for manifest in objects("repository/base") if manifest["kind"] == "KafkaStreamSubscription"]
    KafkaStreamSpec.model_validate(stream["spec"])
    assert SubscriptionSpec.model_validate(reader["spec"]).streams.ids == (stream["metadata"]["name"],)


def test_both_tools_apply_the_same_overlay() -> None:
    (application,) = [manifest for manifest in objects("argocd") if manifest["kind"] == "Application"]
    source, kustomization = objects("flux")
    overlay = EXAMPLE / "repository" / application["spec"]["source"]["path"]
    assert EXAMPLE / "repository" / kustomization["spec"]["path"] == overlay
    assert application["spec"]["source"]["repoURL"] == source["spec"]["url"]
    assert application["spec"]["source"]["targetRevision"] == source["spec"]["ref"]["branch"]
    assert kustomization["spec"]["sourceRef"] == {"kind": source["kind"], "name": source["metadata"]["name"]}
    namespace = yaml.safe_load((overlay / "kustomization.yaml").read_text())["namespace"]
    assert application["spec"]["destination"]["namespace"] == namespace


def test_a_revert_is_the_state_before(tmp_path: Path) -> None:
    repository = ExampleRepository(tmp_path / "orders")
    trees = [repository.tree()]
    for patch in PATCHES:
        repository.take(patch)
        trees.append(repository.tree())
    assert len(set(trees)) == len(PATCHES) + 1 == 4
    for before in reversed(trees[:-1]):
        repository.git("revert", "--no-edit", f":/{SUBJECTS[trees.index(before)]}")
        assert repository.tree() == before


def test_the_whole_migration_is_taken_back_at_once(tmp_path: Path) -> None:
    repository = ExampleRepository(tmp_path / "orders")
    before = repository.tree()
    for patch in PATCHES:
        repository.take(patch)
    (command,) = re.findall(r"^git (revert --no-commit .+)$", PAGE, re.MULTILINE)
    repository.git(*command.split())
    repository.commit("Take the migration back")
    assert repository.tree() == before


def test_the_page_shows_the_three_commits() -> None:
    shown = [
        re.findall(r"^[-+].*$", diff, re.MULTILINE) for diff in re.findall(r"^```diff\n(.*?)^```$", PAGE, re.M | re.S)
    ]
    made = [
        re.findall(r"^[-+](?![-+]).*$", patch.read_text().partition("\n+++ ")[2], re.MULTILINE) for patch in PATCHES
    ]
    assert shown == made
