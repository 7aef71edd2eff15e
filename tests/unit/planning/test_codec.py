"""The saved form of an offset document."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from dynamic_kafka.errors import OffsetDocumentError
from dynamic_kafka.planning.document.codec import OLDEST, VERSION, WITHOUT_STOP_RECORDS, decode, encode, fingerprint
from dynamic_kafka.planning.document.progress import (
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
    topic_wire: dict[str, Any] = encode(with_topic(topic))["clusters"]["east"]["topics"]["orders"]
    return topic_wire


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
    assert encode(OffsetDocument()) == {"version": WITHOUT_STOP_RECORDS}
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
    parked = ParkedCluster({"orders": ParkedTopic(TopicProgress("s", {0: 7, 1: 9}, "d4"), 1_795_219_200_000)}, "Qx")
    wire = encode(OffsetDocument("q", 3, "p", parked={"west": parked}))
    assert wire["parked"] == {
        "west": {
            "kafkaId": "Qx",
            "topics": {"orders": {"id": "d4", "stream": "s", "next": [7, 9], "until": 1_795_219_200_000}},
        }
    }


def test_what_is_not_known_is_not_written() -> None:
    assert written(TopicProgress("s", {0: 1, 1: 2})) == {"stream": "s", "next": [1, 2]}


def test_many_numbers_are_packed_and_few_stay_readable() -> None:
    few, many = ({p: 1000 + p * p for p in range(count)} for count in (15, 16))
    assert written(TopicProgress("s", few))["next"] == list(few.values())
    assert written(TopicProgress("s", many))["next"] == "1:1000:AAEECRAZJDFAUWR5kKnE4Q=="


def test_numbers_that_packing_makes_longer_stay_plain() -> None:
    # One number far above the others would make all of them eight bytes long.
    topic = TopicProgress("s", {p: p if p < 100 else 1 << 62 for p in range(101)})
    assert isinstance(written(topic)["next"], list)
    assert decode(encode(with_topic(topic))) == with_topic(topic)


@pytest.mark.parametrize(
    "packed", ["9:0:AAEECRAZJDFA", "1:0:A", "2:0:AAEC", "1:x:AAE=", "1:AAE=", "0:0:AAE=", "", "::"]
)
def test_a_damaged_packed_column_is_damage(packed: str) -> None:
    wire = encode(with_topic(TopicProgress("s", {p: p for p in range(20)})))
    wire["clusters"]["east"]["topics"]["orders"]["next"] = packed
    with pytest.raises(OffsetDocumentError, match="damaged"):
        decode(wire)


def test_fields_of_a_newer_release_are_kept() -> None:
    wire = encode(OffsetDocument("q", 1, "p", clusters={"east": ClusterProgress({"t": TopicProgress("s", {0: 1})})}))
    wire["parked"] = {"west": {"topics": {"t": {"stream": "s", "partitions": 1, "next": 7, "until": 5}}}}
    added: list[Any] = [wire, *(wire[kind][name] for kind, name in (("clusters", "east"), ("parked", "west")))]
    added += [cluster["topics"]["t"] for cluster in added[1:]]
    for place, part in enumerate(added):
        part["newer"] = {"place": place}
    following = replace(decode(wire).settled(), number=2)
    assert encode(following) == {**wire, "number": 2}


def test_a_fingerprint_is_of_the_json_as_it_was_logged() -> None:
    logged = json.loads(json.dumps(encode(with_topic(TopicProgress("s", {0: 5, 1: 6})))))
    logged["clusters"]["east"]["topics"]["orders"]["next"] = {"0": 5, "1": 6}  # no release writes it like that
    assert decode(logged) == with_topic(TopicProgress("s", {0: 5, 1: 6}))
    text = json.dumps(logged, sort_keys=True, separators=(",", ":"))
    assert fingerprint(decode(logged)) == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_changed_copy_has_a_fingerprint_of_its_own() -> None:
    document = decode(encode(with_topic(TopicProgress("s", {0: 5}))))
    before = fingerprint(document)
    assert fingerprint(replace(document, number=2)) != before
    assert fingerprint(replace(document, number=1)) == before


@pytest.mark.parametrize("version", [OLDEST - 1, VERSION + 1])
def test_another_version_is_refused_with_what_to_do(version: int) -> None:
    text = rf"have version {version}, not 2 to {VERSION}: run the release that wrote them"
    with pytest.raises(OffsetDocumentError, match=text):
        decode({"version": version, "clusters": {}})


@pytest.mark.parametrize("offsets", ['{"orders":{"0":42}}', '{"version":{"0":42}}', "[]", "7", '{"version": true}'])
def test_offsets_of_sparks_own_source_are_refused_with_advice(offsets: str) -> None:
    with pytest.raises(OffsetDocumentError, match=r"`python -m dynamic_kafka\.app import-checkpoint`"):
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
    damaged: list[Any] = [None, "x", [], [{}]]
    if isinstance(wire, dict):
        for key, value in wire.items():
            damaged.append({name: kept for name, kept in wire.items() if name != key})
            damaged.extend({**wire, key: other} for other in damages(value))
    return damaged
