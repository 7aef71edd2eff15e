"""A restart that a person has to make: told with all that it takes."""

from __future__ import annotations

from tests.unit.operator.world import cluster, running

SECRET = {"cluster": "west", "name": "west-login", "allowedServers": ["west:9092"]}


def test_a_restart_that_a_person_has_to_make_is_told_with_what_has_to_be_mounted_first() -> None:
    # Restarted as it stands, the next driver would find no Secret, and not start (clusterFailurePolicy=fail).
    world = running(secrets=[SECRET], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"}))
    world.settle()
    assert world.condition("RolledOut") == ("False", "RestartRequired")
    said = world.message("RolledOut")
    assert "spark.kubernetes.driver.secrets.west-login" in said
    assert "spark.kubernetes.executor.secrets.west-login" in said


def test_mounted_promises_no_restart_that_the_strategy_does_not_make() -> None:
    world = running(secrets=[SECRET], updateStrategy="Reload")
    world.stream("orders", cluster("east"), cluster("west", secretRef={"name": "west-login"}))
    world.settle()
    assert world.condition("Mounted") == ("False", "SecretsNotMounted")
    assert "restart by the operator" not in world.message("Mounted")
