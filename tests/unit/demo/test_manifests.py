"""The demo's manifests are valid by the models of the operator and the application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from demo.git import Git
from demo.kube import rendered
from demo.settings import DISCOVERY_S, END_OF_DAY, TRIGGER_S
from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.contract.kubernetes_names import MOUNT_PATH, config_map_name
from dynamic_kafka.executor.evaluating.evaluation import Evaluation
from dynamic_kafka.metadata.model import Revision
from dynamic_kafka.options.durations import parse_duration_ms
from kafkastream_operator.core.document import make_document, pack
from kafkastream_operator.models.stream import KafkaStreamSpec
from kafkastream_operator.models.subscription import SubscriptionSpec

SERVERS = {"A": "127.0.0.1:1", "B": "127.0.0.1:2", "C": "127.0.0.1:3"}
VALUES = {**SERVERS, "update_strategy": "Reload", "spark_version": "4.2.0", "data": "/somewhere"}


class Cluster:
    """A cluster that records the calls of kubectl."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def kubectl(self, *arguments: str) -> str:
        self.calls.append(arguments)
        return ""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def git(tmp_path: Path, cluster: Cluster) -> Git:
    return Git(tmp_path / "git", cluster, "shop", VALUES)  # type: ignore[arg-type]


def content(git: Git, name: str) -> Any:
    return yaml.safe_load((git.folder / name).read_text())


def test_the_applied_stream_has_the_given_clusters(git: Git, cluster: Cluster) -> None:
    git.apply_stream(("C", "A"))
    spec = KafkaStreamSpec.model_validate(content(git, "kafkastream.yaml")["spec"])
    assert {entry.id: entry.bootstrap_servers for entry in spec.clusters} == {"A": SERVERS["A"], "C": SERVERS["C"]}
    assert cluster.calls == [("apply", "-n", "shop", "-f", str(git.folder / "kafkastream.yaml"))]
    git.apply_stream(("B",))
    assert [entry["id"] for entry in content(git, "kafkastream.yaml")["spec"]["clusters"]] == ["B"]


def test_the_subscription_is_valid(git: Git) -> None:
    spec = SubscriptionSpec.model_validate(content(git, "subscription.yaml")["spec"])
    assert (spec.application_ref.name, spec.update_strategy) == ("orders", "Reload")


def test_the_application_mounts_the_rendered_document(git: Git) -> None:
    application = content(git, "sparkapplication.yaml")
    spec = application["spec"]["driver"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts[MOUNT_PATH]["configMap"]["name"] == config_map_name(application["metadata"]["name"])
    assert mounts["/etc/orders"]["configMap"]["name"] == content(git, "app-configmap.yaml")["metadata"]["name"]
    config = load_config(git.folder / "app.yaml")
    assert config.file.metadata == MOUNT_PATH
    assert [sink.name for sink in config.sinks] == ["parquet", "aggregate"]


def test_the_job_has_the_interval_and_trigger_of_the_promise(git: Git) -> None:
    config = content(git, "app.yaml")
    assert parse_duration_ms(config["options"]["metadataDiscoveryInterval"], where="it") == DISCOVERY_S * 1000
    (parquet,) = [sink for sink in config["sinks"] if sink["name"] == "parquet"]
    assert parse_duration_ms(parquet["trigger"]["interval"], where="it") == TRIGGER_S * 1000


def test_a_killed_driver_starts_again_and_an_ended_job_does_not(git: Git) -> None:
    policy = content(git, "sparkapplication.yaml")["spec"]["restartPolicy"]
    assert policy["type"] == "OnFailure" and policy["onFailureRetries"] > 3


def test_the_record_evaluator_ends_splits_at_the_end_of_day(git: Git) -> None:
    config = load_config(git.folder / "app.yaml")
    evaluation = Evaluation.of(config.parsed_options(config.sinks[0]), {})
    assert evaluation is not None
    mask = evaluation.load().mask
    assert mask is not None
    values = pa.array([b'{"sequence": 1}', END_OF_DAY, None], pa.binary())
    assert mask(pa.record_batch([values], ["value"])).to_pylist() == [False, True, None]


def test_a_document_is_read_as_the_operator_renders_it() -> None:
    clusters = {"A": {"topics": ["orders"], "state": "Draining"}, "B": {"topics": ["orders"]}}
    data, _ = pack(make_document(Revision(lineage="l", counter=3), {"orders": {"clusters": clusters}}, {}, "uid"))
    assert rendered({"data": data}) == ("l/3", {"A": "Draining", "B": "Active"})
    assert rendered(None) == ("", {})
