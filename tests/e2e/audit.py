"""A stream that only one application reads, and that changes often: the other application is not restarted by it."""

from __future__ import annotations

import yaml

from tests.e2e.install import NAMESPACE
from tests.e2e.stream import QUIET_S
from tests.support.kube.api import Api, Json
from tests.support.operator import STREAMS

NAME = "audit"
FILE = "audit.yaml"
"""The stream's file in Git."""


def manifest(servers: str) -> str:
    """Return the stream as it is in Git: one topic without records, on cluster C."""
    metadata = {"name": NAME}
    drain = {"quietPeriod": f"{QUIET_S:.0f}s"}
    spec = {**_spec(servers, 0), "drain": drain}
    return yaml.safe_dump(
        {"apiVersion": "kafkastream.dev/v1alpha1", "kind": "KafkaStream", "metadata": metadata, "spec": spec}
    )


def change(api: Api, servers: str, number: int) -> None:
    """Change a property of the stream's cluster, for which each process of a driver makes its clients anew."""
    api.patch(STREAMS, NAME, NAMESPACE, {"spec": _spec(servers, number)})


def _spec(servers: str, number: int) -> Json:
    properties = {"client.rack": f"rack-{number}"}
    return {"clusters": [{"id": "C", "bootstrapServers": servers, "topics": [NAME], "properties": properties}]}
