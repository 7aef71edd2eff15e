"""Stories of renames: a driver keeps the offsets only if it has seen `renamedFrom`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynamic_kafka.metadata.document_models import MappingDocument
from dynamic_kafka.metadata.model import KafkaStream
from dynamic_kafka.metadata.subscription import unite
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument
from dynamic_kafka.planning.sameness.cluster_renames import rename
from kafkastream_operator.core.application import Life
from tests.unit.operator.world import World, cluster, running


def east(name: str, *topics: str, **more: Any) -> dict[str, Any]:
    """Return the Kafka cluster of `east` under another id."""
    return cluster(name, *topics, bootstrapServers="east:9092", **more)


def begun_anew(world: World, has: str = "east") -> set[str]:
    """Return the clusters that a driver would begin anew with this document, if its checkpoint has this one id."""
    assert world.document is not None
    wire = MappingDocument.model_validate({"streams": world.document.streams}, extra="ignore")
    subscription = unite(
        KafkaStream(name, {cluster_id: of.metadata() for cluster_id, of in stream.clusters.items()})
        for name, stream in wire.streams.items()
    )
    wanted = subscription.clusters
    after, _ = rename(OffsetDocument(clusters={has: ClusterProgress({}, "kafka-id")}), wanted)
    return set(wanted) - set(after.clusters)


def renamed(life: Life = "Running", **spec: Any) -> World:
    """Return a world after east was renamed to e2, before a driver has the rename."""
    world = running(updateStrategy="Reload", **spec)
    world.driver_reports().settle()
    if life != "Running":
        world.application_is(life)
        world.driver = None
    world.stream("orders", east("e2", renamedFrom="east")).settle()
    assert begun_anew(world) == set()
    return world


@pytest.mark.parametrize("life", ["Running", "Suspended"])
@pytest.mark.parametrize("last", [{"id": "e2"}, {"id": "e3", "renamedFrom": "e2"}, {"id": "e3", "renamedFrom": "east"}])
def test_a_rename_is_kept_until_a_driver_has_it(last: dict[str, Any], life: Life) -> None:
    world = renamed(life)
    world.stream("orders", east("") | last).settle()
    assert (begun_anew(world), begun_anew(world, "e2")) == (set(), set())
    assert world.rendered() == {"e2/orders": "Active"}
    expected = ("True", "Resolved") if last["id"] == "e2" else ("False", "RenamePending")
    assert world.condition("StreamsResolved") == expected


def test_a_rename_that_a_driver_has_may_be_taken_out() -> None:
    world = renamed()
    world.stream("orders", east("e2")).settle()
    world.driver_reports().settle()
    assert world.document is not None
    assert "renamedFrom" not in world.document.streams["orders"]["clusters"]["e2"]
    world.stream("orders", east("e2"), cluster("east", "more", bootstrapServers="other:9092")).settle()
    assert world.rendered() == {"e2/orders": "Active", "east/more": "Active"}


def test_a_second_rename_follows_when_a_driver_has_the_first() -> None:
    world = renamed()
    world.stream("orders", east("e3", renamedFrom="e2")).settle()
    assert "rename ('east' to 'e2') that no driver" in world.message("StreamsResolved")
    world.driver_reports().settle()
    assert world.condition("StreamsResolved")[0] == "True"
    assert world.rendered() == {"e3/orders": "Active"}
    assert begun_anew(world, "e2") == set()


@pytest.mark.parametrize("how", ["an older one", "not the application's", "of another pod", "of another subscription"])
def test_a_report_counts_for_no_rename_if_it_is(how: str) -> None:
    world = renamed()
    older = world.driver
    world.driver_reports()
    assert world.driver is not None
    assert world.driver.report is not None
    if how == "an older one":
        world.driver = older
    elif how == "not the application's":
        world.driver = replace(world.driver, owned=False)
    elif how == "of another pod":
        world.driver = replace(world.driver, report=replace(world.driver.report, pod="another"))
    else:
        world.driver = replace(world.driver, report=replace(world.driver.report, subscription="another"))
    world.stream("orders", east("e2")).settle()
    assert begun_anew(world) == set()


def test_a_driver_started_for_a_rename_is_no_proof() -> None:
    world = renamed("Suspended")
    assert world.document is not None
    world.application_is("Starting", token=world.document.revision.token)
    world.driver_starts(reports=False).settle()
    world.stream("orders", east("e2")).settle()
    assert begun_anew(world) == set()


@pytest.mark.parametrize("has", ["east", "e2"])
def test_renaming_back_never_waits(has: str) -> None:
    world = renamed()
    world.stream("orders", east("east", renamedFrom="e2")).settle()
    assert world.rendered() == {"east/orders": "Active"}
    assert begun_anew(world, has) == set()
    world.stream("orders", east("east")).settle()
    assert begun_anew(world, has) == set()


def test_an_old_id_is_given_away_when_a_driver_has_the_rename() -> None:
    world = renamed()
    world.stream("orders", east("e2"), cluster("east", "more", bootstrapServers="other:9092")).settle()
    assert world.rendered() == {"e2/orders": "Active"}
    assert world.condition("StreamsResolved") == ("False", "RenamePending")
    world.driver_reports().settle()
    assert world.rendered() == {"e2/orders": "Active", "east/more": "Active"}
    assert begun_anew(world, "e2") == {"east"}


def test_a_rename_from_another_cluster_waits_for_the_first() -> None:
    world = renamed()
    world.stream("orders", east("e2", renamedFrom="west")).settle()
    assert begun_anew(world) == set()
    assert world.condition("StreamsResolved") == ("False", "RenamePending")


def test_a_rename_is_kept_in_every_stream_of_the_cluster() -> None:
    world = renamed(streams={"pattern": ".*"})
    world.stream("orders", east("e2"))
    world.stream("bills", east("e2", "bills")).settle()
    assert world.condition("StreamsResolved")[0] == "True"
    assert world.rendered() == {"e2/orders": "Active", "e2/bills": "Active"}
    assert begun_anew(world) == set()
    world.stream("orders", east("e3", renamedFrom="e2"))
    world.stream("bills", east("e3", "bills", renamedFrom="e2"))
    world.stream("third", east("e3", "third", renamedFrom="e2"))
    world.stream("fourth", cluster("west")).settle()
    assert world.rendered() == {"e2/orders": "Active", "e2/bills": "Active", "west/orders": "Active"}
    assert begun_anew(world) == {"west"}
    world.driver_reports().settle()
    assert set(world.rendered()) == {"e3/orders", "e3/bills", "e3/third", "west/orders"}


def test_a_renamed_cluster_removed_at_once_drains_renamed() -> None:
    world = renamed()
    world.stream("orders", cluster("west")).settle()
    assert world.rendered() == {"e2/orders": "Draining", "west/orders": "Active"}
    assert begun_anew(world) == {"west"}
    world.stream("orders", cluster("west"), east("e2")).settle()
    assert world.rendered() == {"e2/orders": "Active", "west/orders": "Active"}
    assert begun_anew(world) == {"west"}
