"""The operator's guide is complete, and its examples work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic.alias_generators import to_camel

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.contract import kubernetes_names
from dynamic_kafka.contract.exit_codes import MEANINGS
from dynamic_kafka.contract.kubernetes_names import config_map_name
from kafkastream_operator import __main__ as command
from kafkastream_operator.core.application import Life
from kafkastream_operator.core.drain_evidence import _WITHOUT_DRIVER
from kafkastream_operator.models import stream, subscription
from kafkastream_operator.models.stream import KafkaStreamSpec, KafkaStreamStatus
from kafkastream_operator.models.subscription import SubscriptionSpec, SubscriptionStatus
from kafkastream_operator.spark import conf, kinds, kubeflow
from tests.support.places import ROOT
from tests.unit.operator.recorded_states import silent
from tests.unit.operator.test_crash_points import LEASE, POINTS

PAGES = [
    ROOT / "docs" / page
    for page in (
        "start/operator.md",
        "how-to/operator.md",
        "how-to/install-operator.md",
        "reference/operator-behaviour.md",
        "reference/operator.md",
    )
]
GUIDE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
CODE = ROOT / "operator" / "kafkastream_operator"
SNIPPETS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)]
WORD = re.compile(r"[A-Z][A-Za-z]+")


def words(tree: ast.AST) -> Iterator[str]:
    """Yield each string constant that is one word, as reasons are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.fullmatch(node.value):
            yield node.value


def calls(name: str, argument: int) -> set[str]:
    """Return the words that the code passes to a function or method as its n-th argument."""
    passed_words: set[str] = set()
    for file in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and name in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
                passed_words |= set(words(node.args[argument])) if len(node.args) > argument else set()
    return passed_words


def reasons() -> set[str]:
    """Return the reasons of all conditions: direct ones, of held streams, refused Secrets, applications, exit codes."""
    of_exit_codes = {meaning.reason for meaning in MEANINGS.values()} - {""}
    return calls("condition", 1) | calls("Held", 1) | calls("Refusal", 0) | set(get_args(Life)) | of_exit_codes


_TEXTS = ast.JoinedStr | ast.Subscript | ast.Call | ast.Name | ast.Attribute


def events() -> set[str]:
    """Return the reasons of all Events."""
    written = calls("send_event", 3)
    for file in (CODE / "core" / "conditions" / "events.py", CODE / "handlers" / "reconcile.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple) and len(node.elts) == 2:
                first, second = node.elts
                if isinstance(first, ast.Constant) and isinstance(second, _TEXTS):
                    written |= set(words(first))
    return written


def drain_reasons() -> set[str]:
    """Return the fixed parts of the texts that say what a drain waits for, each up to its remedy."""
    tree = ast.parse((CODE / "core" / "drain_evidence.py").read_text(encoding="utf-8"))
    functions = [member for member in tree.body if getattr(member, "name", "") in ("missing_evidence", "_unfinished")]
    returned = [child for function in functions for child in ast.walk(function) if isinstance(child, ast.Return)]
    texts = [leaf.value for node in returned for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)]
    texts += _WITHOUT_DRIVER.values()
    return {re.split("[:.]", text)[0].strip() for text in texts} - {""}


def of(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind in the guide's examples."""
    examples = [snippet for snippet in SNIPPETS if snippet["kind"] == kind]
    assert examples
    return examples


def test_the_reasons_are_found_in_the_code() -> None:
    # This checks the search itself, with one reason for each way in which the code writes them.
    assert {"Adopted", "FieldTaken", "PatchRefused", "ServerNotAllowed", "InvalidConfigMap", "Shadows"} <= reasons()
    assert {"Suspended", "DrainTimedOut", "ApplicationTaken", "NoDriver", "Settled", "InForce"} <= reasons()
    assert {
        "Invalid",
        "Shadowed",
        "Rendered",
        "Released",
        "Restarting",
        "SubscriptionExists",
        "ApplicationFailed",
    } <= events()


@pytest.mark.parametrize("reason", sorted(events() - reasons() - {"PatchRefused"}))
def test_every_event_is_listed(reason: str) -> None:
    assert f"`{reason}`" in GUIDE


@pytest.mark.parametrize("reason", sorted(drain_reasons()))
def test_every_fact_that_a_drain_waits_for_is_listed(reason: str) -> None:
    assert reason in GUIDE.partition("\n| It says | Do |\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("name", [name for name in vars(kubernetes_names) if name.isupper()])
def test_every_shared_name_is_in_the_guide(name: str) -> None:
    value = getattr(kubernetes_names, name)
    if isinstance(value, str):
        assert value in GUIDE


@pytest.mark.parametrize("name", [conf.ATTEMPT_ANNOTATION, *kinds.LABELS])
def test_every_other_name_is_in_the_guide(name: str) -> None:
    assert f"`{name}`" in GUIDE


def flags(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return the flags of the command."""
    with pytest.raises(SystemExit):
        command.main(["--help"])
    return set(re.findall(r"(?<![\w-])--[a-z-]+", capsys.readouterr().out)) - {"--help"}


def test_every_flag_is_in_the_guide_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    table = set(re.findall(r"^\| `(--[a-z-]+)", GUIDE, re.MULTILINE))
    assert table == flags(capsys)


def test_the_streams_and_subscriptions_of_the_guide_are_valid() -> None:
    for manifest in of("KafkaStream"):
        KafkaStreamSpec.model_validate(manifest["spec"])
    for reader in of("KafkaStreamSubscription"):
        SubscriptionSpec.model_validate(reader["spec"])


def test_each_application_of_the_guide_mounts_what_it_needs() -> None:
    applications = {workload["metadata"]["name"]: workload for workload in of("SparkApplication")}
    subscriptions = of("KafkaStreamSubscription")
    assert len(applications) == len(subscriptions) > 1
    for reader in subscriptions:
        name = reader["spec"]["applicationRef"]["name"]
        application = applications[name]
        manifest = {**application, "metadata": {**application["metadata"], "uid": "u", "resourceVersion": "1"}}
        read = kubeflow.application_of(manifest)
        assert read.mounts == {secret["name"] for secret in reader["spec"].get("secrets", [])}
        mount = {"name": config_map_name(name), "path": kubernetes_names.MOUNT_PATH}
        assert application["spec"]["driver"]["configMaps"][0] == mount


def test_the_guides_subscriptions_get_their_streams_and_secrets() -> None:
    streams = {manifest["metadata"]["name"]: manifest["spec"] for manifest in of("KafkaStream")}
    for reader in of("KafkaStreamSubscription"):
        asked = {
            cluster["secretRef"]["name"]
            for stream in reader["spec"]["streams"]["ids"]
            for cluster in streams[stream]["clusters"]
            if "secretRef" in cluster
        }
        assert asked == {secret["name"] for secret in reader["spec"].get("secrets", [])}


def test_the_app_yaml_of_the_guide_is_valid_and_mounted(tmp_path: Path) -> None:
    (config_map,) = of("ConfigMap")
    file = tmp_path / "app.yaml"
    file.write_text(config_map["data"]["app.yaml"], encoding="utf-8")
    config = load_config(file)
    (application,) = (manifest for manifest in of("SparkApplication") if manifest["metadata"]["name"] == config.name)
    mounted = {mount["name"]: mount["path"] for mount in application["spec"]["driver"]["configMaps"]}
    assert str(config.file.metadata) == kubernetes_names.MOUNT_PATH
    assert application["spec"]["arguments"] == ["run", f"{mounted[config_map['metadata']['name']]}/app.yaml"]


@pytest.mark.parametrize(
    "file",
    [
        "gitops/repository/base/rights.yaml",
        "demo/manifests/account.yaml",
        "kubernetes/kubeflow.yaml",
        "kubernetes/apache.yaml",
    ],
)
def test_each_example_has_the_role_of_drivers(file: str) -> None:
    objects = list(yaml.safe_load_all((ROOT / "examples" / file).read_text(encoding="utf-8")))
    (role,) = [manifest for manifest in objects if manifest["kind"] == "Role"]
    (binding,) = [manifest for manifest in objects if manifest["kind"] == "RoleBinding"]
    assert role["metadata"]["name"] == binding["roleRef"]["name"] == kubernetes_names.REPORTER_ROLE
    verbs = list(kubernetes_names.REPORTER_VERBS)
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    assert binding["metadata"]["name"] == f"{kubernetes_names.REPORTER_ROLE}-{binding['subjects'][0]['name']}"


def test_the_guide_has_the_commands_of_the_condition() -> None:
    world = silent(3600)
    assert world.driver is not None
    world.driver = replace(world.driver, namespace="spark-jobs", account="spark")
    commands = re.findall(r"`(kubectl [^`]+)`", world.settle().message("Reporting"))
    assert len(commands) == 2
    assert [kubectl_command for kubectl_command in commands if kubectl_command not in GUIDE] == []


def test_argo_cds_health_scripts_use_existing_conditions() -> None:
    patch = yaml.safe_load((ROOT / "examples" / "gitops" / "argocd" / "health.yaml").read_text(encoding="utf-8"))
    kinds_of_ours = {KafkaStreamStatus: stream.KIND, SubscriptionStatus: subscription.KIND}
    prefix = f"resource.customizations.health.{kubernetes_names.GROUP}_"
    assert list(patch["data"]) == [prefix + kind for kind in kinds_of_ours.values()]
    for (model, kind), script in zip(kinds_of_ours.items(), patch["data"].values(), strict=True):
        asked = set(re.findall(r'found\["(\w+)"\]|each\.type == "(\w+)"', script))
        assert {"".join(pair) for pair in asked} <= calls("condition", 0)
        assert set(re.findall(r'reason == "(\w+)"', script)) <= reasons()
        assert set(re.findall(r"obj\.status\.(\w+)", script)) <= {to_camel(name) for name in model.model_fields}, kind
        assert set(re.findall(r'"(Healthy|Progressing|Degraded|Suspended|Missing|Unknown)"', script)) >= {"Healthy"}


def test_every_write_of_the_operators_has_its_death() -> None:
    page = (ROOT / "docs" / "contributing" / "decisions" / "013-operator-writes.md").read_text(encoding="utf-8")
    table = page.partition("| # | Write |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+'*) \|", table, re.MULTILINE)
    assert len(rows) == len(table.splitlines()) - 2
    assert set(rows) == {row for row, _, _ in POINTS} | {LEASE}


def test_the_pod_of_the_tools_has_the_mounts_of_the_example() -> None:
    page = (ROOT / "docs" / "how-to" / "tools.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    pod, driver = yaml.safe_load(text)["spec"], of("SparkApplication")[0]["spec"]["driver"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for config_map in driver["configMaps"]:
        assert volumes[mounts[config_map["path"]]]["configMap"]["name"] == config_map["name"]
    (data,) = driver["volumeMounts"]
    assert volumes[mounts[data["mountPath"]]] in of("SparkApplication")[0]["spec"]["volumes"]


@pytest.mark.parametrize("page", ["reference/threat-model.md", "contributing/decisions/013-operator-writes.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text(encoding="utf-8")))
    there = {name for file in (ROOT / "tests").rglob("test_*.py") for name in _tests(file)}
    assert named
    assert named - there == set()


def _tests(file: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
