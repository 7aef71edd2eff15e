"""The CRDs' bounds: every string, list and map has one, from which the API server estimates the cost of CEL rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dynamic_kafka.metadata.offset_grammar import START, STOP
from kafkastream_operator.models.crd import crds
from kafkastream_operator.models.fields import Servers

WORDS = {
    "spec.clusters[].properties{}": "the value of a Kafka property",
    "spec.clusters[].topicIds{}": "a CEL rule checks its form",
    "spec.streams.pattern": "a regular expression",
    "spec.pause.reason": "a note for people",
}
"""Strings of specs whose schema takes any text up to their length."""

OPEN = {
    "kafkastreams.yaml": {"spec.clusters[].startingOffsets", "spec.clusters[].stoppingOffsets"},
    "kafkastreamsubscriptions.yaml": {"status.kept"},
}
"""Fields that no structural schema describes, and that no CEL rule uses."""

Node = Mapping[str, Any]


def nodes(schema: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Yield the schema of every value of an object, by its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def schema_of(name: str) -> Node:
    """Return the schema of an object."""
    (version,) = crds()[name]["spec"]["versions"]
    schema: Node = version["schema"]["openAPIV3Schema"]
    return schema


def values(name: str, *parts: str) -> list[tuple[str, Node]]:
    """Return the schemas of all values in these parts of an object."""
    return [value_schema for part in parts for value_schema in nodes(schema_of(name)["properties"][part], part)]


@pytest.mark.parametrize("name", crds())
def test_every_string_list_and_map_has_a_bound(name: str) -> None:
    schemas = values(name, "spec", "status")
    strings = [(path, node) for path, node in schemas if node.get("type") == "string" and "enum" not in node]
    lists = [(path, node) for path, node in schemas if node.get("type") == "array"]
    maps = [(path, node) for path, node in schemas if "additionalProperties" in node]
    assert strings
    assert lists
    assert [path for path, node in strings if "maxLength" not in node] == []
    assert [path for path, node in lists if "maxItems" not in node] == []
    assert [path for path, node in maps if "maxProperties" not in node] == []


@pytest.mark.parametrize("name", crds())
def test_every_string_of_a_spec_has_a_pattern_unless_listed(name: str) -> None:
    """Statuses need no patterns: only the operator writes them."""
    strings = [(path, node) for path, node in values(name, "spec") if node.get("type") == "string"]
    formless = {path for path, node in strings if not {"pattern", "enum", "format"} & node.keys()}
    assert formless - WORDS.keys() == set()
    assert formless == {path for path, _ in strings} & WORDS.keys()


@pytest.mark.parametrize("name", crds())
def test_fields_without_a_schema_are_listed(name: str) -> None:
    open_to_all = {
        path for path, node in values(name, "spec", "status") if node.get("x-kubernetes-preserve-unknown-fields")
    }
    assert {path for path, node in values(name, "spec", "status") if "type" not in node} <= open_to_all
    assert open_to_all == OPEN[name]


def test_the_crd_has_every_word_of_the_offset_grammar() -> None:
    clusters = crds()["kafkastreams.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = clusters["properties"]["spec"]["properties"]["clusters"]["items"]["properties"]
    for name, side in (("startingOffsets", START), ("stoppingOffsets", STOP)):
        assert "type" not in fields[name]  # a pattern concerns words only
        assert all(re.fullmatch(fields[name]["pattern"], word) for word in side.words)


@pytest.mark.parametrize(
    ("port", "valid"), [("0", False), ("1", True), ("09092", True), ("65535", True), ("65536", False)]
)
def test_a_port_is_one_of_tcps(port: str, *, valid: bool) -> None:
    adapter = TypeAdapter(Servers)
    if valid:
        assert adapter.validate_python(f"e:9092,f:{port}")
        return
    with pytest.raises(ValidationError):
        adapter.validate_python(f"e:9092,f:{port}")
