"""The options `mode` and `deadLetters`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynamic_kafka.errors import OptionError
from dynamic_kafka.options import SourceOptions, parse_options
from dynamic_kafka.options.dead_letters import DeadLetterTopic

OPTIONS = {"streamIds": "s", "metadataPath": "/streams.yaml", "recordDeserializer": "m:f", "mode": "deadLetter"}
EAST = {"topic": "dead", "cluster": "east"}
OWN = {"topic": "dead", "bootstrapServers": "h:9092"}


def parsed(wire: Any = EAST, **more: str) -> SourceOptions:
    return parse_options({**OPTIONS, "deadLetters": json.dumps(wire), **more}, mode="streaming")


def test_the_topic_is_on_a_cluster_of_the_metadata() -> None:
    assert parsed().dead_letters == DeadLetterTopic("dead", "east", {}, None)
    assert parsed().warnings == ()


def test_the_topic_may_have_servers_of_its_own() -> None:
    password = {"sasl.password": "${file:/secrets/home:password}"}
    found = parsed({**OWN, "properties": password, "kafkaId": "K1"})
    expected = {**password, "bootstrap.servers": "h:9092"}
    assert found.dead_letters == DeadLetterTopic("dead", None, expected, "K1")
    assert "password" not in repr(found)


@pytest.mark.parametrize(
    "wire",
    [
        "dead",
        {"topic": "dead"},
        {"cluster": "east"},
        {**EAST, **OWN},
        {**EAST, "properties": {"a": "b"}},
        {**EAST, "topics": "x"},
        {"topic": 1, "cluster": "east"},
        {"topic": "", "cluster": "east"},
        {**OWN, "properties": {"a": 1}},
    ],
)
def test_another_form_is_refused_with_an_example(wire: Any) -> None:
    with pytest.raises(OptionError, match=r"'deadLetters' must be JSON such as .*east"):
        parsed(wire)


def test_a_literal_secret_is_refused_and_not_repeated() -> None:
    with pytest.raises(OptionError) as refused:
        parsed({**OWN, "properties": {"sasl.password": "s3cret"}})
    assert "s3cret" not in str(refused.value)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(OptionError, match="'deadLetters' is no JSON"):
        parse_options({**OPTIONS, "deadLetters": "dead"}, mode="streaming")


@pytest.mark.parametrize(
    ("absent", "words"), [("deadLetters", "needs a dead-letter topic"), ("recordDeserializer", "needs 'record")]
)
def test_the_mode_needs_a_topic_and_a_deserialiser(absent: str, words: str) -> None:
    given = {**OPTIONS, "deadLetters": json.dumps(EAST)}
    del given[absent]
    with pytest.raises(OptionError, match=f"mode=deadletter {words}"):
        parse_options(given, mode="streaming")


def test_a_topic_without_the_mode_has_no_effect() -> None:
    found = parsed(mode="failfast", recordEvaluator="m:end", stateLocation="/state")
    assert found.dead_letters is None
    assert found.warnings == ("option 'deadLetters' has no effect without mode=deadletter",)
