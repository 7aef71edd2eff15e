"""`validate --connect` on a cluster with users and ACLs: servers, log-in, topics and rights, without a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from dynamic_kafka.app.cli import main
from tests.support.fixtures import FreshCluster
from tests.support.kafka import KafkaCluster
from tests.support.kafka.content import results

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the plaintext listener, and the broker itself
}
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def allow(at: KafkaCluster, user: str, topic: str, operation: AclOperation) -> None:
    """Give a user one right on a topic."""
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )
    results(at.admin.create_acls([binding]))


@pytest.fixture
def secured(fresh_cluster: FreshCluster) -> KafkaCluster:
    """A cluster whose user alice may read `orders`, and describe `returns` only."""
    made = fresh_cluster("acls", users={"alice": "alice-secret-1"}, overrides=ACLS)
    for topic in ("orders", "returns", "hidden"):
        made.create_topic(topic)
    allow(made, "alice", "orders", AclOperation.READ)
    allow(made, "alice", "returns", AclOperation.DESCRIBE)
    return made


@pytest.mark.timeout(600)
def test_each_obstacle_of_a_cluster_is_named(
    secured: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def validate(topics: list[str], code: int, password: str = "alice-secret-1", **properties: str) -> str:
        secret = tmp_path / "secrets" / "east"
        secret.mkdir(parents=True, exist_ok=True)
        for name, content in {
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.pem": secured.authority.certificate_file.read_text(),
        }.items():
            (secret / name).write_text(content)
        app = application(tmp_path, secured.sasl_bootstrap, topics, LOGIN | properties)
        assert main(["validate", str(app), "--connect"]) == code, capsys.readouterr()
        output = capsys.readouterr().out
        assert password not in output
        return output.splitlines()[-1]

    assert re.search("accepts the log-in.* read: orders", validate(["orders"], 0))
    assert re.search("may not read returns: .* READ", validate(["orders", "returns"], 5))
    for unseen in ("missing", "hidden"):
        line = validate(["orders", unseen], 5)
        assert re.search(f"describe topic '{unseen}'.* authorization failed", line)
        assert "give the user READ on it" in line
    allow(secured, "alice", "missing", AclOperation.DESCRIBE)
    assert "has no topic 'missing'" in validate(["orders", "missing"], 10)
    assert "the cluster refuses the login" in validate(["orders"], 4, password="another-secret")


def application(folder: Path, servers: str, topics: list[str], properties: Mapping[str, str]) -> Path:
    """Write an app.yaml and its metadata, with secrets of a mounted folder."""
    east: dict[str, Any] = {"bootstrapServers": servers, "topics": topics}
    east |= {"properties": dict(properties), "secretFolder": "east"}
    (folder / "streams.yaml").write_text(yaml.safe_dump({"streams": {"orders": {"clusters": {"east": east}}}}))
    content = {
        "name": "shop",
        "metadata": str(folder / "streams.yaml"),
        "streams": {"ids": ["orders"]},
        "options": {"secretsRoot": str(folder / "secrets"), "readTimeout": "5s"},
        "checkpoint": str(folder / "checkpoint"),
        "sinks": [{"name": "out", "type": "console"}],
    }
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
