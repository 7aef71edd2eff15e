"""Saved documents of each released version, byte for byte: an upgrade of the operator changes no hash, and writes none.

Each file was rendered by the first release that its name has. Never change one. A new contract adds a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dynamic_kafka.contract.kubernetes_names import DOCUMENT_KEY
from kafkastream_operator.core.document import is_packed, pack, read_document
from tests.unit.operator.world import World, cluster, running

GOLDEN = Path(__file__).parent / "golden"
LARGE_TEXT = "3cfe02a4ac6439a4fbd90b3612354d2d5d1b39e90725b16c892e3185cd12194b"
"""The SHA-256 of the text of a document that is packed."""


def draining() -> World:
    """Return a document with every field of the first contract: one cluster drains, and a topic of another one."""
    secret = {"cluster": "north", "name": "login", "allowedServers": ["north:9092"]}
    world = running(updateStrategy="Reload", streams={"ids": ["orders"]}, secrets=[secret])
    north = cluster(
        "north",
        secretRef={"name": "login"},
        properties={"security.protocol": "SASL_SSL", "client.id": "größer"},
        startingOffsets={"orders": {"0": 5}},
        stoppingOffsets={"timestamp": 1_790_000_000_000},
    )
    world.stream("orders", cluster("west", "orders", "retry"), north, quietPeriod="2m").settle()
    return world.stream(
        "orders", cluster("new", renamedFrom="west", bootstrapServers="west:9092"), north, quietPeriod="2m"
    ).settle()


def pinned() -> World:
    """Return a document with a pinned topic."""
    return (
        running(updateStrategy="Reload")
        .stream("orders", cluster("east", topicIds={"orders": "d4Gk8Zp2QmWvT1xYb7NcRg"}))
        .settle()
    )


def large() -> World:
    """Return a document that is packed."""
    topics = [f"topic-{number:05d}" for number in range(200)]
    many = [cluster(f"c{n}", *topics) for n in range(60)]
    return World(spec={"updateStrategy": "Reload"}).stream("orders", *many).application_is("Starting").settle()


STORIES: dict[str, Callable[[], World]] = {"0.1.0-draining": draining, "0.1.0-pinned": pinned}


@pytest.mark.parametrize("name", STORIES)
def test_an_upgrade_writes_no_document(name: str) -> None:
    world, saved = STORIES[name](), {DOCUMENT_KEY: (GOLDEN / f"{name}.json").read_text(encoding="utf-8")}
    assert world.document is not None
    assert pack(world.document) == (saved, {})
    document = read_document(saved, {})
    assert document is not None
    assert is_packed(document, saved, {})
    world.document, world.writes = document, []
    world.settle()
    assert world.writes == []


def test_an_upgrade_writes_no_packed_document() -> None:
    document = large().document
    assert document is not None
    assert hashlib.sha256(document.text().encode()).hexdigest() == LARGE_TEXT
    assert read_document(*pack(document)) == document
