"""The rights that `init` needs on its home cluster, as internal-topics.md lists them, with Kafka's authorizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclOperation

from tests.integration.app_tools.story import Tools
from tests.integration.app_tools.test_validate_connect import ACLS, allow
from tests.support.fixtures import FreshCluster
from tests.support.kafka import KafkaCluster, start_all

pytestmark = pytest.mark.deep("a matrix of rights")

NEEDED = {
    AclOperation.DESCRIBE: "could not describe topic",
    AclOperation.CREATE: "give the user CREATE on the topic",
    AclOperation.DESCRIBE_CONFIGS: "give the user DESCRIBE_CONFIGS on the topic",
}
"""The rights, in the order in which a set-up meets them, and the words of the error without each."""


def application(folder: Path, at: KafkaCluster) -> Path:
    """An application whose home is the cluster, with the log-in of alice by reference."""
    (folder / "ca.pem").write_text(at.authority.certificate_file.read_text())
    properties: dict[str, Any] = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "${env:SHOP_PASSWORD}",
        "ssl.ca.location": str(folder / "ca.pem"),
    }
    content = {
        "name": "shop",
        "metadata": str(folder / "absent"),
        "streams": {"ids": ["orders"]},
        "checkpoint": str(folder / "checkpoint"),
        "sinks": [{"name": "out", "type": "console"}],
        "internalTopics": {
            "bootstrapServers": at.sasl_bootstrap,
            "properties": properties,
            "timeout": "20s",
            "topics": [{"name": "offsets", "kind": "changelog"}],
        },
    }
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.timeout(600)
def test_each_right_is_named_when_it_is_missing(
    fresh_cluster: FreshCluster, tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = fresh_cluster("rights", users={"alice": "alice-secret-1"}, overrides=ACLS, start=False)
    start_all([at], timeout=240)
    monkeypatch.setenv("SHOP_PASSWORD", "another-secret")
    app = application(tmp_path, at)
    assert tools("init", app, "--skip-source-topics") == 4
    assert "refuses the login" in tools.errors
    assert "another-secret" not in tools.errors + tools.output

    monkeypatch.setenv("SHOP_PASSWORD", "alice-secret-1")
    for right, words in NEEDED.items():
        assert tools("init", app, "--skip-source-topics") == 5, tools.output
        assert words in tools.errors
        assert "alice-secret-1" not in tools.errors
        allow(at, "alice", "offsets", right)
    assert tools("init", app, "--skip-source-topics") == 0, tools.errors
    assert "offsets" in tools.output
