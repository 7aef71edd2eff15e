"""The saved form of an offset document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.codec import VERSION, decode, encode, fingerprint
from dynamic_kafka.planning.progress import (
    ClusterProgress,
    OffsetDocument,
    ParkedCluster,
    ParkedTopic,
    TopicProgress,
)
from tests.unit.planning.strategies import documents


def with_topic(topic: TopicProgress) -> OffsetDocument:
    return OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({"orders": topic}, "Mk")})


def written(topic: TopicProgress) -> dict[str, Any]:
    found: dict[str, Any] = encode(with_topic(topic))["clusters"]["east"]["topics"]["orders"]
    return found


@given(documents())
def test_documents_round_trip(document: OffsetDocument) -> None:
    assert decode(encode(document)) == document
    assert decode(json.dumps(encode(document))) == document


@given(documents())
def test_one_content_has_one_text(document: OffsetDocument) -> None:
    text = json.dumps(encode(document))
    assert json.dumps(encode(decode(text))) == text


def test_the_order_in_which_things_came_in_does_not_show() -> None:
    forward = OffsetDocument("q", 1, "p", clusters={c: ClusterProgress({}, c) for c in ("a", "b")})
    backward = OffsetDocument("q", 1, "p", clusters={c: ClusterProgress({}, c) for c in ("b", "a")})
    assert json.dumps(encode(forward)) == json.dumps(encode(backward))
    assert fingerprint(forward) == fingerprint(backward)


def test_a_fingerprint_tells_documents_apart() -> None:
    one, other = with_topic(TopicProgress("s", {0: 1})), with_topic(TopicProgress("s", {0: 2}))
    assert fingerprint(one) != fingerprint(other)
    assert len(fingerprint(one)) == 32


def test_the_initial_document_says_nothing_but_its_version() -> None:
    assert encode(OffsetDocument()) == {"version": VERSION}
    assert decode({"version": VERSION}).is_initial


def test_all_partitions_are_a_list() -> None:
    assert written(TopicProgress("s", {1: 98, 0: 120}))["next"] == [120, 98]


def test_the_same_number_for_all_is_written_once() -> None:
    assert written(TopicProgress("s", {0: 7, 1: 7, 2: 7})) == {"stream": "s", "partitions": 3, "next": 7}


def test_gaps_in_partitions_are_written_by_number() -> None:
    topic = TopicProgress("s", {0: 5, 2: 5}, starts={2: 1})
    assert written(topic) == {"stream": "s", "next": {"0": 5, "2": 5}, "start": {"2": 1}}
    assert decode(encode(with_topic(topic))) == with_topic(topic)


def test_a_start_of_the_first_partitions_is_not_one_of_all() -> None:
    topic = TopicProgress("s", {0: 5, 1: 5, 2: 5}, starts={0: 3, 1: 3})
    assert written(topic)["start"] == {"0": 3, "1": 3}
    assert decode(encode(with_topic(topic))) == with_topic(topic)


def test_parked_splits_keep_their_deadline_and_identity() -> None:
    parked = ParkedCluster({"orders": ParkedTopic("s", {0: 7, 1: 9}, 1_795_219_200_000, topic_id="d4")}, "Qx")
    wire = encode(OffsetDocument("q", 3, "p", parked={"west": parked}))
    assert wire["parked"] == {
        "west": {
            "kafkaId": "Qx",
            "topics": {"orders": {"id": "d4", "stream": "s", "next": [7, 9], "until": 1_795_219_200_000}},
        }
    }


def test_what_is_not_known_is_not_written() -> None:
    assert written(TopicProgress("s", {0: 1, 1: 2})) == {"stream": "s", "next": [1, 2]}


@pytest.mark.scenario(7)
@pytest.mark.scenario(39)
def test_version_1_is_readable() -> None:
    document = decode('{"version": 1, "clusters": {"east": {"orders": {"0": 42, "2": 7}}}}')
    assert document.clusters == {"east": ClusterProgress({"orders": TopicProgress("", {0: 42, 2: 7})})}
    assert not document.is_initial
    assert document.query == ""


def test_an_empty_version_1_is_a_beginning() -> None:
    assert decode({"version": 1}).is_initial


@pytest.mark.scenario(39)
def test_version_2_is_readable() -> None:
    # A saved text: later versions must read exactly the text that is written today.
    text = (
        '{"version": 2, "query": "5f", "number": 12, "previous": "9c", "bounded": true,'
        ' "clusters": {"east": {"kafkaId": "Mk", "topics": {"orders": {"id": "d4", "stream": "s", "next": [120, 98],'
        ' "epoch": [3, 3], "start": {"1": 40}, "stop": [500, 500]}}}},'
        ' "parked": {"west": {"kafkaId": "Qx", "topics": {"orders": {"stream": "s", "partitions": 2, "next": 7,'
        ' "until": 1795219200000, "awaited": true}}}}}'
    )
    read = decode(text)
    topic = TopicProgress("s", {0: 120, 1: 98}, "d4", {0: 3, 1: 3}, {1: 40}, {0: 500, 1: 500})
    parked = ParkedTopic("s", {0: 7, 1: 7}, 1_795_219_200_000, awaited=True)
    assert read == OffsetDocument(
        "5f",
        12,
        "9c",
        bounded=True,
        clusters={"east": ClusterProgress({"orders": topic}, "Mk")},
        parked={"west": ParkedCluster({"orders": parked}, "Qx")},
    )


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(OffsetDocumentError, match=r"have version 3.*reads up to 2: run the version that wrote them"):
        decode({"version": VERSION + 1, "clusters": {}})


@pytest.mark.parametrize("offsets", ['{"orders":{"0":42}}', '{"version":{"0":42}}', "[]", "7", '{"version": true}'])
def test_offsets_of_sparks_own_source_are_refused_with_advice(offsets: str) -> None:
    with pytest.raises(OffsetDocumentError, match=r"`kafka` source\? `python -m dynamic_kafka\.app import-checkpoint`"):
        decode(offsets)


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(OffsetDocumentError, match="not JSON"):
        decode('{"version": 2')


def test_every_damage_is_an_error_of_ours() -> None:
    whole = encode(with_topic(TopicProgress("s", {0: 5, 1: 6}, starts={1: 2}, epochs={0: 1, 1: 1})))
    for damaged in damages(whole):
        try:
            decode(damaged)
        except OffsetDocumentError:
            continue
        except Exception as error:
            raise AssertionError(f"{damaged}: {error!r}") from error


@pytest.mark.parametrize("field", ["query", "number", "previous"])
def test_a_missing_field_is_a_damage(field: str) -> None:
    wire = encode(with_topic(TopicProgress("s", {0: 5})))
    del wire[field]
    with pytest.raises(OffsetDocumentError, match=f"damaged: .*{field}"):
        decode(wire)


def test_one_number_without_a_partition_count_is_damage() -> None:
    wire = encode(with_topic(TopicProgress("s", {0: 5})))
    del wire["clusters"]["east"]["topics"]["orders"]["partitions"]
    with pytest.raises(OffsetDocumentError, match="count is missing"):
        decode(wire)


def damages(wire: Any) -> list[Any]:
    """Return copies of the document, each with one value at any depth replaced or removed."""
    found: list[Any] = [None, "x", [], [{}]]
    if isinstance(wire, dict):
        for key, value in wire.items():
            found.append({name: kept for name, kept in wire.items() if name != key})
            found.extend({**wire, key: other} for other in damages(value))
    return found
