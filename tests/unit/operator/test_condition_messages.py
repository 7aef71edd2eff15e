"""Condition messages give remedies that a user can carry out, in the words of the user's own objects."""

from __future__ import annotations

import re

from kafkastream_operator.core.catalog import stream_entry
from tests.unit.operator.world import World, cluster, running

WEST_LOGIN = {"cluster": "west", "name": "west-login", "allowedServers": ["west:9092"]}
EAST_LOGIN = {"cluster": "east", "name": "login", "allowedServers": ["east:9092"]}


def test_a_restart_by_hand_names_the_secrets_to_mount() -> None:
    # A restart without the Secret would end the next driver at once (clusterFailurePolicy=fail).
    world = running(secrets=[WEST_LOGIN], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    message = world.message("RolledOut")
    assert "spark.kubernetes.driver.secrets.west-login" in message
    assert "spark.kubernetes.executor.secrets.west-login" in message


def test_mounted_promises_no_restart_under_reload() -> None:
    world = running(secrets=[WEST_LOGIN], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"})).settle()
    assert world.condition("Mounted") == ("False", "SecretsNotMounted")
    assert "the operator adds them" not in world.message("Mounted")


def test_a_kafkastreams_message_names_its_own_fields() -> None:
    # `kubectl apply` refuses the document's name of the field: unknown field "secretFolder".
    for properties in ({"ssl.ca.location": "ca.pem"}, {"sasl.username": "${env:X}"}):
        entry = stream_entry("orders", {"clusters": [cluster("east", properties=properties)]})
        assert entry.content is None
        assert "secretFolder" not in entry.problem
        assert "secretRef" in entry.problem


def test_one_stream_is_not_1_streams() -> None:
    assert running().message("StreamsResolved") == "1 stream"


def test_the_first_document_is_in_force_when_it_is_reported() -> None:
    world = World().stream("orders", cluster("east")).application_is("Starting").settle()
    waits = "revision 1, the first document, is rendered; the application takes it when it starts"
    assert world.message("RolledOut") == waits
    world.driver_starts(reports=False).settle()
    assert world.message("RolledOut").endswith("is rendered; driver driver-1 has started, and has not reported it")
    world.driver_reports().settle()
    assert world.message("RolledOut") == world.message("Ready")
    assert re.fullmatch("revision 1, the first [a-z]+, is in force", world.message("Ready"))


def test_a_drain_is_not_called_a_stream() -> None:
    world = running(secrets=[EAST_LOGIN], updateStrategy="Reload")
    world.stream("orders", cluster("east", secretRef={"name": "login"}), cluster("west")).settle()
    world.driver_reports()
    world.stream("orders", cluster("west"))
    world.changes(secrets=[]).settle()
    assert "login" in world.message("Drained")
    assert "stream 'a drain'" not in world.message("Drained")
