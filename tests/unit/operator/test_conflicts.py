"""Streams that disagree about a cluster: a rendered document never contradicts itself."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from dynamic_kafka.errors import MetadataConflictError
from dynamic_kafka.metadata import ClusterMetadata, KafkaStream, OffsetSpec
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.metadata.subscription import unite
from kafkastream_operator.core.catalog import disagreements
from kafkastream_operator.core.document import make_document, misfit
from kafkastream_operator.handlers.watch import Operator
from kafkastream_operator.kube.api import STREAMS
from kafkastream_operator.kube.cache import Ref
from tests.unit.operator.world import World, cluster, make_catalog


def east(servers: str, **more: Any) -> dict[str, Any]:
    """Return cluster east on these servers."""
    return cluster("east", bootstrapServers=f"{servers}:9092", **more)


def both(*names: str) -> World:
    """Return an application that runs on these streams, which agree about east."""
    world = World(spec={"streams": {"ids": list(names)}, "updateStrategy": "Reload"})
    for name in names:
        world.stream(name, east("old"))
    world.application_is("Starting").settle()
    world.driver_starts().settle()
    return world


def servers(world: World) -> dict[str, str]:
    """Return {stream: servers of east} of the document, after checking that a driver would accept it."""
    assert world.document is not None
    parsed = parse_document(world.document.text(), source="document")
    unite(parsed.streams.values())
    return {name: stream["clusters"]["east"]["bootstrapServers"] for name, stream in world.document.streams.items()}


def test_a_conflict_does_not_depend_on_an_unread_third() -> None:
    world = both("b", "c")
    world.stream("a", east("elsewhere"))
    world.stream("b", east("here"))
    world.stream("c", east("there")).settle()
    assert servers(world) == {"b": "old:9092", "c": "old:9092"}
    assert world.condition("StreamsResolved") == ("False", "Conflict")
    assert re.search("KafkaStream b disagrees [^;]*'c' [^;]*cluster 'east'", world.message("StreamsResolved"))
    assert re.search("KafkaStream c disagrees [^;]*'b' [^;]*cluster 'east'", world.message("StreamsResolved"))


def test_a_stream_on_one_side_of_a_conflict_is_held_too() -> None:
    world = both("a", "b", "c")
    world.stream("a", east("new"))
    world.stream("b", east("new")).settle()
    assert servers(world) == dict.fromkeys("abc", "old:9092")
    conflicts = make_catalog(world.streams, []).streams
    assert [name for name in conflicts if conflicts[name].conflict] == ["a", "b", "c"]
    world.stream("c", east("new")).settle()
    assert servers(world) == dict.fromkeys("abc", "new:9092")
    assert world.condition("StreamsResolved") == ("True", "Resolved")


def test_a_held_stream_holds_those_that_disagree_with_it() -> None:
    world = both("a", "b")
    world.stream("a", east("new"))
    world.stream("b", east("new", startingOffsets="sometimes")).settle()
    assert servers(world) == dict.fromkeys("ab", "old:9092")
    assert world.condition("StreamsResolved") == ("False", "InvalidStream")
    assert re.search("KafkaStream a disagrees [^;]*'b' [^;]*cluster 'east'", world.message("StreamsResolved"))
    assert "both are rolled" in world.message("StreamsResolved")
    world.stream("b", east("new")).settle()
    assert servers(world) == dict.fromkeys("ab", "new:9092")


def test_a_form_that_a_newer_operator_rejects_releases_none() -> None:
    world = both("a", "b", "c")
    world.stream("c", cluster("west"))
    world.settle()
    rendered = world.document
    assert rendered is not None
    older = {"clusters": {"west": {**rendered.streams["c"]["clusters"]["west"], "startingOffsets": "as it once was"}}}
    streams = {**rendered.streams, "c": older}
    world.document = make_document(rendered.revision, streams, rendered.drain, rendered.subscription)
    world.stream("a", east("new", startingOffsets="sometimes"))
    world.stream("b", east("new"))
    world.settle()
    assert world.document is not None and misfit(world.document.streams) == ""
    shared = {name: stream["clusters"].get("east", {}) for name, stream in world.document.streams.items()}
    assert [shared[name].get("bootstrapServers") for name in "ab"] == ["old:9092", "old:9092"]
    assert re.search("KafkaStream b disagrees [^;]*'a' [^;]*cluster 'east'", world.message("StreamsResolved"))


def test_a_new_stream_waits_for_a_held_one_it_disagrees_with() -> None:
    world = both("a")
    world.spec["streams"] = {"ids": ["a", "b"]}
    world.stream("a", east("new", startingOffsets="sometimes"))
    world.stream("b", east("new")).settle()
    assert servers(world) == {"a": "old:9092"}


def test_a_mistake_elsewhere_in_one_stream_holds_no_other() -> None:
    world = both("a", "b")
    world.stream("a", east("old"), cluster("west", startingOffsets="sometimes"))
    world.stream("b", east("old"), cluster("north")).settle()
    assert world.rendered() == {"east/orders": "Active", "north/orders": "Active"}


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ({"startingOffsets": "latest"}, {}, False),
        ({"stoppingOffsets": "latest"}, {}, False),
        ({"renamedFrom": "west"}, {}, False),
        ({"startingOffsets": {"orders": {"0": 5}}}, {"startingOffsets": {"orders": {"0": 6}}}, False),
        ({"startingOffsets": {"orders": {"0": 5}}}, {"startingOffsets": {"retry": {"0": 6}}}, True),
    ],
    ids=["starting", "stopping", "renamed", "one topic", "two topics"],
)
def test_what_a_driver_would_refuse_is_a_conflict(one: dict[str, Any], other: dict[str, Any], agree: bool) -> None:
    world = World(spec={"streams": {"ids": ["a", "b"]}})
    for name, more in (("a", one), ("b", other)):
        world.stream(name, cluster("east", "orders", "retry", **more))
    world.settle()
    assert world.condition("StreamsResolved")[0] == str(agree)
    if agree:
        servers(world)
    else:
        assert world.document is None


def test_a_drain_with_explicit_offsets_is_a_valid_document() -> None:
    world = World(spec={"streams": {"ids": ["a", "b"]}, "updateStrategy": "Reload"})
    world.stream("a", cluster("east", "orders", startingOffsets={"orders": {"0": 5}}))
    world.stream("b", cluster("east", "retry", startingOffsets={"retry": {"0": 6}})).settle()
    world.stream("b", cluster("west")).settle()
    assert world.rendered() == {"east/orders": "Active", "east/retry": "Draining", "west/orders": "Active"}
    assert world.document is not None
    unite(parse_document(world.document.text(), source="document").streams.values())


def test_a_rename_in_one_of_two_streams_is_held() -> None:
    world = both("a", "b")
    before = world.document
    world.stream("a", cluster("new", bootstrapServers="old:9092", renamedFrom="east")).settle()
    assert world.document == before
    assert world.condition("StreamsResolved") == ("False", "Conflict")
    assert "cluster 'east', which is 'new' now" in world.message("StreamsResolved")
    world.stream("b", cluster("new", bootstrapServers="old:9092", renamedFrom="east")).settle()
    assert world.rendered() == {"new/orders": "Active"}
    assert world.condition("StreamsResolved") == ("True", "Resolved")


def test_the_order_of_servers_is_no_conflict() -> None:
    world = World(spec={"streams": {"ids": ["a", "b"]}})
    for name, servers_of_it in (("a", "e1:9092,e2:9092"), ("b", "e2:9092,e1:9092")):
        world.stream(name, cluster("east", bootstrapServers=servers_of_it))
    world.settle()
    assert world.condition("StreamsResolved") == ("True", "Resolved")


def test_offsets_that_only_two_of_three_streams_share_conflict() -> None:
    world = World(spec={"streams": {"ids": ["a", "b", "c"]}})
    world.stream("a", cluster("east", "x", startingOffsets={"x": {"0": 1}}))
    world.stream("b", cluster("east", "y", startingOffsets={"y": {"0": 1}}))
    world.stream("c", cluster("east", "y", startingOffsets={"y": {"0": 2}})).settle()
    assert world.document is None
    assert world.condition("StreamsResolved") == ("False", "Conflict")


def kafka_stream(name: str, servers: str, version: int = 1) -> dict[str, Any]:
    """Return a KafkaStream on the cluster `east`."""
    meta = {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": str(version)}
    clusters = [{"id": "east", "bootstrapServers": servers, "topics": [name]}]
    return {"metadata": meta, "spec": {"clusters": clusters}}


def reconciled_after(kind: str) -> set[str]:
    """Return the streams that are reconciled after this event of `bills`, which no subscription reads."""
    seen: set[str] = set()

    async def story() -> None:
        server: Any = None
        operator = Operator(server)
        operator._loop = asyncio.get_running_loop()
        # Orders was looked at when the two came to disagree.
        flags = [{"type": "Ready", "reason": "Conflict"}] if kind == "DELETED" else []
        operator.take(STREAMS, "ADDED", kafka_stream("orders", "e:9092") | {"status": {"conditions": flags}})
        if kind != "ADDED":
            servers = "e:9092" if kind == "MODIFIED" else "other:9092"
            operator.take(STREAMS, "ADDED", kafka_stream("bills", servers))
        await asyncio.sleep(0)
        while operator.queue._waiting:
            await operator.queue.next()
        operator.take(STREAMS, kind, kafka_stream("bills", "other:9092", version=2))
        await asyncio.sleep(0)
        seen.update(queue_entry.name for queue_entry in operator.queue._waiting if isinstance(queue_entry, Ref))

    asyncio.run(story())
    return seen


def test_a_new_stream_is_reconciled_with_its_rival() -> None:
    assert reconciled_after("ADDED") == {"orders", "bills"}


def test_a_changed_stream_is_reconciled_with_its_rival() -> None:
    assert reconciled_after("MODIFIED") == {"orders", "bills"}


def test_the_rival_of_a_deleted_stream_is_reconciled() -> None:
    assert "orders" in reconciled_after("DELETED")


def with_offsets(name: str, **topics: int) -> KafkaStream:
    """Return a stream whose topics on east start at these offsets."""
    starting = OffsetSpec("explicit", offsets={topic: {0: offset} for topic, offset in topics.items()})
    properties = {"bootstrap.servers": "east:9092"}
    return KafkaStream(name, {"east": ClusterMetadata(tuple(topics), properties, starting_offsets=starting)})


def test_a_stream_that_agrees_with_both_rivals_is_not_held() -> None:
    streams = [with_offsets("a", t=2), with_offsets("b", t=1), with_offsets("c", u=1)]
    assert sorted(disagreements(streams)) == ["a", "b"]


def test_a_conflict_names_the_streams_that_disagree() -> None:
    streams = [with_offsets("a", t=1), with_offsets("b", u=1), with_offsets("c", u=2)]
    assert {name: list(texts.values()) for name, texts in disagreements(streams).items()} == {
        "b": ["disagrees with stream 'c' about cluster 'east' (startingOffsets differ)"],
        "c": ["disagrees with stream 'b' about cluster 'east' (startingOffsets differ)"],
    }
    with pytest.raises(MetadataConflictError, match="streams 'b' and 'c' disagree"):
        unite(streams)
