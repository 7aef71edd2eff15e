"""What conditions tell a person to do can be done, and names what there is."""

from __future__ import annotations

from kafkastream_operator.core.catalog import stream_entry
from tests.unit.operator.world import cluster, running

SECRET = {"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}


def test_a_kafkastream_is_not_told_of_a_field_that_it_does_not_have() -> None:
    # `kubectl apply` of what the message says is refused: unknown field "secretFolder".
    for properties in ({"ssl.ca.location": "ca.pem"}, {"sasl.username": "${env:X}"}):
        entry = stream_entry("orders", {"clusters": [cluster("east", properties=properties)]})
        assert entry.content is None
        assert "secretFolder" not in entry.problem
        assert "secretRef" in entry.problem


def test_what_drains_is_not_called_a_stream() -> None:
    world = running(secrets=[SECRET], updateStrategy="Reload")
    world.stream("orders", cluster("east", secretRef={"name": "login"}), cluster("west"))
    world.settle()
    world.driver_reports()
    world.stream("orders", cluster("west"))
    world.changes(secrets=[])
    world.settle()
    assert "login" in world.message("Drained")
    assert "stream 'what drains'" not in world.message("Drained")
