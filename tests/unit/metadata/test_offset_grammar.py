"""Documents, options and users' own services read offsets by one grammar, with one set of errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dynamic_kafka.errors import MetadataInvalidError, OptionError
from dynamic_kafka.metadata import ClusterMetadata, KafkaStream, OffsetSpec, parse_document
from dynamic_kafka.metadata.services.returned_streams import check_returned_streams
from dynamic_kafka.options import parse_options


def from_document(value: Any) -> OffsetSpec | None:
    cluster = {"bootstrapServers": "e:1", "topics": ["t"], "startingOffsets": value}
    text = json.dumps({"streams": {"s": {"clusters": {"east": cluster}}}})
    return parse_document(text, source="f").streams["s"].clusters["east"].starting_offsets


def from_option(value: Any) -> OffsetSpec | None:
    given = {
        "streamIds": "s",
        "metadataPath": "/m",
        "kafka.group.id": "g",
        "startingOffsets": json.dumps({"east": value}),
    }
    return parse_options(given, mode="streaming").starting_for("east")


def from_own_service(value: Any) -> OffsetSpec | None:
    cluster = ClusterMetadata(("t",), {"bootstrap.servers": "e:1"}, starting_offsets=value)
    return check_returned_streams([KafkaStream("s", {"east": cluster})], object())[0].clusters["east"].starting_offsets


READERS = [from_document, from_option, from_own_service]
Reader = Callable[[Any], OffsetSpec | None]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("committed", OffsetSpec("committed")),
        ({"timestamp": 5}, OffsetSpec("timestamp", timestamp_ms=5)),
        ({"timestamp": "5"}, OffsetSpec("timestamp", timestamp_ms=5)),
        ({"timestamp": " 1970-01-01T01:00:01+01:00 "}, OffsetSpec("timestamp", timestamp_ms=1000)),
        (
            {"t": {"0": -2, "2147483647": 2**63 - 1}},
            OffsetSpec("explicit", offsets={"t": {0: -2, 2**31 - 1: 2**63 - 1}}),
        ),
    ],
)
def test_each_reader_accepts_the_same(read: Reader, value: Any, meaning: OffsetSpec) -> None:
    assert read(value) == meaning


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("value", "place", "text"),
    [
        ("soonest", "", 'must be earliest, latest, committed, {"timestamp": "2026-11-01T00:00:00Z"} or'),
        (7, "", "must be earliest, latest, committed,"),
        ({}, "", "must be earliest, latest, committed,"),
        ({"timestamp": "noon"}, "timestamp", "is no timestamp; write milliseconds since 1970, or ISO 8601"),
        ({"timestamp": 2**63}, "timestamp", "is no timestamp"),
        ({"timestamp": None}, "timestamp", "is no timestamp"),
        ({"timestamp": "2026-11-01"}, "timestamp", "has no zone; append `Z`"),
        ({"timestamp": -1}, "timestamp", "lies before 1970"),
        ({"timestamp": 5, "t": {"0": 1}}, "timestamp", "stands for all topics; name no topic beside it"),
        ({"t": 5}, "t", 'must map partitions to offsets, as {"0": 42}'),
        ({"t": {"0": {"0": 1}}}, "t", "is one level too deep"),
        ({"t": {"00": 1}}, "t.00", "is no partition number"),
        ({"t": {"2147483648": 1}}, "t.2147483648", "is no partition number"),
        ({"t": {"0": -3}}, "t.0", "must be an offset: a whole number from 0, or -2 (earliest) or -1 (latest)"),
        ({"t": {"0": True}}, "t.0", "must be an offset"),
        ({"t": {"0": 2**63}}, "t.0", "must be an offset"),
    ],
)
def test_each_reader_refuses_the_same_at_its_place(read: Reader, value: Any, place: str, text: str) -> None:
    with pytest.raises((MetadataInvalidError, OptionError)) as refused:
        read(value)
    before, _, after = str(refused.value).partition(text)
    assert after or str(refused.value).endswith(text)
    assert before.rstrip(": '").endswith(place or ("startingOffsets", "starting_offsets", "east")), before
