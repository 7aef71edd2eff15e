"""The documents and streams that stories make by themselves are valid, and as large as they have to be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import yaml

from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.options import parse_options
from kafkastream_operator.core.document import PACK_FROM_BYTES
from kafkastream_operator.models.stream import KafkaStreamSpec
from kafkastream_operator.models.subscription import SubscriptionSpec
from tests.e2e import audit, checked, large
from tests.e2e.application import Application
from tests.e2e.by_hand import document, without_subscription
from tests.support.kube.api import Api

SERVERS = {"A": "10.200.0.1:1", "B": "10.200.0.1:2", "C": "10.200.0.1:3"}


class FakeApi(Api):
    """An API server that takes patches."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    def patch(
        self, resource: str, name: str, namespace: str | None, patch: dict[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        self.patches.append(patch)
        return patch


def test_a_document_by_hand_is_valid() -> None:
    clusters = parse_document(document(SERVERS, ["B", "C"]), source="by hand").streams["orders"].clusters

    assert list(clusters) == ["B", "C"]
    assert clusters["B"].secret_folder == "b-login"
    assert [cluster.bootstrap_servers for cluster in clusters.values()] == [SERVERS["B"], SERVERS["C"]]


def test_an_application_by_hand_has_mounts_and_no_subscription(tmp_path: Path) -> None:
    text = Application("orders-by-hand", "by hand", tmp_path).manifest("image", SERVERS)
    objects = without_subscription(yaml.safe_load_all(text))

    assert [resource["kind"] for resource in objects] == ["ConfigMap", "SparkApplication"]
    assert "spark.kubernetes.driver.secrets.b-login" in objects[1]["spec"]["sparkConf"]


def test_an_application_that_checks_its_topic_ends_for_good(tmp_path: Path) -> None:
    application = Application(checked.NAME, "Restart", tmp_path)
    application.streams = [checked.STREAM]
    by_kind = {
        entry["kind"]: entry for entry in yaml.safe_load_all(checked.checking(application.manifest("image", SERVERS)))
    }

    assert by_kind["SparkApplication"]["spec"]["restartPolicy"] == {"type": "Never"}
    options = yaml.safe_load(by_kind["ConfigMap"]["data"]["app.yaml"])["options"]
    assert parse_options(
        {**options, "streamPattern": ".*", "metadataPath": "/m"}, mode="streaming"
    ).topic_integrity_check
    assert SubscriptionSpec.model_validate(by_kind["KafkaStreamSubscription"]["spec"]).streams.ids == (checked.STREAM,)


def test_the_checked_stream_may_pin_its_topic() -> None:
    for pin in ("", "9tQ_vI2NQ-mPHLbQyJ0jXA"):
        [cluster] = KafkaStreamSpec.model_validate(yaml.safe_load(checked.stream(SERVERS["C"], pin))["spec"]).clusters
        assert dict(cluster.topic_ids) == ({checked.TOPIC: pin} if pin else {})


def test_the_large_streams_document_is_packed() -> None:
    spec = KafkaStreamSpec.model_validate(large.stream()["spec"])

    assert len(json.dumps(large.stream()["spec"])) > PACK_FROM_BYTES
    assert len(spec.clusters) == 4
    assert SubscriptionSpec.model_validate(large.subscription()["spec"]).streams.ids == ("large",)


def test_a_document_is_packed_to_other_bytes() -> None:
    packed = gzip.compress(json.dumps(large.stream()).encode(), mtime=0)

    assert large.packed_otherwise(packed) != packed
    assert gzip.decompress(large.packed_otherwise(packed)) == gzip.decompress(packed)


def test_each_change_of_the_audit_stream_is_another_spec() -> None:
    api, first = FakeApi(), yaml.safe_load(audit.manifest(SERVERS["C"]))["spec"]
    for number in (1, 2):
        audit.change(api, SERVERS["C"], number)

    specs = [first, *({**first, **merge_patch["spec"]} for merge_patch in api.patches)]
    assert [KafkaStreamSpec.model_validate(spec).clusters[0].properties["client.rack"] for spec in specs] == [
        "rack-0",
        "rack-1",
        "rack-2",
    ]
